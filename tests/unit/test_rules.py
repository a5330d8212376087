"""The rules of forgetting and their instants, against a plain simulation that steps through time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

import pytest
from beliefs import DEFAULT, T0, Plain, belief, exponential, fsrs, nine, own, power_law, shipped

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY, HORIZON, HOUR, SECOND
from ebbtide.model.state import MemoryState
from ebbtide.model.words import PenaltySignal

PRECEDENCE = ("deprecate_by_confidence", "force_archive", "archive")
RATES = {"SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}


def conditions(plain: Plain) -> dict[str, Callable[[int], bool]]:
    """The four conditions of the tiers, under the default thresholds."""
    return {
        "warning": lambda at: plain.salience(at) < 0.30,
        "archive": lambda at: plain.salience(at) < 0.10,
        "force_archive": lambda at: plain.salience(at) < 0.05,
        "deprecate_by_confidence": lambda at: plain.confidence(at) < 0.15,
    }


def walked(holds: Callable[[int], bool], steps: int = 10_000) -> int | None:
    """The first second at which a condition holds: hour by hour, then through the seconds of that hour."""
    for step in range(steps + 1):
        at = T0 + step * HOUR
        if holds(at):
            return next(second for second in range(max(T0, at - HOUR), at + 1, SECOND) if holds(second))
    return None


def halved(holds: Callable[[int], bool], begin: int) -> int | None:
    """The same by bisection over the seconds of a hundred years."""
    low, high = -(-begin // SECOND), -(-begin // SECOND) + HORIZON // SECOND
    if not holds(high * SECOND):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle * SECOND) else (middle + 1, high)
    return low * SECOND


def earliest_exit(found: dict[str, int | None]) -> tuple[int | None, str | None]:
    """The earliest instant wins; at one instant the order of the rules."""
    exits = [(found[rule], place) for place, rule in enumerate(PRECEDENCE) if found[rule] is not None]
    return (min(exits)[0], PRECEDENCE[min(exits)[1]]) if exits else (None, None)


def destination(state: MemoryState, terms: Terms) -> str:
    """Where the exit leads, with the confidence the object has at the rule's instant."""
    there = facts.standing(state, terms, state.exit_at).scores.confidence
    return leaves_for(SCALAR, terms.by_profile[state.decay_profile], state.exit_rule, there)


# Ten thousand steps


@pytest.mark.parametrize(
    ("salience", "confidence", "profile", "rule", "to"),
    [
        (0.5, 0.9, "MEDIUM", "archive", "ARCHIVED"),  # day 80.5, c = 0.9·e^(−0.805) = 0.402
        (0.5, 0.8, "MEDIUM", "archive", "DEPRECATED"),  # c = 0.358
        (0.5, 0.3, "MEDIUM", "deprecate_by_confidence", "DEPRECATED"),  # day 69.3, s = 0.125
        (0.049, 0.9, "MEDIUM", "force_archive", "ARCHIVED"),
        (0.049, 0.2, "MEDIUM", "force_archive", "ARCHIVED"),
        (0.5, 0.9, "SLOW", "archive", "ARCHIVED"),  # day 321.9, c = 0.9·e^(−0.805)
        (0.9, 0.9, "FAST", "archive", "DEPRECATED"),  # day 31.4, c = 0.3
        (0.9, 0.16, "RAPID", "deprecate_by_confidence", "DEPRECATED"),  # day 0.65
        (0.9, 0.05, "SLOW", "deprecate_by_confidence", "DEPRECATED"),  # at once
    ],
)
def test_each_threshold_strikes_within_10000_steps(
    salience: float, confidence: float, profile: str, rule: str, to: str
) -> None:
    rate = RATES[profile]
    state = belief(salience=salience, confidence=confidence, profile_override=profile)
    plain = Plain(exponential(rate), rate / 2, salience, 0.0, confidence)
    found = {name: walked(holds) for name, holds in conditions(plain).items()}
    assert (state.exit_at, state.exit_rule) == earliest_exit(found)
    assert state.exit_rule == rule
    assert destination(state, DEFAULT) == to
    warned_first = found["warning"] is not None and found["warning"] < state.exit_at
    assert (state.due_at, state.due_rule) == (
        (found["warning"], "warning") if warned_first else (state.exit_at, state.exit_rule)
    )
    tiers = conditions(plain)
    for at in range(T0, T0 + 10_001 * HOUR, HOUR):
        assert (state.due_at <= at) == any(holds(at) for holds in tiers.values())
        assert (state.exit_at <= at) == any(tiers[name](at) for name in PRECEDENCE)


@pytest.mark.parametrize("archive", [0.05, 0.10])
def test_force_archive_is_met_by_sinking_where_the_thresholds_are_one(archive: float) -> None:
    """With both thresholds at one place, what sinks below is archived, however little it is believed."""
    terms = own(tier_thresholds={"archive": archive, "force_archive": archive, "deprecate_by_confidence": 0.0})
    state = belief(terms, confidence=0.2)
    plain = Plain(exponential(0.02), 0.01, 0.5, 0.0, 0.2)
    assert state.exit_at == walked(lambda at: plain.salience(at) < archive)
    assert state.exit_rule == "force_archive"
    assert destination(state, terms) == "ARCHIVED"


# Random segments of all curves, by bisection

EXPONENTS = {"SLOW": (0.05, 5), "MEDIUM": (0.25, 10), "FAST": (0.50, 20), "RAPID": (1.00, 0)}


def retold(policy: str, state: MemoryState) -> Plain:
    """A segment in the plain formulas: its numbers from the state, its curve as the policy describes it."""
    profile, uses, floor = state.decay_profile, state.access_count, 0.0
    rate = RATES[profile]
    if policy == "default":
        curve = exponential(rate)
    elif policy == "fsrs":
        curve = fsrs(state.stability)
    else:
        rate, enough = EXPONENTS[profile]
        curve = power_law(rate / (1 + 0.5 * math.log(uses + 1)), 1.0)
        floor = 0.40 if enough and uses >= enough else 0.0
    return Plain(
        curve,
        rate / 2,
        state.decaying,
        state.boost,
        state.confidence_base,
        since=state.segment_at,
        trusted=state.confidence_from,
        age=state.segment_age / DAY,
        floor=floor,
    )


@pytest.mark.parametrize("policy", ["default", "fsrs", "permastore"])
def test_instants_of_random_segments(policy: str) -> None:
    """Whatever begins a segment: due and exit are those that a bisection over seconds finds."""
    terms, dice = shipped(policy), random.Random(policy)
    doubt = 0.15 if policy == "default" else 0.0
    for _ in range(150):
        state = belief(
            terms,
            salience=nine(dice.random()),
            confidence=nine(dice.random()),
            epistemic_type=dice.choice(["OBSERVED", "ASSERTED"]),
            profile_override=dice.choice(list(RATES)),
        )
        for _ in range(dice.choice([0, 0, 3, 12])):
            state = facts.accessed(state, terms, T0)
        at = T0 + dice.randrange(60 * DAY)
        if dice.random() < 0.5:
            state = facts.reinforced(state, terms, at, dice.choice([0.08, 0.15]))
        elif dice.random() < 0.5:
            state = facts.penalised(state, terms, at, PenaltySignal.TASK_FAILED_WITH, 0.10)
        plain = retold(policy, state)
        found = {name: halved(holds, state.segment_at) for name, holds in conditions(plain).items()}
        found["deprecate_by_confidence"] = halved(lambda t, p=plain: p.confidence(t) < doubt, state.segment_at)
        assert (state.exit_at, state.exit_rule) == earliest_exit(found)
        comes = [
            (instant, rule)
            for instant, rule in ((state.exit_at, state.exit_rule), (found["warning"], "warning"))
            if instant is not None
        ]
        assert (state.due_at, state.due_rule) == min(comes, key=lambda due: due[0], default=(None, None))


# Corners

JUST = 0.000000001
BELOW_AT_ABOVE = (-JUST, 0.0, JUST)


@pytest.mark.parametrize(
    ("salience", "confidence", "due", "to"),
    [
        (0.30 - JUST, 0.90, "warning", None),
        (0.30, 0.90, None, None),
        (0.30 + JUST, 0.90, None, None),
        (0.10, 0.40 - JUST, "warning", None),
        (0.10 + JUST, 0.15, "warning", None),
        (0.10 - JUST, 0.40 - JUST, "archive", "DEPRECATED"),
        (0.10 - JUST, 0.40, "archive", "ARCHIVED"),
        (0.05, 0.40 + JUST, "archive", "ARCHIVED"),
        (0.05 - JUST, 0.40 - JUST, "force_archive", "ARCHIVED"),
        (0.05 - JUST, 0.15, "force_archive", "ARCHIVED"),
        (0.05 - JUST, 0.15 - JUST, "deprecate_by_confidence", "DEPRECATED"),
        (0.30 + JUST, 0.15 - JUST, "deprecate_by_confidence", "DEPRECATED"),
    ],
)
def test_what_is_due_at_once_where_a_segment_begins(
    salience: float, confidence: float, due: str | None, to: str | None
) -> None:
    """At a threshold nothing is due yet. At one instant confidence goes first, then the deeper rule."""
    state = belief(salience=nine(salience), confidence=nine(confidence))
    assert (state.due_rule if state.due_at == T0 else None) == due
    assert (destination(state, DEFAULT) if state.exit_at == T0 else None) == to


@pytest.mark.parametrize(
    ("confidence", "to"),
    [(0.15, "DEPRECATED"), (0.40 - JUST, "DEPRECATED"), (0.40, "ARCHIVED"), (0.40 + JUST, "ARCHIVED")],
)
@pytest.mark.parametrize("threshold", [0.30, 0.10, 0.05])
def test_sinking_with_a_confidence_that_stands(threshold: float, confidence: float, to: str) -> None:
    """Warned at the first second below 0.30, out at the first below 0.10, wherever it begins."""
    terms = own(mu_multiplier=0)
    for offset in BELOW_AT_ABOVE:
        state = belief(terms, salience=nine(threshold + offset), confidence=nine(confidence))
        plain = Plain(exponential(0.02), 0.0, state.baseline, 0.0, state.confidence_base)
        sunk = walked(lambda at, p=plain: p.salience(at) < 0.10)
        assert state.exit_at == sunk
        deep = plain.salience(sunk) < 0.05
        assert state.exit_rule == ("force_archive" if deep else "archive")
        assert destination(state, terms) == ("ARCHIVED" if deep else to)
        assert state.due_at == walked(lambda at, p=plain: p.salience(at) < 0.30)


@pytest.mark.parametrize(("offset", "to"), [(-3e-9, "DEPRECATED"), (0.0, "ARCHIVED"), (3e-9, "ARCHIVED")])
def test_sinking_past_both_thresholds_of_archive_together(offset: float, to: str) -> None:
    """s sinks past 0.10 in the second in which c is just below, at, or just above 0.40: c < 0.40 decides."""
    sunk = walked(lambda at: Plain(exponential(0.02), 0.01, 0.5, 0.0, 1.0).salience(at) < 0.10)
    believed = math.ceil(0.40 * math.exp(0.01 * (sunk - T0) / DAY) * 1e9) / 1e9
    state = belief(confidence=nine(believed + offset))
    assert (state.exit_at, state.exit_rule) == (sunk, "archive")
    assert destination(state, DEFAULT) == to


@pytest.mark.parametrize(
    ("earlier_by", "rule"),
    [(1.5, "deprecate_by_confidence"), (0.5, "deprecate_by_confidence"), (-0.5, "archive")],
)
def test_deprecation_by_confidence_goes_first_at_the_same_second(earlier_by: float, rule: str) -> None:
    """c sinks past 0.15 half a second before, in, or after the second in which s sinks past 0.10."""
    sunk = walked(lambda at: Plain(exponential(0.02), 0.01, 0.5, 0.0, 1.0).salience(at) < 0.10)
    seconds = (sunk - T0) / SECOND - earlier_by
    state = belief(confidence=nine(0.15 * math.exp(0.01 * seconds / 86_400)))
    assert state.exit_at == (sunk - SECOND if earlier_by > 1 else sunk)
    assert state.exit_rule == rule
    assert destination(state, DEFAULT) == "DEPRECATED"


def test_confidence_deprecates_whatever_the_salience() -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.02, "salience_floor": 0.9}})
    state = belief(terms, salience=0.9)
    plain = Plain(exponential(0.02), 0.01, 0.9, 0.0, 0.8)
    assert state.due_at == walked(lambda at: plain.confidence(at) < 0.15)
    assert state.due_rule == state.exit_rule == "deprecate_by_confidence"


# ttl


@pytest.mark.parametrize(("later_by", "rule"), [(-1, "ttl"), (0, "ttl"), (1, "archive")])
@pytest.mark.parametrize("confidence", [0.9, 0.334])
def test_ttl_goes_first_at_the_same_second(later_by: int, rule: str, confidence: float) -> None:
    warned = belief(confidence=confidence, salience=0.299)
    days = (warned.exit_at - T0 + later_by * SECOND) / DAY
    terms = own(retention=[{"ttl_days": days}])
    state = belief(terms, confidence=confidence, salience=0.299, warned=True)
    assert state.expires_at == warned.exit_at + later_by * SECOND
    assert (state.due_at, state.due_rule) == (min(state.exit_at, state.expires_at), rule)


def test_what_is_below_all_thresholds_has_one_rule_due() -> None:
    """Warning comes last: what begins below 0.10 is not warned of what has happened."""
    for salience, confidence in product((0.01, 0.05, 0.09), (0.1, 0.2, 0.9)):
        state = belief(salience=salience, confidence=confidence)
        assert (state.due_at, state.due_rule) == (T0, state.exit_rule)
