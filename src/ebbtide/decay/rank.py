"""Rank: how a caller's similarity and effective salience make one score. The formula is the policy's.

`product` is similarity × salience; `weighted_sum` Spector's α·similarity + β·salience. Both are multiplied by
recency = base^(hours since the last access), which is 1 unless the policy says otherwise.
"""

from ebbtide.model.instant import HOUR
from ebbtide.policy.document import Rank


def recency(rank: Rank, used_at: int, at: int) -> float:
    """The recency factor of a memory last used at one instant (µs), seen from another; 1 for one used later."""
    return float(rank.recency_base_per_hour ** (max(0, at - used_at) / HOUR))


def score(rank: Rank, similarity: float, salience: float, recent: float) -> float:
    """The score to order by, best first."""
    if rank.formula == "product":
        return similarity * salience * recent
    return (rank.alpha * similarity + rank.beta * salience) * recent
