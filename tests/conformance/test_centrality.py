"""Centrality: κ follows the in-degree, the term is replaced and never added again, and a segment begins with it."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ledger import Ledger, by_stream, check, differences, read
from slow import DAY as SECONDS
from slow import RULES, Slow
from sqlalchemy import text

from ebbtide import Ebbtide
from ebbtide.decay import facts
from ebbtide.decay.centrality import kappa, replaced
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Terms
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.identity import id_of_ref
from ebbtide.model.state import MemoryState
from ebbtide.policy.document import policy_from

DAY = instant.DAY
BEGIN = instant.parse("2026-03-02T00:00:00Z")
"""A Monday: weekly slots start here."""
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


@pytest.fixture
def ebb(url, clock) -> Iterator[Ebbtide]:
    """A store whose passes take five objects at a time."""
    with Ebbtide.open(url, clock=clock, chunk_size=5) as opened, opened.store.db.connect():
        yield opened


def remember(ebb: Ebbtide, *refs: str, **said: Any) -> None:
    ebb.ask(*(BELIEF | {"ref": ref, "value": ref} | said for ref in refs))


def relate(ebb: Ebbtide, *pairs: str, kind: str = "SUPPORTS", **said: Any) -> None:
    """Edges, each as two one-letter names: source and target."""
    ebb.ask(*({"op": "RELATE", "edge_type": kind, "source": a, "target": b} | said for a, b in pairs))


def monday(ebb: Ebbtide, clock: Any, weeks: int = 1, tasks: tuple[str, ...] = ("centrality",)) -> list[Any]:
    """Goes to the Monday so many weeks after the beginning, and runs what is due of some tasks."""
    clock.now = BEGIN + weeks * 7 * DAY
    return ebb.organise(tasks=tasks)


def of(ledger: Ledger, ref: str) -> tuple[MemoryState, list[Entry]]:
    """A memory's state, and its entries of centrality."""
    mine = id_of_ref(ledger.namespace, ref)
    entries = [e for e in ledger.entries if e.stream_id == mine and e.op_type == "CENTRALITY_BOOST"]
    return ledger.live[mine], entries


def nine(x: float) -> float:
    return math.floor(x * 1e9 + 0.5) / 1e9


def test_kappa_is_the_share_of_the_largest_in_degree(ebb, clock) -> None:
    """Three edges point at d, one at b, none at a and c: κ is 0.05 and a third of it."""
    remember(ebb, *"abcd", salience=0.5)
    clock.forward(days=1)
    relate(ebb, "ad", "bd", "cd", "ab")
    [run] = monday(ebb, clock)
    ledger = check(ebb)
    assert (run.status, run.examined, run.entries) == ("done", 2, 2)
    aged = 0.5 * math.exp(-0.02 * 7)
    for ref, share in (("d", 0.05), ("b", 0.016666667)):
        state, [entry] = of(ledger, ref)
        assert (state.centrality, state.segment_at, state.segment_age) == (share, BEGIN + 7 * DAY, 7 * DAY)
        assert state.decaying == state.salience == entry.salience == nine(aged + share)
        assert (state.baseline, state.boost, state.fact_version) == (0.5, 0.0, 1)
        assert state.confidence == nine(0.8 * math.exp(-0.01 * 7))
        assert (entry.effective_at, entry.fact_version, entry.actor_id) == (BEGIN + 7 * DAY, None, "ebbtide")
    assert json.loads(of(ledger, "b")[1][0].payload) == {
        "centrality": 0.016666667,
        "old_centrality": 0.0,
        "in_degree": 1,
        "largest_in_degree": 3,
    }
    assert [of(ledger, ref)[0].version for ref in "ac"] == [1, 1]


def test_the_term_is_replaced_and_not_added_again(ebb, clock) -> None:
    """In the second week nothing changes; in the third b has three edges too and d one more: 4/4 and 3/4."""
    remember(ebb, *"abcdef", salience=0.5)
    relate(ebb, "ad", "bd", "cd", "ab")
    monday(ebb, clock)
    [again] = monday(ebb, clock, 2)
    assert (again.status, again.entries) == ("nothing_due", 0)
    relate(ebb, "ed", "cb", "db")
    monday(ebb, clock, 3)
    ledger = check(ebb)
    state, boosts = of(ledger, "d")
    assert (len(boosts), state.centrality, state.segment_at) == (1, 0.05, BEGIN + 7 * DAY)
    state, boosts = of(ledger, "b")
    first = nine(0.5 * math.exp(-0.02 * 7) + 0.016666667)
    assert len(boosts) == 2
    assert state.decaying == nine(first * math.exp(-0.02 * 14) + (0.0375 - 0.016666667))


def test_what_is_erased_points_at_nothing(ebb, clock) -> None:
    """Without c, d has two edges of at most two; without a and b none is left, and the term goes."""
    remember(ebb, *"abcde", salience=0.9)
    relate(ebb, "ad", "bd", "cd", "ae")
    monday(ebb, clock)
    assert of(read(ebb), "e")[0].centrality == 0.016666667
    ebb.erase("c", scrub=False)
    monday(ebb, clock, 2)
    assert [of(read(ebb), ref)[0].centrality for ref in "de"] == [0.05, 0.025]
    ebb.erase("a", "b", scrub=False)
    monday(ebb, clock, 3)
    ledger = check(ebb)
    assert [of(ledger, ref)[0].centrality for ref in "de"] == [0.0, 0.0]
    weeks = [0.9 * math.exp(-0.14) + 0.05, -0.05]
    assert of(ledger, "d")[0].decaying == nine(nine(weeks[0]) * math.exp(-0.28) + weeks[1])


def test_what_counts_as_an_edge(ebb, clock) -> None:
    """Not one to itself, nor one said twice, nor a second one by way of a merged entity, nor one from later on."""
    remember(ebb, *"abcdefg")
    for name in ("x", "y", "z"):
        ebb.ask({"op": "ENTITY_CREATE", "ref": name, "entity_type": "PERSON", "canonical_name": name})
    relate(ebb, "aa", "ba", "ca")
    relate(ebb, "bd", "bd", "bd")
    relate(ebb, "be", kind="SUPPORTS")
    relate(ebb, "be", kind="CAUSES")
    relate(ebb, "xf", "yf", "zf")
    ebb.ask({"op": "ENTITY_MERGE", "primary": "y", "merged": "x"})
    ebb.ask({"op": "ENTITY_MERGE", "primary": "z", "merged": "y"})
    clock.now = BEGIN + 8 * DAY
    relate(ebb, "ag")
    ebb.organise(tasks=["centrality"])
    degrees = {"a": 2, "d": 1, "e": 2, "f": 1}
    ledger = check(ebb)
    found = {ref: [json.loads(entry.payload)["in_degree"] for entry in of(ledger, ref)[1]] for ref in "abcdefg"}
    assert found == {ref: [degrees[ref]] if ref in degrees else [] for ref in "abcdefg"}
    assert of(ledger, "a")[0].centrality == 0.05


def test_what_stands_still_or_has_left_keeps_its_term(ebb, clock) -> None:
    remember(ebb, *"abcdefg", salience=0.9)
    relate(ebb, "ab", "ac", "ad", "ae", "af", "ag")
    ebb.pin("b")
    ebb.archive("c")
    ebb.suppress("d", freeze=True)
    ebb.suppress("e", freeze=True, expires_at="2026-03-12T00:00:00Z")
    ebb.suppress("f", freeze=True, expires_at="2026-03-06T00:00:00Z")
    monday(ebb, clock)
    assert {ref for ref in "abcdefg" if of(check(ebb), ref)[1]} == {"f", "g"}
    thawed = of(read(ebb), "f")[0]
    assert thawed.segment_age == 3 * DAY
    monday(ebb, clock, 2)
    assert {ref for ref in "abcdefg" if of(check(ebb), ref)[1]} == {"e", "f", "g"}


def test_a_rule_that_is_due_is_executed_first(ebb, clock) -> None:
    """From 0.32 under RAPID the warning is due on the first day; the lifecycle pass goes first, at that instant."""
    remember(ebb, "a", "b", epistemic_type="HYPOTHETICAL", confidence=0.9)
    ebb.ask(BELIEF | {"ref": "c", "value": 1, "epistemic_type": "HYPOTHETICAL", "salience": 0.9, "confidence": 0.9})
    relate(ebb, "ac")
    before = of(read(ebb), "c")[0]
    assert before.due_rule == "warning"
    assert before.due_at < BEGIN + 7 * DAY
    monday(ebb, clock)
    assert of(check(ebb), "c")[0] == before
    monday(ebb, clock, 1, ("lifecycle",))
    assert of(read(ebb), "c")[0].warned
    clock.now = BEGIN + 7 * DAY
    monday(ebb, clock, 2, ("lifecycle", "centrality"))
    entries = by_stream(check(ebb).entries)[id_of_ref("default", "c")]
    assert [entry.op_type for entry in entries][1] == "DECAY_WARNING"
    assert entries[1].effective_at == before.due_at


def test_the_whole_schedule_runs_lifecycle_before_centrality(ebb, clock) -> None:
    remember(ebb, "a", "b", salience=0.32)
    relate(ebb, "ab")
    clock.now = BEGIN + 7 * DAY
    ebb.organise()
    state, [boost] = of(check(ebb), "b")
    assert boost.effective_at == BEGIN + 7 * DAY
    sunk = nine(0.32 * math.exp(-0.02 * 7) + 0.05)
    assert state.salience == sunk
    # It was warned of below 0.30, and begins above: it may be warned of again.
    assert (state.warned, state.due_rule) == (False, "warning")
    days = math.log(sunk / 0.30) / 0.02
    assert abs(state.due_at - (BEGIN + 7 * DAY + days * DAY)) <= 2 * instant.SECOND


def test_a_fact_since_the_slots_start_comes_first(ebb, clock) -> None:
    """On Wednesday it is confirmed, on Friday Monday's slot is made up: the segment begins on Wednesday."""
    remember(ebb, "a", "b", salience=0.5)
    relate(ebb, "ab")
    clock.now = BEGIN + 9 * DAY
    ebb.ask({"op": "REINFORCE", "object": "b", "signal": "CONFIRMED", "actor_id": "maya", "actor_type": "HUMAN_USER"})
    clock.now = BEGIN + 11 * DAY
    before = of(read(ebb), "b")[0]
    [run] = ebb.organise(tasks=["centrality"])
    assert run.as_of == BEGIN + 7 * DAY
    state, [boost] = of(check(ebb), "b")
    assert boost.effective_at == state.segment_at == BEGIN + 9 * DAY
    assert state.decaying == nine(before.decaying + 0.05)
    assert (state.boost, state.baseline, state.segment_age) == (before.boost, before.baseline, 0)


def test_a_late_fact_takes_effect_at_its_instant_and_nothing_decays_twice(ebb, clock) -> None:
    remember(ebb, "a", "b", salience=0.5)
    relate(ebb, "ab")
    version = ebb.memory("b").fact_version
    monday(ebb, clock)
    clock.now = BEGIN + 8 * DAY
    [taken] = ebb.ask(
        {
            "op": "PENALTY",
            "object": "b",
            "signal": "TASK_FAILED_WITH",
            "effective_at": "2026-03-05T00:00:00Z",
            "expected_version": version,
        }
    )
    [entry] = taken.entries
    assert (entry.effective_at, json.loads(entry.payload)["late"]) == (BEGIN + 7 * DAY, True)
    state, _ = of(check(ebb), "b")
    assert state.decaying == nine(nine(0.5 * math.exp(-0.14) + 0.05) * (1 - 0.3 * 0.10))
    assert (state.segment_at, state.segment_age) == (BEGIN + 7 * DAY, 7 * DAY)


def test_a_confirmation_lifts_to_baseline_and_term(ebb, clock) -> None:
    remember(ebb, "a", "b", salience=0.5)
    relate(ebb, "ab")
    monday(ebb, clock)
    clock.forward(days=10)
    ebb.ask({"op": "REINFORCE", "object": "b", "signal": "CONFIRMED", "actor_id": "maya", "actor_type": "HUMAN_USER"})
    state, _ = of(check(ebb), "b")
    assert state.baseline == 0.5 + 0.15 * 0.5 * 0.5
    assert state.decaying == nine(0.5375 + 0.05)


def test_the_decaying_part_stays_within_0_and_1(ebb, clock) -> None:
    remember(ebb, "a", "b", salience=1.0, decay_profile="PERMANENT")
    relate(ebb, "ab")
    monday(ebb, clock)
    assert of(read(ebb), "b")[0].decaying == 1.0
    ebb.erase("a", scrub=False)
    monday(ebb, clock, 2)
    assert of(check(ebb), "b")[0].decaying == 0.95
    assert replaced(SCALAR, 0.01, 0.05, 0.0) == 0.0
    assert kappa(SCALAR, 0.05, 1, 3) == 0.016666667


def test_the_weight_is_that_of_each_memorys_policy(ebb, clock) -> None:
    heavy = {"id": "heavy", "version": "1.0.0", "params": {"centrality": {"weight": 0.2}}}
    ebb.register_policy(policy_from(heavy))
    remember(ebb, "a", "b", "c", salience=0.5)
    relate(ebb, "ab", "ac")
    ebb.archive("b")
    ebb.assign_policy("heavy@1.0.0", namespace="default")
    monday(ebb, clock)
    state, [boost] = of(check(ebb), "c")
    assert (state.centrality, boost.policy_id) == (0.2, "heavy")
    off = {"id": "off", "version": "1.0.0", "params": {"centrality": {"weight": 0}}}
    ebb.register_policy(policy_from(off))
    ebb.assign_policy("off@1.0.0", namespace="default")
    monday(ebb, clock, 2)
    assert of(check(ebb), "c")[0].centrality == 0.0


def test_namespaces_are_apart(ebb, clock) -> None:
    for namespace in ("one", "other"):
        remember(ebb, "a", "b", "c", namespace=namespace)
    relate(ebb, "ac", "bc", "ab", namespace="one")
    relate(ebb, "ab", namespace="other")
    monday(ebb, clock)
    terms = {
        name: [check(ebb, name).live[id_of_ref(name, ref)].centrality for ref in "bc"] for name in ("one", "other")
    }
    assert terms == {"one": [0.025, 0.05], "other": [0.05, 0.0]}


@pytest.mark.parametrize("policy", ["default@1.0.0", "fsrs@1.0.0", "permastore@1.0.0"])
def test_sql_and_the_scalar_rule_give_the_same_bits(ebb, clock, policy) -> None:
    """Random memories with facts of all kinds and random edges: each state is what `facts.recentred` makes of it."""
    rng = random.Random(policy)
    ebb.assign_policy(policy, namespace="default")
    refs = [chr(ord("A") + n) for n in range(26)]
    for ref in refs:
        kind = rng.choice(["OBSERVED", "ASSERTED", "INFERRED"])
        remember(ebb, ref, salience=round(rng.uniform(0.4, 1), 9), epistemic_type=kind)
    for day in (2, 4, 6):
        clock.now = BEGIN + day * DAY
        for ref in rng.sample(refs, 12):
            fact = rng.choice(["ACCESS", "REINFORCE", "PENALTY"])
            signal = {"REINFORCE": {"signal": "CONFIRMED"}, "PENALTY": {"signal": "TASK_FAILED_WITH"}}.get(fact, {})
            ebb.ask({"op": fact, "object": ref, "actor_id": "maya", "actor_type": "HUMAN_USER"} | signal)
    pairs = {(rng.choice(refs), rng.choice(refs)) for _ in range(60)}
    relate(ebb, *(a + b for a, b in pairs if a != b))
    clock.now = BEGIN + 7 * DAY
    ebb.organise(tasks=["lifecycle"])
    before = read(ebb).live
    ebb.organise(tasks=["centrality"])
    after = check(ebb).live
    terms = Terms.of(ebb._library[policy][0])
    degrees = Counter(id_of_ref("default", b) for a, b in pairs if a != b)
    moved = 0
    for object_id, state in before.items():
        new = kappa(SCALAR, 0.05, degrees[object_id], max(degrees.values()))
        expected = state
        if state.active and new != state.centrality:
            moved += 1
            expected = facts.recentred(state, terms, BEGIN + 7 * DAY, new)
        but = ("version", "head_hash", "fact_at")
        assert differences(after[object_id], expected, but) == {}, object_id
    assert moved > 10


def test_twelve_weeks_go_as_the_rules_say(ebb, clock) -> None:
    """Against the slow simulation: edges come, memories are confirmed; lifecycle daily, centrality weekly."""
    rng = random.Random("central")
    refs = "abcdefghijkl"
    simulated, edges = {}, set()
    for ref in refs:
        salience = round(rng.uniform(0.3, 1), 9)
        remember(ebb, ref, salience=salience, confidence=0.95)
        simulated[ref] = Slow(RULES["default@1.0.0"], "ASSERTED", "MEDIUM", 0, salience, 0.95)
    for day in range(1, 85):
        clock.now = BEGIN + day * DAY
        for memory in simulated.values():
            memory.run(day * SECONDS)
        if day % 7 == 0 and edges:
            degrees = Counter(b for _, b in edges)
            for ref, memory in simulated.items():
                memory.recentre(day * SECONDS, nine(0.05 * degrees[ref] / max(degrees.values())))
        ebb.organise(tasks=["lifecycle", "centrality"])
        if day % 3 == 1:
            clock.forward(seconds=3600)
            pair = tuple(rng.sample(refs, 2))
            edges.add(pair)
            relate(ebb, "".join(pair))
        if day % 20 == 5:
            active = [ref for ref, memory in simulated.items() if memory.state == "ACTIVE"]
            ref = rng.choice(active)
            asked = {"op": "REINFORCE", "object": ref, "signal": "REFERENCED", "session_id": str(day)}
            ebb.ask(asked | {"actor_id": f"maya{day}", "actor_type": "HUMAN_USER"})
            simulated[ref].reinforce((clock.now - BEGIN) // instant.SECOND, "REFERENCED")
    ledger = check(ebb)
    shown = {ref: ebb.memory(ref) for ref in refs}
    assert {ref: memory.lifecycle_state for ref, memory in shown.items()} == {r: m.state for r, m in simulated.items()}
    for ref, memory in simulated.items():
        assert of(ledger, ref)[0].centrality == memory.kappa, ref
        found = (shown[ref].salience, shown[ref].confidence)
        assert found == pytest.approx(memory.shown(84 * SECONDS), abs=2e-9), ref
    assert len({memory.kappa for memory in simulated.values()}) >= 4
    assert len({memory.state for memory in simulated.values()}) > 1


def corrected(ebb: Ebbtide, clock: Any, policy: str) -> None:
    """Six weeks in which one is pointed at more and more, under one version of a policy."""
    for number, rate in (("1.0.0", 0.05), ("1.0.1", 0.02), ("1.0.2", 0.05)):
        profiles = {"MEDIUM": {"lambda": rate}}
        ebb.register_policy(policy_from({"id": "fading", "version": number, "params": {"profiles": profiles}}))
    ebb.assign_policy(policy, namespace="default")
    remember(ebb, *"abcd", salience=0.9, confidence=0.9)
    relate(ebb, "ab", "ac")
    monday(ebb, clock)
    relate(ebb, "cb", "db")
    for weeks in range(2, 7):
        monday(ebb, clock, weeks, ("lifecycle", "centrality"))
    ebb.ask({"op": "PENALTY", "object": "b", "signal": "TASK_FAILED_WITH", "effective_at": "2026-03-04T00:00:00Z"})


def test_a_correction_leaves_centrality_as_it_was_decided(ebb, clock, make_url_for) -> None:
    """Under the same parameters a plan is empty; under others the state is that of a store that always had those."""
    other = type(clock)()
    with Ebbtide.open(make_url_for(ebb.store.db.name), clock=other) as oracle:
        corrected(oracle, other, "fading@1.0.1")
        corrected(ebb, clock, "fading@1.0.0")
        assert ebb.plan_replay("fading@1.0.0", "fading@1.0.2").changed == 0
        plan = ebb.plan_replay("fading@1.0.0", "fading@1.0.1")
        assert plan.changed == 4
        for ref in "abcd":
            row = next(row for row in plan.rows.to_pylist() if row["ref"] == ref)
            assert row["new_salience"] == pytest.approx(oracle.memory(ref).salience, abs=2e-9), ref
    assert ebb.rebuild().equal


def test_the_views_show_what_a_boost_did(ebb, clock) -> None:
    remember(ebb, "a", "b")
    relate(ebb, "ab")
    monday(ebb, clock)
    with ebb.store.begin() as connection:
        rows = connection.execute(text("SELECT op_type FROM audit.operations WHERE op_type = 'CENTRALITY_BOOST'")).all()
    assert len(rows) == 1
