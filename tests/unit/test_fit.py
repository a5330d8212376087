"""Fitting: what is known is found again, from logs whose curve is known, and what is read of them."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fsrs import Card, Rating, Scheduler
from remembered import facts, lived, recalls, since_recall
from sklearn.metrics import log_loss, roc_auc_score

from ebbtide.fit.estimate import Likelihood, bootstrapped, interval, is_told, maximise, resampled
from ebbtide.fit.exposures import Facts, exposures
from ebbtide.fit.fitting import Fit, Fitting
from ebbtide.fit.measures import auc, bins, losses, rmse
from ebbtide.fit.models import FAMILIES, faded, under
from ebbtide.model.errors import CheckFailed
from ebbtide.model.instant import DAY
from ebbtide.model.words import DecayProfile
from ebbtide.policy.files import library, pick
from ebbtide.policy.weights import FSRS_6

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
PAGE = ROOT / "docs" / "fit.md"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the review data is not at {DATA}")
FAMILY = {family.name: family for family in FAMILIES}
DEFAULT = pick("default@1.0.0")
WEIGHTS = (*FSRS_6[:2], 1.0, *FSRS_6[3:8], 0.9, *FSRS_6[9:20], 0.5)


@cache
def remembering(past: tuple[tuple[int, bool], ...]) -> Card:
    """The reference's card after some reviews, under `WEIGHTS`; asserted is learnt with good."""
    reference = Scheduler(WEIGHTS, learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    if not past:
        return reference.review_card(Card(card_id=1), Rating.Good, start)[0]
    *before, (gap, known) = past
    card = remembering(tuple(before))
    assert card.last_review is not None
    return reference.review_card(card, Rating.Good if known else Rating.Again, card.last_review + timedelta(days=gap))[
        0
    ]


def learnt(past, gap: int) -> float:
    stretch, stability = 0.9 ** (-1 / 0.5) - 1, remembering(tuple(past)).stability
    assert stability is not None
    return (1 + stretch * gap / stability) ** -0.5


KNOWN = {
    "exponential": (lambda past, gap: math.exp(-0.05 * since_recall(past, gap)), {"lambda": 0.05}),
    "power_law": (
        lambda past, gap: (1 + since_recall(past, gap) / 2) ** -0.3,
        {"lambda": 0.3, "scale_days": 2.0},
    ),
    "exponential by use": (
        lambda past, gap: math.exp(-0.08 * since_recall(past, gap) / (1 + 0.6 * math.log(recalls(past) + 1))),
        {"lambda": 0.08, "alpha": 0.6},
    ),
    "power_law by use": (
        lambda past, gap: (1 + since_recall(past, gap) / 3) ** (-0.6 / (1 + 0.8 * math.log(recalls(past) + 1))),
        {"lambda": 0.6, "scale_days": 3.0, "alpha": 0.8},
    ),
    "fsrs": (learnt, {"w2": 1.0, "w8": 0.9, "w20": 0.5}),
}
"""By curve: the probability of a recall, and the numbers in it."""


@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers_are_found_within_their_intervals(name: str) -> None:
    """Of six logs each, every number at least five times: the intervals are of 95 %."""
    recall, numbers = KNOWN[name]
    within = dict.fromkeys(numbers, 0)
    for seed in range(6):
        found = exposures(lived(recall, objects=120, signals=6, seed=seed))
        seen = Likelihood(FAMILY[name], DEFAULT.params, DecayProfile.MEDIUM, found, np.ones(len(found), bool))
        best = maximise(seen)
        assert is_told(seen, best)
        samples = bootstrapped(seen, best, resampled(120, 200, np.random.default_rng(seed)))
        for free, low, high in zip(FAMILY[name].free, *interval(np.exp(samples)), strict=True):
            within[free.name] += low <= numbers[free.name] <= high
            assert high / low < 60, "and they say something"
    assert min(within.values()) >= 5, within


@pytest.mark.parametrize("name", ["exponential", "power_law", "fsrs"])
def test_the_curve_that_it_was_is_taken(name: str) -> None:
    """Of all families, the one the log was made with; it does better than the constant and than what is built in."""
    found = exposures(lived(KNOWN[name][0], objects=500, signals=6, seed=3))
    fit = Fitting(DEFAULT, [policy for policy, _ in library().values()]).run(found, "fitted", "1.0.0")
    (profile,) = fit.profiles
    assert profile.chosen == name
    taken = next(score for score in profile.scores if score.model == name)
    assert all(taken.log_loss < score.log_loss for score in profile.scores if score.kind != "fitted")
    made = fit.policy.params.profiles[DecayProfile.MEDIUM]
    assert made.curve == name
    written = made.weights or (made.rate, made.scale_days)
    assert {number.value for number in taken.numbers} <= set(written)
    others = {profile: one for profile, one in fit.policy.params.profiles.items() if profile != "MEDIUM"}
    assert others == {profile: one for profile, one in DEFAULT.params.profiles.items() if profile != "MEDIUM"}


def test_what_a_log_cannot_tell_apart_is_not_taken() -> None:
    """Where every object was used just once before, the rate and what use makes of it are one number."""
    recall = lambda past, gap: math.exp(-0.05 * gap) if past else 1.0  # noqa: E731
    found = exposures(lived(recall, objects=300, signals=2))
    found = found.at(np.flatnonzero(found.reinforcements == 1))
    fit = Fitting(DEFAULT, families=["exponential", "exponential by use"]).run(found, "fitted", "1.0.0")
    told = {score.model: score.told for score in fit.profiles[0].scores if score.kind == "fitted"}
    assert told == {"exponential": True, "exponential by use": False}
    assert fit.profiles[0].chosen == "exponential"


def test_the_same_seed_gives_the_same_fit() -> None:
    found = exposures(lived(KNOWN["exponential"][0], objects=60, signals=5))
    fits = [Fitting(DEFAULT, families=["exponential"], seed=seed).run(found, "fitted", "1.0.0") for seed in (7, 7, 8)]
    assert fits[0] == fits[1]
    assert fits[0] != fits[2]


def test_too_little_is_refused_with_what_is_missing() -> None:
    few = lived(KNOWN["exponential"][0], objects=19, signals=4)
    with pytest.raises(CheckFailed, match="MEDIUM has 19 of 20 objects"):
        Fitting(DEFAULT).run(exposures(few), "fitted", "1.0.0")
    sure = lived(lambda past, gap: 1.0, objects=30, signals=3)
    with pytest.raises(CheckFailed, match="0 of 20 misses"):
        Fitting(DEFAULT).run(exposures(sure), "fitted", "1.0.0")
    with pytest.raises(CheckFailed, match="nothing to fit"):
        Fitting(DEFAULT).run(exposures(replace(few, profile=np.full(len(few.at), "PERMANENT"))), "fitted", "1.0.0")
    with pytest.raises(CheckFailed, match="0 of 20 objects"):
        Fitting(DEFAULT, min_days=1000).run(exposures(few), "fitted", "1.0.0")


def test_what_is_left_as_it_is_says_why() -> None:
    """One profile has enough, another not: the first is fitted, the second keeps what it had."""
    much = lived(KNOWN["power_law"][0], objects=100, signals=6)
    little = lived(KNOWN["power_law"][0], objects=5, signals=3, profile="FAST")
    little = replace(little, object=little.object + 100)
    both = Facts(*(np.concatenate([getattr(one, f) for one in (much, little)]) for f in Facts.__dataclass_fields__))
    fit = Fitting(DEFAULT, families=["power_law"]).run(exposures(both), "fitted", "1.0.0")
    assert [(one.profile, one.chosen, one.refused is None) for one in fit.profiles] == [
        ("MEDIUM", "power_law", True),
        ("FAST", "current", False),
    ]
    assert fit.policy.params.profiles[DecayProfile.FAST] == DEFAULT.params.profiles[DecayProfile.FAST]


# What is read of facts


def test_exposures_by_hand() -> None:
    """Two objects: ages by each clock, counts of uses, and what a restore, a pin and a signal without effect do."""
    rows = [
        (0, "PENALTY", 1 * DAY),
        (0, "ACCESS", 2 * DAY),
        (0, "REINFORCE", 4 * DAY),
        (0, "PENALTY", 9 * DAY),
        (0, "RESTORE", 20 * DAY),
        (0, "REINFORCE", 20 * DAY),
        (0, "REINFORCE", 21 * DAY),
        (1, "RESTORE", 3 * DAY),
        (1, "REINFORCE", 5 * DAY),
        (1, "PIN", 6 * DAY),
        (1, "PENALTY", 8 * DAY),
    ]
    given = facts(rows, stops=[9])
    given.effect[3] = 0.0  # UNUSED
    found = exposures(given)
    assert found.object.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert found.recalled.tolist() == [False, True, False, True, True, True, False]
    assert found.reviews.tolist() == [True, True, False, True, True, True, True]
    assert found.since_created.tolist() == [1, 4, 9, 20, 1, 2, 5], "a restore right before a signal is the signal's own"
    assert found.since_reinforced.tolist() == [1, 4, 5, 16, 1, 2, 3]
    assert found.since_accessed.tolist() == [1, 2, 5, 16, 1, 2, 3]
    assert found.since_review.tolist() == [1, 3, 5, 16, 1, 2, 3]
    assert found.idle.tolist() == [1, 3, 5, 11, 1, 5, 3]
    assert found.reinforcements.tolist() == [0, 0, 1, 1, 2, 0, 1]
    assert found.accesses.tolist() == [0, 1, 1, 1, 1, 0, 0]
    assert found.stood.tolist() == [False] * 6 + [True]


def test_predictions_follow_the_profile_that_a_policy_gives() -> None:
    """By the clock and the uses it counts; an ASSERTED object is PERMANENT under `recency`, and never fades."""
    found = exposures(facts([(0, "ACCESS", DAY), (0, "REINFORCE", 4 * DAY), (0, "PENALTY", 14 * DAY)]))
    assert np.exp(-under(DEFAULT, found)).tolist() == pytest.approx([math.exp(-0.02 * 4), math.exp(-0.02 * 10)])
    permastore = [(1 + age) ** (-0.25 / (1 + 0.5 * math.log(2))) for age in (3, 10)]
    assert np.exp(-under(pick("permastore@1.0.0"), found)).tolist() == pytest.approx(permastore)
    assert under(pick("recency@1.0.0"), found).tolist() == [0, 0]
    own = replace(found, kind=np.full(len(found), "ASSERTED//RAPID", dtype=object))
    assert np.exp(-under(DEFAULT, own)).tolist() == pytest.approx([math.exp(-0.2 * 4), math.exp(-0.2 * 10)])


def test_stability_of_whole_columns_is_that_of_the_reference() -> None:
    """R of every exposure of random reviews, as py-fsrs has it, under other weights than its own."""
    given = lived(learnt, objects=25, signals=8)
    found = exposures(given)
    seen = Likelihood(FAMILY["fsrs"], DEFAULT.params, DecayProfile.MEDIUM, found, np.ones(len(found), bool))
    recall = np.exp(-faded(seen.params([1.0, 0.9, 0.5]), DecayProfile.MEDIUM, found))
    expected, past = [], list[tuple[int, bool]]()
    for place in range(len(found)):
        if found.object[place] != found.object[place - 1]:
            past = []
        gap = round(found.since_review[place])
        expected.append(learnt(past, gap))
        past.append((gap, bool(found.recalled[place])))
    assert recall.tolist() == pytest.approx(expected, rel=1e-9)


# How predictions are judged


def test_log_loss_and_auc_are_those_of_scikit_learn() -> None:
    dice = np.random.default_rng(4)
    recall = np.round(dice.random(500), 1)
    recalled = dice.random(500) < recall
    kept = np.clip(recall, 1e-6, 1 - 1e-6)
    assert losses(recall, recalled).mean() == pytest.approx(log_loss(recalled, kept))
    assert auc(recall, recalled) == pytest.approx(roc_auc_score(recalled, recall))
    assert auc(recall, np.ones(500, bool)) is None


def test_rmse_by_hand() -> None:
    """Bins by idle days and uses, each doubling: two exposures of 4 and 7 days are one bin, that of 8 another."""
    found = exposures(facts([(0, "PENALTY", 4 * DAY), (1, "REINFORCE", 7 * DAY), (2, "REINFORCE", 8 * DAY)]))
    bin_ = bins(found)
    assert bin_[0] == bin_[1] != bin_[2]
    recall = np.array([0.8, 0.9, 0.7])
    assert rmse(recall, found.recalled, bin_) == pytest.approx(math.sqrt((2 * 0.35**2 + 0.3**2) / 3))


# Real forgetting, as docs/fit.md tells it


def told(section: str, number: int = 0) -> list[list[str]]:
    """The cells of a table under a heading of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n", 1)[1]
    table = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[number]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]


def assert_told(fit: Fit, section: str) -> dict[str, float]:
    """Every number of a table on the page is what the fit gives; its log losses."""
    scores = {score.model: score for score in fit.profiles[0].scores}
    for model, kind, *cells in told(section):
        score = scores[model.strip("`")]
        assert score.auc is not None
        between = f"{score.log_loss_low:.3f}–{score.log_loss_high:.3f}"
        assert (kind, *cells) == (score.kind, f"{score.log_loss:.3f}", between, f"{score.rmse:.3f}", f"{score.auc:.3f}")
    return {name: score.log_loss for name, score in scores.items()}


@needs_data
def test_half_a_year_of_flashcards() -> None:
    """FSRS and the power law beat the constant, which beats any exponential."""
    with (DATA / "anki-reviews.csv").open(encoding="utf-8") as file:
        rows = [
            (int(row["card_id"]), datetime.fromisoformat(row["review_time"]), int(row["review_rating"]))
            for row in csv.DictReader(file)
        ]
    rows.sort()
    card = np.unique([of for of, *_ in rows], return_inverse=True)[1]
    at = np.array([round(when.timestamp() * 1e6) for _, when, _ in rows])
    made = facts([(0, "PENALTY" if rating == 1 else "REINFORCE", 0) for *_, rating in rows])
    made = replace(made, object=card, at=at, created_at=at[np.searchsorted(card, card)])
    fit = Fitting(DEFAULT, [policy for policy, _ in library().values()]).run(exposures(made), "fitted", "1.0.0")
    loss = assert_told(fit, "Half a year of flashcards")
    assert loss["fsrs"] < loss["FSRS-6's defaults"] < loss["power_law"] < loss["constant"] < loss["exponential"]
    assert fit.profiles[0].chosen == "fsrs"


@needs_data
def test_ebbinghaus_own_numbers_prefer_the_power_law() -> None:
    """His savings as shares of a thousand recalls at each delay."""
    with (DATA / "ebbinghaus-1885.csv").open(encoding="utf-8") as file:
        rows = [(float(row["delay_minutes"]), float(row["savings"])) for row in csv.DictReader(file)]
    told_of = [
        ("REINFORCE" if one < round(1000 * share) else "PENALTY", round(minutes * 60e6))
        for minutes, share in rows
        for one in range(1000)
    ]
    found = exposures(facts([(place, op, at) for place, (op, at) in enumerate(told_of)]))
    fit = Fitting(DEFAULT, min_days=0, families=["exponential", "power_law"]).run(found, "fitted", "1.0.0")
    loss = assert_told(fit, "Ebbinghaus, 1885")
    assert loss["power_law"] < loss["constant"] < loss["exponential"]
    assert fit.profiles[0].chosen == "power_law"
    numbers = {score.model: [number.value for number in score.numbers] for score in fit.profiles[0].scores}
    (rate,), (exponent, scale) = numbers["exponential"], numbers["power_law"]
    for (minutes, share), (_, *cells) in zip(rows, told("Ebbinghaus, 1885", 1), strict=True):
        days = minutes / 1440
        assert cells == [f"{one:.3f}" for one in (share, math.exp(-rate * days), (1 + days / scale) ** -exponent)]
