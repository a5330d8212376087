"""The guard: a slot by which too much would leave is held, approved, or approved too late."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from ledger import check, entries_of, read

from ebbtide import Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.identity import id_of_ref
from ebbtide.policy.document import Policy

GUARD = {"max_fraction": 0.25, "min_objects": 4}
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
GUESS = BELIEF | {"epistemic_type": "HYPOTHETICAL"}
TODO = BELIEF | {"object_type": "TASK", "epistemic_type": "OBSERVED"}
TTL = [
    {"match": {"object_types": ["TASK"]}, "ttl_days": 20, "clock": "created", "action": "erase"},
    {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 20, "clock": "created", "action": "erase"},
    {"match": {"events": True, "roles": ["SYSTEM"]}, "ttl_days": 20, "clock": "created", "action": "archive"},
]


def policy(version: str = "1.0.0", guard: dict[str, Any] = GUARD, **params: Any) -> Policy:
    return Policy.model_validate({"id": "wary", "version": version, "params": {"guard": guard, **params}})


def begin(ebb: Ebbtide, namespace: str = "default", *, guesses: int = 5, facts: int = 7, **params: Any) -> None:
    """A namespace under the guard: guesses that sink below every threshold in days, facts that do not for months."""
    ebb.register_policy(policy(**params))
    ebb.assign_policy("wary@1.0.0", namespace=namespace)
    said = [GUESS | {"ref": f"g{n}", "value": f"guess {n}"} for n in range(guesses)]
    said += [BELIEF | {"ref": f"f{n}", "value": f"fact {n}"} for n in range(facts)]
    ebb.ask(*({**one, "namespace": namespace} for one in said))


def lifecycle(ebb: Ebbtide, **how: Any) -> Any:
    [run] = ebb.organise(tasks=["lifecycle"], namespace="default", **how)
    return run


def states(ebb: Ebbtide, namespace: str = "default") -> dict[str, str]:
    return {m.ref: m.lifecycle_state for m in ebb.memories(namespace=namespace, everything=True)}


def told(ebb: Ebbtide) -> list[dict[str, Any]]:
    """What was written of memories, but where and when it was recorded."""
    kept = ("op_type", "stream_id", "effective_at", "actor_id", "lifecycle_state", "salience", "confidence", "payload")
    found = [{k: v for k, v in asdict(e).items() if k in kept} for e in entries_of(ebb) if e.op_type in MOVES]
    return sorted(found, key=lambda e: (str(e["stream_id"]), e["op_type"]))


MOVES = ("DECAY_WARNING", "DECAY_APPLIED", "ARCHIVE", "DEPRECATE")


def assert_whole(ebb: Ebbtide) -> None:
    """The log alone gives this state, and the same policy would do the same again."""
    check(ebb)
    assert ebb.rebuild().equal
    assert ebb.verify().ok
    ebb.register_policy(policy("1.0.1"))
    assert ebb.plan_replay("wary@1.0.0", "wary@1.0.1").changed == 0


def test_a_slot_is_held_and_approved_after_later_ones_have_run(ebb, url, clock, make_url_for) -> None:
    begin(ebb)
    clock.forward(days=30)
    rehearsed = lifecycle(ebb, dry_run=True)
    runs = {run.task: run for run in ebb.organise()}
    run = runs["lifecycle"]
    assert replace(rehearsed, guard=None) == replace(run, guard=None)
    assert (run.status, run.warned, run.archived, run.deprecated) == ("held", 12, 0, 0)
    assert json.loads(run.guard) | {"seq": 0} == {
        "verdict": "held", "seq": 0, "due": 5, "of": 12,
        "policy_due": 5, "policy_of": 12, "event_due": None, "event_of": None,
    }  # fmt: skip
    assert (runs["decay_medium"].status, runs["decay_medium"].decayed) == ("done", 7)
    assert (runs["decay_rapid_fast"].status, runs["decay_rapid_fast"].decayed) == ("done", 5)
    assert set(states(ebb).values()) == {"ACTIVE"}
    clock.forward(days=1)
    again = lifecycle(ebb)
    assert (again.status, again.warned) == ("held", 0)
    assert any(f"ebb runs show {again.run_id}" in problem for problem in ebb.problems())
    assert_whole(ebb)
    held = ebb.held(run.run_id, limit=3)
    assert (held.total, len(held.leaving), held.changed) == (5, 3, [])
    held = ebb.held(run.run_id)

    done = ebb.approve(run.run_id, actor="ops", actor_type="HUMAN_USER")
    assert (done.status, done.warned, done.archived + done.deprecated, done.verdict.verdict) == (
        "done", 12, 5, "approved",
    )  # fmt: skip
    assert ebb.held(run.run_id) is None
    last = entries_of(ebb)[-1]
    assert (last.op_type, last.actor_id, last.effective_at) == ("ORGANISER_RUN", "ops", run.as_of)

    with Ebbtide(make_url_for(make_kind(url)), clock=clock) as free:
        clock.forward(days=-31)
        begin(free)
        clock.forward(days=30)
        free.organise(no_guard=True)
        clock.forward(days=1)
        assert json.loads(lifecycle(free, no_guard=True).guard)["verdict"] == "off"
        moved = {e["stream_id"]: e for e in told(free) if e["op_type"] in ("ARCHIVE", "DEPRECATE")}
        scored = {e["stream_id"]: e for e in told(free) if "to_state" in e["payload"]}
        assert [(one.id, one.at, one.to_state, one.rule) for one in held.leaving] == [
            (one.id, moved[one.id]["effective_at"], moved[one.id]["lifecycle_state"], "archive") for one in held.leaving
        ]
        for one in held.leaving:
            assert (one.salience, one.confidence) == (scored[one.id]["salience"], scored[one.id]["confidence"])
        assert [e for e in told(ebb) if e["op_type"] != "DECAY_APPLIED"] == [
            e for e in told(free) if e["op_type"] != "DECAY_APPLIED"
        ]
        assert {e["stream_id"]: e for e in told(ebb) if "to_state" in e["payload"]} == scored

    with pytest.raises(Refused, match="was approved already and is done"):
        ebb.approve(run.run_id)
    with pytest.raises(Refused, match=r"^g\d got (ARCHIVE|DEPRECATE) at .* and 4 more changed"):
        ebb.approve(again.run_id)
    assert_whole(ebb)
    clock.forward(days=1)
    assert lifecycle(ebb).status == "nothing_due"


def make_kind(url: str) -> str:
    return url.partition(":")[0].partition("+")[0]


def test_neither_limit_alone_holds(ebb, clock) -> None:
    """4 of 12 is no more than min_objects; 5 of 20 is no more than a quarter."""
    begin(ebb, guesses=4, facts=8)
    clock.forward(days=30)
    run = lifecycle(ebb)
    assert (run.status, run.archived + run.deprecated, run.guard) == ("done", 4, None)
    ebb.ask(*(GUESS | {"ref": f"more{n}", "value": f"more {n}"} for n in range(5)))
    ebb.ask(*(BELIEF | {"ref": f"known{n}", "value": f"known {n}"} for n in range(7)))
    clock.forward(days=20)
    run = lifecycle(ebb)
    assert (run.status, run.archived + run.deprecated, run.verdict.verdict) == ("done", 5, "passed")
    assert (run.verdict.due, run.verdict.of) == (5, 20)
    assert_whole(ebb)


def test_over_all_namespaces_of_a_policy_version_it_holds_what_each_alone_would_let_go(ebb, clock) -> None:
    for name in ("a", "b", "c"):
        begin(ebb, name, guesses=2, facts=0)
    ebb.ask(*(GUESS | {"ref": f"g{n}", "value": n, "namespace": "free"} for n in range(6)))
    clock.forward(days=30)
    runs = {run.namespace_id: run for run in ebb.organise(tasks=["lifecycle"])}
    assert {name: run.status for name, run in runs.items()} == {"a": "held", "b": "held", "c": "held", "free": "done"}
    assert all((v.due, v.policy_due, v.policy_of) == (2, 6, 6) for v in (runs[n].verdict for n in "abc"))
    assert runs["free"].deprecated == 6, "6 are no more than the default policy's 20"
    assert ebb.approve(runs["a"].run_id).deprecated == 2
    clock.forward(days=1)
    # 4 of 4 are left under the version, and 4 are not above min_objects.
    assert [run.status for run in ebb.organise(tasks=["lifecycle"], namespace="b")] == ["done"]
    assert ebb.rebuild().equal
    for name in ("a", "b", "c"):
        check(ebb, name)


def test_an_approval_is_refused_once_a_listed_memory_got_a_fact(ebb, clock) -> None:
    begin(ebb)
    clock.forward(days=30)
    run = lifecycle(ebb)
    ebb.ask({"op": "REINFORCE", "object": "f1", "signal": "CONFIRMED"}, GUESS | {"ref": "new", "value": "new"})
    ebb.ask({"op": "ACCESS", "object": "g3"})
    [changed] = ebb.held(run.run_id).changed
    assert (changed.name, changed.op_type, changed.recorded_at) == ("g3", "ACCESS", clock.now)
    before = entries_of(ebb)
    with pytest.raises(Refused, match=r"^g3 got ACCESS at .*, after the guard held run .*: the next lifecycle slot"):
        ebb.approve(run.run_id, actor="ops")
    assert entries_of(ebb) == before
    refusal = read(ebb).refusals[-1]
    assert (refusal["op_type"], refusal["actor_id"], refusal["rule"]) == ("ORGANISER_RUN", "ops", "guard")
    clock.forward(days=1)
    again = lifecycle(ebb)
    assert (again.status, again.verdict.due, again.verdict.of) == ("held", 5, 13)
    assert ebb.approve(again.run_id).status == "done"
    assert_whole(ebb)


def test_an_approval_is_refused_once_the_policy_changed_and_the_new_one_judges(ebb, clock) -> None:
    begin(ebb)
    clock.forward(days=30)
    run = lifecycle(ebb)
    ebb.register_policy(policy("2.0.0", {"max_fraction": 1.0, "min_objects": 4}))
    ebb.assign_policy("wary@2.0.0")
    ebb.assign_policy("wary@1.0.0")
    with pytest.raises(Refused, match=r"^the policy of default was changed at "):
        ebb.approve(run.run_id)
    ebb.assign_policy("wary@2.0.0")
    clock.forward(days=1)
    run = lifecycle(ebb)
    assert (run.status, run.archived + run.deprecated, run.verdict.verdict) == ("done", 5, "passed")
    assert ebb.rebuild().equal
    check(ebb)


@pytest.mark.parametrize("stops", ["while held", "while approved"])
def test_in_chunks_a_verdict_stands_and_an_approval_goes_on(url, clock, stops) -> None:
    """What came due later, or was told of afterwards, is not part of it."""
    with Ebbtide.open(url, clock=clock, chunk_size=2) as ebb, ebb.store.session():
        begin(ebb)
        clock.forward(days=30)
        asked = iter([False, stops != "while held"] + [stops == "while held"] + [False] * 20)
        found = ebb.organise(tasks=["lifecycle"], stopping=lambda: next(asked) if stops == "while held" else False)
        if stops == "while held":
            assert found == []
            [begun] = ebb.runs()
            assert (begun.status, begun.warned) == ("held", 4)
            check(ebb)
            assert ebb.rebuild().equal
            found = ebb.organise(tasks=["lifecycle"])
        [run] = found
        assert (run.status, run.warned, ebb.held(run.run_id).total) == ("held", 12, 5)
        late = instant.iso(clock.now - 29 * instant.DAY)
        ebb.ask(GUESS | {"ref": "late", "value": "told late", "effective_at": late})
        assert ebb.held(run.run_id).total == 5
        if stops == "while approved":
            begun = ebb.approve(run.run_id, stopping=lambda: True)
            assert (begun.status, begun.archived + begun.deprecated) == ("running", 2)
            check(ebb)
            assert ebb.rebuild().equal
            [left] = [ref for ref, state in states(ebb).items() if state == "ACTIVE" and ref.startswith("g")][:1]
            ebb.ask({"op": "ACCESS", "object": left})
            with pytest.raises(Refused, match="is running: `ebb organise` goes on with it"):
                ebb.approve(run.run_id)
            [done] = ebb.organise(tasks=["lifecycle"])
            kept = {left, "late"}
        else:
            done, kept = ebb.approve(run.run_id), {"late"}
        assert (done.run_id, done.status) == (run.run_id, "done")
        assert {ref for ref, state in states(ebb).items() if state == "ACTIVE" and ref[0] in "gl"} == kept
        assert_whole(ebb)
        clock.forward(days=1)
        assert lifecycle(ebb).status == "done"
        assert_whole(ebb)


def test_ttl_erasures_of_memories_and_events_are_held(ebb, clock) -> None:
    begin(ebb, guesses=0, facts=4, retention=TTL)
    ebb.ask(*(TODO | {"ref": f"t{n}", "value": f"todo {n}"} for n in range(5)))
    said = {"op": "EVENT", "content": "noise"}
    ebb.ask(*(said | {"ref": f"e{n}", "role": "TOOL"} for n in range(5)), said | {"ref": "s", "role": "SYSTEM"})
    ebb.ask(*(said | {"ref": f"u{n}", "role": "USER"} for n in range(9)))
    clock.forward(days=21)
    [run] = ebb.organise(tasks=["retention"])
    assert (run.status, run.entries) == ("held", 0)
    verdict = run.verdict
    assert (verdict.due, verdict.of, verdict.event_due, verdict.event_of) == (5, 9, 5, 15)
    held = ebb.held(run.run_id)
    assert held.total == 11
    assert {one.ref for one in held.leaving if one.erases} == {f"{kind}{n}" for kind in "te" for n in range(5)}
    assert {instant.iso(one.at) for one in held.leaving} == {instant.iso(clock.now - instant.DAY)}
    ebb.ask(said | {"ref": "old", "role": "TOOL", "effective_at": instant.iso(clock.now - 21 * instant.DAY)})
    assert ebb.approve(run.run_id).expired == 11
    gone = {entry.stream_id for entry in entries_of(ebb) if entry.op_type == "TOMBSTONE"}
    assert gone == {id_of_ref("default", ref) for ref in [*(f"{k}{n}" for k in "te" for n in range(5)), "s"]}
    assert all(m.erased_at for m in ebb.memories(everything=True) if m.type == "TASK")
    check(ebb)
    assert ebb.rebuild().equal
    clock.forward(days=1)
    [run] = ebb.organise(tasks=["retention"])
    assert (run.status, run.expired, run.guard) == ("done", 1, None)


def test_a_hold_on_what_a_retention_slot_lists_refuses_its_approval(ebb, clock) -> None:
    begin(ebb, guesses=0, facts=0, retention=TTL)
    ebb.ask(*(TODO | {"ref": f"t{n}", "value": f"todo {n}"} for n in range(5)))
    ebb.ask(*({"op": "EVENT", "ref": f"e{n}", "role": "TOOL", "content": "noise"} for n in range(5)))
    clock.forward(days=21)
    [run] = ebb.organise(tasks=["retention"])
    ebb.ask({"op": "HOLD", "object": "t2"})
    with pytest.raises(Refused, match=r"^t2 got HOLD at "):
        ebb.approve(run.run_id)
    assert [m.ref for m in ebb.memories(everything=True) if m.erased_at] == []


def test_a_walk_holds_by_the_slot_and_an_imported_store_knows_it(ebb, clock, tmp_path, make_url_for, url) -> None:
    """All guesses sink on one day: that slot is held, and those after it, until it is approved."""
    begin(ebb)
    start = clock.iso
    clock.forward(days=12)
    runs = ebb.walk(start, None, tasks=["lifecycle"])
    held = [run for run in runs if run.status == "held"]
    # Warned after ln(0.5/0.3)/0.2 = 2.6 days, archived after ln(0.5/0.1)/0.2 = 8.05: from the slot of the 9th day on.
    assert [run.status for run in runs] == ["nothing_due"] * 3 + ["done"] + ["nothing_due"] * 5 + ["held"] * 4
    assert ebb.approve(held[0].run_id).status == "done"
    ebb.export_pack(tmp_path / "pack")
    with Ebbtide(make_url_for(make_kind(url)), clock=clock) as other:
        other.import_pack(tmp_path / "pack")
        assert other.runs() == ebb.runs()
        assert other.held(held[0].run_id) is None
    assert_whole(ebb)
