"""What a pass tells while it goes on, for logs and metrics."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.organise.lease import Taken
from ebbtide.organise.ledger import Run


class Reports:
    """Told of a pass while it goes on. This one makes nothing of it.

    `counts` is whether the entries that are written are to be counted by type, which takes a query for each chunk.
    """

    counts = False

    def ran(self, run: Run, seconds: float) -> None:
        """A slot came to its end, or its namespace was found set aside."""

    def wrote(self, entries: Mapping[str, int]) -> None:
        """A chunk was committed, with so many entries of each type."""

    def waited(self, seconds: float) -> None:
        """So long it took to get a namespace's lock, or DuckDB's file."""

    def passed_by(self, why: Taken) -> None:
        """A namespace was left to others, or for later."""
