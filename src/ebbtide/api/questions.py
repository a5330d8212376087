"""Named audit queries: which there are, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from ebbtide.api.opened import Opened
from ebbtide.audit import queries
from ebbtide.audit.queries import Given, Query


@dataclass(frozen=True)
class Answer:
    """The rows of a query."""

    columns: list[str]
    rows: list[list[Any]]


class Questions(Opened):
    """Named queries over the audit views. Nothing here changes anything."""

    def audit_queries(self) -> list[Query]:
        """The named queries at hand, by name."""
        return [query for _, query in sorted(queries.library().items())]

    def audit(self, name: str, **parameters: Given) -> Answer:
        """The answer of a named query; a parameter it does not know, lacks or cannot read is refused."""
        query = queries.pick(name, queries.library())
        values = query.values(parameters, self._clock())
        with self.store.begin() as connection:
            result = connection.execute(text(query.typed()), values)
            return Answer(list(result.keys()), [list(row) for row in result])
