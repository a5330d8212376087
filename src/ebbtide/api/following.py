"""Reading along: the log as it grows, and what those who keep copies have to drop."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ebbtide.api.opened import Opened
from ebbtide.audit.evictions import Evictions, acknowledge, evictions
from ebbtide.memory import read
from ebbtide.memory.read import LogEntry
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model.identity import identifier

PAGE = 1_000
"""Entries read at a time."""


class Following(Opened):
    """For readers that follow the log at their own pace and can catch up any time."""

    def follow(
        self, namespace: str = DEFAULT_NAMESPACE, after_seq: int = 0, *, wait: float | None = None
    ) -> Iterator[LogEntry]:
        """The entries of a namespace behind a place, in order and without a gap.

        Ends with the log, or, with `wait`, looks for more every so many seconds, for ever. Between pages nothing is
        held: no transaction, and on DuckDB not the file.
        """
        identifier(namespace, "namespace")
        seq = after_seq
        while True:
            with self.store.begin() as connection:
                page = read.behind(connection, namespace, seq, PAGE)
            yield from page
            if page:
                seq = page[-1].seq
            elif wait is None:
                return
            else:
                time.sleep(wait)

    def evictions(self, consumer: str, *, namespace: str = DEFAULT_NAMESPACE) -> Evictions:
        """What left retrieval since a named consumer's place: the same again until it is acknowledged."""
        identifier(consumer, "consumer")
        with self.store.begin() as connection:
            return evictions(self.store.db, connection, namespace, consumer, self._clock())

    def acknowledge(self, consumer: str, position: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Says that a consumer has dealt with everything up to a position that `evictions` gave."""
        identifier(consumer, "consumer")
        with self.store.begin() as connection:
            acknowledge(self.store.db, connection, namespace, consumer, position)
