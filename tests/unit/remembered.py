"""Logs of a memory whose curve is known: facts at random, each recalled with the probability that the curve gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ebbtide.fit.exposures import Facts
from ebbtide.model.instant import DAY

Past = Sequence[tuple[int, bool]]
"""The reviews so far: after how many days each, and whether it was a recall."""
Recall = Callable[[Past, int], float]
"""The probability of a recall: of the reviews so far, and the days since the last."""


def lived(recall: Recall, *, objects: int, signals: int, seed: int = 1, profile: str = "MEDIUM") -> Facts:
    """Objects that are each asked about so many times, each time after 1 to 40 days, more often after few."""
    dice = np.random.default_rng(seed)
    rows = []
    for of in range(objects):
        day, past = 0, list[tuple[int, bool]]()
        for _ in range(signals):
            gap = int(np.exp(dice.uniform(0, np.log(40.9))))
            known = bool(dice.random() < recall(past, gap))
            past.append((gap, known))
            day += gap
            rows.append((of, "REINFORCE" if known else "PENALTY", day * DAY))
    return facts(rows, profile=profile)


def facts(rows: Sequence[tuple[int, str, int]], *, profile: str = "MEDIUM", stops: Sequence[int] = ()) -> Facts:
    """Facts by object, operation and µs since the objects were asserted; those in `stops` stop time."""
    of, op, at = (np.array([row[place] for row in rows], dtype=kind) for place, kind in enumerate((int, object, int)))
    size = len(rows)
    return Facts(
        object=of,
        profile=np.full(size, profile, dtype=object),
        kind=np.full(size, "ASSERTED//", dtype=object),
        created_at=np.zeros(size, dtype=np.int64),
        op=op,
        at=at,
        effect=np.where((op == "REINFORCE") | (op == "PENALTY"), 0.1, 0.0),
        stops=np.isin(np.arange(size), stops).astype(int),
    )


def since_recall(past: Past, gap: int) -> int:
    """Days since the last recall, or since the beginning."""
    for days, known in reversed(past):
        if known:
            break
        gap += days
    return gap


def recalls(past: Past) -> int:
    return sum(known for _, known in past)
