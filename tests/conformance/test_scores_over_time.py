"""What time and use do to scores, as a caller sees it: what went wrong elsewhere, and does not here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from ledger import check, entries_of, read

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.policy.document import policy_from

DAY, SECOND = instant.DAY, instant.SECOND
BEGIN = instant.parse("2026-03-02T00:00:00Z")
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


@pytest.fixture
def ebb(url, clock) -> Iterator[Ebbtide]:
    with Ebbtide.open(url, clock=clock) as opened, opened.store.db.connect():
        yield opened


def remember(ebb: Ebbtide, ref: str, **said: Any) -> None:
    ebb.ask(BELIEF | {"ref": ref, "value": ref} | said)


def after(days: float, seconds: int = 0) -> Any:
    return instant.to_datetime(BEGIN + round(days * DAY) + seconds * SECOND)


# What was seen keeps its confidence for half a year


def test_what_was_observed_keeps_its_confidence_to_the_180th_day(ebb, clock) -> None:
    """One boundary, for whoever asks: reading, decaying, and judging."""
    remember(ebb, "seen", epistemic_type="OBSERVED")
    clock.forward(days=181)
    read_at = {days: ebb.memory("seen", as_of=after(days)).confidence for days in (0, 1, 179, 180, 181)}
    assert {read_at[days] for days in (0, 1, 179, 180)} == {0.90}
    assert read_at[181] == pytest.approx(0.90 * math.exp(-0.0025), abs=1e-9)
    assert 0.90 - 1e-7 < ebb.memory("seen", as_of=after(180, seconds=1)).confidence < 0.90
    passed = []
    for days in (175, 182):  # weekly passes, on Mondays
        clock.now = BEGIN + days * DAY
        ebb.organise()
        passed.append(ebb.memory("seen").stored_confidence)
    assert passed == [0.90, pytest.approx(0.90 * math.exp(-0.0025 * 2), abs=1e-9)]


def test_being_shown_keeps_it_for_another_180_days_and_nothing_else(ebb, clock) -> None:
    remember(ebb, "seen", epistemic_type="OBSERVED")
    clock.forward(days=200)
    before = ebb.memory("seen")
    ebb.access("seen")
    at_access = ebb.memory("seen")
    assert (at_access.salience, at_access.confidence) == (before.salience, before.confidence)
    assert before.confidence == pytest.approx(0.90 * math.exp(-0.0025 * 20), abs=1e-9)
    clock.forward(days=181)
    assert ebb.memory("seen", as_of=after(380)).confidence == before.confidence
    assert ebb.memory("seen").confidence == pytest.approx(before.confidence * math.exp(-0.0025), abs=1e-9)
    assert ebb.memory("seen").salience == pytest.approx(0.5 * math.exp(-0.005 * 381), abs=1e-9)


def test_what_was_not_observed_ages_from_the_first_day(ebb, clock) -> None:
    remember(ebb, "said")
    clock.forward(days=1)
    assert ebb.memory("said").confidence == pytest.approx(0.80 * math.exp(-0.01), abs=1e-9)


# How often passes run


def test_sixty_passes_of_a_minute_give_what_one_of_an_hour_gives(ebb, clock) -> None:
    """A rate is per day, not per tick."""
    for name, hours in (("minutely", 1 / 60), ("hourly", 1)):
        schedule = dict.fromkeys(("decay_rapid_fast", "decay_medium"), hours)
        ebb.register_policy(policy_from({"id": name, "version": "1.0.0", "params": {"schedule": schedule}}))
        ebb.assign_policy(f"{name}@1.0.0", namespace=name)
        for kind in ("HYPOTHETICAL", "INFERRED", "ASSERTED"):
            remember(ebb, kind, namespace=name, epistemic_type=kind)
    clock.forward(hours=1)
    runs = ebb.walk(after(0), None)
    assert len([run for run in runs if run.namespace_id == "minutely" and run.task == "decay_medium"]) >= 60
    found = []
    for name in ("minutely", "hourly"):
        live = check(ebb, name).live.values()
        found.append({state.ref: (state.salience, state.confidence, state.decayed_at) for state in live})
    assert found[0] == found[1]
    assert found[0]["HYPOTHETICAL"][0] == pytest.approx(0.5 * math.exp(-0.2 / 24), abs=1e-9)


def test_a_time_ahead_of_the_clock_is_age_zero(ebb, clock) -> None:
    remember(ebb, "soon", effective_at=instant.iso(clock.now + 4 * instant.MINUTE))
    ebb.organise()
    memory = ebb.memory("soon")
    assert (memory.salience, memory.confidence) == (0.5, 0.80)
    check(ebb)


# Use


def test_showing_is_not_confirming(ebb, clock) -> None:
    """Reading writes nothing; an ACCESS is written, and lifts nothing."""
    remember(ebb, "shown")
    remember(ebb, "hidden")
    clock.forward(days=3)
    before = entries_of(ebb)
    for _ in range(3):
        ebb.memories(limit=1)
        ebb.memory("shown")
    assert entries_of(ebb) == before
    ebb.ask(*[{"op": "ACCESS", "object": "shown"}] * 50)
    shown, hidden = ebb.memory("shown"), ebb.memory("hidden")
    assert (shown.salience, shown.confidence) == (hidden.salience, hidden.confidence)
    assert (shown.reinforced_at, shown.accessed_at) == (None, instant.to_datetime(clock.now))


def test_an_old_boost_fades_before_a_new_one_comes(ebb, clock) -> None:
    remember(ebb, "known", decay_profile="PERMANENT")
    ebb.reinforce("known", signal="CONFIRMED")
    clock.forward(days=365)
    before = ebb.memory("known").salience
    ebb.reinforce("known", signal="REFERENCED", actor="another")
    [state] = read(ebb).live.values()
    assert state.boost == pytest.approx(0.08, abs=1e-9)
    baseline = 0.5 + 0.15 * 0.5 * 0.5
    assert before == pytest.approx(baseline, abs=1e-9)
    assert state.salience == pytest.approx(baseline + 0.08 * 0.5 * (1 - baseline) + 0.08, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.92, 0.95, 1.0])
def test_reinforcing_at_or_above_the_ceiling_never_lowers(ebb, clock, confidence) -> None:
    remember(ebb, "sure", source_type="IMPORTED", confidence=confidence, salience=1.0)
    for signal in ("CONFIRMED", "REFERENCED", "TASK_COMPLETED_WITH"):
        ebb.reinforce("sure", signal=signal)
        memory = ebb.memory("sure")
        assert (memory.salience, memory.confidence) == (1.0, confidence)
    clock.forward(days=20)
    before = ebb.memory("sure")
    ebb.reinforce("sure", signal="CONFIRMED", actor="another")
    now = ebb.memory("sure")
    assert now.confidence >= before.confidence
    assert now.salience >= before.salience


def test_an_archived_memory_that_is_shown_stays_as_it_left(ebb, clock) -> None:
    """Time stands for it: being shown moves no score, whatever its curve counts."""
    ebb.assign_policy("permastore@1.0.0")
    remember(ebb, "gone", epistemic_type="HYPOTHETICAL")
    clock.forward(days=60)
    ebb.organise()
    before = ebb.memory("gone")
    assert before.lifecycle_state == "ARCHIVED"
    ebb.ask(*[{"op": "ACCESS", "object": "gone"}] * 3)
    now = ebb.memory("gone")
    assert (now.salience, now.confidence) == (before.salience, before.confidence)
    assert (now.stored_salience, now.stored_confidence) == (now.salience, now.confidence)
