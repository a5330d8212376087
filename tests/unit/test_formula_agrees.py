"""The one formula in Python and in both databases: the same numbers, and once rounded the same bits.

Two hundred thousand random segments under policies of all curves and modifiers go into a table; one statement
evaluates them all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from typing import NamedTuple

from beliefs import nine
from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text, insert, select

from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Parameters, evaluate, parameters, retention, uses_of
from ebbtide.model.instant import DAY
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Params, policy_from
from ebbtide.policy.weights import FSRS_6
from ebbtide.store.database import SQL
from ebbtide.store.store import database_at
from ebbtide.store.tables import policy_profiles

ROWS = 200_000
POLICIES = 120
CENTURY = 36_525 * DAY


class Segment(NamedTuple):
    """What the formula needs of an object, and the instant at which it is evaluated."""

    id: int
    policy: str
    at: int
    segment_at: int
    segment_age: int
    decaying: float
    boost: float
    confidence_base: float
    confidence_from: int
    stability: float | None
    access_count: int
    reinforce_count: int


class Numbers(NamedTuple):
    """An evaluation: parts and retention as they are, scores rounded."""

    decaying: float
    boost: float
    retained: float
    salience: float
    confidence: float


formula_segments = Table(
    "formula_segments",
    MetaData(),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("policy", Text),
    *(Column(name, BigInteger) for name in ("at", "segment_at", "segment_age", "confidence_from")),
    *(Column(name, Double) for name in ("decaying", "boost", "confidence_base", "stability")),
    *(Column(name, BigInteger) for name in ("access_count", "reinforce_count")),
)


def random_params(dice: random.Random) -> Params:
    """A policy whose MEDIUM has any curve, modifier, floor and count."""
    curve = dice.choice(["exponential", "power_law", "fsrs"])
    rate = dice.choice([0.0, 0.005, 0.02, 0.07, 0.2, dice.random(), 100 * dice.random()])
    profile: dict = {"lambda": rate, "curve": curve}
    if curve == "power_law":
        profile["scale_days"] = dice.choice([1.0, 10 ** dice.uniform(-3, 4)])
    if curve == "fsrs":
        profile["weights"] = [*FSRS_6[:-1], dice.choice([0.1542, dice.uniform(0.1, 0.8)])]
    else:
        counts = dice.choice(["accesses", "reinforcements"])
        profile["by_use"] = dice.choice(
            [
                {"kind": "none", "counts": counts},
                {"kind": "logarithmic", "alpha": dice.uniform(0, 5), "counts": counts},
                {
                    "kind": "linear_capped",
                    "beta": dice.random(),
                    "cap": dice.uniform(1, 50),
                    "counts": counts,
                },
            ]
        )
    if dice.random() < 0.3:
        profile |= {"salience_floor": nine(dice.random()), "floor_after": dice.choice([0, 5, 100])}
    given = {"profiles": {"MEDIUM": profile}, "rho": dice.choice([0.1, 0.0, 100 * dice.random()])}
    given["mu_multiplier"] = dice.choice([0.5, 0.0, 10 * dice.random()])
    return policy_from({"id": "random", "version": "1.0.0", "params": given}).params


def random_segment(dice: random.Random, number: int, policy: int) -> Segment:
    """A segment of any age from a microsecond to a century, evaluated before, at or after its beginning."""

    def span() -> int:
        return dice.choice((0, 1, int(10 ** dice.uniform(0, 15.499)), dice.randrange(CENTURY)))

    begin = 1_772_409_600_000_000 + dice.randrange(DAY)
    return Segment(
        number,
        str(policy),
        begin + (span() if dice.random() < 0.95 else -span()),
        begin,
        span(),
        nine(dice.choice((0.0, 0.5, 1.0, dice.random(), dice.random()))),
        nine(dice.choice((0.0, 0.40, dice.random()))),
        nine(dice.choice((0.0, 0.8, 1.0, dice.random()))),
        begin + dice.choice((0, 180 * DAY, span())),
        dice.choice((None, 2.3065, 10 ** dice.uniform(-2, 4.5))),
        dice.choice((0, 1, 5, 7, dice.randrange(1_000_000))),
        dice.choice((0, 1, 5, 7, dice.randrange(1_000_000))),
    )


def evaluated(maths: object, p: object, s: object) -> tuple:
    """The same expressions for Python's floats and for SQL columns."""
    scores = evaluate(maths, p, s, s.at)
    age = maths.days(s.segment_age)
    retained = retention(maths, p, maths.known(s.stability, 1.0), uses_of(maths, p, s), age)
    return scores.decaying, scores.boost, retained, scores.salience, scores.confidence


@cache
def drawn() -> tuple[list[Parameters], list[Segment], list[Numbers]]:
    """Policies, segments, and what Python's own libm makes of them."""
    dice = random.Random(20260302)
    policies = [parameters(random_params(dice), DecayProfile.MEDIUM) for _ in range(POLICIES)]
    segments = [random_segment(dice, number, dice.randrange(POLICIES)) for number in range(ROWS)]
    numbers = [Numbers(*evaluated(SCALAR, policies[int(segment.policy)], segment)) for segment in segments]
    return policies, segments, numbers


def plainly(p: Parameters, s: Segment) -> Numbers:
    """The same once more, as the rules write it, for comparison with the code that both databases share."""
    uses = s.access_count if p.counts_accesses else s.reinforce_count
    slowed = min(p.use_cap, 1 + p.use_alpha * math.log(uses + 1) + p.use_beta * uses)
    stability = 1.0 if s.stability is None else s.stability

    def curve(micros: int) -> float:
        age = micros / 86_400_000_000
        power = (1 + (p.scale + p.stretch / stability) * age) ** (-p.shape / slowed)
        return math.exp(-p.linear * age / slowed) * power

    elapsed = max(0, s.at - s.segment_at)
    start = curve(s.segment_age)
    decaying = s.decaying * curve(s.segment_age + elapsed) / start if start > 1e-290 else math.nan
    boost = s.boost * math.exp(-p.rho * elapsed / 86_400_000_000)
    floor = p.floor if uses >= p.floor_after else 0.0
    salience = min(1.0, max(floor, decaying + boost))
    unused = max(0, s.at - s.confidence_from) / 86_400_000_000
    return Numbers(decaying, boost, start, salience, s.confidence_base * math.exp(-p.mu * unused))


def differing(found: Sequence[tuple], expected: Sequence[tuple], agree: Callable[[tuple, tuple], bool]) -> list:
    assert len(found) == len(expected) == ROWS
    return [pair for pair in zip(found, expected, strict=True) if not agree(*pair)]


def close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-12


def test_the_draw_covers_what_it_should() -> None:
    """All curves and modifiers, and scores of every size: not two hundred thousand zeros."""
    policies, _, numbers = drawn()
    assert {(p.linear > 0, p.scale > 0, p.stretch > 0) for p in policies} >= {
        (True, False, False),
        (False, True, False),
        (False, False, True),
    }
    assert any(p.use_alpha for p in policies)
    assert any(p.use_beta for p in policies)
    tenths = [sum(low <= n.salience < low + 0.1 for n in numbers) for low in (0, 0.1, 0.3, 0.5, 0.9)]
    assert min(tenths) > 1000
    assert sum(0 < n.confidence < 1 for n in numbers) > ROWS / 10


def test_python_computes_what_the_rules_say() -> None:
    policies, segments, numbers = drawn()
    plain = [plainly(policies[int(segment.policy)], segment) for segment in segments]

    def agree(one: Numbers, told: Numbers) -> bool:
        if math.isnan(told.decaying):  # R(a0) itself is too small to divide by: the logarithm's way goes on
            return close(one.boost, told.boost)
        return (
            close(one.decaying, told.decaying)
            and close(one.boost, told.boost)
            and close(one.retained, told.retained)
            and abs(one.salience - told.salience) <= 0.5e-9 + 1e-12
            and abs(one.confidence - told.confidence) <= 0.5e-9 + 1e-12
        )

    assert differing(numbers, plain, agree) == []
    assert sum(math.isnan(told.decaying) for told in plain) < ROWS / 5


def test_the_database_computes_the_same(url: str) -> None:
    """Within 1e−12 before rounding, the same bits after it."""
    policies, segments, numbers = drawn()
    key = {"namespace_id": "formula", "policy_version": "1.0.0", "decay_profile": "MEDIUM"}
    s, p = formula_segments.c, policy_profiles.c
    question = (
        select(*evaluated(SQL, p, s))
        .join_from(formula_segments, policy_profiles, (p.policy_id == s.policy) & (p.namespace_id == "formula"))
        .order_by(s.id)
    )
    database = database_at(url, wait=30)
    with database.connect() as connection, connection.begin():
        formula_segments.create(connection)
        rows = [{**key, "policy_id": str(number), **asdict(each)} for number, each in enumerate(policies)]
        connection.execute(insert(policy_profiles), rows)
        database.bulk_insert(connection, formula_segments, [segment._asdict() for segment in segments])
        found = [tuple(row) for row in connection.execute(question)]
    database.engine().dispose()

    def agree(there: tuple, here: Numbers) -> bool:
        return all(map(close, there[:3], here[:3])) and there[3:] == here[3:]

    assert differing(found, numbers, agree) == []
