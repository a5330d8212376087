"""What the service does in 400 days is what the rules say, worked out a second time and slowly: the same states, the
same instants to the second, the same scores to nine decimals.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import pytest
from ledger import by_stream, check
from slow import DAY, GAMMA, PROFILE_OF, RULES, Slow

from ebbtide import Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.policy.document import policy_from
from ebbtide.policy.files import pick

BEGIN = instant.parse("2026-03-02T00:00:00Z")
DAYS = 399
"""57 weeks: the last midnight is a Monday, on which every task has a slot."""
PROFILES = (None, None, "SLOW", "MEDIUM", "FAST", "PERMANENT")
SIGNALS = [*(("reinforce", signal) for signal in GAMMA), ("penalise", "CORRECTED"), ("penalise", "TASK_FAILED_WITH")]
MARKS = [("access", None)] * 4 + [("pin", None), ("unpin", None), ("restore", None)]
OP = {"reinforce": "REINFORCE", "penalise": "PENALTY"}
Fact = tuple[int, str, str | None]
"""Second since the beginning, what is done, and with which signal."""


def at(second: float) -> int:
    return BEGIN + round(second * instant.SECOND)


def beliefs(rng: random.Random) -> list[dict[str, Any]]:
    """Forty memories: each epistemic type, with scores across the thresholds, on the default profile or another."""
    made = []
    for number in range(40):
        kind = list(PROFILE_OF)[number % 6]
        profile = rng.choice(PROFILES)
        made.append(
            {
                "epistemic_type": kind,
                "salience": round(rng.uniform(0.04, 1), 9),
                "confidence": round(rng.uniform(0.14, 1), 9),
                **({"condition": "TRUE"} if kind == "CONDITIONAL" else {}),
                **({"decay_profile": profile} if profile else {}),
            }
        )
    return made


def script(rng: random.Random) -> list[Fact]:
    """What is done to one memory: each signal once at most, so that it counts in full, and marks in between."""
    facts = [(day, *fact) for day in rng.sample(range(1, 380), 9) for fact in [rng.choice(MARKS)]]
    facts += [(rng.randrange(1, 250), *signal) for signal in rng.sample(SIGNALS, rng.randrange(4))]
    return sorted((day * DAY + rng.randrange(1, DAY), name, signal) for day, name, signal in facts)


def play(ebb: Ebbtide, clock: Any, policy: str, simulated: dict[str, Slow], scripts: dict[str, list[Fact]]) -> None:
    """Both live through the same days: a lifecycle run at every midnight, then what is done that day."""
    by_day: dict[int, list[tuple[int, str, str, str | None]]] = defaultdict(list)
    for ref, facts in scripts.items():
        for second, name, signal in facts:
            by_day[second // DAY].append((second, ref, name, signal))
    walked = 0
    for day in [*sorted(by_day), DAYS]:
        for midnight in range(walked + 1, day + 1):
            for memory in simulated.values():
                memory.run(midnight * DAY)
        clock.now = at(day * DAY)
        ebb.walk(instant.to_datetime(at(walked * DAY)), None, namespace=policy, tasks=["lifecycle"], no_guard=True)
        walked = day
        for second, ref, name, signal in sorted(by_day[day]):
            clock.now = at(second)
            do(ebb, policy, ref, simulated[ref], second, name, signal)


def do(ebb: Ebbtide, policy: str, ref: str, memory: Slow, second: int, name: str, signal: str | None) -> None:
    """One fact, asked of the service and done to the simulated memory; what does not fit is refused."""
    fits = {"access": True, "unpin": True, "restore": memory.state == "ARCHIVED"}.get(name, memory.state == "ACTIVE")
    request = {"op": OP.get(name, name.upper()), "namespace": policy, "object": ref, "actor_id": "maya"}
    request |= {"actor_type": "HUMAN_USER"} | ({"signal": signal} if signal else {})
    if not fits:
        with pytest.raises(Refused):
            ebb.ask(request)
        return
    ebb.ask(request)
    if (name, memory.pinned) not in (("pin", True), ("unpin", False)):
        getattr(memory, name)(second, *([signal] if signal else []))


# A year takes ten seconds on PostgreSQL, thirty on DuckDB. That both write the same is another test's to show.
@pytest.mark.parametrize("policy", RULES)
def test_a_year_of_forty_memories_goes_as_the_rules_say(make_url_for, clock, policy) -> None:
    rng = random.Random(f"slow {policy}")
    simulated, scripts = {}, {}
    with Ebbtide.open(make_url_for("postgresql"), clock=clock) as ebb, ebb.store.db.connect():
        clock.now = BEGIN
        ebb.assign_policy(policy, namespace=policy)
        for number, belief in enumerate(beliefs(rng)):
            ref, begins = f"m{number}", round(rng.randrange(0, DAY // 24) + rng.random(), 6)
            clock.now = at(begins)
            asked = {"op": "ASSERT", "namespace": policy, "ref": ref, "object_type": "FACT", "value": number}
            ebb.ask(asked | {"source_type": "USER_STATED"} | belief)
            kind = belief["epistemic_type"]
            profile = belief.get("decay_profile", PROFILE_OF[kind])
            simulated[ref] = Slow(RULES[policy], kind, profile, begins, belief["salience"], belief["confidence"])
            scripts[ref] = script(rng) if number % 2 else []
        play(ebb, clock, policy, simulated, scripts)
        ebb.organise(namespace=policy, no_guard=True)
        entries = by_stream(check(ebb, policy).entries)
        seen = {memory.ref: memory for memory in ebb.memories(namespace=policy, everything=True)}
    assert len(simulated) == len(seen) == 40
    for ref, memory in simulated.items():
        assert seen[ref].lifecycle_state == memory.state, ref
        decided = [decision(entry) for entry in entries[seen[ref].id] if is_decision(entry)]
        assert [(rule, when) for rule, when, *_ in decided] == [(r, at(s)) for r, s, *_ in memory.decided], ref
        for found, expected in zip(decided, memory.decided, strict=True):
            assert found[2:] == pytest.approx(expected[2 : len(found)], abs=1e-9), (ref, found)
    now = DAYS * DAY
    stored = {ref: (memory.stored_salience, memory.stored_confidence) for ref, memory in seen.items()}
    shown = {ref: (memory.salience, memory.confidence) for ref, memory in seen.items()}
    for scores in (stored, shown):
        wrong = {
            ref: (found, simulated[ref].shown(now), simulated[ref].state)
            for ref, found in scores.items()
            if found != pytest.approx(simulated[ref].shown(now), abs=1e-9)
        }
        assert wrong == {}


def is_decision(entry: Any) -> bool:
    return entry.op_type == "DECAY_WARNING" or "thresholds_triggered" in entry.payload


def decision(entry: Any) -> tuple[Any, ...]:
    """Which rule, when, and the scores it found: a warning tells the salience, a transition both."""
    payload = json.loads(entry.payload)
    if entry.op_type == "DECAY_WARNING":
        return entry.op_type, entry.effective_at, payload["salience"]
    return payload["thresholds_triggered"][0], entry.effective_at, entry.salience, entry.confidence


HARDLY = {"rate": 0.0001}
_KEPT = {"tier_thresholds": {"warning": 0.0, "archive": 0.0, "force_archive": 0.0, "deprecate_by_confidence": 0.0}}
BRINGS_BACK = ("reinforce", "penalise", "pin")
"""What needs an ACTIVE memory, and counts as restoring one that would have left."""


def test_a_corrected_policy_goes_as_the_rules_say(make_url_for, clock) -> None:
    """A store under a policy by which nothing ever leaves, corrected after a year, is what the simulation says that
    lived under the right one, tick by tick, and brought back what was still used."""
    rng = random.Random("corrected")
    simulated, scripts = {}, {}
    right = pick("default@1.0.0").model_dump(mode="json", by_alias=True) | {"id": "kept", "version": "1.0.1"}
    slow = dict.fromkeys(("SLOW", "MEDIUM", "FAST", "RAPID"), HARDLY)
    with Ebbtide.open(make_url_for("postgresql"), clock=clock) as ebb:
        clock.now = BEGIN
        ebb.register_policy(policy_from({"id": "kept", "version": "1.0.0", "params": {"profiles": slow, **_KEPT}}))
        ebb.register_policy(policy_from(right))
        ebb.assign_policy("kept@1.0.0", namespace="kept")
        for number, belief in enumerate(beliefs(rng)):
            ref, begins = f"m{number}", round(rng.randrange(0, DAY // 24) + rng.random(), 6)
            clock.now = at(begins)
            asked = {"op": "ASSERT", "namespace": "kept", "ref": ref, "object_type": "FACT", "value": number}
            ebb.ask(asked | {"source_type": "USER_STATED"} | belief)
            profile = belief.get("decay_profile", PROFILE_OF[belief["epistemic_type"]])
            given = (belief["epistemic_type"], profile, begins, belief["salience"], belief["confidence"])
            simulated[ref] = Slow(RULES["default@1.0.0"], *given)
            scripts[ref] = [fact for fact in script(rng) if fact[1] != "restore"] if number % 2 else []
        brought_back = live_uncorrected(ebb, clock, simulated, scripts)
        ebb.organise(namespace="kept", no_guard=True)
        assert {memory.lifecycle_state for memory in ebb.memories(namespace="kept", everything=True)} == {"ACTIVE"}
        plan = ebb.plan_replay("kept@1.0.0", "kept@1.0.1")
        assert {one.object for one in plan.conflicts} == brought_back
        assert len(brought_back) > 5
        ebb.apply_replay(plan)
        assert ebb.plan_replay("kept@1.0.0", "kept@1.0.1").changed == 0
        check(ebb, "kept")
        seen = {memory.ref: memory for memory in ebb.memories(namespace="kept", everything=True)}
    assert {ref: memory.state for ref, memory in simulated.items()} == {
        ref: memory.lifecycle_state for ref, memory in seen.items()
    }
    assert {memory.state for memory in simulated.values()} >= {"ACTIVE", "ARCHIVED", "DEPRECATED"}
    for ref, memory in simulated.items():
        shown = (seen[ref].salience, seen[ref].confidence)
        assert shown == pytest.approx(memory.shown(DAYS * DAY), abs=1e-9), ref


def live_uncorrected(ebb: Ebbtide, clock: Any, simulated: dict[str, Slow], scripts: dict[str, list[Fact]]) -> set[str]:
    """Lives through the days in both; the memories that the simulation had to bring back for a fact."""
    facts = sorted((second, ref, name, signal) for ref, listed in scripts.items() for second, name, signal in listed)
    midnight, brought_back = 0, set()
    for second, ref, name, signal in [*facts, (DAYS * DAY, "", "", None)]:
        while (midnight + 1) * DAY <= second:
            midnight += 1
            for memory in simulated.values():
                memory.run(midnight * DAY)
        clock.now = at(midnight * DAY)
        ebb.organise(namespace="kept", tasks=["lifecycle"], no_guard=True)
        if not ref:
            break
        clock.now, memory = at(second), simulated[ref]
        request = {"op": OP.get(name, name.upper()), "namespace": "kept", "object": ref, "actor_id": "maya"}
        ebb.ask(request | {"actor_type": "HUMAN_USER"} | ({"signal": signal} if signal else {}))
        if name in BRINGS_BACK and memory.state != "ACTIVE":
            memory.restore(second)
            brought_back.add(ref)
        if (name, memory.pinned) not in (("pin", True), ("unpin", False)):
            getattr(memory, name)(second, *([signal] if signal else []))
    return brought_back
