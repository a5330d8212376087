"""What facts change of the future: a warning comes once, a restored object has its days of grace."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from beliefs import DEFAULT, T0, after, belief, own
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY, SECOND
from ebbtide.model.state import MemoryState
from ebbtide.model.words import LifecycleState, PenaltySignal


def warned(state: MemoryState) -> MemoryState:
    """The object once its DECAY_WARNING has been written: what is due next is its exit."""
    assert state.due_rule == "warning"
    return replace(state, warned=True, due_at=state.exit_at, due_rule=state.exit_rule)


def verdict(state: MemoryState, terms: Terms) -> tuple[float, float, str]:
    """Salience and confidence at the instant of the rule that is due, and the state it leads to."""
    there = facts.standing(state, terms, state.due_at).scores
    to = leaves_for(SCALAR, terms.by_profile[state.decay_profile], state.due_rule, there.confidence)
    return there.salience, there.confidence, to


# A warning comes once, until a segment begins at or above the threshold


def test_a_warned_object_is_not_warned_again_while_it_stays_below() -> None:
    state = warned(belief())
    for fact in (
        lambda s: facts.penalised(s, DEFAULT, after(30), PenaltySignal.IGNORED_REPEATEDLY, 0.05),
        lambda s: facts.accessed(s, DEFAULT, after(30)),
        lambda s: facts.unpinned(facts.pinned(s, DEFAULT, after(30)), DEFAULT, after(30)),
    ):
        after_it = fact(state)
        assert after_it.warned
        assert (after_it.due_at, after_it.due_rule) == (after_it.exit_at, "archive")


def test_a_segment_that_begins_above_the_threshold_may_be_warned_of_again() -> None:
    state = facts.reinforced(warned(belief()), DEFAULT, after(30), 0.15)
    assert not state.warned
    assert state.due_rule == "warning"
    at, before = (facts.shown(state, DEFAULT, when)[0] for when in (state.due_at, state.due_at - SECOND))
    assert at < 0.30 <= before


@pytest.mark.parametrize(("salience", "again"), [(0.299999999, False), (0.30, True), (0.300000001, True)])
def test_at_the_threshold_is_not_below_it(salience: float, again: bool) -> None:
    state = belief(salience=salience, warned=True)
    assert state.warned is not again
    assert state.due_rule == ("warning" if again else "archive")


def test_a_warning_that_no_run_wrote_is_still_due_in_the_next_segment() -> None:
    late = facts.penalised(belief(), DEFAULT, after(30), PenaltySignal.IGNORED_REPEATEDLY, 0.05)
    assert (late.due_at, late.due_rule, late.warned) == (after(30), "warning", False)


def test_an_overdue_warning_stays_due_over_an_access() -> None:
    """ACCESS begins no segment here, so it leaves the rules as they are."""
    state = belief()
    seen = facts.accessed(state, DEFAULT, after(30))
    assert (seen.due_at, seen.due_rule, seen.exit_at) == (state.due_at, "warning", state.exit_at)


def test_an_overdue_exit_stays_due_over_an_access() -> None:
    state = warned(belief())
    seen = facts.accessed(state, DEFAULT, after(100))
    assert (seen.due_at, seen.due_rule) == (state.exit_at, "archive")
    assert verdict(seen, DEFAULT) == verdict(state, DEFAULT)


@pytest.mark.parametrize("days", [321.9, 345, 400])
def test_an_overdue_exit_of_an_observed_object_is_judged_by_what_it_was_believed_then(days: float) -> None:
    """An object that sinks past 0.10 meets `archive` there, with the confidence it had there.

    Day 321.888: c = 0.58·e^(−0.0025·141.888) = 0.4068, so it is archived. By day 345 it is below 0.40: an
    ACCESS then, which begins no segment, must not make an irreversible deprecation of the archive.
    """
    state = warned(belief(epistemic_type="OBSERVED", confidence=0.58))
    assert state.due_at == pytest.approx(after(math.log(5) / 0.005), abs=2 * SECOND)
    assert verdict(state, DEFAULT)[2] == "ARCHIVED"
    assert verdict(state, DEFAULT)[1] == pytest.approx(0.406794898, abs=1e-8)
    seen = facts.accessed(state, DEFAULT, after(days))
    assert (seen.due_at, seen.due_rule) == (state.due_at, "archive")
    assert verdict(seen, DEFAULT) == verdict(state, DEFAULT)


def test_an_overdue_warning_of_an_observed_object_tells_the_salience_of_its_instant() -> None:
    """A warning speaks of its own instant, day 240.8, not of a later ACCESS."""
    terms = own(profiles={"SLOW": {"lambda": 0.005}}, tier_thresholds={"warning": 0.15})
    state = belief(terms, epistemic_type="OBSERVED")
    seen = facts.accessed(state, terms, after(300))
    assert (seen.due_at, seen.due_rule) == (state.due_at, "warning")
    at_its_instant = facts.standing(state, terms, state.due_at).scores.salience
    assert facts.standing(seen, terms, seen.due_at).scores.salience == at_its_instant


def test_an_access_that_begins_a_segment_wins_over_an_overdue_exit() -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.02, "clock": "last_accessed"}})
    fresh = belief(terms, confidence=1.0)
    state = facts.accessed(warned(fresh), terms, after(100))
    assert state.exit_at == after(100) + (fresh.exit_at - T0)
    assert (state.due_rule, state.warned) == ("warning", False)


def test_a_reinforcement_wins_over_an_overdue_exit() -> None:
    state = facts.reinforced(warned(belief(confidence=0.9)), DEFAULT, after(100), 0.15)
    assert state.active
    assert state.exit_at > after(100)


# Restore's grace: no rule but ttl moves it out before seven days have passed


def restored(terms: Terms, at: int, **given: object) -> MemoryState:
    archived = facts.left(belief(terms, **given), terms, T0, LifecycleState.ARCHIVED)
    return facts.restored(archived, terms, at)


@pytest.mark.parametrize("fraction", [0, 1, 999_999])
def test_an_exit_within_the_grace_comes_at_its_end(fraction: int) -> None:
    """RAPID from 0.30 is below 0.10 after ln 3/0.2 = 5.5 days; on the seventh, s = 0.30·e^(−1.4) = 0.074."""
    back = after(20) + fraction
    state = restored(DEFAULT, back, salience=0.2, confidence=0.9, profile_override="RAPID")
    assert (state.exit_at, state.exit_rule) == (after(27) + (SECOND if fraction else 0), "archive")
    salience, confidence = facts.shown(state, DEFAULT, state.exit_at)
    assert salience == pytest.approx(0.073979089, abs=1e-6)
    assert confidence == pytest.approx(0.9 * math.exp(-0.7), abs=1e-6)


def test_the_deeper_rule_decides_at_the_end_of_a_long_grace() -> None:
    """Archive and force_archive lie within fourteen days; both become its end, and the deeper goes first."""
    terms = own(restore_grace_days=14)
    state = restored(terms, after(20), salience=0.2, confidence=0.9, profile_override="RAPID")
    assert (state.exit_at, state.exit_rule) == (after(34), "force_archive")


def test_deprecation_by_confidence_waits_for_the_end_of_the_grace_too() -> None:
    """c = 0.2·e^(−0.1·t) is below 0.15 after 2.9 days, and goes first when all wait for the same instant."""
    for salience in (0.2, 0.9):
        state = restored(DEFAULT, after(20), salience=salience, confidence=0.2, profile_override="RAPID")
        assert (state.exit_at, state.exit_rule) == (after(27), "deprecate_by_confidence")


def test_the_grace_moves_no_later_exit_and_no_warning() -> None:
    state = restored(DEFAULT, after(20), salience=0.2, confidence=0.9)
    assert state.exit_at == pytest.approx(after(20 + math.log(3) / 0.02), abs=2 * SECOND)
    assert (state.due_at, state.due_rule) == (after(20) + SECOND, "warning")


def test_ttl_does_not_wait_for_the_grace() -> None:
    terms = own(retention=[{"ttl_days": 3, "clock": "last_reinforced"}])
    state = warned(restored(terms, after(2), salience=0.29, profile_override="RAPID"))
    assert state.expires_at == after(5)
    assert state.exit_at == after(9)
    hit = facts.penalised(state, terms, after(3), PenaltySignal.CORRECTED, 0.25)
    assert (hit.due_at, hit.due_rule) == (after(5), "ttl")


def test_ttl_goes_first_at_the_end_of_the_grace() -> None:
    terms = own(retention=[{"ttl_days": 7}])
    state = warned(restored(terms, after(5), salience=0.2, profile_override="RAPID"))
    assert state.expires_at == state.exit_at == after(12)
    hit = facts.penalised(state, terms, after(11), PenaltySignal.IGNORED_REPEATEDLY, 0.05)
    assert (hit.due_at, hit.due_rule) == (after(12), "ttl")


def test_facts_within_the_grace_keep_it() -> None:
    state = restored(DEFAULT, after(20), salience=0.2, profile_override="RAPID")
    hit = facts.penalised(state, DEFAULT, after(21), PenaltySignal.CORRECTED, 0.9)
    assert hit.exit_at == after(27)
    late = facts.penalised(state, DEFAULT, after(26.5), PenaltySignal.CORRECTED, 0.9)
    assert late.exit_at == after(27)
    gone = facts.penalised(state, DEFAULT, after(30), PenaltySignal.CORRECTED, 0.9)
    assert gone.exit_at == after(30)


@given(grace=st.floats(0, 400), salience=st.floats(0, 1), confidence=st.floats(0, 1), rate=st.floats(0, 5))
def test_no_exit_lies_within_any_grace(grace: float, salience: float, confidence: float, rate: float) -> None:
    terms = own(restore_grace_days=grace, profiles={"MEDIUM": {"lambda": rate}})
    state = restored(terms, after(20), salience=salience, confidence=confidence)
    assert state.exit_at is None or state.exit_at >= after(20) + round(grace * DAY)
    assert state.active
