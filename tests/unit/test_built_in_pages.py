"""The numbers of the built-in policies' pages follow from their sources' formulas, and so does what the policies do.

Each source's algorithm stands here a second time, in plain Python, as the source states it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from math import exp, inf, log, sqrt
from pathlib import Path

import pytest
from beliefs import T0, after, belief, shipped
from fsrs import Card, Rating, Scheduler
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebbtide.decay import facts, rank
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms, evaluate
from ebbtide.model.instant import DAY, HOUR, to_datetime, to_micros
from ebbtide.model.state import MemoryState
from ebbtide.model.words import EpistemicType, PenaltySignal, SourceType, initial_confidence

PAGES = Path(__file__).parents[2] / "docs" / "policies"
DEFAULT, ARCHIVIST, SPACED, RECENCY = (shipped(name) for name in ("default", "archivist", "spaced", "recency"))
PERMASTORE, CRITICAL, TRANSIENT = (shipped(f"permastore{name}") for name in ("", "-critical", "-transient"))
NEAR = {"abs": 1.1e-9}
"""Scores are rounded to nine decimals."""


def table(page: str, nth: int = 0) -> list[list[str]]:
    """The cells of a table of a page's worked numbers, without its head."""
    section = (PAGES / page).read_text(encoding="utf-8").split("\n## Worked numbers\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[nth]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in found.splitlines()[2:]]


def text(page: str) -> str:
    return (PAGES / page).read_text(encoding="utf-8")


def salience(state: MemoryState, terms: Terms, at: int) -> float:
    return float(facts.shown(state, terms, at)[0])


def used(terms: Terms, times: int, **given: object) -> MemoryState:
    """A memory that was accessed so many times, all at `T0`."""
    state = belief(terms, **given)  # type: ignore[arg-type]
    return facts.accessed(replace(state, access_count=times - 1), terms, T0) if times else state


def days_to(rule_at: int | None) -> float:
    return inf if rule_at is None else (rule_at - T0) / DAY


# RFC-0007


RATES = {"PERMANENT": 0.0, "SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
PROFILES = {
    "OBSERVED": "SLOW",
    "ASSERTED": "MEDIUM",
    "INFERRED": "FAST",
    "HYPOTHETICAL": "RAPID",
    "UNVERIFIED": "RAPID",
}


def rfc(salience: float, confidence: float, known: str, archivist: bool = False) -> tuple[float, float, str, str]:
    """When a memory leaves, in days; its confidence then, the rule, and the state it is in from then on."""
    rate = RATES[PROFILES[known]]
    grace = 180 if known == "OBSERVED" else 0
    sinks = log(salience / 0.10) / rate
    doubted = inf if archivist else grace + log(confidence / 0.15) / (rate / 2)
    days = min(sinks, doubted)
    left = confidence * exp(-rate / 2 * max(0.0, days - grace))
    if doubted <= sinks:
        return days, left, "deprecate_by_confidence", "DEPRECATED"
    return days, left, "archive", "DEPRECATED" if left < 0.40 and not archivist else "ARCHIVED"


def outcome(state: MemoryState, terms: Terms) -> tuple[float, float, str, str]:
    there = facts.standing(state, terms, state.exit_at).scores.confidence
    to = leaves_for(SCALAR, terms.by_profile[state.decay_profile], state.exit_rule, there)
    return days_to(state.exit_at), there, state.exit_rule or "", to


def test_default_has_the_rfcs_half_lives() -> None:
    rows = table("default.md")
    assert [row[0] for row in rows] == ["SLOW", "MEDIUM", "FAST", "RAPID"]
    for profile, rate, half, *left in rows:
        assert float(rate) == RATES[profile]
        assert half == f"{log(2) / RATES[profile]:.1f}"
        assert left == [f"{0.9 * exp(-RATES[profile] * days):.3f}" for days in (7, 30, 90, 365)]
        state = belief(salience=0.9, profile_override=profile)
        at = T0 + round(log(2) / RATES[profile] * DAY)
        assert salience(state, DEFAULT, at) == pytest.approx(0.45, **NEAR), "half is left at the half-life"


def test_what_becomes_of_a_memory_from_a_high_salience_under_default_and_archivist() -> None:
    rows = table("default.md", 1)
    assert len(rows) == 8
    for known, source, confidence, days, left, rule, default, archivist in rows:
        begins, _ = initial_confidence(EpistemicType(known), SourceType(source))
        assert confidence == f"{begins:.2f}"
        expected = rfc(0.9, begins, known)
        assert (days, left, rule, default) == (f"{expected[0]:.1f}", f"{expected[1]:.3f}", *expected[2:])
        assert archivist == rfc(0.9, begins, known, archivist=True)[3] == "ARCHIVED"
        given = {"salience": 0.9, "confidence": begins, "epistemic_type": known, "source_type": source}
        for terms, gentle in ((DEFAULT, False), (ARCHIVIST, True)):
            found, meant = outcome(belief(terms, **given), terms), rfc(0.9, begins, known, gentle)
            assert found == (pytest.approx(meant[0], abs=2e-5), pytest.approx(meant[1], abs=1e-6), *meant[2:])
    assert {row[0] for row in rows if row[6] == "ARCHIVED"} == {"OBSERVED"}
    assert f"leave after {rfc(0.9, 0.35, 'HYPOTHETICAL', archivist=True)[0]:.1f} days" in text("default.md")


@settings(deadline=None)
@given(
    salience=st.floats(0.11, 1.0), confidence=st.floats(0.0, 1.0), profile=st.sampled_from(["MEDIUM", "FAST", "RAPID"])
)
def test_it_ends_deprecated_unless_confidence_begins_at_040_times_the_root(
    salience: float, confidence: float, profile: str
) -> None:
    """With μ = λ/2 what sinks from s to 0.10 keeps c·√(0.10/s): whatever λ is."""
    least = 0.40 * sqrt(salience / 0.10)
    assume(abs(confidence - least) > 1e-4)
    state = belief(salience=salience, confidence=confidence, profile_override=profile)
    assert outcome(state, DEFAULT)[3] == ("ARCHIVED" if confidence >= least else "DEPRECATED")
    assert outcome(belief(ARCHIVIST, salience=salience, confidence=confidence), ARCHIVIST)[3] == "ARCHIVED"


def test_what_the_page_says_of_high_saliences() -> None:
    assert "For s = 0.9 that is 1.20" in text("default.md")
    assert 0.40 * sqrt(0.9 / 0.10) == pytest.approx(1.20)
    observed = 0.40 * exp(0.0025 * (log(9) / 0.005 - 180))
    assert f"{observed:.2f}" == "0.77"
    for confidence, to in ((observed + 1e-4, "ARCHIVED"), (observed - 1e-4, "DEPRECATED")):
        state = belief(salience=0.9, confidence=confidence, epistemic_type="OBSERVED")
        assert outcome(state, DEFAULT)[3] == to


def test_archivist_goes_by_salience_alone() -> None:
    rows = table("archivist.md")
    assert len(rows) == 4
    for profile, *days in rows:
        assert days == [f"{log(s / 0.10) / RATES[profile]:.1f}" for s in (0.9, 0.5, 0.2)]
        for s, shown in zip((0.9, 0.5, 0.2), days, strict=True):
            state = belief(ARCHIVIST, salience=s, confidence=0.01, profile_override=profile)
            found = outcome(state, ARCHIVIST)
            assert (f"{found[0]:.1f}", found[3]) == (shown, "ARCHIVED")


# ForgettingMechanism


class Mechanism:
    """The mechanism with its default settings, computing from the original importance as it means to."""

    floor = threshold = 0.05

    @staticmethod
    def rate(accesses: int) -> float:
        return 0.15 / min(2.0, 1.0 + 0.05 * accesses)

    def half_life_hours(self, accesses: int) -> float:
        return 24.0 / max(self.rate(accesses), 1e-9)

    def importance(self, original: float, accesses: int, hours: float) -> float:
        lam = log(2) / self.half_life_hours(accesses)
        return max(self.floor, original * exp(-lam * hours))

    def keeps(self, original: float, accesses: int, hours: float) -> bool:
        return self.importance(original, accesses, hours) > self.threshold


MECHANISM = Mechanism()


def test_spaced_has_the_mechanisms_numbers() -> None:
    rows = table("spaced.md")
    assert len(rows) == 6
    for accesses, rate, half, *left, warned, gone in rows:
        n = int(accesses)
        hours = MECHANISM.half_life_hours(n)
        assert (rate, half) == (f"{MECHANISM.rate(n):.4f}", f"{hours:.0f}")
        # The page shows what is below the floor as well, where nothing is floored.
        assert left == [f"{0.5 * 0.5 ** (days * 24 / hours):.3f}" for days in (1, 7, 14, 30)]
        assert warned == f"{hours / 24 * log(0.5 / 0.20) / log(2):.1f}"
        assert gone == f"{hours / 24 * log(0.5 / 0.05) / log(2):.1f}"
        state = used(SPACED, n)
        assert (f"{days_to(state.due_at):.1f}", f"{days_to(state.exit_at):.1f}") == (warned, gone)
    rate = SPACED.policy.params.profiles["MEDIUM"].rate
    assert rate == round(log(2) / (160 / 24), 9)
    assert f"= {rate} per day" in text("spaced.md")


@settings(deadline=None)
@given(
    original=st.floats(0.051, 1.0),
    accesses=st.integers(0, 40),
    hours=st.floats(0.0, 2000.0),
    profile=st.sampled_from(["SLOW", "MEDIUM", "FAST", "RAPID"]),
)
def test_spaced_scores_and_keeps_what_the_mechanism_means_to(
    original: float, accesses: int, hours: float, profile: str
) -> None:
    state = used(SPACED, accesses, salience=original, profile_override=profile)
    at = T0 + round(hours * HOUR)
    meant = MECHANISM.importance(original, accesses, hours)
    assert max(0.05, salience(state, SPACED, at)) == pytest.approx(meant, abs=2e-8)
    assert state.exit_at is not None
    assume(abs(at - state.exit_at) > 2 * 10**6)
    assert (at < state.exit_at) == MECHANISM.keeps(original, accesses, hours)


def test_spaced_leaves_confidence_alone() -> None:
    assert facts.shown(belief(SPACED), SPACED, after(1000))[1] == 0.8


# The forgetting chapter


def test_recency_is_the_chapters() -> None:
    rows = table("recency.md")
    assert [(int(hours), shown) for _, hours, shown in rows] == [
        (1, "0.995"),
        (24, "0.887"),
        (48, "0.786"),
        (168, "0.431"),
        (720, "0.027"),
        (2000, "0.000044"),
    ]
    for _, hours, shown in rows:
        factor = rank.recency(RECENCY.policy.params.rank, T0, T0 + int(hours) * HOUR)
        assert f"{factor:.{len(shown) - 2}f}" == shown
        assert factor == pytest.approx(0.995 ** int(hours), rel=1e-12)
    assert round(2000 / 24) == 83


@pytest.mark.parametrize("kind", ["FACT", "PREFERENCE", "DECISION", "SUMMARY", "TASK", "INTENT"])
def test_events_expire_90_days_after_their_last_access_and_facts_and_rules_do_not(kind: str) -> None:
    state = belief(RECENCY, object_type=kind)
    event = kind in ("SUMMARY", "TASK", "INTENT")
    assert (state.due_at, state.due_rule) == ((after(90), "ttl") if event else (None, None))
    later = facts.accessed(state, RECENCY, after(89))
    assert later.expires_at == (after(89 + 90) if event else None)
    assert salience(state, RECENCY, after(10_000)) == 0.5


# Spector


def exponent(rate: float, recalls: int, alpha: float = 0.5) -> float:
    return rate / (1 + alpha * log(recalls + 1))


def spector(begins: float, rate: float, recalls: int, days: float, floor: float = 0.0) -> float:
    """S·t^(−λ), but with t counted from 1, so that it is 1 at once; at least the floor."""
    return max(begins * (1 + days) ** -exponent(rate, recalls), floor)


SPECTOR = {"SLOW": 0.05, "MEDIUM": 0.25, "FAST": 0.50, "RAPID": 1.00}
FLOORED_FROM = {"SLOW": 5, "MEDIUM": 10, "FAST": 20, "RAPID": inf}


def test_permastores_exponents_fall_with_recall() -> None:
    rows = table("permastore.md")
    for recalls, *shown in rows:
        assert shown == [f"{exponent(rate, int(recalls)):.4f}" for rate in SPECTOR.values()]


def test_permastore_falls_fast_and_then_hardly() -> None:
    rows = table("permastore.md", 1)
    assert [row[0] for row in rows] == list(SPECTOR)
    for profile, *shown, warned, gone in rows:
        rate = SPECTOR[profile]
        assert shown == [f"{spector(0.5, rate, 0, days):.3f}" for days in (1, 7, 30, 365)]
        assert warned == f"{(0.5 / 0.30) ** (1 / rate) - 1:.1f}"
        assert gone == ("never" if profile == "SLOW" else f"{(0.5 / 0.10) ** (1 / rate) - 1:.1f}")
        state = belief(PERMASTORE, profile_override=profile)
        assert f"{days_to(state.exit_at):.1f}" == {"never": "inf"}.get(gone, gone)


def test_permastore_comes_close_to_the_sources_own_curve() -> None:
    own, ours = table("permastore.md", 2)
    ages = (0.01, 1, 7, 30, 365)
    assert own[1:] == [f"{age**-0.25:.3f}" for age in ages]
    assert ours[1:] == [f"{(1 + age) ** -0.25:.3f}" for age in ages]


@settings(deadline=None)
@given(
    profile=st.sampled_from(list(SPECTOR)),
    recalls=st.integers(0, 60),
    days=st.floats(0, 20_000),
    begins=st.floats(0.01, 1.0),
)
def test_permastore_is_the_sources_formula(profile: str, recalls: int, days: float, begins: float) -> None:
    given = {"salience": begins, "profile_override": profile}
    rate = SPECTOR[profile]
    for terms, base, floor in (
        (PERMASTORE, rate, 0.40 if recalls >= FLOORED_FROM[profile] else 0.0),
        (CRITICAL, 0.05, 0.40),
        (TRANSIENT, 1.00, 0.0),
    ):
        state = used(terms, recalls, **given)
        scores = evaluate(SCALAR, terms.by_profile[profile], state, after(days))
        assert scores.salience == pytest.approx(spector(state.baseline, base, recalls, days, floor), abs=2e-9)
        assert scores.confidence == 0.8, "the source knows no confidence, and λ is no rate"


@pytest.mark.parametrize("profile", SPECTOR)
def test_a_recall_resets_the_clock(profile: str) -> None:
    state = facts.accessed(belief(PERMASTORE, profile_override=profile), PERMASTORE, after(3))
    expected = spector(0.5, SPECTOR[profile], 1, 4)
    assert salience(state, PERMASTORE, after(7)) == pytest.approx(expected, **NEAR)


def test_nothing_leaves_under_critical_and_what_begins_low_shows_the_floor() -> None:
    for profile in SPECTOR:
        state = belief(CRITICAL, salience=0.2, profile_override=profile)
        assert (state.due_at, salience(state, CRITICAL, T0)) == (None, 0.40)
    assert days_to(belief(TRANSIENT).exit_at) == pytest.approx(4.0, abs=2e-5)


# FSRS-6


def test_fsrs_has_the_curve_of_fsrs_6() -> None:
    factor = 0.9 ** (-1 / 0.1542) - 1
    assert f"− 1 = {factor:.3f}" in text("fsrs.md")
    terms = shipped("fsrs")
    warned, gone = [], []
    for profile, stability, *shown in table("fsrs.md"):
        s = float(stability)
        assert shown == [f"{(1 + factor * days / s) ** -0.1542:.3f}" for days in (1, 7, 30, 90, 365)]
        state = belief(terms, profile_override=profile)
        assert state.stability == s
        warned.append(s / factor * ((0.5 / 0.30) ** (1 / 0.1542) - 1))
        gone.append(s / factor * ((0.5 / 0.10) ** (1 / 0.1542) - 1))
        assert days_to(state.due_at) == pytest.approx(warned[-1], abs=2e-5)
    said = "{:.1f}, {:.1f}, {:.1f} and {:.1f} days".format(*warned)
    assert said in text("fsrs.md")
    assert f"after {gone[-1]:.0f} days under RAPID" in text("fsrs.md")
    assert min(gone[:-1]) > 100 * 365.25


def test_fsrs_learns_as_the_reference_does() -> None:
    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    terms, state, when = shipped("fsrs"), belief(shipped("fsrs")), to_datetime(T0)
    card, _ = scheduler.review_card(Card(), Rating.Good, when)
    rows = table("fsrs.md", 1)
    assert len(rows) == 5
    for days, signal, recalled, stability in rows:
        when += timedelta(days=int(days))
        assert recalled == f"{scheduler.get_card_retrievability(card, when):.3f}"
        good = signal == "REINFORCE"
        card, _ = scheduler.review_card(card, Rating.Good if good else Rating.Again, when)
        assert stability == f"{card.stability:.2f}"
        at = to_micros(when)
        if good:
            state = facts.reinforced(state, terms, at, 0.15)
        else:
            state = facts.penalised(state, terms, at, PenaltySignal.CORRECTED, 0.25)
        assert state.stability == pytest.approx(card.stability, abs=1e-6)
