"""An explanation in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ebbtide.audit.explanation import Erasure, Flags, Foreseen, NextCentrality, Suppression, UnderPolicy
from ebbtide.memory.read import BELIEVED_ENOUGH, Memory
from ebbtide.model.words import Expiry, LifecycleState, Rule

WAITS = "A held summary was made from it: its ttl erases nothing until that is released."


def when(at: datetime) -> str:
    """An instant as it stands in a sentence."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def summary(
    memory: Memory,
    flags: Flags,
    policy: UnderPolicy,
    forecast: Sequence[Foreseen],
    erasure: Erasure | None,
    waits_for: str | None,
    central: NextCentrality | None,
) -> str:
    """What a memory is now and what comes next, in one paragraph."""
    if erasure is not None:
        return (
            f"{_name(memory)} was erased on {when(erasure.at)} by {erasure.actor_id} ({erasure.reason}, under "
            f"{erasure.policy}). What it said is gone; that it was there stays in the log."
        )
    said = [
        f"{_name(memory)} is {memory.lifecycle_state}, with salience {memory.salience:.3f} and confidence "
        f"{memory.confidence:.3f}, under {memory.policy} with profile {memory.decay_profile}."
    ]
    reason = withheld(memory, flags)
    said.append("It is retrieved by default." if reason is None else reason)
    said += _standing(memory, flags)
    if forecast:
        said.append(f"If nothing touches it, it {_steps(forecast, policy)}.")
    elif waits_for is None and flags.tombstoned_at is None:
        said.append("If nothing touches it, nothing more happens to it.")
    if waits_for is not None:
        said.append(waits_for)
    if central is not None:
        said.append(
            f"The centrality pass of {when(central.slot)} makes its centrality {central.becomes:g} (now "
            f"{central.now:g}), which begins another future."
        )
    return " ".join(said)


def _name(memory: Memory) -> str:
    return f"Memory {memory.ref or memory.id}"


def _standing(memory: Memory, flags: Flags) -> list[str]:
    if memory.lifecycle_state != LifecycleState.ACTIVE:
        return []
    said = []
    if flags.pinned:
        said.append("It is pinned: its time stands still and no rule touches it.")
    if flags.frozen and flags.frozen_until is None:
        said.append("It is frozen until it is thawed: its time stands still.")
    elif flags.frozen and flags.frozen_until is not None:
        said.append(f"It is frozen: its time goes on at {when(flags.frozen_until)}.")
    if flags.held:
        said.append("It is held: nothing may erase it, and its ttl does not end.")
    return said


def _steps(forecast: Sequence[Foreseen], policy: UnderPolicy) -> str:
    """All that comes; what is overdue goes before what is not."""
    overdue = ", then ".join(_step(step, policy) for step in forecast if step.overdue)
    ahead = ", then ".join(_step(step, policy) for step in forecast if not step.overdue)
    said = [f"was due to be {overdue}, which the next pass does"] if overdue else []
    return ", and ".join([*said, *([f"will be {ahead}"] if ahead else [])])


def _step(step: Foreseen, policy: UnderPolicy) -> str:
    at = when(step.at)
    if step.rule == Rule.WARNING:
        return f"warned on {at} (warning: salience below {policy.warning:g})"
    if step.rule == Rule.TTL:
        done = "erased" if step.action == Expiry.ERASE else "archived for good"
        return f"{done} on {at} (ttl)"
    why = {
        Rule.ARCHIVE: f"salience below {policy.archive:g}",
        Rule.FORCE_ARCHIVE: f"salience below {policy.force_archive:g}",
        Rule.DEPRECATE_BY_CONFIDENCE: f"confidence below {policy.deprecate_by_confidence:g}",
    }[Rule(step.rule)]
    if step.rule == Rule.ARCHIVE and step.to_state == LifecycleState.DEPRECATED:
        why += f", and confidence {step.confidence:.3f} below {policy.archive_min_confidence:g}"
    return f"{step.to_state} on {at} ({step.rule}: {why})"


def withheld(memory: Memory, flags: Flags) -> str | None:
    """Why a memory is not retrieved by default; None where it is."""
    if memory.withheld is None:
        return None
    return f"It is not retrieved: {_reason(memory, flags)}."


def _reason(memory: Memory, flags: Flags) -> str:
    match memory.withheld:
        case "superseded":
            return f"{memory.superseded_by} took its place"
        case "suppressed":
            return _suppressed(flags.suppressions)
        case "unverified":
            return f"it is UNVERIFIED, and its confidence {memory.confidence:.3f} is not above {BELIEVED_ENOUGH:g}"
        case "condition_not_true":
            return f"its condition is {memory.condition or 'UNKNOWN'}, not TRUE"
        case reason:
            said = {"expired": "its ttl has ended", "erased": "it was erased"}
            return said.get(str(reason), f"it is {str(reason).upper()}")


def _suppressed(found: Sequence[Suppression]) -> str:
    first = found[0]
    end = "until it is lifted" if first.expires_at is None else f"until {when(first.expires_at)}"
    return f"{first.suppressed_by} suppressed it {end}"
