"""PostgreSQL: the server, with many writers and many organisers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.errors import DataError, InsufficientPrivilege
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Double,
    Engine,
    Integer,
    LargeBinary,
    Select,
    SmallInteger,
    Table,
    Text,
    Uuid,
    bindparam,
    cast,
    create_engine,
    extract,
    func,
    literal,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.types import UserDefinedType

from ebbtide.model.errors import StoreUnavailable
from ebbtide.store.arrow import schema_of
from ebbtide.store.auditor import auditing
from ebbtide.store.database import Confines, Database, Path, Row, Selection
from ebbtide.store.tables import contents

MIGRATION = 0x65626274
"""The advisory lock that one migration at a time holds."""

_TYPES: dict[type, str] = {
    BigInteger: "bigint",
    Integer: "integer",
    SmallInteger: "smallint",
    Double: "double precision",
    Boolean: "boolean",
    LargeBinary: "bytea",
    Text: "text",
    Uuid: "uuid",
}


ROUGHLY = 1e-3
"""More than a cosine of 4,096 numbers in single precision can be off."""


class _Vector(UserDefinedType[Any]):
    """pgvector's type, to which arrays of doubles are cast."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "vector"


class PostgreSQL(Database):
    name = "postgresql"
    schema = "public"

    def __init__(self, url: URL, *, wait: float) -> None:
        self._where = f"{url.host or 'local socket'}/{url.database}"
        self._wait = wait
        self._engine = create_engine(
            url,
            hide_parameters=True,  # contents are among them, and errors are logged
            pool_pre_ping=True,
            pool_timeout=wait,
            connect_args={
                "connect_timeout": max(2, round(wait)),
                "application_name": "ebbtide",
                # A server that is gone without a word is noticed within a minute.
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
                "tcp_user_timeout": 60_000,
                "options": f"-c lock_timeout={max(1, round(wait * 1000))}",
            },
        )

    def engine(self) -> Engine:
        return self._engine

    def exists(self) -> bool:
        return True

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        try:
            connection = self._engine.connect()
        except PoolTimeout as error:
            raise StoreUnavailable(
                f"all connections to PostgreSQL at {self._where} are in use by this program: try again"
            ) from error
        except DBAPIError as error:
            reason = str(error.orig).strip().splitlines()[0]
            raise StoreUnavailable(
                f"PostgreSQL at {self._where} cannot be reached ({reason}): check --url and that the server runs"
            ) from error
        try:
            with connection:
                yield connection
        except DBAPIError as error:
            # A transaction that the server ends for idling is no operational error to psycopg.
            if not (isinstance(error, OperationalError) or error.connection_invalidated):
                raise
            reason = str(error.orig).strip().splitlines()[0]
            lost_at_commit = error.connection_invalidated and error.statement is None
            what = "whether it was written is not known" if lost_at_commit else "nothing was written"
            raise StoreUnavailable(f"PostgreSQL at {self._where}: {reason}; {what}: try again") from error

    @contextmanager
    def selected(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any], within: Confines
    ) -> Iterator[Selection]:
        with self.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            try:
                with auditing(raw, query, parameters, within) as selection:
                    yield selection
            except psycopg.OperationalError as error:
                reason = str(error).strip().splitlines()[0]
                raise StoreUnavailable(f"PostgreSQL at {self._where}: {reason}: try again") from error
            finally:
                raw.rollback()

    def bulk_insert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        if not rows:
            return
        names = [column.name for column in table.columns]
        raw: Any = connection.connection.dbapi_connection
        columns = ", ".join(f'"{name}"' for name in names)
        with (
            _raising(connection),
            raw.cursor() as cursor,
            cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as copy,
        ):
            for row in rows:
                copy.write_row([row[name] for name in names])

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        if not rows:
            return
        keys = [column.name for column in table.primary_key]
        names = [column.name for column in table.columns]
        arrays = ", ".join(f"CAST(:{c.name} AS {_TYPES[type(c.type)]}[])" for c in table.columns)
        overwrite = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in keys)
        columns = ", ".join(f'"{name}"' for name in names)
        connection.execute(
            text(
                f'INSERT INTO "{table.name}" ({columns}) SELECT * FROM unnest({arrays}) '
                f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {overwrite}"
            ),
            {name: [row[name] for row in rows] for name in names},
        )

    def arrow(self, connection: Connection, query: Select[Any], size: int) -> Iterator[pa.RecordBatch]:
        columns = list(query.selected_columns)
        plain = query.with_only_columns(
            *(cast(c, Text).label(c.name) if isinstance(c.type, Uuid) else c for c in columns),
            maintain_column_froms=True,
        )
        result = connection.execute(plain, execution_options={"yield_per": size})
        schema = schema_of(columns)
        for rows in result.partitions():
            values = zip(*rows, strict=True)
            arrays = [pa.array(each, type=field.type) for each, field in zip(values, schema, strict=True)]
            yield pa.record_batch(arrays, schema=schema)

    def load(self, connection: Connection, table: Table, batch: pa.RecordBatch) -> None:
        raw: Any = connection.connection.dbapi_connection
        columns = ", ".join(f'"{name}"' for name in batch.schema.names)
        with (
            _raising(connection),
            raw.cursor() as cursor,
            cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as copy,
        ):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                copy.write_row(row)

    def in_place(self, staged: Table, target: Table, namespace: Any) -> Any:
        del target, namespace
        return staged

    def among(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        listed = bindparam(None, list(values), type_=ARRAY(type(column.type)), unique=True)
        found: ColumnElement[bool] = column == func.any(listed)
        return found

    def sha256(self, raw: ColumnElement[Any]) -> ColumnElement[bytes]:
        return func.sha256(raw, type_=LargeBinary)

    def utf8(self, text: Any) -> ColumnElement[bytes]:
        return func.convert_to(text, "UTF8", type_=LargeBinary)

    def hex(self, raw: Any) -> ColumnElement[str]:
        return func.encode(raw, "hex", type_=Text)

    def join_bytes(self, raw: Any, order_by: Any) -> ColumnElement[bytes]:
        return func.string_agg(raw, aggregate_order_by(literal_column("''::bytea"), order_by), type_=LargeBinary)

    def unhex(self, text: Any) -> ColumnElement[bytes]:
        return func.decode(text, "hex", type_=LargeBinary)

    def cosine(self, a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[float]:
        pair = func.unnest(a, b).table_valued("x", "y").render_derived(name="pair")
        x, y = cast(pair.c.x, Double), cast(pair.c.y, Double)

        def total(products: Any) -> Any:
            return func.sum(products, type_=Double)

        lengths = func.sqrt(total(x * x), type_=Double) * func.sqrt(total(y * y), type_=Double)
        return select(total(x * y) / lengths).select_from(pair).correlate_except(pair).scalar_subquery()

    def compares_roughly(self, connection: Connection) -> bool:
        return bool(connection.execute(text("SELECT to_regtype('vector') IS NOT NULL")).scalar_one())

    def near(self, a: Any, b: Any, cosine: Any) -> ColumnElement[bool]:
        # pgvector computes in single precision, far quicker: too roughly to decide, well enough to leave out.
        distance = cast(a, _Vector).op("<=>", return_type=Double)(cast(b, _Vector))
        found: ColumnElement[bool] = 1 - distance >= cosine - literal(ROUGHLY, Double)
        return found

    def json(self, document: Any) -> ColumnElement[Any]:
        return cast(document, JSONB)

    def member(self, document: Any, *path: str) -> ColumnElement[str]:
        return func.jsonb_extract_path_text(document, *path, type_=Text)

    def document(self, document: Any, paths: Sequence[Path]) -> ColumnElement[Any]:
        del paths
        return cast(document, JSONB)

    def part(self, document: Any, paths: Sequence[Path], path: Path) -> ColumnElement[str]:
        del paths
        return self.member(document, *path)

    def elements(self, array: Any) -> ColumnElement[str]:
        return func.jsonb_array_elements_text(cast(array, JSONB), type_=Text)

    def micros(self, iso: Any) -> ColumnElement[int]:
        return cast(extract("epoch", cast(iso, DateTime(timezone=True))) * 1_000_000, BigInteger)

    def snapshot(self, connection: Connection) -> Connection:
        return connection.execution_options(isolation_level="REPEATABLE READ")

    def members(self, document: Any, name: str) -> ColumnElement[str]:
        return func.jsonb_array_elements_text(func.jsonb_extract_path(document, name), type_=Text)

    def json_object(self, **members: Any) -> ColumnElement[Any]:
        return func.jsonb_build_object(*(part for member in members.items() for part in member), type_=JSONB)

    def json_merged(self, document: Any, more: Any) -> ColumnElement[str]:
        return cast(cast(document, JSONB).op("||")(func.jsonb_strip_nulls(more, type_=JSONB)), Text)

    def timestamp(self, micros: Any) -> ColumnElement[Any]:
        since: ColumnElement[Any] = micros * literal_column("interval '1 microsecond'")
        return literal_column("timestamptz 'epoch'", DateTime(timezone=True)) + since

    def day(self, micros: Any) -> ColumnElement[Any]:
        # Without a zone, so that it can be indexed.
        since = micros * literal_column("interval '1 microsecond'")
        return cast(literal_column("timestamp 'epoch'", DateTime()) + since, Date)

    def octets(self, text: Any) -> ColumnElement[int]:
        return cast(func.octet_length(text), BigInteger)

    def now(self) -> ColumnElement[int]:
        seconds = func.date_part("epoch", func.statement_timestamp(), type_=Double)
        return cast(func.round(seconds * literal(1e6, Double)), BigInteger)

    def lock_schema(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(MIGRATION)))

    def denied(self, error: DBAPIError) -> bool:
        return isinstance(error.orig, InsufficientPrivilege)

    def unreadable(self, error: DBAPIError) -> bool:
        return isinstance(error.orig, DataError)

    def no_scrub(self, connection: Connection) -> str | None:
        # PostgreSQL only warns, and leaves the table as it is, where VACUUM comes from somebody else.
        query = "SELECT pg_has_role(current_user, tableowner, 'MEMBER') FROM pg_tables WHERE tablename = :name"
        owned = connection.execute(text(query), {"name": contents.name}).scalar_one()
        return None if owned else "only the owner of the tables can scrub: leave that to the owner"

    def scrub(self) -> None:
        with self.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            self._wait_for_others(alone)
            alone.execute(text(f"VACUUM FULL {contents.name}"))

    def _wait_for_others(self, connection: Connection) -> None:
        """Waits for transactions for which VACUUM would keep what was erased, without a word.

        That is whoever still sees it, and whoever has written anything, in any database of the server, and is not done.
        """
        now = connection.execute(text("SELECT CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text)")).scalar_one()
        deadline = time.monotonic() + self._wait
        while others := connection.execute(text(_OTHERS), {"now": now}).scalar():
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"PostgreSQL at {self._where}: for a transaction of process {others} it would keep what was "
                    "erased: once that has ended, run `ebb scrub`"
                )
            connection.execute(text("SELECT pg_sleep(0.05)"))

    def lock_clause(self, select: Any, *, skip: bool = False) -> Any:
        return select.with_for_update(skip_locked=skip)

    def session(self, connection: Connection) -> str | None:
        return str(
            connection.execute(text(f"SELECT {_SESSION} FROM pg_stat_activity WHERE pid = pg_backend_pid()")).scalar()
        )

    def end_when_idle(self, connection: Connection, micros: int) -> None:
        limit = func.set_config("idle_in_transaction_session_timeout", str(micros // 1000), True)
        connection.execute(select(limit))

    def session_gone(self, connection: Connection, session: str | None) -> bool:
        if session is None:
            return False
        # Of another role's sessions only the process id is shown.
        query = f"SELECT FROM pg_stat_activity WHERE pid = :pid AND ({_SESSION} = :session OR backend_start IS NULL)"
        given = {"pid": int(session.partition(" ")[0]), "session": session}
        return connection.execute(text(query), given).first() is None

    def fence(self, select: Any) -> Any:
        # OFFSET 0 keeps the planner from pulling the subquery up and computing its columns again.
        return select.offset(0).subquery()

    @contextmanager
    def many_rows(self, connection: Connection) -> Iterator[None]:
        # A table without statistics seems to have one row of a kind, and each is then looked up in all the others.
        connection.execute(text("SET LOCAL enable_nestloop = off"))
        yield
        connection.execute(text("SET LOCAL enable_nestloop TO DEFAULT"))

    def problems(self, connection: Connection) -> Iterator[str]:
        version = connection.execute(text("SHOW server_version_num")).scalar_one()
        if int(version) < 150000:
            yield f"PostgreSQL {version} is older than 15: upgrade the server"
        superuser = connection.execute(text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).scalar()
        owner = connection.execute(
            text("SELECT tableowner = current_user FROM pg_tables WHERE tablename = 'event_log'")
        ).scalar()
        if superuser or owner:
            yield (
                f"this connection is {'a superuser' if superuser else 'the owner of the tables'}, who can disable the "
                "log's protection: run the service as a member of the role ebbtide_app"
            )
        if connection.execute(text(_SLOW_EMBEDDINGS)).scalar_one():
            yield (
                "embeddings are compared without pgvector, which this server has: as a superuser, run CREATE EXTENSION "
                f"vector in the database {connection.engine.url.database}"
            )

    def damaged_indexes(self, connection: Connection) -> Iterator[str]:
        for index in connection.execute(text(_INDEXES)).all():
            counts = []
            for way, order in ((_BY_INDEX, f"ORDER BY {index.columns} OFFSET 0"), (_BY_SCAN, "")):
                for setting, value in way.items():
                    connection.execute(text(f"SET LOCAL {setting} = {value}"))
                rows = f"SELECT 1 FROM {index.table_name} WHERE {index.condition} {order}"
                counts.append(connection.execute(text(f"SELECT count(*) FROM ({rows}) walked")).scalar_one())
            found, there = counts
            if found != there:
                yield (
                    f"index {index.name} finds {found} rows of {index.table_name}, a scan {there}: "
                    f"REINDEX INDEX {index.name}"
                )


_SLOW_EMBEDDINGS = """
    SELECT to_regtype('vector') IS NULL AND EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
        AND EXISTS (SELECT FROM contents WHERE dimensions IS NOT NULL)
"""
"""Whether there are embeddings that pgvector could compare, were it not for one statement."""


@contextmanager
def _raising(connection: Connection) -> Iterator[None]:
    """Raises what goes wrong in psycopg as SQLAlchemy does for its own statements, and lets go of a lost connection."""
    try:
        yield
    except psycopg.Error as error:
        raw: Any = connection.connection.dbapi_connection
        if lost := raw.closed:
            connection.invalidate(error)
        raise DBAPIError.instance("COPY", None, error, psycopg.Error, connection_invalidated=lost) from error


_OTHERS = """
    WITH began AS (SELECT CAST(CAST(:now AS text) AS xid8) AS at),
    others AS (
        SELECT string_agg(CAST(pid AS text), ', ' ORDER BY pid) AS pids
        FROM pg_stat_activity, began
        WHERE pid <> pg_backend_pid()
            AND (
                age(backend_xid) > age(CAST(at AS xid))
                OR datname = current_database() AND age(backend_xmin) > age(CAST(at AS xid))
            )
    )
    SELECT coalesce(pids, CASE WHEN pg_snapshot_xmin(pg_current_snapshot()) < at THEN 'another role' END)
    FROM others, began
"""
"""The processes with transactions older than an instant: writers of any database, readers of this one."""

_SESSION = "pid || ' ' || date_part('epoch', backend_start)"
"""The process of a connection and when it began, since process ids come again."""

_INDEXES = """
    SELECT c.relname AS name, t.relname AS table_name,
        coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS condition,
        (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.place)
            FROM unnest(i.indkey) WITH ORDINALITY k (attnum, place)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum) AS columns
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree' -- a summary by block has no rows to walk along
    WHERE t.relnamespace = 'public'::regnamespace AND i.indisvalid ORDER BY 2, 1
"""
_BY_INDEX = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
}
_BY_SCAN = {"enable_seqscan": "on", "enable_indexscan": "off", "enable_indexonlyscan": "off"}
