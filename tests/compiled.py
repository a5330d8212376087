"""Compiled statements for all tests of a process: most of them have a store, and so an engine, of their own.

SQLAlchemy compiles for each engine anew, since its dialect belongs to it; that took a quarter of the suite. Here the
dialects of a kind are as good as one, which they are: every store of a run is on the same DuckDB or PostgreSQL.
"""

from __future__ import annotations

from typing import Any

import pytest
from duckdb_sqlalchemy import Dialect as DuckDBDialect
from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.util import LRUCache

from ebbtide.store import duckdb, postgres

_compiled: LRUCache[Any, Any] = LRUCache(2000)


def share(patch: pytest.MonkeyPatch) -> None:
    """Has all engines of stores that are opened from now on share what is compiled."""
    for dialect in (DuckDBDialect, PGDialect_psycopg):
        patch.setattr(dialect, "__hash__", lambda self: hash(type(self)))
        patch.setattr(dialect, "__eq__", lambda self, other: type(self) is type(other))
    for module in (duckdb, postgres):
        patch.setattr(module, "create_engine", _sharing)


def _sharing(*given: Any, **options: Any) -> Engine:
    engine = create_engine(*given, **options)
    engine._compiled_cache = _compiled
    return engine
