"""DuckDB: one file, one process at a time. A unit of work opens the file, works and lets go of it."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from duckdb_sqlalchemy.bulk import insert_from_arrow
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Double,
    Engine,
    LargeBinary,
    Select,
    Table,
    Text,
    Uuid,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ebbtide.model.errors import StoreUnavailable
from ebbtide.store.arrow import arrow_type, schema_of
from ebbtide.store.confined import LOCKED
from ebbtide.store.confining import confined, expect_questions, held
from ebbtide.store.database import Confines, Database, Row, Selection
from ebbtide.store.database import Path as Member

_executing = threading.local()


_BETWEEN = "\x1f"
"""Stands in no identifier and in no number."""

FEW = 8
"""Up to so many rows, plain statements are quicker than an Arrow table."""

CONFIG = {"memory_limit": "1GB", "preserve_insertion_order": "false", "checkpoint_threshold": "256MB"}
"""A checkpoint writes whole row groups, whatever little of them has changed: after each chunk of a pass over a million
memories (DuckDB's 16 MB), checkpoints took half of the pass."""

LEFT, PART = 128 << 10, 512
"""So many bytes may stay in the write-ahead log when the file is let go of, or one part in so many of the file, if that
is less.

A checkpoint writes the last row group of the log anew, up to 122,880 entries, for however few were appended: 20 ms of a
small store, 0.65 s of one of 100,000 memories. Whoever opens the file next replays what stayed there, 0.3 s for a
megabyte of small writes.
"""


class _NoPandas(MetaPathFinder):
    """Says at once that pandas is not there, while DuckDB executes a statement.

    DuckDB tries to import it twice per bound parameter; where it is not installed, each try searches the whole path,
    90 µs a parameter and more than the rest of a small pass. Outside of an execution this finder knows nothing.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas" and getattr(_executing, "now", False):
            raise ModuleNotFoundError("pandas is not installed", name=name)


if find_spec("pandas") is None:
    sys.meta_path.insert(0, _NoPandas())


class _File:
    """A file within this process: one thread at a time has it, with any number of connections."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connections = 0


_within_process: dict[str, _File] = {}
_registry = threading.Lock()


class DuckDB(Database):
    name = "duckdb"
    schema = "main"

    def __init__(self, url: URL, *, wait: float) -> None:
        self._path = str(Path(url.database or ":memory:").resolve())
        self._wait = wait
        self._engine = create_engine(
            url,
            hide_parameters=True,  # contents are among them, and errors are logged
            poolclass=NullPool,
            connect_args={"config": CONFIG},
        )
        event.listen(self._engine, "connect", _no_checkpoint_at_the_end)
        event.listen(self._engine, "before_cursor_execute", _begin_execution)
        event.listen(self._engine, "after_cursor_execute", _end_execution)
        event.listen(self._engine, "handle_error", _end_execution)
        with _registry:
            self._file = _within_process.setdefault(self._path, _File())

    def engine(self) -> Engine:
        return self._engine

    def exists(self) -> bool:
        return Path(self._path).exists()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        if not self._file.lock.acquire(timeout=self._wait):
            raise StoreUnavailable(
                f"{self._path} is in use by another thread of this process; waited {self._wait:g} s: try again"
            )
        self._file.connections += 1
        try:
            with self._open() as connection:
                yield connection
                if self._file.connections == 1:
                    self._shorten(connection)
        finally:
            self._file.connections -= 1
            self._file.lock.release()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        with self.connect():
            yield

    def _shorten(self, connection: Connection) -> None:
        """Puts the write-ahead log into the file once it has grown long."""
        log, file = Path(f"{self._path}.wal"), Path(self._path)
        if log.exists() and log.stat().st_size > min(LEFT, file.stat().st_size // PART):
            raw: Any = connection.connection.dbapi_connection
            raw.execute("CHECKPOINT")

    def _open(self) -> Connection:
        """Waits for another process to let go of the file, with jitter, then says who holds it."""
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return self._engine.connect()
            except DBAPIError as error:
                message = str(error.orig)
                if LOCKED not in message:
                    raise StoreUnavailable(f"{self._path} cannot be opened: {message.splitlines()[0]}") from error
                if time.monotonic() > deadline:
                    raise held(self._path, message, self._wait) from error
            time.sleep(random.uniform(0.01, 0.05))

    @contextmanager
    def selected(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any], within: Confines
    ) -> Iterator[Selection]:
        if not self._file.lock.acquire(timeout=self._wait):
            raise StoreUnavailable(
                f"{self._path} is in use by another thread of this process; waited {self._wait:g} s: try again"
            )
        try:
            if self._file.connections:
                # Another process could not open it.
                raise StoreUnavailable(f"{self._path} is open elsewhere in this program: let go of it first")
            with confined(self._path, query, parameters, within, self._wait) as selection:
                yield selection
        finally:
            self._file.lock.release()

    def expect_questions(self) -> None:
        expect_questions()

    def bulk_insert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        if len(rows) > FEW:
            with _incoming(connection, table, rows):
                connection.execute(text(f"INSERT INTO {table.name} {_typed(table)}"))
        elif rows:
            connection.execute(insert(table), list(rows))

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        keys = [column.name for column in table.primary_key]
        rest = [column.name for column in table.columns if column.name not in keys]
        if not rows:
            return
        if len(rows) <= FEW:
            statement = insert_or_update(table)
            overwritten = {name: statement.excluded[name] for name in rest}
            connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=overwritten), list(rows))
            return
        name = table.name
        same = " AND ".join(f'there."{key}" = i."{key}"' for key in keys)
        sets = ", ".join(f'"{column}" = new."{column}"' for column in rest)
        match = " AND ".join(f'{name}."{key}" = new."{key}"' for key in keys)
        with _incoming(connection, table, rows):
            # In the order of the table: DuckDB takes a hundred times as long for updates that jump about in it.
            connection.execute(
                text(
                    f"UPDATE {name} SET {sets} FROM (SELECT i.* FROM ({_typed(table)}) i JOIN {name} there ON {same} "
                    f"ORDER BY there.rowid) new WHERE {match}"
                )
            )
            connection.execute(
                text(f"INSERT INTO {name} SELECT i.* FROM ({_typed(table)}) i ANTI JOIN {name} there ON {same}")
            )

    def arrow(self, connection: Connection, query: Select[Any], size: int) -> Iterator[pa.RecordBatch]:
        result: Any = connection.execute(query, execution_options={"duckdb_arrow": True})
        schema = schema_of(query.selected_columns)
        with result.batches(size) as reader:
            for batch in reader:
                yield batch.cast(schema)

    def load(self, connection: Connection, table: Table, batch: pa.RecordBatch) -> None:
        insert_from_arrow(connection, table, batch)

    def in_place(self, staged: Table, target: Table, namespace: Any) -> Any:
        there = target.alias("there")
        key = list(there.primary_key)[1]
        return (
            select(*staged.columns)
            .join_from(staged, there, (there.c.namespace_id == namespace) & (key == staged.c.object_id))
            .order_by(literal_column("there.rowid"))
            .subquery("staged")
        )

    def among(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        if not values:
            return literal(False)
        if len(values) == 1:
            return column == _alone(values[0], column)
        # As one text, since DuckDB's client takes 40 µs for each value of a list.
        joined = _BETWEEN.join(value.hex() if isinstance(value, bytes) else str(value) for value in values)
        listed = func.unnest(func.string_split(bindparam(None, joined, type_=Text, unique=True), _BETWEEN))
        raw = isinstance(column.type, LargeBinary)
        return column.in_(select(func.unhex(listed, type_=LargeBinary) if raw else cast(listed, column.type)))

    def sha256(self, raw: ColumnElement[Any]) -> ColumnElement[bytes]:
        return func.unhex(func.sha256(raw), type_=LargeBinary)

    def digest(self, raw: ColumnElement[Any]) -> ColumnElement[str]:
        return func.sha256(raw, type_=Text)

    def utf8(self, text: Any) -> ColumnElement[bytes]:
        return func.encode(text, type_=LargeBinary)

    def hex(self, raw: Any) -> ColumnElement[str]:
        return func.lower(func.hex(raw), type_=Text)

    def join_bytes(self, raw: Any, order_by: Any) -> ColumnElement[bytes]:
        # DuckDB aggregates text only, so the bytes go through hexadecimal.
        return func.unhex(
            func.string_agg(func.hex(raw), aggregate_order_by(literal_column("''"), order_by)),
            type_=LargeBinary,
        )

    def unhex(self, text: Any) -> ColumnElement[bytes]:
        return func.unhex(text, type_=LargeBinary)

    def cosine(self, a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[float]:
        return func.list_cosine_similarity(a, b, type_=Double)

    def json(self, document: Any) -> ColumnElement[Any]:
        return type_coerce(document, Text)

    def member(self, document: Any, *path: str) -> ColumnElement[str]:
        return func.json_extract_string(document, "$." + ".".join(path), type_=Text)

    def document(self, document: Any, paths: Sequence[Member]) -> ColumnElement[Any]:
        # One call for all: each one parses the text anew, and keeps what it parsed of a whole vector of rows.
        listed = ", ".join(f"'$.{'.'.join(path)}'" for path in paths)
        return func.json_extract_string(document, literal_column(f"[{listed}]"), type_=ARRAY(Text))

    def part(self, document: Any, paths: Sequence[Member], path: Member) -> ColumnElement[str]:
        return func.list_extract(document, paths.index(path) + 1, type_=Text)

    def elements(self, array: Any) -> ColumnElement[str]:
        return func.unnest(func.json_extract_string(array, "$[*]", type_=ARRAY(Text)), type_=Text)

    def micros(self, iso: Any) -> ColumnElement[int]:
        return func.epoch_us(cast(func.rtrim(iso, "Z"), DateTime), type_=BigInteger)

    def snapshot(self, connection: Connection) -> Connection:
        return connection

    def members(self, document: Any, name: str) -> ColumnElement[str]:
        return func.unnest(func.json_extract_string(document, f"$.{name}[*]"), type_=Text)

    def json_object(self, **members: Any) -> ColumnElement[Any]:
        return func.json_object(*(part for member in members.items() for part in member))

    def json_merged(self, document: Any, more: Any) -> ColumnElement[str]:
        return cast(func.json_merge_patch(document, more), Text)

    def timestamp(self, micros: Any) -> ColumnElement[Any]:
        return func.make_timestamptz(micros)

    def day(self, micros: Any) -> ColumnElement[Any]:
        return cast(func.make_timestamp(micros), Date)

    def octets(self, text: Any) -> ColumnElement[int]:
        return func.strlen(text, type_=BigInteger)

    def now(self) -> ColumnElement[int]:
        return func.epoch_us(func.get_current_timestamp(), type_=BigInteger)

    def denied(self, error: DBAPIError) -> bool:
        return False

    def unreadable(self, error: DBAPIError) -> bool:
        return isinstance(error.orig, duckdb.InvalidInputException | duckdb.DataError)

    def no_scrub(self, connection: Connection) -> str | None:
        # Whoever has the old file open would go on writing there, and lose it.
        if self._file.connections > 1:
            return f"{self._path} is open elsewhere in this program, and is replaced by a scrub: let go of it first"
        return None

    def scrub(self) -> None:
        fresh = Path(f"{self._path}.scrubbed")
        fresh.unlink(missing_ok=True)
        with self.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            old = alone.execute(text("SELECT current_database()")).scalar_one()
            alone.execute(text(f"ATTACH '{fresh}' AS scrubbed"))
            alone.execute(text(f'COPY FROM DATABASE "{old}" TO scrubbed'))
            alone.execute(text("CHECKPOINT scrubbed"))
            alone.execute(text("DETACH scrubbed"))
            # While the old file is open nobody else can open it; whoever waits finds the new one under its name.
            alone.execute(text("CHECKPOINT"))
            fresh.replace(self._path)

    def lock_schema(self, connection: Connection) -> None:
        """Nothing to do: the file is this process's alone."""

    def lock_clause(self, select: Any, *, skip: bool = False) -> Any:
        return select

    def session(self, connection: Connection) -> str | None:
        return None

    def end_when_idle(self, connection: Connection, micros: int) -> None:
        """Nothing to do: whoever has the file shares it with nobody, and the operating system sees to its end."""

    def session_gone(self, connection: Connection, session: str | None) -> bool:
        # Whoever had the file before has let go of it.
        return True

    def fence(self, select: Any) -> Any:
        return select.subquery()

    def problems(self, connection: Connection) -> Iterator[str]:
        del connection
        yield from ()

    def damaged_indexes(self, connection: Connection) -> Iterator[str]:
        # It checks its blocks by checksum when it reads them, and no statement walks through an index.
        del connection
        yield from ()


def _alone(value: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
    if isinstance(value, bytes):
        return bindparam(None, value, type_=LargeBinary, unique=True)
    return cast(bindparam(None, str(value), type_=Text, unique=True), column.type)


def _no_checkpoint_at_the_end(connection: Any, _: Any) -> None:
    # Nor might it be right: of a log that was replayed and not looked at since, indexes lose entries (DuckDB 1.5).
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")


def _begin_execution(*_: Any) -> None:
    _executing.now = True


def _end_execution(*_: Any) -> None:
    _executing.now = False


@contextmanager
def _incoming(connection: Connection, table: Table, rows: Sequence[Row]) -> Iterator[None]:
    """Rows as a relation `incoming_rows`, without a detour over parameters."""
    raw: Any = connection.connection.dbapi_connection
    raw.register("incoming_rows", pa.table({c.name: _arrow_column(c, rows) for c in table.columns}))
    try:
        yield
    finally:
        raw.unregister("incoming_rows")


def _typed(table: Table) -> str:
    """The relation `incoming_rows` with the types of a table: ids come as text."""
    columns = (
        f'CAST("{c.name}" AS UUID) AS "{c.name}"' if isinstance(c.type, Uuid) else f'"{c.name}"' for c in table.columns
    )
    return f"SELECT {', '.join(columns)} FROM incoming_rows"


def _arrow_column(column: Column[Any], rows: Sequence[Row]) -> pa.Array:
    values = [row[column.name] for row in rows]
    if isinstance(column.type, Uuid):
        values = [None if value is None else str(value) for value in values]
    kind = column.type
    return pa.array(values, type=arrow_type(kind))
