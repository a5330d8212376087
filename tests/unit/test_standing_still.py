"""Where time stands still: pinned objects and those that left ACTIVE; and how it goes on."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial

import pytest
from beliefs import DEFAULT, T0, after, belief, own, shipped
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import LifecycleState, PenaltySignal

near = partial(pytest.approx, abs=1.5e-9)


def pinned_between(state: MemoryState, terms: Terms, start: int, end: int) -> MemoryState:
    return facts.unpinned(facts.pinned(state, terms, start), terms, end)


# PIN


def test_a_pinned_object_shows_one_and_keeps_its_confidence() -> None:
    state = facts.pinned(belief(), DEFAULT, after(10))
    for days in (10, 11, 100, 36_525):
        assert facts.shown(state, DEFAULT, after(days)) == (1.0, near(0.8 * math.exp(-0.1)))
    assert (state.salience, state.pinned, state.stopped_at) == (1.0, True, after(10))
    assert state.decaying == 0.5  # a flag, not the number


def test_pin_stops_the_parts_too() -> None:
    state = facts.pinned(replace(belief(), boost=0.40), DEFAULT, after(10))
    for days in (10, 100, 1000):
        scores = facts.standing(state, DEFAULT, after(days)).scores
        assert scores.decaying == near(0.5 * math.exp(-0.2))
        assert scores.boost == near(0.40 * math.exp(-1))


def test_nothing_is_due_of_a_pinned_object_whatever_its_scores() -> None:
    terms = own(retention=[{"ttl_days": 30}])
    state = facts.pinned(belief(terms, salience=0.01, confidence=0.01), terms, after(1))
    assert (state.due_at, state.due_rule, state.exit_at, state.exit_rule) == (None,) * 4
    assert state.expires_at is None


def test_pinning_twice_and_unpinning_the_unpinned_change_nothing() -> None:
    state = facts.pinned(belief(), DEFAULT, after(10))
    assert facts.pinned(state, DEFAULT, after(20)) == state
    free = belief()
    assert facts.unpinned(free, DEFAULT, after(20)) == free


# UNPIN


@given(
    terms=st.sampled_from([DEFAULT, shipped("permastore"), shipped("fsrs"), shipped("spaced")]),
    epistemic=st.sampled_from(["ASSERTED", "OBSERVED"]),
    pinned_on=st.floats(0, 400),
    pinned_for=st.sampled_from([100, 1, 1 / 86_400, 4000]),
    later=st.floats(0, 1000),
)
def test_unpin_goes_on_as_if_the_pinned_days_had_not_been(
    terms: Terms, epistemic: str, pinned_on: float, pinned_for: float, later: float
) -> None:
    """The scores afterwards are, bit by bit, those of an object shifted by the pinned days."""
    pinned_for = round(pinned_for * DAY)
    state = replace(belief(terms, epistemic_type=epistemic), boost=0.25)
    at = after(pinned_on)
    held, never = (pinned_between(state, terms, at, end) for end in (at + pinned_for, at))
    then = at + round(later * DAY)
    assert facts.standing(held, terms, then + pinned_for).scores == facts.standing(never, terms, then).scores
    for one, other in ((held.exit_at, never.exit_at), (held.due_at, never.due_at)):
        assert one == (None if other is None else other + pinned_for)


def test_unpin_after_100_days_by_hand() -> None:
    """Ten days before, a hundred pinned, twenty after: thirty days have passed for it."""
    state = pinned_between(replace(belief(), boost=0.25), DEFAULT, after(10), after(110))
    salience, confidence = facts.shown(state, DEFAULT, after(130))
    assert salience == near(0.5 * math.exp(-0.6) + 0.25 * math.exp(-3))
    assert confidence == near(0.8 * math.exp(-0.3))
    assert facts.shown(state, DEFAULT, after(110))[0] == near(0.5 * math.exp(-0.2) + 0.25 * math.exp(-1))


def test_a_fresh_object_pinned_for_100_days_is_exactly_the_same_object_later() -> None:
    state = pinned_between(belief(), DEFAULT, T0, after(100))
    later = belief(at=after(100))
    for days in (0, 1, 35, 80, 365):
        assert facts.shown(state, DEFAULT, after(100 + days)) == facts.shown(later, DEFAULT, after(100 + days))
    assert (state.due_at, state.exit_at) == (later.due_at, later.exit_at)


@pytest.mark.parametrize(("pinned_on", "flat_for"), [(0, 180), (50, 130), (179, 1), (180, 0), (300, 0)])
def test_what_was_left_of_the_180_days_is_left_after_the_pin(pinned_on: int, flat_for: int) -> None:
    """g = t0 + max(0, g − stop)."""
    state = pinned_between(belief(epistemic_type="OBSERVED"), DEFAULT, after(pinned_on), after(pinned_on + 100))
    assert state.confidence_from == after(pinned_on + 100 + flat_for)


def test_the_age_goes_on_where_it_stopped() -> None:
    """A power law that has aged 15 days goes on down its flat tail: 0.5·(1 + 15 + 9)^(−1/2)."""
    terms = own(profiles={"MEDIUM": {"lambda": 0.5, "curve": "power_law"}})
    state = pinned_between(belief(terms), terms, after(15), after(115))
    assert state.segment_age == 15 * DAY
    assert facts.shown(state, terms, after(124))[0] == near(0.5 * 25**-0.5)


def test_an_unpinned_object_at_one_decays() -> None:
    state = belief(salience=1.0)
    assert not state.pinned
    assert facts.shown(state, DEFAULT, after(10))[0] == near(math.exp(-0.2))
    freed = pinned_between(state, DEFAULT, T0, T0)
    assert facts.shown(freed, DEFAULT, after(10))[0] == near(math.exp(-0.2))
    assert freed.exit_at is not None


# Facts about a pinned object work on the values as they stand


def test_a_pinned_object_is_reinforced_where_it_stands() -> None:
    """Pinned on day 10 with c = 0.8·e^(−0.1) and boost 0.25·e^(−1); what comes on day 60 adds to these."""
    pinned = facts.pinned(replace(belief(), boost=0.25), DEFAULT, after(10))
    state = facts.reinforced(pinned, DEFAULT, after(60), 0.08)
    stood = 0.8 * math.exp(-0.1)
    assert state.confidence_base == near(stood + 0.08 * (1 - stood))
    assert state.boost == near(0.25 * math.exp(-1) + 0.08)
    assert state.decaying == near(0.52)
    assert (state.reinforced_at, state.stopped_at, state.salience) == (after(60), after(10), 1.0)
    free = facts.unpinned(state, DEFAULT, after(110))
    expected = 0.52 * math.exp(-0.2) + (0.25 * math.exp(-1) + 0.08) * math.exp(-1)
    assert facts.shown(free, DEFAULT, after(120))[0] == near(expected)


def test_a_pinned_object_is_penalised_where_it_stands() -> None:
    pinned = facts.pinned(belief(), DEFAULT, after(10))
    state = facts.penalised(pinned, DEFAULT, after(60), PenaltySignal.CORRECTED, 0.25)
    assert state.confidence_base == near(0.8 * math.exp(-0.1) * 0.75)
    assert state.decaying == near(0.5 * math.exp(-0.2) * 0.925)
    free = facts.unpinned(state, DEFAULT, after(110))
    assert facts.shown(free, DEFAULT, after(120))[0] == near(0.5 * math.exp(-0.4) * 0.925)


def test_a_pinned_observed_object_that_is_accessed_has_its_180_days_again_when_unpinned() -> None:
    pinned = facts.pinned(belief(epistemic_type="OBSERVED"), DEFAULT, after(50))
    state = facts.unpinned(facts.accessed(pinned, DEFAULT, after(60)), DEFAULT, after(150))
    assert state.confidence_from == after(150 + 180)
    assert state.accessed_at == after(60)


# Leaving ACTIVE, and coming back


@pytest.mark.parametrize("to", [LifecycleState.ARCHIVED, LifecycleState.SUPERSEDED, LifecycleState.DEPRECATED])
def test_what_is_not_active_does_not_decay(to: LifecycleState) -> None:
    state = facts.left(belief(), DEFAULT, after(10), to)
    assert state.lifecycle_state == to
    for days in (10, 1000):
        shown = facts.shown(state, DEFAULT, after(days))
        assert shown == (near(0.5 * math.exp(-0.2)), near(0.8 * math.exp(-0.1)))
    assert (state.due_at, state.exit_at) == (None, None)


@pytest.mark.parametrize(("salience", "raised"), [(0.2, 0.30), (0.30, 0.30), (0.5, 0.5)])
def test_restore_begins_at_the_baseline_or_the_warning_threshold(salience: float, raised: float) -> None:
    """baseline and d0 = max(baseline, warning threshold), b0 = 0, c0 as it stood, a0 = 0; nothing else."""
    old = replace(belief(salience=salience), boost=0.40, accessed_at=after(1), reinforced_at=after(2))
    gone = facts.left(old, DEFAULT, after(10), LifecycleState.ARCHIVED)
    back = facts.restored(gone, DEFAULT, after(200))
    assert (back.baseline, back.decaying, back.boost, back.segment_age) == (raised, raised, 0.0, 0)
    assert back.confidence_base == near(0.8 * math.exp(-0.1))
    assert (back.lifecycle_state, back.restored_at, back.stopped_at) == ("ACTIVE", after(200), None)
    assert back.salience == raised
    assert facts.shown(back, DEFAULT, after(210)) == (
        near(raised * math.exp(-0.2)),
        near(0.8 * math.exp(-0.2)),
    )
    kept = set(asdict(back)) - {
        "lifecycle_state", "restored_at", "stopped_at", "baseline", "decaying", "boost", "segment_at",
        "segment_age", "confidence_base", "confidence_from", "salience", "confidence", "warned",
        "due_at", "due_rule", "exit_at", "exit_rule",
    }  # fmt: skip
    assert all(getattr(back, name) == getattr(gone, name) for name in kept)


def test_restore_takes_the_policy_s_own_threshold() -> None:
    terms = own(tier_thresholds={"warning": 0.45})
    gone = facts.left(belief(terms, salience=0.2), terms, after(10), LifecycleState.ARCHIVED)
    assert facts.restored(gone, terms, after(20)).decaying == 0.45


def test_ttl_counts_from_a_restore() -> None:
    """Age, grace and ttl count from max(clock, restored_at)."""
    terms = own(retention=[{"ttl_days": 90, "clock": "created"}])
    gone = facts.left(belief(terms), terms, after(10), LifecycleState.ARCHIVED)
    assert gone.expires_at == after(90)  # in whatever lifecycle state
    assert facts.restored(gone, terms, after(20)).expires_at == after(110)


@pytest.mark.parametrize(("accessed", "flat_until"), [(None, 400), (100, 400), (390, 570)])
def test_a_restored_observed_object_keeps_its_180_days_since_it_was_accessed(
    accessed: int | None, flat_until: int
) -> None:
    """g = max(t0, accessed_at + 180 d): ACCESS is always recorded, also of what is archived."""
    state = belief(epistemic_type="OBSERVED")
    state = facts.left(state, DEFAULT, after(10), LifecycleState.ARCHIVED)
    if accessed is not None:
        state = facts.accessed(state, DEFAULT, after(accessed))
    back = facts.restored(state, DEFAULT, after(400))
    assert back.confidence_base == 0.8
    assert back.confidence_from == after(flat_until)
