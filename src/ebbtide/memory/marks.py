"""What a caller does to one object's state: pin and hold it, archive, deprecate and restore it, say what it is now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.memory.case import Case, Change, draft, refused
from ebbtide.memory.requests import (
    Archive,
    ConditionSet,
    Deprecate,
    EpistemicTransition,
    Hold,
    OfObject,
    Pin,
    Release,
    Unpin,
)
from ebbtide.model.entry import Draft
from ebbtide.model.state import MemoryState
from ebbtide.model.words import EpistemicType, LifecycleState, OpType

TRANSITIONS = {
    EpistemicType.UNVERIFIED: EpistemicType.ASSERTED,
    EpistemicType.ASSERTED: EpistemicType.OBSERVED,
    EpistemicType.INFERRED: EpistemicType.ASSERTED,
    EpistemicType.HYPOTHETICAL: EpistemicType.ASSERTED,
    EpistemicType.CONDITIONAL: EpistemicType.ASSERTED,
}
"""How a belief may come to be known better; any may become DEPRECATED."""


def pinned(case: Case, line: Pin) -> Iterator[Draft]:
    """PIN of an ACTIVE object."""
    _active_only(case.object(line), "pin_active_only")
    yield case.fact(line, OpType.PIN, facts.pinned)


def unpinned(case: Case, line: Unpin) -> Iterator[Draft]:
    """UNPIN, in whatever state."""
    yield case.fact(line, OpType.UNPIN, facts.unpinned)


def held(case: Case, line: Hold) -> Iterator[Draft]:
    """HOLD, in whatever state: nothing may erase the object."""
    yield case.fact(line, OpType.HOLD, facts.held)


def released(case: Case, line: Release) -> Iterator[Draft]:
    """RELEASE of a hold."""
    yield case.fact(line, OpType.RELEASE, facts.released)


def restored(case: Case, line: OfObject) -> Iterator[Draft]:
    """RESTORE of an ARCHIVED object."""
    old = case.object(line)
    if old.lifecycle_state != LifecycleState.ARCHIVED:
        gone = f"is {old.lifecycle_state}, which cannot be undone: assert it again"
        raise refused(old, "restore_archived_only", "is ACTIVE already" if old.active else gone)
    yield case.fact(line, OpType.RESTORE, facts.restored)


def archived(case: Case, line: Archive) -> Iterator[Draft]:
    """ARCHIVE by hand."""
    _active_only(case.object(line), "archive_active_only")
    yield case.fact(line, OpType.ARCHIVE, _to(LifecycleState.ARCHIVED), {"reason": "requested"})


def deprecated(case: Case, line: Deprecate) -> Iterator[Draft]:
    """DEPRECATE by hand: for good."""
    _active_only(case.object(line), "deprecate_active_only")
    payload = {"reason": "requested", "deprecated_by": line.actor_id}
    yield case.fact(line, OpType.DEPRECATE, _to(LifecycleState.DEPRECATED), payload)


def condition_set(case: Case, line: ConditionSet) -> Iterator[Draft]:
    """CONDITION_SET of a CONDITIONAL belief: its profile may change with it, so a segment begins."""
    old = case.object(line)
    _active_only(old, "condition_active_only")
    if old.epistemic_type != EpistemicType.CONDITIONAL:
        raise refused(old, "condition_of_conditional_only", f"is {old.epistemic_type}, which has no condition")

    def change(state: MemoryState, terms: Terms, at: int) -> MemoryState:
        return facts.known_as(replace(state, condition=line.condition), state, terms, at)

    yield case.fact(line, OpType.CONDITION_SET, change, {"condition": line.condition})


def known_better(case: Case, line: EpistemicTransition) -> Iterator[Draft]:
    """EPISTEMIC_TRANSITION of an ACTIVE belief; to DEPRECATED it writes DEPRECATE too."""
    old = case.object(line)
    _active_only(old, "transition_active_only")
    to = line.to_type
    if to not in (TRANSITIONS.get(EpistemicType(old.epistemic_type)), EpistemicType.DEPRECATED):
        raise refused(old, "epistemic_transition", f"is {old.epistemic_type}, which does not become {to}")
    evidence = case.evidence(line.evidence)
    payload = {
        "from_type": old.epistemic_type,
        "to_type": to,
        "evidence_ids": evidence,
        "triggered_by": line.actor_id,
        "trigger_type": line.trigger_type,
    }

    def change(state: MemoryState, terms: Terms, at: int) -> MemoryState:
        if to == EpistemicType.DEPRECATED:
            return replace(state, epistemic_type=to, modified_at=at)
        return facts.known_as(replace(state, epistemic_type=to, condition=None), state, terms, at)

    yield case.fact(line, OpType.EPISTEMIC_TRANSITION, change, payload)
    if to == EpistemicType.DEPRECATED:
        state = case.object(line, checked=True)
        at = case.late(line, state)
        new = facts.left(state, case.terms(state), at, LifecycleState.DEPRECATED)
        reason = {"reason": "epistemic_transition", "deprecated_by": line.actor_id}
        yield draft(line, OpType.DEPRECATE, state, new, reason, at, content=None)


def _to(state: LifecycleState) -> Change:
    return lambda old, terms, at: facts.left(old, terms, at, state)


def _active_only(state: MemoryState, rule: str) -> None:
    if not state.active:
        archived = state.lifecycle_state == LifecycleState.ARCHIVED
        hint = "restore it first" if archived else "assert it again"
        raise refused(state, rule, f"is {state.lifecycle_state}: {hint}")
