"""Logs of a memory whose curve is known: facts at random, each recalled with the probability that the curve gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ebbtide.fit.exposures import Exposures, Facts, exposures
from ebbtide.model.instant import DAY

Recall = Callable[[int, list[tuple[float, bool]]], float]
"""The probability of a recall: of the number of recalls before, and all reviews so far with the days before each.

The last of them is the one that is asked about, whose outcome is not known yet.
"""


def lived(recall: Recall, *, objects: int, signals: int, seed: int, profile: str = "MEDIUM", longest: float = 40) -> Facts:
    """Objects that are each asked about so many times, after 1 to `longest` days, most after few."""
    dice = np.random.default_rng(seed)
    rows = []
    for of in range(objects):
        at, recalls, past = 0.0, 0, list[tuple[float, bool]]()
        for _ in range(signals):
            gap = float(np.exp(dice.uniform(0, np.log(longest))))
            at += gap
            known = bool(dice.random() < recall(recalls, [*past, (gap, False)]))
            past.append((gap, known))
            recalls += known
            rows.append((of, "REINFORCE" if known else "PENALTY", round(at * DAY)))
    of, op, at = (np.array(column) for column in zip(*rows, strict=True))
    size = len(rows)
    return Facts(
        object=of,
        profile=np.full(size, profile, dtype=object),
        kind=np.full(size, "ASSERTED//", dtype=object),
        created_at=np.zeros(size, dtype=np.int64),
        op=op.astype(object),
        at=at.astype(np.int64),
        effect=np.full(size, 0.1),
        stops=np.zeros(size, dtype=np.int64),
    )


def since_recall(past: list[tuple[float, bool]]) -> float:
    """Days from the last recall, or the beginning, to the review that is asked about."""
    days = 0.0
    for gap, known in reversed(past):
        days += gap
        if known and (gap, known) != past[-1]:
            return days - gap
    return days


def exposed(recall: Recall, **given: int) -> Exposures:
    return exposures(lived(recall, **given))
