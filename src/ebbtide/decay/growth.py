"""How a store grows: one that only ever adds, and one in which memories merge and events expire.

The model of the forgetting chapter, in months of 30 days. Of the memories that arrive, a share merges into others; of
those that are added, a share are events, which expire so many days after they came. Nobody reads, so none lives longer.
It knows averages only: no clock, no chance, no store.
"""

from __future__ import annotations

from dataclasses import dataclass

MONTH_DAYS = 30


@dataclass(frozen=True, slots=True)
class Growth:
    """What arrives each month and what becomes of it; the defaults are the chapter's one active user.

    `arrivals` is memories a month, `merge_rate` the share of them that merges, `events` the share of events among
    those that are added, `ttl_days` how long an event lasts.
    """

    arrivals: float = 180.0
    merge_rate: float = 0.45
    events: float = 0.40
    ttl_days: float = 90.0

    def kept_all(self, months: float) -> float:
        """How many memories there are after some months if everything is added."""
        return self.arrivals * months

    def kept(self, months: float) -> float:
        """How many there are if memories merge and events expire."""
        return self.arrivals * (1 - self.merge_rate) * self._months_each_counts(months)

    def saved(self, months: float) -> float:
        """The share of memories that are not there, of those there would be."""
        return 1 - self.kept(months) / self.kept_all(months)

    def merge_rate_for(self, size: float, months: float) -> float:
        """The merge rate by which there are so many memories after some months; 0 where there are no more anyway."""
        unmerged = self.arrivals * self._months_each_counts(months)
        return 1 - size / unmerged if size < unmerged else 0.0

    def _months_each_counts(self, months: float) -> float:
        """The months of arrivals that are still there: all of them, but of events only the last."""
        lasting = min(months, self.ttl_days / MONTH_DAYS)
        return (1 - self.events) * months + self.events * lasting
