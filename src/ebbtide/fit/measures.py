"""How well predictions of recall did: log loss, calibration over bins, and AUC."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebbtide.fit.exposures import Exposures

LEAST = 1e-6
"""No prediction counts as surer than this: a single miss of what was held to be certain would outweigh all else."""


def certain_at_most(recall: Any) -> Any:
    """Predictions within the least and the most that counts."""
    return np.clip(recall, LEAST, 1 - LEAST)


def losses(recall: Any, recalled: Any) -> Any:
    """−ln of the probability that was given to what happened, per exposure."""
    p = certain_at_most(recall)
    return -np.where(recalled, np.log(p), np.log1p(-p))


def bins(found: Exposures) -> Any:
    """The bin of each exposure: by days since the signal before and by uses before, each doubling from bin to bin.

    They do not depend on what a model predicts, so that models are compared over the same ones.
    """
    days = np.floor(np.log2(np.maximum(found.idle, 2.0**-11))).astype(np.int64)
    uses = np.floor(np.log2(found.reinforcements + 1.0)).astype(np.int64)
    return np.unique(days * 64 + uses, return_inverse=True)[1]


def rmse(recall: Any, recalled: Any, bin_: Any) -> float:
    """The root of the mean square, over bins by their size, of predicted less actual recall."""
    count = np.bincount(bin_)
    error = np.bincount(bin_, weights=recall - recalled) / count
    return float(np.sqrt(np.average(error**2, weights=count)))


def auc(recall: Any, recalled: Any) -> float | None:
    """The probability that a recall was predicted higher than a miss, ties as one half; None without one of either."""
    _, place, count = np.unique(recall, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    hits, misses = int(recalled.sum()), int((~recalled).sum())
    if not hits or not misses:
        return None
    return float((rank[recalled].sum() - hits * (hits + 1) / 2) / (hits * misses))
