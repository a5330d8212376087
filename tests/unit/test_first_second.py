"""A rule's instant: the first whole second at which its condition holds, or none within a hundred years."""

from __future__ import annotations

import math

import pytest
from beliefs import DEFAULT, T0, after, belief, own, shipped
from hypothesis import example, given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.search import first_second
from ebbtide.model.instant import DAY, HORIZON, SECOND

begins = st.integers(0, 4_000_000_000_000_000)
guesses = st.one_of(st.just(math.inf), st.floats(-1e15, 1e17), st.integers(0, 4_000_000_000).map(lambda s: s * 1e6))


@given(begin=begins, ahead=st.integers(-DAY, HORIZON + 2 * SECOND), near=guesses)
@example(begin=0, ahead=HORIZON, near=math.inf)
@example(begin=1, ahead=0, near=0.0)
@example(begin=T0, ahead=SECOND, near=float(T0))
def test_the_second_found_does_not_depend_on_the_guess(begin: int, ahead: int, near: float) -> None:
    edge = begin + ahead
    first = -(-begin // SECOND) * SECOND
    due = max(first, -(-edge // SECOND) * SECOND)
    expected = due if due <= first + HORIZON else None
    for guess in (near, float(begin), float(edge), math.inf):
        assert first_second(lambda at: at >= edge, begin, guess) == expected


@given(begin=begins, near=guesses)
def test_what_never_holds_has_no_instant(begin: int, near: float) -> None:
    assert first_second(lambda _: False, begin, near) is None


@given(begin=begins, edge=st.integers(0, 100 * DAY), near=guesses)
def test_only_whole_seconds_from_the_beginning_on_are_asked(begin: int, edge: int, near: float) -> None:
    asked: list[int] = []
    first_second(lambda at: asked.append(at) or at >= begin + edge, begin, near)
    assert all(at % SECOND == 0 and begin <= at <= begin + HORIZON + SECOND for at in asked)


@pytest.mark.parametrize("fraction", [0, 1, 250_000, 999_999])
def test_an_instant_is_a_whole_second_wherever_the_segment_begins(fraction: int) -> None:
    """Already below at its beginning: due at the first whole second from there on."""
    state = belief(salience=0.2, at=T0 + fraction)
    assert (state.due_at, state.due_rule) == (T0 + (SECOND if fraction else 0), "warning")
    sinking = belief(at=T0 + fraction)
    for due in (sinking.due_at, sinking.exit_at):
        assert due % SECOND == 0
    before, there = (facts.shown(sinking, DEFAULT, at)[0] for at in (sinking.exit_at - SECOND, sinking.exit_at))
    assert there < 0.10 <= before


# A hundred years


@pytest.mark.parametrize(("days", "due"), [(36_524, True), (36_526, False)])
def test_beyond_a_hundred_years_there_is_no_instant(days: float, due: bool) -> None:
    """0.5 sinks to 0.30 after ln(5/3)/λ days: a hundred years are 36,525 days."""
    terms = own(profiles={"MEDIUM": {"lambda": math.log(5 / 3) / days}}, mu_multiplier=0)
    state = belief(terms)
    assert (state.due_rule == "warning") is due
    assert (state.due_at is not None) is due
    assert (state.exit_at, state.exit_rule) == (None, None)


def test_what_never_sinks_has_no_future() -> None:
    forever = [
        belief(profile_override="PERMANENT"),
        belief(own(profiles={"MEDIUM": {"lambda": 0.0}})),
        belief(own(profiles={"MEDIUM": {"lambda": 0.02, "salience_floor": 0.30}}, mu_multiplier=0)),
        belief(shipped("recency")),
        belief(
            own(tier_thresholds=dict.fromkeys(("warning", "archive", "force_archive", "deprecate_by_confidence"), 0))
        ),
    ]
    for state in forever:
        assert (state.due_at, state.due_rule, state.exit_at, state.exit_rule) == (None, None, None, None)


def test_a_floor_between_two_thresholds_lets_only_the_upper_be_met() -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.02, "salience_floor": 0.10}}, mu_multiplier=0)
    state = belief(terms)
    assert state.due_rule == "warning"
    assert state.exit_at is None


def test_permanent_below_a_threshold_is_below_it_all_the_same() -> None:
    """PERMANENT never decays, but it meets what it begins below."""
    state = belief(salience=0.07, confidence=0.5, profile_override="PERMANENT")
    assert (state.due_at, state.due_rule) == (T0, "archive")


def test_a_boost_delays_the_instants() -> None:
    """0.5·e^(−0.02·t) + 0.08·e^(−0.10·t) = 0.30 lies later than 0.5·e^(−0.02·t) = 0.30."""
    plain, boosted = belief(), facts.reinforced(belief(), DEFAULT, T0, 0.08)
    assert boosted.due_at > plain.due_at
    days = (boosted.due_at - T0) / DAY
    sums = [0.52 * math.exp(-0.02 * t) + 0.08 * math.exp(-0.10 * t) for t in (days - 1 / 86_400, days)]
    assert sums[1] < 0.30 - 0.5e-9 <= sums[0]


def test_pinned_and_standing_objects_have_no_future() -> None:
    pinned = facts.pinned(belief(), DEFAULT, after(1))
    assert (pinned.due_at, pinned.due_rule, pinned.exit_at, pinned.exit_rule) == (None, None, None, None)
    assert facts.unpinned(pinned, DEFAULT, after(101)).exit_at == belief().exit_at + 100 * DAY
