"""One SELECT on PostgreSQL as an auditor: read-only, with the rights of `ebbtide_auditor`, and for a bounded time.

The query is that of a cursor, which the server takes only where it is one SELECT that changes nothing. What is left to
refuse are functions that do more than compute: `set_config` could bring the connection's own role back.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa

from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.store.database import Confines, Selection

ROLE = "ebbtide_auditor"
BATCH = 500
_NUMBER = pa.decimal128(38, 9)
_KINDS = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "numeric": _NUMBER,
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
}
"""What PostgreSQL's types become; all others, texts and ids among them, become texts."""

_FUNCTIONS = """
    SELECT DISTINCT lower(p.proname) FROM pg_catalog.pg_proc p
    WHERE lower(p.proname) = ANY (%s) AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[]) AND (
        p.provolatile = 'v' OR p.prosecdef OR NOT EXISTS (
            SELECT FROM pg_catalog.pg_proc own
            WHERE own.proname = p.proname AND own.pronamespace = 'pg_catalog'::regnamespace
        )
    )
"""
"""Functions whose effects PostgreSQL does not vouch for: volatile, with another's rights, or none of its own."""
_FEW_TEMPORARY_FILES = """
    SELECT pg_catalog.set_config('temp_file_limit', '1GB', true) FROM pg_catalog.pg_roles
    WHERE rolname = current_user AND rolsuper
"""
"""For others the server's own limit holds."""
_ALLOWED = {
    *("random", "random_normal", "clock_timestamp", "timeofday", "gen_random_uuid", "uuidv4", "uuidv7"),
    *("array_shuffle", "array_sample"),
}
"""Volatile ones that give another value each time, and do nothing else."""
_TOO_MUCH = ("53", "54")
"""Classes of errors: no more memory or disk, and beyond what a value may be."""
_WORD = re.compile(r"[^\W\d][\w$]*")
_ESCAPED_NAME = re.compile(r"u&\"", re.IGNORECASE)


@contextmanager
def auditing(
    connection: psycopg.Connection[Any],
    query: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    within: Confines,
) -> Iterator[Selection]:
    """Runs the query in a transaction of its own, which the caller ends."""
    deadline = time.monotonic() + within.seconds
    try:
        _confine(connection, query, within)
        # A cursor with a name is one of the server's: it takes one SELECT, and gives its rows bit by bit.
        with connection.cursor(name="auditor") as cursor:
            cursor.execute(query.encode(), parameters or None)
            yield _selection(connection, cursor, within, deadline)
    except psycopg.errors.QueryCanceled as error:
        raise within.late() from error
    except psycopg.OperationalError as error:
        if (error.sqlstate or "")[:2] not in _TOO_MUCH:
            raise
        raise BadInput(f"{_message(error)}: ask for less") from error
    except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.InternalError) as error:
        raise BadInput(_message(error)) from error


def _confine(connection: psycopg.Connection[Any], query: str, within: Confines) -> None:
    connection.execute("SET TRANSACTION READ ONLY")
    there = connection.execute("SELECT viewname FROM pg_catalog.pg_views WHERE schemaname = 'audit'").fetchall()
    if not set(within.views) <= {name for (name,) in there}:
        raise within.old()
    if _ESCAPED_NAME.search(query):
        raise BadInput('write names without escapes: U&"…" is not allowed here')
    words = sorted({word.lower() for word in _WORD.findall(query)})
    for (name,) in connection.execute(_FUNCTIONS, [words]).fetchall():
        if name not in _ALLOWED:
            raise BadInput(f"{name} is not allowed here: it is a function that does more than compute")
    connection.execute(f"SET LOCAL statement_timeout = {max(1, round(within.seconds * 1000))}")
    connection.execute(_FEW_TEMPORARY_FILES)
    connection.execute("SET LOCAL search_path = audit, pg_catalog, pg_temp")
    connection.execute("SET LOCAL TimeZone = 'UTC'")
    try:
        connection.execute(f"SET LOCAL ROLE {ROLE}")
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise StoreUnavailable(f"{user} is no member of {ROLE}: GRANT {ROLE} TO {user}") from error


def _message(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).splitlines()[0]


def _selection(
    connection: psycopg.Connection[Any], cursor: psycopg.ServerCursor[Any], within: Confines, deadline: float
) -> Selection:
    columns = cursor.description or []
    types = [_type(connection, column.type_code) for column in columns]
    schema = pa.schema([(column.name, kind) for column, kind in zip(columns, types, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        while rows := cursor.fetchmany(BATCH):
            if time.monotonic() > deadline:
                raise within.late()
            values = zip(*rows, strict=True)
            try:
                arrays = [
                    pa.array(map(_value(kind), each), type=kind) for each, kind in zip(values, types, strict=True)
                ]
            except (pa.ArrowException, OverflowError) as error:
                raise BadInput(f"{str(error).splitlines()[0]}: cast it to text") from error
            yield pa.record_batch(arrays, schema=schema) if columns else pa.record_batch([])

    return Selection(schema, batches())


def _type(connection: psycopg.Connection[Any], oid: int) -> pa.DataType:
    info = connection.adapters.types.get(oid)
    if info is None:
        return pa.string()
    kind = _KINDS.get(info.name, pa.string())
    return pa.list_(kind) if oid == info.array_oid else kind


def _value(kind: pa.DataType) -> Any:
    """How a value is put into a column of a type."""
    if pa.types.is_list(kind):
        inner = _value(kind.value_type)
        return lambda values: None if values is None else [inner(value) for value in values]
    if kind == _NUMBER:
        return _number
    return _text if pa.types.is_string(kind) else lambda value: value


def _number(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.quantize(Decimal("1e-9"))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, UUID | timedelta):
        return str(value)
    return json.dumps(value, default=str, ensure_ascii=False)
