"""Floors: what the database alone takes to write the same rows, or to read the log once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    LargeBinary,
    Select,
    Table,
    Text,
    Update,
    Uuid,
    cast,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)

from ebbtide.model.words import StreamType
from ebbtide.project.passes import empty, temporary
from ebbtide.store.store import Store
from ebbtide.store.tables import event_log, memory_state

BEYOND = 10**9
"""Far behind any seq or version: where the same rows go once more."""


_ROW = {"duckdb": "rowid", "postgresql": "ctid"}
"""Where a row stands in its table."""


def bare(store: Store, after: int, columns: Sequence[str], together: int) -> list[float]:
    """The entries after a seq, and columns of their objects' state, written once more with nothing computed.

    Seconds of each transaction, which holds so many entries, and of letting go of the store at the end. The rows stand
    ready in temporary tables, in the order in which writing them is quick. The store's log has entries after that
    which are in no chain.
    """
    took = []
    with ExitStack() as opened:
        connection = opened.enter_context(store.session())
        with connection.begin():
            entries, states = _staged(store, connection, after, columns, together)
            parts = connection.execute(select(func.coalesce(func.max(entries.c.part) + 1, 0))).scalar_one()
        rows = [c for c in entries.columns if c.name != "part"]
        for part in range(parts):
            began = time.perf_counter()
            with connection.begin():
                here = select(*rows).where(entries.c.part == part)
                connection.execute(insert(event_log).from_select([c.name for c in rows], here))
                connection.execute(_update(states, columns, part))
            took.append(time.perf_counter() - began)
        began = time.perf_counter()
    return [*took, time.perf_counter() - began]


def _update(states: Table, columns: Sequence[str], part: int) -> Update:
    s = memory_state.c
    return (
        update(memory_state)
        .where(s.namespace_id == states.c.namespace_id, s.object_id == states.c.object_id, states.c.part == part)
        .values({name: states.c[name] for name in columns})
    )


def _staged(
    store: Store, connection: Connection, after: int, columns: Sequence[str], together: int
) -> tuple[Table, Table]:
    log, s = event_log.c, memory_state.c
    moved = {
        "seq": log.seq + BEYOND,
        "version": log.version + BEYOND,
        "idempotency_key": log.idempotency_key.concat("~"),
    }
    place = func.row_number(type_=BigInteger).over(order_by=(log.namespace_id, log.seq)) - 1
    part = cast(func.floor(place / literal(float(together), Double)), BigInteger)
    entries = _ready(
        connection,
        "floor_entries",
        select(*(moved.get(c.name, c).label(c.name) for c in event_log.columns), part.label("part"))
        .where(log.seq > after, log.seq < BEYOND)
        .order_by(log.namespace_id, log.seq),
    )
    e = entries.c
    touched = (
        select(e.namespace_id, e.stream_id, func.min(e.part).label("part"))
        .where(e.stream_type == StreamType.OBJECT.value)
        .group_by(e.namespace_id, e.stream_id)
        .subquery()
    )
    states = _ready(
        connection,
        "floor_states",
        select(s.namespace_id, s.object_id, *(_other(name) for name in columns), touched.c.part)
        .join_from(
            memory_state, touched, (s.namespace_id == touched.c.namespace_id) & (s.object_id == touched.c.stream_id)
        )
        .order_by(literal_column(f"memory_state.{_ROW[store.db.name]}")),
    )
    return entries, states


def _ready(connection: Connection, name: str, rows: Select[Any]) -> Table:
    table = temporary(name, rows.subquery())
    empty(connection, table)
    connection.execute(insert(table).from_select([c.name for c in table.columns], rows))
    connection.execute(text(f"ANALYZE {name}"))
    return table


def _other(name: str) -> Any:
    """Another value for a column of the state; version and hash keep theirs, so that the next pass finds its place."""
    column = memory_state.c[name]
    if isinstance(column.type, Double):
        return (column / 2).label(name)
    if isinstance(column.type, BigInteger) and name not in ("version", "fact_version"):
        return (func.coalesce(column, 0, type_=BigInteger) + 1).label(name)
    return column


def scan(store: Store) -> None:
    """Every value of every entry, read once."""
    with store.begin() as connection:
        connection.execute(select(*map(_read, event_log.columns)).where(event_log.c.seq < BEYOND)).one()


def _read(column: Any) -> Any:
    """An aggregate that has to look at a column, and hardly more."""
    if isinstance(column.type, Uuid):
        return func.count(column)
    lengths = {Text: func.length, LargeBinary: func.octet_length}
    return func.max(lengths[type(column.type)](column) if type(column.type) in lengths else column)
