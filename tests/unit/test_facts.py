"""What signals and accesses do to a memory object: RFC-0008's arithmetic, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import pytest
from beliefs import DEFAULT, T0, after, belief, nine, own, power_law, shipped

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import LifecycleState, PenaltySignal

near = partial(pytest.approx, abs=1.5e-9)
GAMMA = {"REFERENCED": 0.08, "CONFIRMED": 0.15, "TASK_COMPLETED_WITH": 0.12, "CORROBORATED_BY_EXTERNAL": 0.10}
DELTA = {
    "CORRECTED": 0.25,
    "CONTRADICTED_BY_OBSERVATION": 0.20,
    "TASK_FAILED_WITH": 0.10,
    "IGNORED_REPEATEDLY": 0.05,
}
CEILING = {
    "OBSERVED": 0.97,
    "ASSERTED": 0.92,
    "INFERRED": 0.85,
    "HYPOTHETICAL": 0.65,
    "CONDITIONAL": 0.85,
    "UNVERIFIED": 0.50,
}
CONTINUE = own(on_reinforce="continue")


def reinforced(state: MemoryState, days: float, gamma: float, terms: Terms = DEFAULT) -> MemoryState:
    return facts.reinforced(state, terms, after(days), gamma)


def penalised(state: MemoryState, days: float, signal: str, terms: Terms = DEFAULT) -> MemoryState:
    delta = terms.policy.params.reinforcement.delta[signal]
    return facts.penalised(state, terms, after(days), PenaltySignal(signal), delta)


# γ and δ


def test_the_signals_have_the_rfc_s_weights() -> None:
    rules = DEFAULT.policy.params.reinforcement
    assert rules.gamma == GAMMA
    assert rules.delta == {**DELTA, "UNUSED": 0}
    assert rules.ceiling == CEILING
    assert (rules.boost_cap, rules.session_cap, rules.independence_discount) == (0.40, 0.40, 0.4)
    assert (rules.baseline_gain, rules.penalty_share, rules.corrected_floor) == (0.5, 0.3, 0.05)


@pytest.mark.parametrize(
    ("signal", "confidence", "baseline", "salience"),
    [
        ("REFERENCED", 0.816, 0.52, 0.60),  # 0.8 + 0.08·0.2; 0.5 + 0.08·0.5·0.5; 0.52 + 0.08
        ("CONFIRMED", 0.83, 0.5375, 0.6875),
        ("TASK_COMPLETED_WITH", 0.824, 0.53, 0.65),
        ("CORROBORATED_BY_EXTERNAL", 0.82, 0.525, 0.625),
    ],
)
def test_each_reinforcement_by_hand(signal: str, confidence: float, baseline: float, salience: float) -> None:
    state = reinforced(belief(), 0, GAMMA[signal])
    assert state.confidence_base == state.confidence == near(confidence)
    assert state.baseline == state.decaying == near(baseline)
    assert state.boost == GAMMA[signal]
    assert state.salience == near(salience)


@pytest.mark.parametrize(
    ("signal", "confidence", "baseline"),
    [
        ("CORRECTED", 0.6, 0.4625),  # 0.8·0.75; 0.5·(1 − 0.3·0.25)
        ("CONTRADICTED_BY_OBSERVATION", 0.64, 0.47),
        ("TASK_FAILED_WITH", 0.72, 0.485),
        ("IGNORED_REPEATEDLY", 0.76, 0.4925),
    ],
)
def test_each_penalty_by_hand(signal: str, confidence: float, baseline: float) -> None:
    state = penalised(belief(), 0, signal)
    assert state.confidence_base == state.confidence == near(confidence)
    assert state.baseline == state.decaying == state.salience == near(baseline)
    assert state.boost == 0


def test_a_reinforcement_after_35_days_by_hand() -> None:
    """MEDIUM: c = 0.8·e^(−0.35), then + 0.08·(1 − c); the clock restarts at the new baseline."""
    state = reinforced(belief(), 35, 0.08)
    assert state.confidence_base == near(0.598650434)
    assert (state.baseline, state.decaying, state.boost) == (near(0.52), near(0.52), 0.08)
    assert (state.segment_at, state.segment_age) == (after(35), 0)
    assert facts.shown(state, DEFAULT, after(45))[0] == near(0.52 * math.exp(-0.2) + 0.08 * math.exp(-1))


def test_a_penalty_after_35_days_by_hand() -> None:
    """The decaying part stands at 0.5·e^(−0.7) and loses 0.3·0.25 of it; so does the undecayed baseline."""
    state = penalised(belief(), 35, "CORRECTED")
    assert state.confidence_base == near(0.422812854)
    assert state.decaying == near(0.248292652 * 0.925)
    assert state.baseline == near(0.4625)


@pytest.mark.parametrize(("epistemic", "ceiling"), CEILING.items())
def test_a_ceiling_holds_gains_and_never_lowers(epistemic: str, ceiling: float) -> None:
    known = partial(belief, epistemic_type=epistemic, condition="TRUE" if epistemic == "CONDITIONAL" else None)
    assert reinforced(known(confidence=nine(ceiling - 0.001)), 0, 0.15).confidence_base == ceiling
    assert reinforced(known(confidence=ceiling), 0, 0.15).confidence_base == ceiling
    assert reinforced(known(confidence=nine(ceiling + 0.02)), 0, 0.15).confidence_base == nine(ceiling + 0.02)
    often = known(confidence=0.1)
    for _ in range(100):
        often = reinforced(often, 0, 0.15)
    assert often.confidence_base == ceiling


# The boost


def test_the_old_boost_decays_first_and_the_new_one_is_added() -> None:
    """0.08·e^(−0.10·7) + 0.15."""
    assert reinforced(reinforced(belief(), 0, 0.08), 7, 0.15).boost == near(0.189726824)


def test_boosts_add_up_to_the_cap() -> None:
    boosts, state = [], belief()
    for _ in range(4):
        state = reinforced(state, 0, 0.15)
        boosts.append(state.boost)
    assert boosts == [near(0.15), near(0.30), 0.40, 0.40]


def test_the_cap_is_the_policy_s_and_never_lowers() -> None:
    terms = own(reinforcement={"boost_cap": 0.2})
    assert reinforced(reinforced(belief(terms), 0, 0.15, terms), 0, 0.15, terms).boost == 0.2
    assert reinforced(replace(belief(terms), boost=0.35), 0, 0.15, terms).boost == 0.35


def test_a_boost_unused_for_a_year_does_not_come_back_whole() -> None:
    """0.40·e^(−36.5) is nothing: the next signal counts from there, not from the 0.40 that once was."""
    hot = replace(belief(), boost=0.40)
    assert reinforced(hot, 365, 0.08).boost == 0.08
    assert facts.shown(reinforced(hot, 365, 0.08), DEFAULT, after(365))[0] == near(0.60)


def test_the_boost_decays_apart_from_the_profile() -> None:
    state = reinforced(belief(profile_override="PERMANENT"), 0, 0.10)
    assert facts.shown(state, DEFAULT, after(10))[0] == near(0.525 + 0.10 * math.exp(-1))


# on_reinforce


def test_restore_goes_back_to_the_baseline_and_continue_goes_on() -> None:
    """After 35 days the decaying part is 0.5·e^(−0.7); the gain is 0.08·0.5·0.5 = 0.02."""
    assert reinforced(belief(), 35, 0.08).decaying == near(0.52)
    going_on = reinforced(belief(CONTINUE), 35, 0.08, CONTINUE)
    assert going_on.decaying == near(0.268292652)
    assert going_on.baseline == near(0.52)
    assert going_on.segment_age == 0


def test_restore_adds_centrality_and_stops_at_one() -> None:
    assert reinforced(replace(belief(), centrality=0.05), 35, 0.08).decaying == near(0.57)
    assert reinforced(replace(belief(salience=0.99), centrality=0.05), 35, 0.08).decaying == 1.0


def test_restore_never_lowers_the_decaying_part() -> None:
    assert reinforced(replace(belief(), decaying=0.9), 0, 0.08).decaying == 0.9


@pytest.mark.parametrize(
    ("clock", "restarts"), [("last_reinforced", True), ("last_accessed", True), ("created", False)]
)
def test_a_reinforcement_restarts_the_clocks_that_are_its(clock: str, restarts: bool) -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.5, "curve": "power_law", "clock": clock}})
    state = reinforced(belief(terms), 15, 0.08, terms)
    assert state.segment_age == (0 if restarts else 15 * DAY)
    assert state.decaying == near(0.52 if restarts else 0.125)  # 0.5·16^(−1/2)
    ten_days_on = 0.52 * 11**-0.5 if restarts else 0.5 * 26**-0.5
    assert facts.standing(state, terms, after(25)).scores.decaying == near(ten_days_on)


# Penalties


@pytest.mark.parametrize(
    ("signal", "before", "after_it"),
    [
        ("CORRECTED", 0.08, 0.06),
        ("CORRECTED", 0.06, 0.05),  # 0.06·0.75 = 0.045
        ("CORRECTED", 0.05, 0.05),
        ("CORRECTED", 0.04, 0.04),  # the floor never lifts
        ("TASK_FAILED_WITH", 0.05, 0.045),
        ("CONTRADICTED_BY_OBSERVATION", 0.05, 0.04),
        ("IGNORED_REPEATEDLY", 0.04, 0.038),
    ],
)
def test_corrected_has_a_floor_and_the_others_have_none(signal: str, before: float, after_it: float) -> None:
    assert penalised(belief(confidence=before), 0, signal).confidence_base == near(after_it)


def test_unused_changes_nothing() -> None:
    state = reinforced(belief(), 1, 0.08)
    assert penalised(state, 10, "UNUSED") == state


def test_an_effective_gamma_of_zero_changes_nothing() -> None:
    state = reinforced(belief(), 1, 0.08)
    assert reinforced(state, 10, 0.0) == state


def test_a_penalty_keeps_clock_and_boost() -> None:
    terms = own(profiles={"MEDIUM": {"lambda": 0.5, "curve": "power_law"}})
    state = penalised(reinforced(belief(terms), 0, 0.08, terms), 15, "CORRECTED", terms)
    assert state.segment_age == 15 * DAY
    assert (state.reinforced_at, state.reinforce_count) == (T0, 1)
    assert state.boost == near(0.08 * math.exp(-1.5))
    curve, there = power_law(0.5, 1.0), facts.standing(state, terms, after(25)).scores
    assert there.decaying == near(0.52 * curve(25) * 0.925)
    assert there.boost == near(0.08 * math.exp(-2.5))


# Clocks


CLOCKS = ("created_at", "modified_at", "accessed_at", "reinforced_at", "restored_at", "decayed_at")
archived = facts.left(belief(), DEFAULT, after(5), LifecycleState.ARCHIVED)


@pytest.mark.parametrize(
    ("state", "fact", "moved"),
    [
        (belief(), facts.accessed, {"accessed_at"}),
        (archived, facts.accessed, {"accessed_at"}),
        (belief(), partial(facts.reinforced, gamma=0.08), {"reinforced_at"}),
        (belief(), partial(facts.penalised, signal=PenaltySignal.CORRECTED, delta=0.25), set()),
        (belief(), facts.pinned, set()),
        (facts.pinned(belief(), DEFAULT, after(1)), facts.unpinned, set()),
        (archived, facts.restored, {"restored_at"}),
        (belief(), partial(facts.left, to=LifecycleState.SUPERSEDED), set()),
    ],
)
def test_a_fact_moves_no_clock_but_its_own(state: MemoryState, fact: Callable, moved: set[str]) -> None:
    new = fact(state, DEFAULT, after(10))
    assert {name for name in CLOCKS if getattr(new, name) != getattr(state, name)} == moved
    assert all(getattr(new, name) == after(10) for name in moved)


# ACCESS


def changed(old: MemoryState, new: MemoryState) -> set[str]:
    return {name for name, value in asdict(new).items() if value != getattr(old, name)}


def test_access_is_not_reinforcement() -> None:
    """Being shown is not being confirmed: under the default clock it counts, and that is all."""
    state = belief()
    seen = facts.accessed(state, DEFAULT, after(20))
    assert changed(state, seen) == {"accessed_at", "access_count"}
    assert facts.shown(seen, DEFAULT, after(40)) == facts.shown(state, DEFAULT, after(40))


@pytest.mark.parametrize("on_reinforce", ["restore", "continue"])
def test_access_restarts_a_clock_of_last_access_but_adds_no_boost(on_reinforce: str) -> None:
    profile = {"lambda": 0.02, "clock": "last_accessed"}
    terms = own(profiles={"MEDIUM": profile}, on_reinforce=on_reinforce)
    seen = facts.accessed(belief(terms), terms, after(35))
    assert (seen.segment_at, seen.segment_age) == (after(35), 0)
    assert seen.decaying == near(0.5 if on_reinforce == "restore" else 0.248292652)
    assert (seen.baseline, seen.boost, seen.reinforce_count) == (0.5, 0.0, 0)
    assert seen.confidence_base == near(0.563750472)


@pytest.mark.parametrize("days", [20, 180, 200, 300])
def test_access_on_observed_sets_c0_and_g_only(days: int) -> None:
    """c0 = confidence(t) and g = t + 180 d: what has aged stays aged, and stands for another 180 days."""
    state = belief(epistemic_type="OBSERVED")
    seen = facts.accessed(state, DEFAULT, after(days))
    stood = 0.8 * math.exp(-0.0025 * max(0, days - 180))
    assert seen.confidence_base == near(stood)
    assert seen.confidence_from == after(days + 180)
    assert changed(state, seen) <= {
        "accessed_at", "access_count", "confidence_base", "confidence_from", "exit_at", "exit_rule"
    }  # fmt: skip
    shown = partial(facts.shown, seen, DEFAULT)
    assert shown(after(days))[1] == shown(after(days + 180))[1] == near(stood)
    assert shown(after(days + 280))[1] == near(stood * math.exp(-0.25))
    assert shown(after(days + 50))[0] == facts.shown(state, DEFAULT, after(days + 50))[0]


def test_access_counts_where_the_rate_depends_on_it() -> None:
    """permastore, MEDIUM: the exponent 0.25 falls to 0.25/(1 + 0.5·ln 2), from the restart on."""
    terms = shipped("permastore")
    seen = facts.accessed(belief(terms), terms, after(10))
    assert facts.shown(seen, terms, after(90))[0] == near(0.5 * 81 ** (-0.25 / (1 + 0.5 * math.log(2))))
