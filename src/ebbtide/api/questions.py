"""Named audit queries: which there are, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.api.auditing import Auditing
from ebbtide.audit import queries
from ebbtide.audit.queries import Given, Query
from ebbtide.audit.select import ROWS, SECONDS, Answer


class Questions(Auditing):
    """Named queries over the audit views. Nothing here can change anything.

    Their parameters are texts, numbers or instants; a query that does not know, lacks or cannot read one is refused
    with `BadInput`. What holds of `sql` holds of them.
    """

    def audit_queries(self) -> list[Query]:
        """The named queries, by name."""
        return [query for _, query in sorted(queries.library(self._queries).items())]

    def audit_query(self, name: str) -> Query:
        """A named query. Raises `NotFound` where there is none of that name."""
        return queries.pick(name, queries.library(self._queries))

    def audit(
        self,
        name: str,
        parameters: Mapping[str, Given] | None = None,
        *,
        limit: int = ROWS,
        seconds: float = SECONDS,
        **more: Given,
    ) -> Answer:
        """The first rows that a named query gives; parameters as a mapping, or by name."""
        sql, values = self._statement(name, {**(parameters or {}), **more})
        return self.sql(sql, values, limit=limit, seconds=seconds)

    def audit_to_csv(
        self, name: str, file: Path | str, parameters: Mapping[str, Given] | None = None, *, seconds: float = SECONDS
    ) -> int:
        """Writes all rows that a named query gives as CSV with a header; how many there are."""
        sql, values = self._statement(name, parameters or {})
        return self.sql_to_csv(sql, file, values, seconds=seconds)

    def audit_to_parquet(
        self, name: str, file: Path | str, parameters: Mapping[str, Given] | None = None, *, seconds: float = SECONDS
    ) -> int:
        """Writes all rows that a named query gives as Parquet; how many there are."""
        sql, values = self._statement(name, parameters or {})
        return self.sql_to_parquet(sql, file, values, seconds=seconds)

    def _statement(self, name: str, given: Mapping[str, Given]) -> tuple[str, dict[str, str | int | float | None]]:
        query = self.audit_query(name)
        return query.typed(), query.values(given, self._clock())
