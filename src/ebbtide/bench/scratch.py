"""Stores to measure in: made beside the one whose URL is given, and removed again. That one is never opened."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ebbtide.api import Ebbtide
from ebbtide.model.errors import StoreUnavailable
from ebbtide.store.database import Database
from ebbtide.store.store import Store, database_at


class Scratch(ABC):
    """A place for stores, each known by its URL."""

    def __init__(self) -> None:
        self._numbers = count(1)

    @abstractmethod
    def new(self) -> str:
        """The URL of a new store, set up and empty."""

    @abstractmethod
    def copy(self, url: str) -> str:
        """The URL of a copy of a store that nobody has open."""

    @abstractmethod
    def drop(self, url: str) -> None:
        """Removes a store."""

    @abstractmethod
    def clear(self) -> None:
        """Removes every store there is."""


class _Files(Scratch):
    def __init__(self, beside: Path) -> None:
        super().__init__()
        beside.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="ebb-bench-", dir=beside))

    def _next(self) -> Path:
        return self._folder / f"{next(self._numbers)}.duckdb"

    def new(self) -> str:
        return _set_up(f"duckdb:///{self._next()}")

    def copy(self, url: str) -> str:
        path = self._next()
        Store(url).checkpoint()
        shutil.copy(_file(url), path)
        return f"duckdb:///{path}"

    def drop(self, url: str) -> None:
        for file in (_file(url), Path(f"{_file(url)}.wal")):
            file.unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self._folder)


def _file(url: str) -> Path:
    return Path(url.removeprefix("duckdb:///"))


class _Databases(Scratch):
    def __init__(self, url: URL) -> None:
        super().__init__()
        self._server = url
        self._made: list[str] = []

    def new(self) -> str:
        return _set_up(self._url(self._create("")))

    def copy(self, url: str) -> str:
        name = url.rpartition("/")[2].partition("?")[0]
        return self._url(self._create(f"TEMPLATE {name} STRATEGY FILE_COPY"))

    def drop(self, url: str) -> None:
        self._drop(url.rpartition("/")[2].partition("?")[0])

    def clear(self) -> None:
        for name in list(self._made):
            self._drop(name)

    def _url(self, name: str) -> str:
        return self._server.set(database=name).render_as_string(hide_password=False)

    def _create(self, how: str) -> str:
        name = f"ebb_bench_{os.getpid()}_{next(self._numbers)}"
        try:
            self._execute(f"CREATE DATABASE {name} {how}")
        except DBAPIError as error:
            if isinstance(error.orig, InsufficientPrivilege):
                message = "a benchmark makes databases of its own: give a role that may (CREATEDB)"
                raise StoreUnavailable(message) from error
            raise
        self._made.append(name)
        return name

    def _drop(self, name: str) -> None:
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")
        self._made.remove(name)

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(statement))


def _set_up(url: str) -> str:
    with Ebbtide(url) as ebb:
        ebb.init()
    return url


@contextmanager
def scratch(url: str) -> Iterator[Scratch]:
    """A place for stores of the database that a URL names: files in a folder beside its, or databases of its server."""
    db = database_at(url, wait=30.0)
    if db.name == "postgresql":
        with db.connect():
            pass  # Says in a line where the server cannot be reached.
        db.engine().dispose()
    place = _Files(Path(str(db.engine().url.database)).parent) if db.name == "duckdb" else _Databases(db.engine().url)
    try:
        yield place
    finally:
        place.clear()


def bytes_used(db: Database, connection: Connection) -> int:
    """What the store takes on disk: blocks in use of DuckDB's file, PostgreSQL's tables with their indexes."""
    if db.name == "duckdb":
        connection.execute(text("FORCE CHECKPOINT"))
        query = "SELECT used_blocks * block_size FROM pragma_database_size()"
    else:
        query = (
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
    return int(connection.execute(text(query)).scalar_one())


def peak_of(process: int | str) -> int | None:
    """The most memory (bytes) that a process took so far, shared memory included; None where there is no /proc.

    What `getrusage` says begins with the memory of the process that started it.
    """
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return None
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def server_process(db: Database, connection: Connection) -> int | None:
    """The process that serves a connection, where it runs on this machine."""
    if db.name == "duckdb":
        return None
    found = connection.execute(text("SELECT pg_backend_pid(), inet_server_addr() IS NULL")).one()
    return int(found[0]) if found[1] and Path(f"/proc/{found[0]}/status").exists() else None


@dataclass(frozen=True, slots=True)
class Updates:
    """PostgreSQL: rows of the state that were updated, those updated within their page (HOT), the table's bytes."""

    all: int
    hot: int
    bytes: int


def updates(db: Database, connection: Connection) -> Updates | None:
    """What PostgreSQL counted so far; None of DuckDB."""
    if db.name == "duckdb":
        return None
    # Processes hand in what they counted when they end, which is some time after their client has left.
    others = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    while connection.execute(others).scalar_one():
        time.sleep(0.01)
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
    query = (
        "SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size(relid) FROM pg_stat_user_tables "
        "WHERE relname = 'memory_state'"
    )
    return Updates(*connection.execute(text(query)).one())


def settle(db: Database) -> None:
    """What PostgreSQL does by itself some time after many rows were written."""
    if db.name == "postgresql":
        with db.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))
