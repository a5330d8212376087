"""Signals of use: ACCESS, REINFORCE with its limits, PENALTY. Numbers and order of the limits: RFC-0008.

The effective γ is γ ÷ n for the nth same signal from the same actor, × 0.4 where the actor depends on what it
confirms, then what is left of the session's share. The entry says γ, the effective γ and each reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ebbtide.decay import facts
from ebbtide.decay.maths import rounded
from ebbtide.memory.case import Case, draft, refused
from ebbtide.memory.marks import restored
from ebbtide.memory.requests import Access, Penalty, Reinforce
from ebbtide.model.entry import Draft
from ebbtide.model.state import MemoryState
from ebbtide.model.words import ActorType, Condition, EpistemicType, LifecycleState, OpType
from ebbtide.policy.document import Reinforcement

_INDEPENDENT = (ActorType.HUMAN_USER, ActorType.SYSTEM_PROCESS)


def accessed(case: Case, line: Access) -> Iterator[Draft]:
    """ACCESS: an object was shown. Always recorded, whatever its state."""
    yield case.fact(line, OpType.ACCESS, facts.accessed)


def signalled(case: Case, line: Reinforce | Penalty) -> Iterator[Draft]:
    """REINFORCE or PENALTY of an ACTIVE object; with `restore`, of an archived one once it is back."""
    state = case.object(line)
    evidence = case.evidence(line.evidence)
    if line.restore and state.lifecycle_state == LifecycleState.ARCHIVED:
        yield from restored(case, line)
        state = case.object(line, checked=True)
    if not state.active:
        archived = state.lifecycle_state == LifecycleState.ARCHIVED
        hint = "say restore to bring it back first" if archived else "assert it again"
        raise refused(state, "signal_active_only", f"is {state.lifecycle_state}: {hint}")
    at, terms = case.late(line, state), case.terms(state)
    rules = terms.policy.params.reinforcement
    payload: dict[str, Any] = {
        "signal_type": line.signal,
        "signal_source": line.actor_id,
        "session_id": line.session_id,
        "evidence_ids": evidence,
    }
    if isinstance(line, Reinforce):
        payload |= _effective(case, line, state, evidence, rules)
        new = facts.reinforced(state, terms, at, payload["gamma_effective"])
        yield draft(line, OpType.REINFORCE, state, new, payload, at, content=line.content())
    else:
        delta = rules.delta[line.signal]
        new = facts.penalised(state, terms, at, line.signal, delta)
        yield draft(line, OpType.PENALTY, state, new, {**payload, "delta": delta}, at, content=line.content())


def _effective(
    case: Case, line: Reinforce, state: MemoryState, evidence: list[str], rules: Reinforcement
) -> dict[str, Any]:
    """γ, the effective γ, and why they differ."""
    past = case.writer.signals(state.object_id)
    gamma = rules.gamma[line.signal]
    effective, reductions = gamma, list[dict[str, Any]]()
    if state.epistemic_type == EpistemicType.CONDITIONAL and state.condition != Condition.TRUE:
        effective = 0.0
        reductions.append({"reason": "condition_not_true"})
    nth = 1 + sum(1 for one in past if (one.actor_id, one.signal) == (line.actor_id, line.signal))
    if nth > 1:
        effective /= nth
        reductions.append({"reason": "repeated", "n": nth})
    asserter = next((one.actor_id for one in past if one.signal is None), None)
    known = set(json.loads(state.evidence))
    dependent = (
        line.actor_type not in _INDEPENDENT
        and line.actor_id != asserter
        and (not evidence or bool(known & set(evidence)))
    )
    if dependent:
        effective *= rules.independence_discount
        reductions.append({"reason": "dependent", "factor": rules.independence_discount})
    spent = 0.0
    if line.session_id is not None:
        spent = sum(one.gamma for one in past if one.session_id == line.session_id)
        if effective > rules.session_cap - spent:
            effective = max(0.0, rules.session_cap - spent)
            reductions.append({"reason": "session_cap", "cap": rules.session_cap})
    effective = rounded(effective)
    return {
        "gamma": gamma,
        "gamma_effective": effective,
        "correlation_discount_applied": dependent,
        "session_gamma_total": None if line.session_id is None else rounded(spent + effective),
        "reductions": reductions or None,
    }
