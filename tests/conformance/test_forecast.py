"""What is foreseen is what happens: rule, instant, state and scores, in order, whatever the passes' cadence.

Hundreds of memories of every kind, under each built-in policy and ones with floors and ttls, with every mark that a
memory can have. All is foreseen at one instant; then copies of the store are organised, each in another way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from ledger import by_stream, entries_of, live_states
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.decay.forecast import forecast
from ebbtide.memory.read import Memory
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.words import DecayProfile, EpistemicType, ObjectType
from ebbtide.policy.document import Policy
from ebbtide.project.shelf import Shelf

Decided = tuple[str, int, str, float, float | None, bool]
"""Rule, instant, state it leads to, salience, confidence (none is logged of a warning), whether it erases."""

TYPES = list(ObjectType)
EXPIRES = {
    "id": "expires",
    "version": "1.0.0",
    "params": {
        "retention": [
            {"match": {"object_types": ["TASK"]}, "ttl_days": 20, "clock": "created", "action": "archive"},
            {"match": {"object_types": ["INTENT"]}, "ttl_days": 35.5, "clock": "last_accessed", "action": "erase"},
            {"match": {"object_types": ["DECISION"]}, "ttl_days": 400, "clock": "last_reinforced", "action": "archive"},
            {"match": {"epistemic_types": ["INFERRED", "ASSERTED"]}, "ttl_days": 300, "action": "erase"},
        ]
    },
}
FLOORS = {
    "id": "floors",
    "version": "1.0.0",
    "params": {
        "on_reinforce": "continue",
        "restore_grace_days": 90,
        "profiles": {
            "SLOW": {"lambda": 0.005, "salience_floor": 0.2},
            "MEDIUM": {"lambda": 0.03, "curve": "power_law", "scale_days": 3.5, "clock": "created"},
            "FAST": {"lambda": 0.07, "salience_floor": 0.4, "floor_after": 1},
            "RAPID": {"lambda": 0.4, "clock": "last_accessed", "by_use": {"kind": "logarithmic", "alpha": 0.5}},
        },
        "tier_thresholds": {"warning": 0.3, "archive": 0.25, "force_archive": 0.2, "deprecate_by_confidence": 0.3},
        "retention": [{"ttl_days": 2000, "clock": "last_reinforced", "action": "archive"}],
    },
}
BUILT_IN = ("default", "archivist", "spaced", "recency", "permastore", "fsrs")
NAMESPACES = (*BUILT_IN, "expires", "floors")
FIRST: list[list[dict[str, Any]]] = [
    [],
    [{"op": "REINFORCE", "signal": "CONFIRMED"}],
    [{"op": "PENALTY", "signal": "CORRECTED"}],
    [{"op": "ARCHIVE"}],
    [{"op": "ARCHIVE"}, {"op": "RESTORE"}],
    [{"op": "DEPRECATE"}],
    [{"op": "PIN"}],
    [{"op": "PIN"}, {"op": "UNPIN"}],
    [{"op": "HOLD"}],
    [{"op": "SUPPRESS", "freeze": True}],
    [{"op": "SUPPRESS", "freeze": True, "expires_at": "2026-06-11T07:30:01.25Z"}],
]
"""What is asked of a memory on day 9, by its number."""


def later(memory: Memory) -> list[dict[str, Any]]:
    """What is asked of a memory on day 30, when some were warned and archived: a third is left alone."""
    if memory.id.int % 3 == 0:
        return []
    if memory.pinned or memory.held:
        return [{"op": "UNPIN" if memory.pinned else "RELEASE"}]
    expired = memory.expires_at is not None and memory.due_at is None
    if memory.lifecycle_state == "ARCHIVED" and not expired:
        return [{"op": "RESTORE"}]
    if memory.lifecycle_state == "ACTIVE" and memory.warned and memory.id.int % 2:
        return [{"op": "REINFORCE", "signal": "REFERENCED"}]
    return [{"op": "ACCESS"}]


def live(ebb: Ebbtide, clock: Clock) -> None:
    """Thirty days of some hundreds of memories; the last pass is a week ago, so something is overdue."""
    for document in (EXPIRES, FLOORS):
        ebb.register_policy(Policy.model_validate(document))
    kinds = [kind for kind in EpistemicType if kind != EpistemicType.DEPRECATED]
    for namespace in NAMESPACES:
        if namespace != "default":
            ebb.ask({"op": "EVENT", "namespace": namespace, "ref": "begin", "content": "begins"})
            ebb.assign_policy(f"{namespace}@1.0.0", namespace=namespace)
        ebb.ask(*(belief(namespace, n, *each) for n, each in enumerate(product(DecayProfile, kinds, (0, 1)))))
    clock.forward(days=9, seconds=0.3)
    for namespace in NAMESPACES:
        asked = ((n, request) for n in range(60) for request in FIRST[n % len(FIRST)])
        ebb.ask(*({**request, "namespace": namespace, "object": f"n{n}"} for n, request in asked))
    clock.forward(days=14)
    ebb.organise(tasks=["lifecycle", "retention", "decay_rapid_fast"])
    clock.forward(days=7, hours=5)
    for namespace in NAMESPACES:
        found = sorted(ebb.memories(namespace=namespace, everything=True), key=lambda memory: str(memory.id))
        asked_of = ((memory.ref, request) for memory in found for request in later(memory))
        ebb.ask(*({**request, "namespace": namespace, "object": ref} for ref, request in asked_of))


def belief(namespace: str, number: int, profile: DecayProfile, kind: EpistemicType, half: int) -> dict[str, Any]:
    return {
        "op": "ASSERT",
        "namespace": namespace,
        "ref": f"n{number}",
        "value": f"{number}",
        "object_type": TYPES[(number * 5 + half) % len(TYPES)],
        "epistemic_type": kind,
        "source_type": "IMPORTED",
        "decay_profile": profile,
        "salience": round(0.08 + (number * 0.37) % 0.9, 3),
        "confidence": round(0.2 + (number * 0.23) % 0.75, 3),
        "condition": "TRUE" if kind == EpistemicType.CONDITIONAL and half else None,
    }


def foreseen(ebb: Ebbtide, namespace: str) -> dict[UUID, list[Decided]]:
    """What is foreseen of all memories of a namespace."""
    with ebb.store.begin() as connection:
        shelf = Shelf(connection)
        return {
            object_id: [
                (step.rule, step.at, step.state.lifecycle_state, step.salience, step.confidence, step.action == "erase")
                for step in forecast(state, shelf.terms(namespace, state.policy_id, state.policy_version))
            ]
            for object_id, state in live_states(connection, namespace).items()
        }


def happened(entries: list[Entry]) -> list[Decided]:
    """What the log says that rules did, in its order."""
    found: list[Decided] = []
    scores: tuple[float, float] = (math.nan, math.nan)
    for entry in entries:
        said = json.loads(entry.payload)
        if entry.op_type == "DECAY_WARNING":
            found.append(("warning", entry.effective_at, "ACTIVE", said["salience"], None, False))
        elif entry.op_type == "DECAY_APPLIED":
            scores = (entry.salience or 0.0, entry.confidence or 0.0)
        elif entry.op_type in ("ARCHIVE", "DEPRECATE"):
            found.append((said["reason"], entry.effective_at, str(entry.lifecycle_state), *scores, False))
        elif entry.op_type == "TOMBSTONE":
            assert said["reason"] == "retention_policy_expiry"
            erases = said["record"]["after"]["erased_at"] is not None
            scores = (entry.salience or 0.0, entry.confidence or 0.0)
            found.append(("ttl", entry.effective_at, str(entry.lifecycle_state), *scores, erases))
    return found


def logged(told: list[Decided]) -> list[Decided]:
    """What of a forecast the log can show: no confidence of a warning."""
    return [(*one[:4], None if one[0] == "warning" else one[4], one[5]) for one in told]


def since(ebb: Ebbtide, namespace: str, seq: int) -> dict[UUID, list[Decided]]:
    entries = [e for e in entries_of(ebb, namespace) if e.seq > seq and e.stream_type == "object"]
    return {stream: happened(mine) for stream, mine in by_stream(entries).items()}


class Lived:
    """A store that has lived, closed, with what was foreseen and explained at its last instant."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url, self.clock = kind, url, Clock()
        with Ebbtide.open(url, clock=self.clock, entropy=counted_entropy()) as ebb, ebb.store.session():
            live(ebb, self.clock)
            self.at = self.clock.now
            self.seq = {name: len(entries_of(ebb, name)) for name in NAMESPACES}
            self.foreseen = {name: foreseen(ebb, name) for name in NAMESPACES}
            self.explained = {
                (name, number): ebb.explain(f"n{number}", namespace=name)
                for place, name in enumerate(NAMESPACES)
                for number in range(place, 60, 19)
            }
            assert {name: len(entries_of(ebb, name)) for name in NAMESPACES} == self.seq, "explaining writes nothing"


@pytest.fixture(scope="module", params=DATABASES)
def lived(request: pytest.FixtureRequest, make_url_for_module) -> Lived:
    return Lived(request.param, make_url_for_module(request.param))


@pytest.fixture
def copied(lived: Lived, make_url_for) -> Iterator[tuple[Ebbtide, Clock]]:
    """A copy of the store as it was left, and its clock."""
    clock = Clock()
    clock.now = lived.at
    url = make_url_for(lived.kind, of=lived.url)
    with Ebbtide.open(url, clock=clock, entropy=counted_entropy()) as ebb, ebb.store.session():
        yield ebb, clock


def test_enough_of_everything_is_foreseen(lived: Lived) -> None:
    """The tests below would mean little otherwise."""
    told = [one for each in lived.foreseen.values() for one in each.values()]
    rules = [step for each in told for step in each]
    for rule in ("warning", "archive", "force_archive", "deprecate_by_confidence", "ttl"):
        assert sum(step[0] == rule for step in rules) > 4, rule
    assert sum(step[1] <= lived.at for step in rules) > 5, "overdue"
    assert sum(step[5] for step in rules) > 4, "erased"
    assert {tuple(step[0] for step in each) for each in told} >= {
        (),
        ("warning", "archive", "ttl"),
        ("warning", "archive"),
        ("warning", "ttl"),
        ("archive",),
        ("ttl",),
    }
    assert sum(not each for each in told) > 20, "pinned, frozen, PERMANENT or gone"


def test_one_late_pass_does_what_is_foreseen(lived: Lived, copied) -> None:
    ebb, clock = copied
    clock.forward(days=60 * 365.25)
    ebb.organise(tasks=["lifecycle", "retention"], no_guard=True)
    for namespace in NAMESPACES:
        done = since(ebb, namespace, lived.seq[namespace])
        for object_id, told in lived.foreseen[namespace].items():
            by_now = [step for step in logged(told) if step[1] <= clock.now - instant.DAY]
            assert done.get(object_id, []) == by_now, (namespace, object_id)


def test_uneven_passes_do_what_is_foreseen(lived: Lived, copied) -> None:
    ebb, clock = copied
    for days in (1, 40, 7.3, 365):
        clock.forward(days=days)
        ebb.organise(tasks=["lifecycle", "retention", "decay_rapid_fast"], no_guard=True)
    for namespace in NAMESPACES:
        done = since(ebb, namespace, lived.seq[namespace])
        for object_id, told in lived.foreseen[namespace].items():
            found = done.get(object_id, [])
            assert found == logged(told)[: len(found)], (namespace, object_id)
            assert all(step[1] > clock.now - instant.DAY for step in told[len(found) :]), (namespace, object_id)


def test_walking_every_slot_does_what_is_foreseen(lived: Lived, copied) -> None:
    ebb, clock = copied
    begin = clock.iso
    clock.forward(days=25)
    ebb.walk(begin, clock.iso, namespace="expires", tasks=["lifecycle", "retention"])
    done = since(ebb, "expires", lived.seq["expires"])
    for object_id, told in lived.foreseen["expires"].items():
        by_now = [step for step in logged(told) if step[1] <= clock.now - instant.DAY]
        assert done.get(object_id, [])[: len(by_now)] == by_now, object_id


def test_an_explanation_has_the_forecast_and_the_scores_that_are_shown(lived: Lived) -> None:
    assert len(lived.explained) > 24
    for (namespace, number), told in lived.explained.items():
        steps = lived.foreseen[namespace][told.memory.id]
        assert [
            (one.rule, instant.to_micros(one.at), one.to_state, one.salience, one.confidence, one.action == "erase")
            for one in told.forecast
        ] == steps
        assert [one.overdue for one in told.forecast] == [step[1] <= lived.at for step in steps]
        place = told.curve.at.index(max(at for at in told.curve.at if at <= told.as_of))
        assert told.curve.at == sorted(told.curve.at)
        assert told.curve.at[0] == told.memory.created_at, (namespace, number)
        if not any(one.overdue for one in told.forecast):
            shown = (told.curve.salience[place], told.curve.confidence[place])
            assert shown == pytest.approx((told.memory.salience, told.memory.confidence), abs=0.03)
        assert formula_of(told.segment.confidence_formula) == pytest.approx(told.memory.confidence, abs=2e-9)
        if not told.flags.pinned:
            assert formula_of(told.segment.salience_formula) == pytest.approx(told.memory.salience, abs=2e-9)


def formula_of(text: str) -> float:
    """The value of a formula as it is printed, worked out; what stands behind its = must be the same."""
    formula, value = text.split(" = ")
    for sign, python in (("·", "*"), ("−", "-"), ("^", "**")):
        formula = formula.replace(sign, python)
    found: float = eval(formula, {"exp": math.exp, "max": max, "min": min})
    assert found == pytest.approx(float(value), abs=2e-9), text
    return found


def test_what_was_explained_then_is_explained_so_later(lived: Lived, copied) -> None:
    """By `known_at`, whatever happened since; by `as_of` too, where nothing was overdue then."""
    ebb, clock = copied
    then = clock.iso
    clock.forward(days=500)
    ebb.organise()
    for (namespace, number), told in list(lived.explained.items())[::3]:
        ref = f"n{number}"
        gone = ebb.memory(ref, namespace=namespace).erased_at is not None
        known = ebb.explain(ref, namespace=namespace, known_at=then)
        assert plain(known, gone) == plain(told, gone), (namespace, ref)
        if not any(one.overdue for one in told.forecast):
            assert plain(ebb.explain(ref, namespace=namespace, as_of=then), gone) == plain(told, gone)


def plain(told: Any, gone: bool) -> dict[str, Any]:
    """An explanation without what it was asked with, and without content where that was erased."""
    found = told.model_dump(mode="json", exclude={"known_at"})
    if gone:
        found["memory"]["value"] = None
    return found


# What stands apart from the rules


def test_a_centrality_to_come_is_told_of(ebb, clock) -> None:
    """κ = 0.05 · 1/1 at the next Monday's slot; the forecast is that of the present segment until then."""
    ebb.ask(*(belief("default", n, DecayProfile.SLOW, EpistemicType.ASSERTED, 0) for n in (0, 1)))
    ebb.organise()
    clock.forward(days=1)
    ebb.ask({"op": "RELATE", "edge_type": "ABOUT", "source": "n0", "target": "n1", "confidence": 1.0})
    assert ebb.explain("n0").next_centrality is None
    told = ebb.explain("n1")
    assert told.next_centrality is not None
    assert (told.next_centrality.now, told.next_centrality.becomes) == (0.0, 0.05)
    assert instant.iso(instant.to_micros(told.next_centrality.slot)) == "2026-03-09T00:00:00Z"
    clock.set("2026-03-09T01:00:00Z")
    ebb.organise()
    after = ebb.explain("n1")
    assert after.next_centrality is None
    assert (after.segment.centrality, after.segment.begins_at) == (0.05, told.next_centrality.slot)
    assert after.forecast[0].at > told.forecast[0].at


def test_an_erasing_ttl_waits_for_a_held_summary(ebb, clock) -> None:
    document = {"id": "short", "version": "1.0.0", "params": {"retention": [{"ttl_days": 10, "action": "erase"}]}}
    ebb.register_policy(Policy.model_validate(document))
    ebb.ask(belief("default", 5, DecayProfile.SLOW, EpistemicType.ASSERTED, 0))
    ebb.assign_policy("short@1.0.0")
    ebb.ask(
        {
            "op": "ASSERT",
            "ref": "summary",
            "value": "all of it",
            "object_type": "SUMMARY",
            "epistemic_type": "INFERRED",
            "source_type": "SYSTEM_INFERRED",
            "evidence": ["n5"],
        },
        {"op": "HOLD", "object": "summary"},
    )
    told = ebb.explain("n5")
    assert [step.rule for step in told.forecast] == ["warning"], "what comes before it comes"
    assert told.waits_for is not None
    assert told.waits_for in told.summary
    clock.forward(days=20)
    ebb.organise()
    assert ebb.memory("n5").erased_at is None
    ebb.ask({"op": "RELEASE", "object": "summary"})
    again = ebb.explain("n5")
    assert again.waits_for is None
    assert [(step.rule, step.action, step.overdue) for step in again.forecast] == [("ttl", "erase", True)]
