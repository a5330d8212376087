"""What a pass does to what is due: all of it, at its instant, with the entries the rules name, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from ledger import Ledger, check, differences, read

from ebbtide import Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.identity import id_of_ref
from ebbtide.model.state import MemoryState

DAY, SECOND = instant.DAY, instant.SECOND
BEGIN = instant.parse("2026-03-02T00:00:00Z")
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}
LESSON = BELIEF | {"epistemic_type": "INFERRED", "source_type": "USER_DEMONSTRATED", "confidence": 0.95}
DECISIONS = ("DECAY_APPLIED", "DECAY_WARNING", "ARCHIVE", "DEPRECATE", "TOMBSTONE", "ORGANISER_RUN", "POLICY_ASSIGNED")


@pytest.fixture
def ebb(url, clock) -> Iterator[Ebbtide]:
    """A store whose passes take three objects at a time."""
    with Ebbtide.open(url, clock=clock, chunk_size=3) as opened, opened.store.db.connect():
        yield opened


def remember(ebb: Ebbtide, *refs: str, **said: Any) -> None:
    ebb.ask(*(BELIEF | {"ref": ref, "value": ref} | said for ref in refs))


def of(ledger: Ledger, ref: str) -> tuple[MemoryState, list[Entry]]:
    """A memory's state and entries."""
    mine = id_of_ref(ledger.namespace, ref)
    return ledger.live[mine], [entry for entry in ledger.entries if entry.stream_id == mine]


def sinks(salience: float, threshold: float, rate: float) -> int:
    """The first whole second after `BEGIN` at which salience·exp(−rate·days), nine decimals, is below a threshold."""
    second = math.floor(math.log(salience / threshold) / rate * 86_400) - 2
    while math.floor(salience * math.exp(-rate * second / 86_400) * 1e9 + 0.5) / 1e9 >= threshold:
        second += 1
    return BEGIN + second * SECOND


# Nothing due is left, nothing else is touched


def test_every_due_memory_is_visited_in_one_pass(ebb, clock) -> None:
    """The oldest too, however many chunks it takes: the chunks' ranges join, from the first to the last object."""
    refs = [f"m{n}" for n in range(25)]
    remember(ebb, *refs)
    clock.forward(days=30)
    [run] = ebb.organise(tasks=["lifecycle"], no_guard=True)
    ledger = check(ebb)
    assert {state.lifecycle_state for state in ledger.live.values()} == {"DEPRECATED"}
    assert (run.examined, run.warned, run.deprecated, run.entries) == (25, 25, 25, 75)
    reports = [json.loads(entry.payload) for entry in ledger.entries if entry.op_type == "ORGANISER_RUN"]
    assert len(reports) == 9
    assert (reports[0]["after"], reports[-1]["to"]) == (None, None)
    assert [one["to"] for one in reports[:-1]] == [one["after"] for one in reports[1:]]
    assert sum(one["deprecated"] for one in reports) == 25
    assert [one["status"] for one in reports] == ["running"] * 8 + ["done"]


def test_a_pinned_memory_is_not_touched(ebb, clock) -> None:
    remember(ebb, "kept", "left")
    ebb.pin("kept")
    before = of(read(ebb), "kept")
    for days in (1, 30, 365):
        clock.forward(days=days)
        ebb.organise()
    after = check(ebb)
    assert of(after, "kept") == before
    assert of(after, "left")[0].lifecycle_state == "DEPRECATED"
    assert (ebb.memory("kept").salience, ebb.memory("kept").lifecycle_state) == (1.0, "ACTIVE")


def test_a_decay_pass_moves_no_clock_but_its_own(ebb, clock) -> None:
    """Scores and `decayed_at`; no segment begins, so nothing later comes from an already decayed score."""
    remember(ebb, "a", epistemic_type="ASSERTED")
    ebb.access("a")
    ebb.reinforce("a", signal="REFERENCED")
    before, _ = of(read(ebb), "a")
    clock.forward(days=3)
    ebb.organise()
    after, entries = of(check(ebb), "a")
    assert entries[-1].op_type == "DECAY_APPLIED"
    changed = {"version", "head_hash", "salience", "confidence", "decayed_at"}
    assert differences(before, after).keys() == changed
    assert (after.fact_version, after.decayed_at) == (before.fact_version, clock.now)


def test_what_has_not_changed_is_not_written(ebb, clock) -> None:
    remember(ebb, "for good", decay_profile="PERMANENT")
    clock.forward(days=400)
    runs = ebb.organise()
    assert {run.entries for run in runs} == {0}
    assert {run.status for run in runs} == {"nothing_due"}
    assert len(of(check(ebb), "for good")[1]) == 1


# A warning, a transition


def test_a_late_run_writes_the_overdue_warning_first_and_then_the_transition(ebb, clock) -> None:
    """In one run, each at the instant its condition first held, with the scores of that instant."""
    remember(ebb, "hunch")
    clock.forward(days=30)
    ebb.organise(tasks=["lifecycle"])
    ledger = check(ebb)
    state, (_, warning, applied, moved) = of(ledger, "hunch")
    warned_at, left_at = sinks(0.5, 0.30, 0.2), sinks(0.5, 0.10, 0.2)
    assert (warning.op_type, warning.effective_at) == ("DECAY_WARNING", warned_at)
    assert (warning.lifecycle_state, warning.salience) == (None, None)
    assert (applied.op_type, applied.effective_at) == ("DECAY_APPLIED", left_at)
    assert (moved.op_type, moved.effective_at, moved.lifecycle_state) == ("DEPRECATE", left_at, "DEPRECATED")
    said = json.loads(applied.payload)
    assert said["thresholds_triggered"] == ["archive"]
    assert (said["salience"], said["confidence"]) == (applied.salience, applied.confidence)
    assert applied.salience == pytest.approx(0.1, abs=1e-6)
    assert applied.confidence == pytest.approx(0.35 * math.exp(-0.1 * (left_at - BEGIN) / DAY), abs=1e-9)
    assert json.loads(moved.payload)["deprecated_by"]
    assert {entry.recorded_at for entry in (warning, applied, moved)} == {clock.now}
    batch = [b["batch"] for b in ledger.batches for e in (applied, moved) if 0 <= e.seq - b["first_seq"] < b["entries"]]
    assert len(batch) == 2
    assert len(set(batch)) == 1
    assert (state.salience, state.confidence, state.stopped_at) == (applied.salience, applied.confidence, left_at)


def test_what_is_believed_is_archived_and_what_hardly_is_deprecated(ebb, clock) -> None:
    remember(ebb, "lesson", "rumour", **LESSON | {"confidence": 0.95})
    remember(ebb, "doubt", **LESSON | {"confidence": 0.2})
    ebb.penalise("rumour", signal="CORRECTED")
    ebb.penalise("rumour", signal="CORRECTED")
    clock.forward(days=60)
    ebb.organise(tasks=["lifecycle"])
    ledger = check(ebb)
    found = {ref: of(ledger, ref)[0].lifecycle_state for ref in ("lesson", "rumour", "doubt")}
    assert found == {"lesson": "ARCHIVED", "rumour": "DEPRECATED", "doubt": "DEPRECATED"}
    why = {ref: json.loads(of(ledger, ref)[1][-1].payload)["reason"] for ref in found}
    assert why == {"lesson": "archive", "rumour": "archive", "doubt": "deprecate_by_confidence"}
    assert of(ledger, "lesson")[0].epistemic_type == "INFERRED"


def test_a_warning_is_written_once(ebb, clock) -> None:
    remember(ebb, "job", epistemic_type="ASSERTED")
    for _ in range(5):
        clock.forward(days=12)
        ebb.organise()
    _, entries = of(check(ebb), "job")
    warnings = [entry.effective_at for entry in entries if entry.op_type == "DECAY_WARNING"]
    assert warnings == [sinks(0.5, 0.30, 0.02)]


def test_every_decision_names_its_policy(ebb, clock) -> None:
    remember(ebb, "a", "b", **LESSON)
    clock.forward(days=10)
    ebb.organise()
    ebb.assign_policy("archivist@1.0.0")
    clock.forward(days=80)
    ebb.organise()
    current, seen = "default@1.0.0", set()
    for entry in check(ebb).entries:
        if entry.op_type == "POLICY_ASSIGNED":
            current = f"{entry.policy_id}@{entry.policy_version}"
        if entry.op_type in DECISIONS:
            assert f"{entry.policy_id}@{entry.policy_version}" == current
            seen.add((entry.op_type, current))
    assert {("DECAY_WARNING", "default@1.0.0"), ("ARCHIVE", "archivist@1.0.0")} <= seen


# What arrives before the run that would have executed a rule


@pytest.mark.parametrize(
    ("fact", "policy", "wins"),
    [
        ({"op": "REINFORCE", "signal": "CONFIRMED"}, "default@1.0.0", True),
        ({"op": "PIN"}, "default@1.0.0", True),
        ({"op": "SUPERSEDE", "value": "newer"}, "default@1.0.0", True),
        ({"op": "ACCESS"}, "default@1.0.0", False),
        ({"op": "ACCESS"}, "spaced@1.0.0", True),
    ],
)
def test_what_begins_a_segment_before_the_run_wins(ebb, clock, fact, policy, wins) -> None:
    ebb.assign_policy(policy)
    remember(ebb, "hunch")
    clock.forward(days=40)
    ebb.ask(fact | {"object": "hunch"})
    ebb.organise()
    state, entries = of(check(ebb), "hunch")
    left = [entry.effective_at for entry in entries if entry.op_type in ("ARCHIVE", "DEPRECATE")]
    assert left == ([] if wins else [sinks(0.5, 0.10, 0.2)])
    expected = "SUPERSEDED" if fact["op"] == "SUPERSEDE" else "ACTIVE" if wins else "DEPRECATED"
    assert state.lifecycle_state == expected


def test_a_penalty_before_the_run_wins_and_the_rule_is_judged_anew(ebb, clock) -> None:
    remember(ebb, "hunch")
    clock.forward(days=40)
    ebb.penalise("hunch", signal="IGNORED_REPEATEDLY")
    clock.forward(days=1)
    ebb.organise()
    _, entries = of(check(ebb), "hunch")
    assert (entries[-1].op_type, entries[-1].effective_at) == ("DEPRECATE", BEGIN + 40 * DAY)


def test_a_restored_memory_has_its_days_of_grace(ebb, clock) -> None:
    """It is not archived again that night, but exactly when its grace ends, if it has sunk by then."""
    ebb.assign_policy("archivist@1.0.0")
    remember(ebb, "hunch", salience=0.2)  # comes back at 0.30, and sinks below 0.10 on the sixth day
    clock.forward(days=20)
    ebb.organise()
    clock.forward(hours=5.5)
    ebb.restore("hunch")
    restored_at = clock.now
    for days in range(1, 8):
        clock.now = restored_at // DAY * DAY + days * DAY
        ebb.organise()
        assert ebb.memory("hunch").lifecycle_state == "ACTIVE"
    clock.forward(days=1)
    ebb.organise()
    state, entries = of(check(ebb), "hunch")
    assert (state.lifecycle_state, entries[-1].effective_at) == ("ARCHIVED", restored_at + 7 * DAY)


# Looking before leaping


def test_a_dry_run_writes_nothing_and_says_what_the_run_then_does(ebb, clock) -> None:
    remember(ebb, *(f"m{n}" for n in range(7)))
    remember(ebb, *(f"lesson{n}" for n in range(4)), **LESSON)
    remember(ebb, "fact", epistemic_type="OBSERVED")
    clock.forward(days=35)
    before = read(ebb)
    promised = ebb.organise(dry_run=True)
    assert asdict(read(ebb)) == asdict(before)
    assert ebb.organise(dry_run=True) == promised
    assert ebb.organise() == promised
    assert sum(run.entries for run in promised) == len(
        [e for e in check(ebb).entries[len(before.entries) :] if e.stream_type == "object"]
    )


def test_what_left_is_not_retrieved_and_filters_come_before_limits(ebb, clock) -> None:
    ebb.assign_policy("archivist@1.0.0")
    remember(ebb, *(f"gone{n}" for n in range(12)), **LESSON)
    clock.forward(days=60)
    remember(ebb, *(f"maybe{n}" for n in range(12)), salience=0.9)
    remember(ebb, "here", "here too", "and here", epistemic_type="OBSERVED", salience=0.2)
    ebb.organise()
    assert {memory.ref for memory in ebb.memories(limit=3)} == {"here", "here too", "and here"}
    everything = {memory.ref: memory for memory in ebb.memories(everything=True)}
    assert len(everything) == 27
    assert {everything[f"gone{n}"].withheld for n in range(12)} == {"archived"}
    assert not any(everything[f"gone{n}"].eligible for n in range(12))
    with pytest.raises(Refused):
        ebb.reinforce("gone1", signal="CONFIRMED")
