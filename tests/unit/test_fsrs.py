"""FSRS-6's stability and difficulty: what py-fsrs says of the same reviews, and a calculation by hand."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import pytest
from beliefs import T0, belief, nine, own, shipped
from fsrs import Card, Rating, Scheduler
from fsrs.scheduler import DEFAULT_PARAMETERS, LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS

from ebbtide.decay import facts
from ebbtide.decay.fsrs import learning, reviewed
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Terms, evaluate, retention
from ebbtide.model import instant
from ebbtide.model.instant import DAY, HOUR
from ebbtide.model.words import Grade, PenaltySignal
from ebbtide.policy.weights import FSRS_6, RANGES

GRADES = dict(zip(Grade, Rating, strict=True))
PROFILES = {Grade.AGAIN: "RAPID", Grade.HARD: "FAST", Grade.GOOD: "MEDIUM", Grade.EASY: "SLOW"}
near = lambda number: pytest.approx(number, rel=1e-9)  # noqa: E731


def scheduler(weights: tuple[float, ...] = FSRS_6) -> Scheduler:
    """The reference, without what spaces reviews out: it is told when they are."""
    return Scheduler(weights, learning_steps=(), relearning_steps=(), enable_fuzzing=False)


def under(weights: tuple[float, ...], grade: Grade = Grade.GOOD) -> Terms:
    profile = {"lambda": 0.02, "curve": "fsrs", "weights": weights, "initial_grade": grade}
    return own(profiles={"MEDIUM": profile})


def gaps(dice: random.Random, reviews: int) -> list[int]:
    """Times between reviews (µs): some hours, or whole days, since the reference counts whole days only."""
    return [dice.choice([dice.randrange(24 * HOUR), dice.randrange(1, 400) * DAY]) for _ in range(reviews)]


def when(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


def test_weights_and_ranges_are_those_of_the_reference() -> None:
    assert FSRS_6 == DEFAULT_PARAMETERS
    assert tuple(zip(LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS, strict=True)) == RANGES


def random_weights(dice: random.Random) -> tuple[float, ...]:
    """Weights near FSRS-6's, within the ranges."""
    return tuple(min(high, max(low, w * dice.uniform(0.7, 1.4))) for w, (low, high) in zip(FSRS_6, RANGES, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_any_grades_at_any_times_move_as_the_reference_says(seed: int) -> None:
    """Stability, difficulty and retrievability to a billionth, for all four grades, of FSRS-6's weights and others."""
    dice = random.Random(seed)
    weights = FSRS_6 if seed % 2 else random_weights(dice)
    reference, first = scheduler(weights), dice.choice([*Grade])
    card, _ = reference.review_card(Card(card_id=1), GRADES[first], when(T0))
    terms = under(weights, first)
    w, numbers = terms.learning["MEDIUM"], terms.by_profile["MEDIUM"]
    stability, difficulty, at = w.stability, w.difficulty, T0
    assert (stability, difficulty) == (near(card.stability), near(card.difficulty))
    for gap in gaps(dice, 20):
        grade, age = dice.choice([*Grade]), gap / DAY
        at += gap
        recalled = retention(SCALAR, numbers, stability, 0.0, age)
        if age >= 1:
            assert recalled == near(reference.get_card_retrievability(card, when(at)))
        stability, difficulty = reviewed(SCALAR, w, stability, difficulty, age, recalled, grade)
        card, _ = reference.review_card(card, GRADES[grade], when(at))
        assert (stability, difficulty) == (near(card.stability), near(card.difficulty))


@pytest.mark.parametrize("seed", range(20))
def test_signals_are_recalls_and_lapses_of_the_reference(seed: int) -> None:
    """A memory under the built-in policy, reinforced and penalised, beside a card that is recalled and forgotten."""
    dice, terms, reference = random.Random(seed), shipped("fsrs"), scheduler()
    first = dice.choice([*Grade])
    card, _ = reference.review_card(Card(card_id=1), GRADES[first], when(T0))
    state, at = belief(terms, salience=1.0, profile_override=PROFILES[first]), T0
    for gap in gaps(dice, 12):
        at += gap
        if dice.random() < 0.7:
            state = facts.reinforced(state, terms, at, dice.choice([0.08, 0.003]))
            card, _ = reference.review_card(card, Rating.Good, when(at))
        else:
            signal = dice.choice([one for one in PenaltySignal if one != PenaltySignal.UNUSED])
            state = facts.penalised(state, terms, at, signal, 0.1)
            card, _ = reference.review_card(card, Rating.Again, when(at))
        assert (state.stability, state.difficulty) == (near(card.stability), near(card.difficulty))
        later = at + dice.randrange(1, 90) * DAY
        retained = evaluate(SCALAR, terms.by_profile[state.decay_profile], state, later).decaying / state.decaying
        assert retained == near(reference.get_card_retrievability(card, when(later)))


def test_a_recall_by_hand() -> None:
    """Learnt with good at 2.3065 days, recalled after 10: R = (1 + F·10/S)^(−w) is 0.7744, and S becomes 25.1 days."""
    terms = shipped("fsrs")
    state = facts.reinforced(belief(terms, salience=0.6), terms, T0 + 10 * DAY, 0.15)
    recalled = (1 + (0.9 ** (-1 / 0.1542) - 1) * 10 / 2.3065) ** -0.1542
    difficulty = 6.4133 - math.exp(2 * 0.8334) + 1
    grown = 2.3065 * (
        1 + math.exp(1.8722) * (11 - difficulty) * 2.3065**-0.1666 * (math.exp((1 - recalled) * 0.796) - 1)
    )
    assert state.stability == near(grown)
    assert state.difficulty == near(0.001 * (6.4133 - math.exp(3 * 0.8334) + 1) + 0.999 * difficulty)
    assert (state.segment_age, state.decaying) == (0, nine(0.6 + 0.15 * 0.5 * 0.4)), "at its baseline again"


def test_a_lapse_by_hand() -> None:
    """Forgotten after ten days: the decaying part stands where it was but for δ, and falls anew by the lower S."""
    terms = shipped("fsrs")
    before = belief(terms, salience=1.0)
    state = facts.penalised(before, terms, T0 + 10 * DAY, PenaltySignal.CORRECTED, 0.25)
    recalled = (1 + (0.9 ** (-1 / 0.1542) - 1) * 10 / 2.3065) ** -0.1542
    difficulty = 6.4133 - math.exp(2 * 0.8334) + 1
    long_term = 1.4835 * difficulty**-0.0614 * (3.3065**0.2629 - 1) * math.exp((1 - recalled) * 1.6483)
    assert state.stability == near(min(long_term, 2.3065 / math.exp(0.5425 * 0.0912)))
    assert state.segment_age == 0
    assert state.reinforced_at is None
    assert state.decaying == nine(recalled * (1 - 0.3 * 0.25))


def test_what_counts_for_nothing_is_no_review() -> None:
    terms = shipped("fsrs")
    state = belief(terms)
    assert facts.reinforced(state, terms, T0 + DAY, 0.0) == state
    assert facts.penalised(state, terms, T0 + DAY, PenaltySignal.UNUSED, 0.0) == state
    shown = facts.accessed(state, terms, T0 + DAY)
    assert (shown.stability, shown.difficulty, shown.segment_age) == (state.stability, state.difficulty, 0)
    assert shown.segment_at == state.segment_at


@pytest.mark.parametrize("weights", [tuple(low for low, _ in RANGES), tuple(high for _, high in RANGES)])
def test_a_recall_never_lowers_stability_and_a_lapse_never_raises_it(weights: tuple[float, ...]) -> None:
    """At the ends of the ranges too, and it stays between 0.001 and 36,500 days."""
    dice = random.Random(7)
    for grade in Grade:
        terms = under(weights, grade)
        w, numbers = terms.learning["MEDIUM"], terms.by_profile["MEDIUM"]
        stability, difficulty = w.stability, w.difficulty
        for _ in range(300):
            age, given = dice.choice([0.0, 0.5, 1.0, 30.0, 36_525.0]), dice.choice([*Grade])
            recalled = retention(SCALAR, numbers, stability, 0.0, age)
            was = stability
            stability, difficulty = reviewed(SCALAR, w, stability, difficulty, age, recalled, given)
            assert 0.001 <= stability <= 36_500
            assert 1 <= difficulty <= 10
            assert stability <= was if given == Grade.AGAIN else stability >= was


def test_only_profiles_whose_curve_is_fsrs_learn() -> None:
    """PERMANENT of the built-in policy is exponential: it has neither stability nor difficulty, and gets none."""
    terms = shipped("fsrs")
    state = facts.reinforced(belief(terms, profile_override="PERMANENT"), terms, T0 + DAY, 0.1)
    state = facts.penalised(state, terms, T0 + 9 * DAY, PenaltySignal.CORRECTED, 0.25)
    assert (state.stability, state.difficulty) == (None, None)
    assert not learning(terms.policy.params.profiles["PERMANENT"]).learns


def test_assigning_keeps_what_was_learnt_and_begins_where_nothing_was() -> None:
    terms, default = shipped("fsrs"), shipped("default")
    fresh = facts.assigned(belief(default), default, terms, instant.parse("2026-04-01T00:00:00Z"))
    begun = belief(terms)
    assert (fresh.stability, fresh.difficulty) == (begun.stability, begun.difficulty)
    learnt = facts.reinforced(begun, terms, T0 + 9 * DAY, 0.1)
    other = under(random_weights(random.Random(1)))
    kept = facts.assigned(learnt, terms, other, T0 + 10 * DAY)
    assert (kept.stability, kept.difficulty) == (learnt.stability, learnt.difficulty)
    gone = facts.assigned(learnt, terms, default, T0 + 10 * DAY)
    assert (gone.stability, gone.difficulty) == (None, None)
