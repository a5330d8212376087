"""FSRS-6: how stability and difficulty move with each review.

Stability S is the age in days at which retrievability R is 0.9; difficulty D is from 1 to 10. Every signal is a review:
a reinforcement is a recall graded good, a penalty a lapse, graded again. Being asserted is the first review, of the
profile's `initial_grade`. Source: the algorithm of FSRS-6 and its reference implementation, py-fsrs; S has the upper
limit of its other implementations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ebbtide.decay.maths import Engine
from ebbtide.model.words import Grade
from ebbtide.policy.document import Profile
from ebbtide.policy.weights import FSRS_6

LEAST_STABILITY, MOST_STABILITY = 0.001, 36_500.0
LEAST_DIFFICULTY, MOST_DIFFICULTY = 1.0, 10.0
SAME_DAY = 1.0
"""A review less than a day after the one before follows the short-term rule."""

_NUMBER = {grade: place + 1 for place, grade in enumerate(Grade)}


@dataclass(frozen=True, slots=True)
class Learning:
    """What a profile's weights put into the formulas: w6 … w19 by name, and what follows from the others.

    `stability` and `difficulty` are what an object begins with; `easiest` is the difficulty that reviews tend to.
    Where `learns` is false, the profile's curve has no stability.
    """

    learns: bool
    stability: float
    difficulty: float
    easiest: float
    w6: float
    w7: float
    w8: float
    w9: float
    w10: float
    w11: float
    w12: float
    w13: float
    w14: float
    w15: float
    w16: float
    w17: float
    w18: float
    w19: float


def learning(profile: Profile) -> Learning:
    """The numbers of one profile; those of FSRS-6 where its curve is another, which nothing reads."""
    w = profile.weights or FSRS_6
    grade = profile.initial_grade or Grade.GOOD
    return Learning(
        profile.weights is not None,
        w[_NUMBER[grade] - 1],
        min(MOST_DIFFICULTY, max(LEAST_DIFFICULTY, _first_difficulty(w, grade))),
        _first_difficulty(w, Grade.EASY),
        *w[6:20],
    )


def _first_difficulty(w: tuple[float, ...], grade: Grade) -> float:
    return w[4] - math.exp(w[5] * (_NUMBER[grade] - 1)) + 1


def reviewed(
    m: Engine, w: Any, stability: Any, difficulty: Any, age: Any, recalled: Any, grade: Grade
) -> tuple[Any, Any]:
    """Stability and difficulty after a review at an age in days, at which R was `recalled`.

    `w` has the fields of `Learning`. A recall never lowers stability, a lapse never raises it.
    """
    found = m.where(
        age < SAME_DAY,
        _after_short_term(m, w, stability, grade),
        _after_lapse(m, w, stability, difficulty, recalled)
        if grade == Grade.AGAIN
        else _after_recall(m, w, stability, difficulty, recalled, grade),
    )
    return m.least(MOST_STABILITY, m.greatest(LEAST_STABILITY, found)), _next_difficulty(m, w, difficulty, grade)


def _power(m: Engine, x: Any, y: Any) -> Any:
    return m.exp(y * m.ln(x))


def _after_short_term(m: Engine, w: Any, stability: Any, grade: Grade) -> Any:
    factor = m.exp(w.w17 * (_NUMBER[grade] - 3 + w.w18)) * _power(m, stability, -w.w19)
    return stability * (m.least(1.0, factor) if grade == Grade.AGAIN else m.greatest(1.0, factor))


def _after_lapse(m: Engine, w: Any, stability: Any, difficulty: Any, recalled: Any) -> Any:
    long_term = (
        w.w11 * _power(m, difficulty, -w.w12) * (_power(m, stability + 1.0, w.w13) - 1) * m.exp((1 - recalled) * w.w14)
    )
    return m.least(long_term, stability / m.exp(w.w17 * w.w18))


def _after_recall(m: Engine, w: Any, stability: Any, difficulty: Any, recalled: Any, grade: Grade) -> Any:
    growth = m.exp(w.w8) * (11 - difficulty) * _power(m, stability, -w.w9) * (m.exp((1 - recalled) * w.w10) - 1)
    if grade == Grade.HARD:
        growth = growth * w.w15
    if grade == Grade.EASY:
        growth = growth * w.w16
    return stability * (1 + growth)


def _next_difficulty(m: Engine, w: Any, difficulty: Any, grade: Grade) -> Any:
    step = -w.w6 * (_NUMBER[grade] - 3)
    damped = difficulty + (MOST_DIFFICULTY - difficulty) * step / 9
    found = w.w7 * w.easiest + (1 - w.w7) * damped
    return m.least(MOST_DIFFICULTY, m.greatest(LEAST_DIFFICULTY, found))
