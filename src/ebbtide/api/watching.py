"""Watching: where the store stands, for whoever keeps an eye on it."""

from __future__ import annotations

from ebbtide.api.opened import Opened
from ebbtide.audit.standing import Standing, standing


class Watching(Opened):
    """What an operator's tools want to know."""

    def standing(self) -> Standing:
        """Where the store stands now, in a few counts."""
        with self.store.begin() as connection:
            return standing(self.store.db, connection, self._clock(), self.store.head_revision())
