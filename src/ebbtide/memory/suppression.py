"""Suppression: kept out of retrieval, scores untouched. It ends at its instant by the clock, no sweep needed.

One object's stands in its own stream; one by a filter, on type, epistemic type or subject, in the namespace's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.memory.case import Case, refused
from ebbtide.memory.requests import Suppress, Unsuppress
from ebbtide.model import instant
from ebbtide.model.entry import Draft
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import id_of_entry
from ebbtide.model.state import MemoryState
from ebbtide.model.words import OpType

AT_MOST = 36_525 * instant.DAY
"""How long a suppression that ends by itself may last: rules look no further ahead either."""


def suppressed(case: Case, line: Suppress) -> Iterator[Draft]:
    """SUPPRESS: a row of `suppressions`, and for `freeze` a stop of the object's time."""
    at = _instant(case, line)
    if line.expires_at is not None and line.expires_at <= at:
        raise BadInput(f"{instant.iso(line.expires_at)} is not after the suppression itself", field="expires_at")
    if line.expires_at is not None and line.expires_at > at + AT_MOST:
        raise BadInput(
            "is more than 100 years after the suppression: leave it out, then it has no end", field="expires_at"
        )
    policy = case.current_terms().policy
    row = {
        "suppression_id": id_of_entry(case.writer.namespace, case.writer.next_seq),
        **_what(case, line),
        "suppressed_by": line.actor_id,
        "suppressed_at": at,
        "expires_at": line.expires_at,
        "ended_at": None,
        "recorded_at": case.writer.recorded_at,
        "end_recorded_at": None,
        "policy_ref": policy.name,
    }
    payload = {
        **{name: None if row[name] is None else str(row[name]) for name in ("suppression_id", *_FILTER)},
        "expires_at": None if line.expires_at is None else instant.iso(line.expires_at),
        "policy_ref": policy.name,
        "freeze": line.freeze or None,
    }

    def change(state: MemoryState, terms: Terms, when: int) -> MemoryState:
        return facts.frozen(state, terms, when, line.expires_at) if line.freeze else state

    if line.object is not None and line.freeze and not (state := case.object(line)).active:
        raise refused(state, "freeze_active_only", f"is {state.lifecycle_state}: its time stands already")
    yield _entry(case, line, OpType.SUPPRESS, payload, change)
    case.writer.note_suppression(row)


def unsuppressed(case: Case, line: Unsuppress) -> Iterator[Draft]:
    """UNSUPPRESS: ends what suppresses the object itself, or what the same filter made."""
    at = _instant(case, line)
    found = case.writer.suppressed_by(_what(case, line), at)
    if not found:
        raise NotFound("nothing suppresses that: `ebb list --all` says why a memory is withheld", field="object")
    payload = {
        "suppression_ids": sorted(str(row["suppression_id"]) for row in found),
        "subject": line.subject,
    }
    yield _entry(case, line, OpType.UNSUPPRESS, payload, facts.thawed)
    for row in found:
        case.writer.note_suppression({**row, "ended_at": at, "end_recorded_at": case.writer.recorded_at})


_FILTER = ("object_id", "object_type", "epistemic_type", "subject")


def _what(case: Case, line: Suppress | Unsuppress) -> dict[str, Any]:
    return {
        "object_id": None if line.object is None else case.object(line, checked=True).object_id,
        "object_type": line.object_type,
        "epistemic_type": line.epistemic_type,
        "subject": line.subject,
    }


def _instant(case: Case, line: Suppress | Unsuppress) -> int:
    return case.instant(line) if line.object is None else case.late(line, case.object(line))


def _entry(case: Case, line: Suppress | Unsuppress, op: OpType, payload: dict[str, Any], change: Any) -> Draft:
    if line.object is not None:
        return case.fact(line, op, change, payload)
    return case.of_namespace(line, op, payload)
