"""Corrections: what a corrected policy would have done, planned and written. The oracle is a store that never had the
wrong policy, and lived through the same."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import select
from tests.conformance import ledger, lived

from ebbtide import Ebbtide
from ebbtide.model.state import GROUPS
from ebbtide.policy.document import Policy, policy_from
from ebbtide.replay import plan as plans
from ebbtide.store.tables import event_log

KEPT = (
    "lifecycle_state",
    *(name for group in ("segment", "due", "clocks", "counts", "flags") for name in GROUPS[group]),
)


def version(number: str, **params: Any) -> Policy:
    return policy_from({"id": "fading", "version": number, "params": params})


RIGHT = version("1.0.1")
WRONG = version("1.0.0", profiles={"MEDIUM": {"rate": 0.2}, "SLOW": {"rate": 0.05}, "FAST": {"rate": 0.7}})
SAME = version("1.0.2", profiles=WRONG.model_dump(mode="json", by_alias=True)["params"]["profiles"])


def states(ebb: Ebbtide, namespace: str = "default") -> dict[str, dict[str, Any]]:
    """What a correction may set of each object, by ref; but for the policy's version."""
    with ebb.store.begin() as connection:
        found = ledger.live_states(connection, namespace).values()
    return {
        str(state.ref): {
            name: value for name, value in asdict(state).items() if name in KEPT and name != "policy_version"
        }
        for state in found
    }


def grown(ebb: Ebbtide, clock: Any, policy: Policy) -> None:
    """Half a year under one policy: facts before, between and after rules, none of which any policy here forbids."""
    for one in (WRONG, RIGHT, SAME):
        ebb.register_policy(one)
    ebb.ask({"op": "EVENT", "ref": "m0", "content": "begin"})
    ebb.assign_policy(policy.name)
    ebb.ask(
        *(lived.belief(f"a{n}", salience=0.2 + n / 15) for n in range(12)),
        *(lived.belief(f"f{n}", epistemic_type="INFERRED", source_type="SYSTEM_INFERRED") for n in range(3)),
        *(lived.belief(f"o{n}", epistemic_type="OBSERVED", source_type="USER_DEMONSTRATED") for n in range(3)),
        lived.belief("kept", decay_profile="PERMANENT"),
    )
    for day in range(1, 181):
        clock.forward(days=1, seconds=day)
        if day in (2, 3, 4, 60, 120):
            ebb.ask({"op": "ACCESS", "object": f"a{day % 12}"}, {"op": "ACCESS", "object": "o1"})
        if day == 3:
            ebb.ask({"op": "REINFORCE", "object": "a11", "signal": "CONFIRMED", "session_id": "s1"})
            ebb.ask({"op": "REINFORCE", "object": "a11", "signal": "CONFIRMED", "session_id": "s1"})
            ebb.ask({"op": "PIN", "object": "a10"}, {"op": "PENALTY", "object": "a9", "signal": "TASK_FAILED_WITH"})
            ebb.ask({"op": "SUPPRESS", "object": "a8", "freeze": True, "expires_at": lived.later(clock, 20)})
        if day == 40:
            ebb.ask({"op": "UNPIN", "object": "a10"})
        if day == 100:
            ebb.ask(*(lived.belief(f"z{n}", salience=0.3 + n / 10) for n in range(5)))
        if day % 7 == 0:
            ebb.organise()


def test_what_the_wrong_policy_did_is_undone(ebb, make_url_for, clock, tmp_path):
    url = make_url_for(ebb.store.db.name)
    other = type(clock)()
    with Ebbtide.open(url, clock=other) as oracle:
        grown(oracle, other, RIGHT)
        grown(ebb, clock, WRONG)
        was, wanted = states(ebb), states(oracle)
        plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
        assert states(ebb) == was, "planning writes nothing"
        changed = {ref for ref in was if was[ref] != wanted[ref]}
        assert set(plan.rows["ref"].to_pylist()) == changed
        assert plan.by_transition().get("DEPRECATED→ACTIVE", 0) > 0
        assert (plan.conflicts, plan.irreversible) == ([], [])
        plans.write(plan, tmp_path / "p")
        applied = ebb.apply_replay(plans.load(tmp_path / "p"))
        assert (applied.changed, applied.meanwhile) == (len(changed), [])
        untouched = {"a10": None}
        now = states(ebb)
        assert {ref: now[ref] for ref in changed} == {ref: wanted[ref] for ref in changed}
        assert untouched
        ledger.check(ebb)
        assert ebb.rebuild().equal
        again = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
        assert again.changed == 0
        for _ in range(10):
            clock.forward(days=5)
            other.forward(days=5)
            ebb.organise()
            oracle.organise()
        for mine, theirs in zip(ebb.memories(everything=True), oracle.memories(everything=True), strict=True):
            assert (mine.ref, mine.lifecycle_state, mine.confidence) == (
                theirs.ref,
                theirs.lifecycle_state,
                theirs.confidence,
            )
            assert mine.salience == pytest.approx(theirs.salience, abs=2e-9)
        assert ebb.plan_replay("fading@1.0.0", "fading@1.0.1").changed == 0


def test_the_same_parameters_change_nothing(ebb, clock):
    grown(ebb, clock, WRONG)
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.2")
    assert (plan.changed, plan.conflicts, plan.by_transition()) == (0, [], {})


def test_the_same_parameters_change_nothing_of_a_rich_history(ebb, clock):
    lived.live(ebb, clock)
    for name in ("default@1.0.0", "keeping@1.0.0", "archivist@1.0.0"):
        policy = ebb.policy(name)
        data = policy.model_dump(mode="json", by_alias=True) | {"version": "9.0.0"}
        ebb.register_policy(policy_from(data))
        plan = ebb.plan_replay(name, f"{policy.id}@9.0.0", namespace="default")
        assert (plan.changed, plan.irreversible) == (0, [])


def test_corrections_are_in_the_log(ebb, clock):
    grown(ebb, clock, WRONG)
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    ebb.apply_replay(plan, actor="ops")
    with ebb.store.begin() as connection:
        log = event_log.c
        query = select(log.op_type, log.actor_id, log.policy_version).order_by(log.seq)
        rows = connection.execute(query.where(log.op_type.in_(["POLICY_CORRECTED", "CORRECTED"]))).all()
    assert rows[0] == ("POLICY_CORRECTED", "ops", "1.0.1")
    assert rows[1:] == [("CORRECTED", "ops", "1.0.1")] * plan.changed
    assert {memory.policy for memory in ebb.memories(everything=True) if memory.lifecycle_state == "ACTIVE"} == {
        "fading@1.0.1"
    }
