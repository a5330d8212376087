"""Surveying: a namespace at a glance, for whoever would rather look than ask."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ebbtide.api.opened import Opened, When, at_most, micros
from ebbtide.audit import ahead as coming
from ebbtide.audit import over_time as counting
from ebbtide.audit.ahead import Ahead, Check
from ebbtide.audit.over_time import CountsAt
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier
from ebbtide.model.instant import DAY


class Surveying(Opened):
    """A namespace at a glance. Nothing here changes anything."""

    def now(self) -> datetime:
        """The instant that the store's clock shows."""
        return instant.to_datetime(self._clock())

    def over_time(
        self, *, namespace: str = DEFAULT_NAMESPACE, days: int = 30, every: int = 1, as_of: When = None
    ) -> list[CountsAt]:
        """How many memories were eligible, warned, archived and so on at an instant, and on so many days before it.

        At the same time of each day, or of `every` so many days, by profile; a profile without memories has no row.
        """
        if not 0 <= days <= MOST_DAYS:
            raise BadInput(f"must be from 0 to {MOST_DAYS}", field="days")
        if not 1 <= every <= MOST_DAYS:
            raise BadInput(f"must be from 1 to {MOST_DAYS}", field="every")
        at = micros(as_of, "as-of")
        with self.store.begin() as connection:
            return counting.over_time(
                self.store.db,
                connection,
                identifier(namespace, "namespace"),
                self._clock() if at is None else at,
                steps=days // every,
                step=every * DAY,
            )

    def ahead(
        self, *, namespace: str = DEFAULT_NAMESPACE, within: Sequence[int] = (0, 1, 7, 30), limit: int = 10
    ) -> Ahead:
        """What is due next if nothing touches it: the first memories, and how many within so many days, by rule."""
        instants = [self._clock() + days * DAY for days in within]
        with self.store.begin() as connection:
            return coming.ahead(connection, identifier(namespace, "namespace"), instants, at_most(limit) or 0)

    def last_check(self, *, namespace: str = DEFAULT_NAMESPACE) -> Check | None:
        """What the last verification that was recorded in a namespace's log found."""
        with self.store.begin() as connection:
            return coming.last_check(connection, identifier(namespace, "namespace"))


MOST_DAYS = 366
"""So far back the counts over time go."""
