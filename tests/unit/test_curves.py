"""The curves of forgetting, and the one closed formula that scores follow between two facts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from beliefs import DEFAULT, T0, after, belief, exponential, fsrs, own, power_law, shipped
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Scores, Terms, evaluate, parameters, retention
from ebbtide.model.instant import DAY, HOUR, MINUTE
from ebbtide.model.state import MemoryState
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Params
from ebbtide.policy.weights import FSRS_6

BUILT_IN = (
    "default",
    "archivist",
    "fsrs",
    "permastore",
    "permastore-critical",
    "permastore-transient",
    "recency",
    "spaced",
)
RATES = {"SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
AGES = (0.0, 1e-11, 1e-6, 1 / 1440, 1 / 24, 0.5, 1, 2, 3.5, 7, 10, 35, 100, 139, 365, 3650, 36_525)
CENTURY = 36_525
near = partial(pytest.approx, abs=1e-9)


def scores(state: MemoryState, terms: Terms, at: int) -> Scores:
    return evaluate(SCALAR, terms.by_profile[state.decay_profile], state, at)


def under(terms: Terms, profile: str, stability: float = 1.0, uses: float = 0.0):
    """R of a profile, by age in days."""
    return lambda age: retention(SCALAR, terms.by_profile[profile], stability, uses, age)


# R(0) = 1, never rises, 0 ≤ R ≤ 1


@pytest.mark.parametrize("uses", [0.0, 1.0, 5.0, 20.0, 1000.0])
@pytest.mark.parametrize("profile", list(DecayProfile))
@pytest.mark.parametrize("policy", BUILT_IN)
def test_every_built_in_curve_starts_at_one_and_never_rises(policy: str, profile: str, uses: float) -> None:
    curve = under(shipped(policy), profile, uses=uses)
    retained = [curve(age) for age in AGES]
    assert retained[0] == 1.0
    assert all(0 <= later <= earlier for earlier, later in pairwise(retained))


def shape(curve: str, **members: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries({"curve": st.just(curve), "lambda": st.floats(0, 100), **members})


slowed = st.fixed_dictionaries({"kind": st.just("logarithmic"), "alpha": st.floats(0, 100)})
shapes = st.one_of(
    shape("exponential"),
    shape("exponential", by_use=slowed),
    shape("power_law", scale_days=st.floats(1e-3, 36_525)),
    shape("fsrs", weights=st.floats(0.1, 0.8).map(lambda bend: [*FSRS_6[:-1], bend])),
)


@given(profile=shapes, uses=st.integers(0, 10**6), ages=st.lists(st.floats(0, CENTURY), min_size=2, max_size=8))
def test_no_curve_that_a_policy_may_ask_for_rises(profile: dict, uses: int, ages: list[float]) -> None:
    curve = under(own(profiles={"MEDIUM": profile}), "MEDIUM", stability=3.0, uses=float(uses))
    retained = [curve(age) for age in sorted(ages)]
    assert curve(0.0) == 1.0
    assert all(0 <= later <= earlier + 1e-15 for earlier, later in pairwise([1.0, *retained]))


# The three curves


@pytest.mark.parametrize(("profile", "rate"), RATES.items())
@pytest.mark.parametrize("initial", [0.5, 1.0])
def test_half_life_halves_salience(profile: str, rate: float, initial: float) -> None:
    """After ln 2/λ days half is left, for each of the decaying profiles."""
    state = belief(salience=initial, profile_override=profile)
    half_life = after(math.log(2) / rate)
    assert scores(state, DEFAULT, half_life).salience == near(initial / 2)
    assert scores(state, DEFAULT, 2 * half_life - T0).salience == near(initial / 4)


@pytest.mark.parametrize(("profile", "days"), [("SLOW", 139), ("MEDIUM", 35), ("FAST", 10), ("RAPID", 3.5)])
def test_half_lives_are_about_what_the_names_promise(profile: str, days: float) -> None:
    found = scores(belief(profile_override=profile), DEFAULT, after(days))
    assert found.salience == pytest.approx(0.25, abs=0.003)


@pytest.mark.parametrize("policy", BUILT_IN)
def test_permanent_never_moves(policy: str) -> None:
    terms = shipped(policy)
    state = belief(terms, salience=0.123456789, confidence=0.987654321, profile_override="PERMANENT")
    for at in (T0, T0 + 1, after(1), after(365), after(CENTURY), after(10 * CENTURY)):
        found = scores(state, terms, at)
        assert (found.salience, found.confidence) == (0.123456789, 0.987654321)


def test_spaced_has_its_half_life_of_160_hours() -> None:
    terms = shipped("spaced")
    assert scores(belief(terms), terms, T0 + 160 * HOUR).salience == near(0.25)


@pytest.mark.parametrize("stability", [0.212, 1.2931, 2.3065, 8.2956, 100.0, 36_500.0])
@pytest.mark.parametrize("decay", [0.1542, 0.1, 0.5, 0.8])
def test_fsrs_retains_nine_tenths_at_its_stability(stability: float, decay: float) -> None:
    profile = {"lambda": 0.005, "curve": "fsrs", "weights": [*FSRS_6[:-1], decay]}
    curve = under(own(profiles={"SLOW": profile}), "SLOW", stability)
    assert curve(stability) == pytest.approx(0.9, abs=1e-12)


@pytest.mark.parametrize(
    ("profile", "stability"), [("SLOW", 8.2956), ("MEDIUM", 2.3065), ("FAST", 1.2931), ("RAPID", 0.212)]
)
def test_fsrs_objects_begin_with_the_stability_of_their_profile(profile: str, stability: float) -> None:
    terms = shipped("fsrs")
    state = belief(terms, salience=1.0, profile_override=profile)
    assert state.stability == stability
    assert scores(state, terms, after(stability)).salience == near(0.9)
    curve = fsrs(stability)
    for days in (0.5, 3, 30, 365):
        assert scores(state, terms, after(days)).decaying == pytest.approx(curve(days), abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "scale", "age", "retained"),
    [
        (0.5, 1.0, 3.0, 0.5),  # 4^(−1/2)
        (0.25, 2.0, 30.0, 0.5),  # 16^(−1/4)
        (0.25, 1.0, 80.0, 1 / 3),  # 81^(−1/4)
        (1.0, 1.0, 1.0, 0.5),
        (1.0, 7.0, 63.0, 0.1),
        (0.05, 1.0, 0.0, 1.0),
    ],
)
def test_power_law_by_hand(rate: float, scale: float, age: float, retained: float) -> None:
    """(1 + a/σ)^(−λ): finite at 0, never above 1."""
    profile = {"lambda": rate, "curve": "power_law", "scale_days": scale}
    assert under(own(profiles={"SLOW": profile}), "SLOW")(age) == pytest.approx(retained, abs=1e-12)


# Rate by use


@pytest.mark.parametrize(
    ("use", "uses", "retained"),
    [
        ({"kind": "none"}, 1000, 0.367879441),  # e^(−1)
        ({"kind": "logarithmic", "alpha": 1.0}, 0, 0.367879441),  # 1 + ln 1 = 1
        ({"kind": "logarithmic", "alpha": 1.0}, 1, 0.553985864),  # 1 + ln 2 = 1.693147181
        ({"kind": "logarithmic", "alpha": 0.5}, 9, 0.628237609),  # 1 + ln 10/2 = 2.151292546
        ({"kind": "linear_capped", "beta": 0.05, "cap": 2.0}, 0, 0.367879441),
        ({"kind": "linear_capped", "beta": 0.05, "cap": 2.0}, 10, 0.513417119),  # 1.5
        ({"kind": "linear_capped", "beta": 0.05, "cap": 2.0}, 20, 0.606530660),  # the cap: e^(−1/2)
        ({"kind": "linear_capped", "beta": 0.05, "cap": 2.0}, 1000, 0.606530660),
    ],
)
@pytest.mark.parametrize("counts", ["accesses", "reinforcements"])
def test_use_slows_the_rate_by_hand(use: dict, uses: int, retained: float, counts: str) -> None:
    """λ = 0.1, ten days: λ/(1 + α·ln(n + 1)) and λ/min(cap, 1 + β·n), n as the profile counts."""
    terms = own(profiles={"MEDIUM": {"lambda": 0.1, "by_use": {**use, "counts": counts}}})
    count = {"accesses": "access_count", "reinforcements": "reinforce_count"}[counts]
    state = replace(belief(terms, salience=1.0), **{count: uses})
    assert scores(state, terms, after(10)).salience == near(retained)


def test_the_other_count_does_not_slow_the_rate() -> None:
    use = {"kind": "logarithmic", "alpha": 1.0, "counts": "accesses"}
    terms = own(profiles={"MEDIUM": {"lambda": 0.1, "by_use": use}})
    state = replace(belief(terms, salience=1.0), reinforce_count=50)
    assert scores(state, terms, after(10)).salience == 0.367879441


def test_use_bends_the_exponent_of_a_power_law() -> None:
    """81^(−0.25/(1 + 0.5·ln 2)) = 0.442259886."""
    use = {"kind": "logarithmic", "alpha": 0.5}
    profile = {"lambda": 0.25, "curve": "power_law", "by_use": use}
    curve = under(own(profiles={"SLOW": profile}), "SLOW", uses=1.0)
    assert curve(80.0) == pytest.approx(0.442259885533, abs=1e-12)


# Floors


def test_a_floor_holds_salience_up_and_leaves_confidence_alone() -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.02, "salience_floor": 0.40}})
    state = belief(terms)
    assert scores(state, terms, after(10)).salience == near(0.5 * math.exp(-0.2))
    assert [scores(state, terms, after(days)).salience for days in (12, 100, CENTURY)] == [0.40] * 3
    assert scores(state, terms, after(100)).decaying == pytest.approx(0.5 * math.exp(-2), abs=1e-12)
    assert scores(state, terms, after(100)).confidence == near(0.8 * math.exp(-1))


@pytest.mark.parametrize(("profile", "needed"), [("SLOW", 5), ("MEDIUM", 10), ("FAST", 20)])
def test_the_floor_counts_from_floor_after_uses_on(profile: str, needed: int) -> None:
    terms = shipped("permastore")
    state = belief(terms, profile_override=profile)
    for uses in (0, needed - 1):
        assert scores(replace(state, access_count=uses), terms, after(CENTURY)).salience < 0.40
    for uses in (needed, needed + 1, 1000):
        assert scores(replace(state, access_count=uses), terms, after(CENTURY)).salience >= 0.40
    assert scores(replace(state, access_count=needed, decaying=0.1), terms, T0).salience == 0.40


def test_salience_is_capped_at_one() -> None:
    state = replace(belief(salience=0.9), boost=0.4)
    assert scores(state, DEFAULT, T0).salience == 1.0


# Ages at the edges


@pytest.mark.parametrize("policy", BUILT_IN)
@pytest.mark.parametrize("early", [1, DAY, 365 * DAY, CENTURY * DAY])
def test_before_the_segment_the_age_is_zero(policy: str, early: int) -> None:
    """Ages are never below 0: a time before the segment gives what it begins with, not e^(+λ·a)."""
    terms = shipped(policy)
    for profile in DecayProfile:
        state = replace(belief(terms, profile_override=profile), boost=0.1)
        assert scores(state, terms, T0 - early) == scores(state, terms, T0)
        assert scores(state, terms, T0 - early).salience == 0.6


@pytest.mark.parametrize("years", [100, 1000])
@pytest.mark.parametrize("rate", [0.0, 1e-300, 0.02, 100.0])
@pytest.mark.parametrize(
    "curve", [{}, {"curve": "power_law"}, {"curve": "power_law", "scale_days": 1e-3}, {"curve": "fsrs"}]
)
def test_centuries_neither_overflow_nor_underflow(years: int, rate: float, curve: dict) -> None:
    terms = own(profiles={"MEDIUM": {"lambda": rate, **curve}}, rho=100, mu_multiplier=10)
    span = round(years * 365.25 * DAY)
    for state in (belief(terms), replace(belief(terms), segment_age=span, boost=1e-9, confidence_base=1e-9)):
        found = scores(state, terms, T0 + span)
        numbers = (found.decaying, found.boost, found.salience, found.confidence)
        assert all(0 <= number <= 1 for number in numbers)
        if rate == 100.0 and not curve:
            assert (found.salience, found.confidence) == (0.0, 0.0)


def test_a_curve_goes_on_from_its_age() -> None:
    """decaying(t) = d0 · R(a0 + τ)/R(a0): what has aged on a power law falls slower than what is new."""
    terms = own(profiles={"MEDIUM": {"lambda": 0.5, "curve": "power_law", "scale_days": 2}})
    curve = power_law(0.5, 2)
    aged = replace(belief(terms), segment_age=30 * DAY)
    assert scores(aged, terms, after(34)).decaying == pytest.approx(0.5 * curve(64) / curve(30), abs=1e-12)
    assert scores(aged, terms, after(34)).decaying > scores(belief(terms), terms, after(34)).decaying


# One closed formula: nothing compounds


@pytest.mark.parametrize("profile", RATES)
def test_sixty_evaluations_a_minute_apart_equal_one_of_an_hour(profile: str) -> None:
    """A score is a function of the facts and as_of alone, never of an already decayed score."""
    passed = once = replace(belief(profile_override=profile), boost=0.3)
    for minute in range(1, 61):
        passed = facts.scored(passed, DEFAULT, T0 + minute * MINUTE)
    once = facts.scored(once, DEFAULT, T0 + HOUR)
    assert passed == once
    expected = 0.5 * exponential(RATES[profile])(1 / 24) + 0.3 * math.exp(-0.1 / 24)
    assert once.salience == near(expected)


# Confidence is apart from salience


@pytest.mark.parametrize(("profile", "rate"), RATES.items())
def test_confidence_falls_at_half_the_rate_of_salience(profile: str, rate: float) -> None:
    """μ = 0.5·λ: when salience has halved, confidence is at 1/√2."""
    assert parameters(Params(), DecayProfile(profile)).mu == rate / 2
    state = belief(confidence=0.8, profile_override=profile)
    half_life = after(math.log(2) / rate)
    assert scores(state, DEFAULT, half_life).confidence == near(0.8 * 0.707106781187)
    assert scores(state, DEFAULT, 2 * half_life - T0).confidence == near(0.4)


@pytest.mark.parametrize(("multiplier", "left"), [(0.0, 0.8), (1.0, 0.294303553), (2.0, 0.108268227)])
def test_mu_multiplier_moves_confidence_only(multiplier: float, left: float) -> None:
    """λ = 0.02, fifty days: 0.8, 0.8·e^(−1), 0.8·e^(−2)."""
    terms = own(mu_multiplier=multiplier)
    found = scores(belief(terms), terms, after(50))
    assert found.confidence == near(left)
    assert found.salience == near(0.183939721)


def test_boost_fades_at_its_own_rate() -> None:
    """ρ = 0.10 per day, whatever the profile: half of it is gone after ln 2/0.10 days."""
    for profile in DecayProfile:
        state = replace(belief(profile_override=profile), boost=0.40)
        assert scores(state, DEFAULT, after(math.log(2) / 0.10)).boost == near(0.20)


def test_observed_confidence_is_flat_until_the_180th_day_and_continuous_from_there() -> None:
    """OBSERVED does not age before 180 days without access; then it starts from where it is: one boundary."""
    state = belief(epistemic_type="OBSERVED")
    boundary = T0 + 180 * DAY
    for at in (T0, after(1), after(179.999), boundary - 1, boundary):
        assert scores(state, DEFAULT, at).confidence == 0.8
    assert 0.8 - 1e-9 <= scores(state, DEFAULT, boundary + 1).confidence <= 0.8
    # A tenth of a second later: 0.8·(1 − 0.0025·0.1/86,400) = 0.8 − 2.3e−9.
    assert scores(state, DEFAULT, boundary + 100_000).confidence == 0.799999998
    for days in (1, 10, 100, 1000):
        expected = 0.8 * math.exp(-0.0025 * days)
        assert scores(state, DEFAULT, boundary + days * DAY).confidence == near(expected)


def test_observed_salience_ages_from_the_first_day() -> None:
    state = belief(epistemic_type="OBSERVED")
    assert scores(state, DEFAULT, after(100)).salience == near(0.303265330)
