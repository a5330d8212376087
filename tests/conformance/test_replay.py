"""Corrections: what a corrected policy would have done, planned and written.

The oracle is a store that never had the wrong policy, and lived through the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from sqlalchemy import event, func, select
from tests.conformance import ledger, lived
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import BadInput, Ebbtide, NotFound, Refused
from ebbtide.model import instant
from ebbtide.model.state import GROUPS
from ebbtide.policy.document import Policy, policy_from
from ebbtide.replay import plan as plans
from ebbtide.store.tables import event_log

KEPT = ("lifecycle_state", *(name for group in plans.GROUPS_CORRECTED for name in GROUPS[group]))


def version(number: str, **params: Any) -> Policy:
    return policy_from({"id": "fading", "version": number, "params": params})


FAST = {"MEDIUM": {"rate": 0.2}, "SLOW": {"rate": 0.05}, "FAST": {"rate": 0.7}}
RIGHT, WRONG, SAME = version("1.0.1"), version("1.0.0", profiles=FAST), version("1.0.2", profiles=FAST)


def states(ebb: Ebbtide, namespace: str = "default") -> dict[str, dict[str, Any]]:
    """What a correction may set of each object, by ref; but for the policy's version."""
    with ebb.store.begin() as connection:
        found = ledger.live_states(connection, namespace).values()
    return {
        str(state.ref): {n: v for n, v in asdict(state).items() if n in KEPT and n != "policy_version"}
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
        ebb.ask(*_on(day, clock))
        if day % 12 == 0:
            ebb.organise()


def _on(day: int, clock: Any) -> list[dict[str, Any]]:
    session = {"op": "REINFORCE", "object": "a11", "signal": "CONFIRMED", "session_id": "s1"}
    asked: dict[int, list[dict[str, Any]]] = {
        2: [{"op": "ACCESS", "object": "a2"}, {"op": "ACCESS", "object": "o1"}],
        3: [session, session | {"actor_id": "other"}, {"op": "PIN", "object": "a10"}],
        4: [{"op": "PENALTY", "object": "a9", "signal": "TASK_FAILED_WITH"}, {"op": "ACCESS", "object": "a0"}],
        5: [{"op": "SUPPRESS", "object": "a8", "freeze": True, "expires_at": lived.later(clock, 20)}],
        40: [{"op": "UNPIN", "object": "a10"}],
        60: [{"op": "ACCESS", "object": "a0"}, {"op": "ACCESS", "object": "o1"}, {"op": "HOLD", "object": "a3"}],
        100: [lived.belief(f"z{n}", salience=0.3 + n / 10) for n in range(5)],
        120: [{"op": "RELEASE", "object": "a3"}],
        176: [lived.belief(f"y{n}", salience=0.4 + n / 10) for n in range(5)],
    }
    return asked.get(day, [])


@dataclass
class Lives:
    """The same history lived under the wrong policy and under the right one, to be copied."""

    kind: str
    wrong: str
    right: str
    now: int
    make: Any

    def open(self, of: str) -> tuple[Ebbtide, Any]:
        clock = Clock()
        clock.now = self.now
        url = self.make(self.kind, of=of)
        return Ebbtide(url, clock=clock, entropy=counted_entropy(), chunk_size=7), clock


@pytest.fixture(scope="module", params=DATABASES)
def lives(request: pytest.FixtureRequest, make_url_for_module) -> Lives:
    urls = []
    for policy in (WRONG, RIGHT):
        clock = Clock()
        urls.append(make_url_for_module(request.param))
        with Ebbtide(urls[-1], clock=clock, entropy=counted_entropy()) as ebb, ebb.store.session():
            grown(ebb, clock, policy)
    return Lives(request.param, urls[0], urls[1], clock.now, make_url_for_module)


@pytest.fixture
def wrong(lives: Lives) -> Iterator[tuple[Ebbtide, Any]]:
    ebb, clock = lives.open(lives.wrong)
    with ebb:
        yield ebb, clock


def test_what_the_wrong_policy_did_is_undone(lives, wrong, tmp_path):
    ebb, clock = wrong
    oracle, other = lives.open(lives.right)
    with oracle:
        was, wanted = states(ebb), states(oracle)
        plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
        assert states(ebb) == was, "planning writes nothing"
        changed = {ref for ref in was if was[ref] != wanted[ref]}
        assert set(plan.rows["ref"].to_pylist()) == changed
        assert plan.by_transition()["DEPRECATED→ACTIVE"] >= 3
        assert plan.by_transition()["ACTIVE→ACTIVE"] >= 3
        assert (plan.conflicts, plan.irreversible) == ([], [])
        plans.write(plan, tmp_path / "p")
        applied = ebb.apply_replay(plans.load(tmp_path / "p"))
        assert (applied.changed, applied.meanwhile) == (len(changed), [])
        now = states(ebb)
        assert {ref: now[ref] for ref in changed} == {ref: wanted[ref] for ref in changed}
        ledger.check(ebb)
        assert ebb.rebuild().equal
        assert ebb.plan_replay("fading@1.0.0", "fading@1.0.1").changed == 0
        for _ in range(3):
            clock.forward(days=15)
            other.forward(days=15)
            ebb.organise()
            oracle.organise()
        mine = {memory.ref: memory for memory in ebb.memories(everything=True)}
        theirs = {memory.ref: memory for memory in oracle.memories(everything=True)}
        assert {r: m.lifecycle_state for r, m in mine.items()} == {r: m.lifecycle_state for r, m in theirs.items()}
        for ref, memory in mine.items():
            assert (memory.salience, memory.confidence) == pytest.approx(
                (theirs[ref].salience, theirs[ref].confidence), abs=2e-9
            ), ref
        assert ebb.plan_replay("fading@1.0.0", "fading@1.0.1").changed == 0


def test_the_same_parameters_change_nothing(wrong):
    ebb, _ = wrong
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.2")
    assert (plan.changed, plan.conflicts, plan.by_transition()) == (0, [], {})
    applied = ebb.apply_replay(plan)
    assert applied.changed == 0
    assert ebb.plan_replay("fading@1.0.0", "fading@1.0.2").changed == 0
    assert ebb.plan_replay("fading@1.0.2", "fading@1.0.0").changed == 0
    ledger.check(ebb)


def test_corrections_are_in_the_log_and_the_new_version_is_current(wrong):
    ebb, _ = wrong
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    ebb.apply_replay(plan, actor="ops")
    with ebb.store.begin() as connection:
        log = event_log.c
        query = select(log.op_type, log.actor_id, log.policy_version).order_by(log.seq)
        rows = connection.execute(query.where(log.op_type.in_(["POLICY_CORRECTED", "CORRECTED"]))).all()
    assert rows == [("POLICY_CORRECTED", "ops", "1.0.1")] + [("CORRECTED", "ops", "1.0.1")] * plan.changed
    active = [memory for memory in ebb.memories(everything=True) if memory.lifecycle_state == "ACTIVE"]
    assert {memory.policy for memory in active} == {"fading@1.0.1"}
    ebb.ask(lived.belief("new"))
    assert ebb.memory("new").policy == "fading@1.0.1"


def test_a_correction_corrected_back(wrong):
    """Later plans read versions through the corrections: back again, nothing is left of either."""
    ebb, _ = wrong
    was = states(ebb)
    ebb.apply_replay(ebb.plan_replay("fading@1.0.0", "fading@1.0.1"))
    back = ebb.plan_replay("fading@1.0.1", "fading@1.0.2")
    assert back.changed > 10
    ebb.apply_replay(back)
    now = states(ebb)
    gone = {ref for ref, state in was.items() if state["lifecycle_state"] != "ACTIVE"}
    assert {ref: now[ref] for ref in gone} == {ref: was[ref] for ref in gone}
    ledger.check(ebb)
    assert ebb.rebuild().equal


def killed(ebb: Ebbtide, plan: Any, after: int) -> bool:
    """Applies a plan and fails at a statement, as a killed process does; whether it came to that."""
    numbers = iter(range(after))

    class Killed(BaseException):
        pass

    def stop(*_: Any) -> None:
        if next(numbers, None) is None:
            raise Killed

    engine = ebb.store.db.engine()
    event.listen(engine, "before_cursor_execute", stop)
    try:
        ebb.apply_replay(plan)
    except Killed:
        return True
    finally:
        event.remove(engine, "before_cursor_execute", stop)
    return False


def test_killed_anywhere_applying_goes_on(lives, wrong):
    ebb, _ = wrong
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    ebb.apply_replay(plan)
    whole = states(ebb)
    again, _ = lives.open(lives.wrong)
    with again:
        after, kills = 3, 0
        while killed(again, plan, after):
            ledger.check(again)
            kills, after = kills + 1, after + 5
        assert kills >= 8
        assert states(again) == whole
        ledger.check(again)
        assert again.rebuild().equal
        with again.store.begin() as connection:
            corrected = select(func.count()).where(event_log.c.op_type == "CORRECTED")
            assert connection.execute(corrected).scalar_one() == plan.changed
        assert again.apply_replay(plan).entries == 0


def test_a_plan_whose_log_has_moved_on_is_refused(wrong):
    ebb, clock = wrong
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    clock.forward(days=1)
    ebb.ask({"op": "EVENT", "ref": "later", "content": "matters to no memory"})
    ebb.ask({"op": "ACCESS", "object": "kept"})
    alive = next(m for m in ebb.memories() if m.ref in set(plan.rows["ref"].to_pylist()))
    other = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    assert other.digest() == plan.digest(), "an access of what does not change matters to no plan"
    ebb.ask({"op": "REINFORCE", "object": alive.ref, "signal": "CONFIRMED"})
    was = states(ebb)
    with pytest.raises(Refused, match=r"the log has moved on: .*make a new plan"):
        ebb.apply_replay(plan)
    assert states(ebb) == was
    ebb.apply_replay(ebb.plan_replay("fading@1.0.0", "fading@1.0.1"))
    assert ebb.plan_replay("fading@1.0.0", "fading@1.0.1").changed == 0


def test_what_was_refused_meanwhile_is_listed(wrong):
    ebb, _ = wrong
    gone = next(m.ref for m in ebb.memories(everything=True) if m.lifecycle_state == "DEPRECATED")
    with pytest.raises(Refused):
        ebb.ask({"op": "REINFORCE", "object": gone, "signal": "CONFIRMED"})
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
    assert [(one.object, one.op_type) for one in plan.refused] == [(gone, "REINFORCE")]
    assert "signal_active_only" in plan.refused[0].what


def test_a_fact_that_meets_what_would_have_left_counts_as_a_restore(lives):
    """The right policy's world corrected into the wrong one's: facts hit objects that would have been gone."""
    ebb, clock = lives.open(lives.right)
    with ebb:
        alive = [m.ref for m in ebb.memories(everything=True) if m.lifecycle_state == "ACTIVE" and m.ref != "kept"]
        clock.forward(hours=1)
        ebb.ask(*({"op": "REINFORCE", "object": ref, "signal": "REFERENCED"} for ref in alive))
        plan = ebb.plan_replay("fading@1.0.1", "fading@1.0.0")
        listed = {one.object for one in plan.conflicts if one.op_type == "REINFORCE"}
        assert listed <= set(alive)
        assert len(listed) > 3
        ebb.apply_replay(plan)
        now = {m.ref: m for m in ebb.memories(everything=True)}
        assert {now[ref].lifecycle_state for ref in listed} == {"ACTIVE"}
        assert {now[ref].restored_at for ref in listed} == {instant.to_datetime(clock.now)}
        assert ebb.plan_replay("fading@1.0.1", "fading@1.0.0").changed == 0
        ledger.check(ebb)


def test_from_an_instant_on(lives, wrong):
    """What happened before the instant stays as it was decided; the oracle was assigned the right version then."""
    ebb, clock = wrong
    day = instant.parse(clock.iso) - 81 * instant.DAY
    plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1", begins=instant.iso(day))
    assert plan.by_transition().get("DEPRECATED→ACTIVE", 0) < 6
    late = {f"z{n}" for n in range(5)}
    assert late <= set(plan.rows["ref"].to_pylist())
    oracle, _ = lives.open(lives.right)
    with oracle:
        wanted = states(oracle)
    ebb.apply_replay(plan)
    now = states(ebb)
    assert {ref: now[ref] for ref in late} == {ref: wanted[ref] for ref in late}
    assert ebb.plan_replay("fading@1.0.0", "fading@1.0.1", begins=instant.iso(day)).changed == 0
    ledger.check(ebb)


def test_bad_input_is_refused(wrong, tmp_path):
    ebb, _ = wrong
    with pytest.raises(BadInput, match="corrected one"):
        ebb.plan_replay("fading@1.0.0", "fading@1.0.0")
    with pytest.raises(NotFound, match=r"no decision in any namespace was taken under spaced@1\.0\.0"):
        ebb.plan_replay("spaced@1.0.0", "fading@1.0.0")
    with pytest.raises(NotFound, match=r"nothing@1\.0\.0"):
        ebb.plan_replay("fading@1.0.0", "nothing@1.0.0")
    for content in (b"", b"PAR1 is not enough", b"{}"):
        (tmp_path / "p").write_bytes(content)
        with pytest.raises(BadInput, match="is no plan"):
            plans.load(tmp_path / "p")


def test_the_same_parameters_change_nothing_of_a_rich_history(ebb, clock):
    with ebb.store.session():
        lived.live(ebb, clock)
    for name in ("default@1.0.0", "keeping@1.0.0", "archivist@1.0.0"):
        policy = ebb.policy(name)
        ebb.register_policy(policy_from(policy.model_dump(mode="json", by_alias=True) | {"version": "9.0.0"}))
        plan = ebb.plan_replay(name, f"{policy.id}@9.0.0", namespace="default")
        assert (plan.changed, plan.irreversible) == (0, [])
