"""Auditing: SQL over the audit views, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebbtide.api.opened import Opened
from ebbtide.audit import select as selects
from ebbtide.audit.select import ROWS, SECONDS, Answer
from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.model.instant import DAY, SECOND
from ebbtide.store.database import Database


class Auditing(Opened):
    """What auditors ask. Nothing here can change anything."""

    def sql(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        limit: int = ROWS,
        seconds: float = SECONDS,
    ) -> Answer:
        """The first rows that one SELECT over the audit views gives; the query names its parameters as `:name`.

        It reads in a transaction of its own, on PostgreSQL with the rights of `ebbtide_auditor`, on DuckDB in a process
        of its own. Raises `BadInput` for anything but one SELECT over the views, and where it takes more than
        `seconds`.
        """
        if limit < 0:
            raise BadInput("must be 0 or more", field="limit")
        return selects.select(self._asked(seconds), query, parameters, limit=limit, seconds=seconds)

    def sql_to_csv(
        self, query: str, file: Path | str, parameters: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
    ) -> int:
        """Writes all rows of such a query as CSV with a header, however many; how many there are."""
        return selects.write_csv(self._asked(seconds), query, Path(file), parameters, seconds=seconds)

    def sql_to_parquet(
        self, query: str, file: Path | str, parameters: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
    ) -> int:
        """Writes all rows of such a query as Parquet, however many; how many there are."""
        return selects.write_parquet(self._asked(seconds), query, Path(file), parameters, seconds=seconds)

    def expect_questions(self) -> None:
        """Has the next queries answered sooner: on DuckDB the process that each takes is started before it is asked."""
        self.store.db.expect_questions()

    def _asked(self, seconds: float) -> Database:
        if not 0 < seconds <= DAY / SECOND:
            raise BadInput("must be above 0 and at most 86400", field="timeout")
        if not self.store.db.exists():
            raise StoreUnavailable("the store is not set up: run `ebb init`")
        return self.store.db
