"""The store: a URL, one of the two databases behind it, its migrations and its transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.policy.files import shipped
from ebbtide.store.database import Database
from ebbtide.store.duckdb import DuckDB
from ebbtide.store.postgres import PostgreSQL

_migrating = threading.Lock()
"""Alembic keeps what it works on in its modules: one thread at a time."""

DEFAULT_URL = "duckdb:///ebbtide.duckdb"


def database_at(url: str, wait: float) -> Database:
    """The database of a URL: `duckdb:///file` or `postgresql://…`. Nothing is opened yet."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise BadInput(
            f"{url!r} is no database URL: write duckdb:///file.duckdb or postgresql://…", field="url"
        ) from error
    kind = parsed.drivername.partition("+")[0]
    if kind == "duckdb":
        if not parsed.database or parsed.database == ":memory:":
            raise BadInput("DuckDB needs a file: write duckdb:///path/file.duckdb", field="url")
        return DuckDB(parsed, wait=wait)
    if kind in ("postgresql", "postgres"):
        return PostgreSQL(_with_psycopg(parsed), wait=wait)
    raise BadInput(f"{kind} is not supported: use duckdb:///file.duckdb or postgresql://…", field="url")


def _with_psycopg(url: URL) -> URL:
    return url.set(drivername="postgresql+psycopg")


class Store:
    """A migrated database, and transactions on it.

    `wait` is how many seconds a busy store is waited for.
    """

    def __init__(self, url: str, *, wait: float = 30.0) -> None:
        self.url = url
        self.db = database_at(url, wait)
        self._current = False

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A connection, for as many transactions as its holder begins on it; refused where migrations are missing."""
        if not self.db.exists():
            raise StoreUnavailable("the store is not set up: run `ebb init`")
        with self.db.connect() as connection:
            if not self._current:
                self._refuse_old(connection)
            yield connection

    def look_again(self) -> None:
        """Has the next session look at the migrations once more: others may have migrated the store meanwhile."""
        self._current = False

    def _refuse_old(self, connection: Connection) -> None:
        with connection.begin():
            current = self._revision(connection)
        self._refuse_newer(current)
        if current != self.head_revision():
            raise StoreUnavailable(
                "the store is not set up: run `ebb init`"
                if current is None
                else f"the store is at migration {current}, not {self.head_revision()}: run `ebb migrate`"
            )
        self._current = True

    def _refuse_newer(self, current: str | None) -> None:
        if current is not None and current not in _revisions()[1]:
            raise StoreUnavailable(
                f"the store is at migration {current}, which a newer Ebbtide made; this one knows up to "
                f"{self.head_revision()}: upgrade it"
            )

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back on any error."""
        with self.session() as connection, connection.begin():
            yield connection

    def migrate(self, connection: Connection) -> tuple[str | None, str]:
        """Brings the schema up to date within the caller's transaction; the revisions before and after.

        Raises `StoreUnavailable` where a newer version of Ebbtide has migrated it.
        """
        self.db.lock_schema(connection)
        with _migrating:
            before = self._revision(connection)
            self._refuse_newer(before)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        return before, self.head_revision()

    def head_revision(self) -> str:
        """The revision that this version of Ebbtide needs."""
        return _revisions()[0]

    def revision(self) -> str | None:
        """The revision the store is at; None before the first migration."""
        if not self.db.exists():
            return None
        with self.db.connect() as connection, connection.begin():
            return self._revision(connection)

    def checkpoint(self) -> None:
        """DuckDB: writes the write-ahead log into the file, so that no migration is left in it."""
        if self.db.name == "duckdb":
            with self.db.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("CHECKPOINT"))

    @staticmethod
    def _revision(connection: Connection) -> str | None:
        return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _revisions() -> tuple[str, frozenset[str]]:
    """The revision that this version of Ebbtide needs, and all that it knows: what it comes with does not change."""
    scripts = ScriptDirectory.from_config(_config())
    head = scripts.get_current_head()
    assert head is not None, "the wheel carries its migrations"
    return head, frozenset(script.revision for script in scripts.walk_revisions())
