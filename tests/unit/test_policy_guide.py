"""The numbers of the policy guide follow from the formulas, and from what the rules do with a memory."""

from __future__ import annotations

import re
from math import exp, log, sqrt
from pathlib import Path

import pytest
from beliefs import DEFAULT, T0, after, belief, shipped

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import EpistemicType, SourceType, initial_confidence
from ebbtide.policy.files import pick

PAGE = (Path(__file__).parents[2] / "docs" / "policy-guide.md").read_text(encoding="utf-8")
RATES = {name.value: profile.rate for name, profile in pick("default@1.0.0").params.profiles.items()}
MEDIUM, MU = RATES["MEDIUM"], RATES["MEDIUM"] / 2


def table(heading: str, nth: int = 0) -> list[list[str]]:
    """The cells of a table under a heading, without its own head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[nth]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in found.splitlines()[2:]]


def numbers(heading: str, nth: int = 0) -> list[list[float]]:
    return [[float(cell) for cell in row] for row in table(heading, nth)]


def left(state: MemoryState, terms: Terms) -> tuple[float, str, str]:
    """When a memory leaves if nothing touches it, in days; by which rule, and for which state."""
    there = facts.standing(state, terms, state.exit_at).scores
    to = leaves_for(SCALAR, terms.by_profile[state.decay_profile], state.exit_rule, there.confidence)
    return round((state.exit_at - T0) / DAY, 1), state.exit_rule, to


def test_half_lives():
    for profile, rate, half, *shares in table("λ and half-life"):
        assert float(rate) == RATES[profile]
        assert half == f"{log(2) / RATES[profile]:.1f}"
        assert shares == [f"{exp(-RATES[profile] * days):.0%}" for days in (1, 7, 30, 90, 365)]


def test_how_long_until_a_rule_strikes():
    rows = table("How long until a rule strikes")
    assert len(rows) == 12
    for profile, salience, *days in rows:
        expected = [max(0.0, log(float(salience) / threshold) / RATES[profile]) for threshold in (0.30, 0.10, 0.05)]
        assert days == [f"{wait:.1f}" for wait in expected]
        state = belief(salience=float(salience), confidence=1.0, profile_override=profile)
        assert left(state, DEFAULT)[0] == pytest.approx(expected[1], abs=0.051)
    assert log(9) / MEDIUM - log(5) / MEDIUM == pytest.approx(29, abs=0.5)
    assert f"{log(3) / MEDIUM:.1f} under MEDIUM and {log(3) / RATES['RAPID']:.1f} under RAPID" in PAGE


def test_the_confidence_from_which_on_it_is_archived():
    for salience, least in numbers("What confidence decides"):
        assert least == pytest.approx(0.40 * sqrt(salience / 0.10), abs=0.0005)
        # The least one within [0, 1] is enough, and a little less is not.
        enough, too_little = (belief(salience=salience, confidence=c) for c in (min(1.0, least + 0.001), least - 0.001))
        assert (left(enough, DEFAULT)[2], left(too_little, DEFAULT)[2]) == ("ARCHIVED", "DEPRECATED")
    assert f"for s = 0.5 below {0.15 * sqrt(0.5 / 0.10):.3f}" in PAGE
    assert f"from s = 0.5 arrives with {0.80 * 0.2**0.1:.2f}" in PAGE


def test_what_becomes_of_what_nobody_touches():
    rows = table("What confidence decides", 1)
    assert len(rows) == 10
    for known, source, confidence, days, rule, default, archivist in rows:
        begins, _ = initial_confidence(EpistemicType(known), SourceType(source))
        assert float(confidence) == begins
        given = {"confidence": begins, "epistemic_type": known, "source_type": source}
        assert left(belief(**given), DEFAULT) == (float(days), rule, default)
        assert left(belief(shipped("archivist"), **given), shipped("archivist"))[2] == archivist


def test_the_rates_for_a_term():
    for term, *rates, half in numbers("Choosing λ"):
        assert rates == [pytest.approx(log(s / 0.10) / term, abs=0.00005) for s in (0.9, 0.5, 0.3)]
        assert half == pytest.approx(log(2) / log(5) * term, abs=0.05)


def test_what_is_left_when_a_ttl_ends():
    for days, *saliences in numbers("ttl or decay"):
        rates = [RATES[name] for name in ("SLOW", "MEDIUM", "FAST", "RAPID")]
        assert saliences == [pytest.approx(0.5 * exp(-rate * days), abs=0.005) for rate in rates]


def test_what_a_signal_does():
    rules = DEFAULT.policy.params.reinforcement
    for signal, gamma, salience, confidence, stays in table("What reinforcement does"):
        kind, _, who = signal.partition(", ")
        worth = rules.gamma[kind] * (rules.independence_discount if "agent" in who else 1)
        assert float(gamma) == pytest.approx(worth)
        before, at = belief(), after(30)
        then = facts.reinforced(before, DEFAULT, at, worth)
        scores = facts.standing(before, DEFAULT, at).scores
        assert salience == f"{scores.salience:.3f} → {then.salience:.3f}"
        assert confidence == f"{scores.confidence:.3f} → {then.confidence:.3f}"
        assert stays == f"{(then.exit_at - at) / DAY:.1f}"


def test_where_confidence_settles():
    for gamma, *settled in numbers("What reinforcement does", 1):
        for days, shown in zip((7, 14, 30, 60), settled, strict=True):
            state = belief(confidence=0.1)
            for nth in range(1, 80):
                state = facts.reinforced(state, DEFAULT, after(nth * days), gamma)
            assert shown == pytest.approx(state.confidence_base, abs=0.0005)
            assert shown == pytest.approx(gamma / (1 - (1 - gamma) * exp(-MU * days)), abs=0.0005)
