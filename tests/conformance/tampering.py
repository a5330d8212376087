"""Laying hands on a store: rows changed behind Ebbtide's back, put back afterwards; and a log written anew, by hand.

What is recomputed here is recomputed with hashlib from the documented form, so that no mistake of the code under test
can vouch for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    Connection,
    Double,
    LargeBinary,
    Table,
    Text,
    Uuid,
    delete,
    insert,
    select,
    text,
    update,
)
from tests.conformance.ledger import canonical, root_of

from ebbtide import Ebbtide
from ebbtide.project.writer import entry_from
from ebbtide.store.tables import batches, event_log, memory_state, metadata, namespaces, streams

Rows = dict[tuple[Any, ...], dict[str, Any]]
NS = "default"


@contextmanager
def behind(ebb: Ebbtide) -> Iterator[Connection]:
    """A transaction in which nothing is protected."""
    with ebb.store.begin() as connection:
        if ebb.store.db.name == "postgresql":
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        yield connection


def rows_of(ebb: Ebbtide, table: Table) -> Rows:
    """All rows of a table by their primary key."""
    with ebb.store.begin() as connection:
        found = [plain(row) for row in connection.execute(select(table)).mappings()]
    return {tuple(row[column.name] for column in table.primary_key): row for row in found}


def plain(row: Any) -> dict[str, Any]:
    return {k: bytes(v) if isinstance(v, memoryview | bytearray) else v for k, v in row.items()}


def put(ebb: Ebbtide, table: Table, wanted: Rows) -> None:
    """Makes a table hold these rows: what differs is deleted first, and what is missing inserted then."""
    there = rows_of(ebb, table)
    with behind(ebb) as connection:
        for key, row in there.items():
            if wanted.get(key) != row:
                same = [column == value for column, value in zip(table.primary_key, key, strict=True)]
                connection.execute(delete(table).where(*same))
    missing = [row for key, row in wanted.items() if there.get(key) != row]
    if missing:
        with behind(ebb) as connection:
            connection.execute(insert(table), missing)


@contextmanager
def restored(ebb: Ebbtide, *tables: Table) -> Iterator[dict[str, Rows]]:
    """All rows of tables, which are as they were at the end, whatever happened to them meanwhile."""
    chosen = tables or tuple(metadata.sorted_tables)
    before = {table.name: rows_of(ebb, table) for table in chosen}
    try:
        yield before
    finally:
        for table in chosen:
            put(ebb, table, before[table.name])


def change(ebb: Ebbtide, table: Table, key: tuple[Any, ...], **values: Any) -> None:
    """Overwrites columns of one row."""
    same = [column == value for column, value in zip(table.primary_key, key, strict=True)]
    with behind(ebb) as connection:
        done = connection.execute(update(table).where(*same).values(values), execution_options=COUNTED)
        assert done.rowcount == 1


COUNTED = {"preserve_rowcount": True}


def drop(ebb: Ebbtide, table: Table, key: tuple[Any, ...]) -> None:
    same = [column == value for column, value in zip(table.primary_key, key, strict=True)]
    with behind(ebb) as connection:
        connection.execute(delete(table).where(*same))


def another(column: Any, value: Any) -> Any:
    """The least change of a value: one bit of bytes, the last digit of a number, one character of a text."""
    kind = column.type
    changes: dict[type, Any] = {
        Boolean: lambda v: not v,
        LargeBinary: lambda v: b"\x07" * 32 if v is None else bytes([v[0] ^ 1]) + v[1:],
        Double: lambda v: 0.5 if v is None else v + 1e-10,
        ARRAY: lambda v: [0.5] if v is None else [*v[:-1], v[-1] + 0.1],
        Uuid: lambda v: UUID(int=7 if v is None else v.int ^ 1),
        Text: lambda v: v[:-1] + chr(ord(v[-1]) ^ 1) if v else "x",
    }
    change = next((made for wanted, made in changes.items() if isinstance(kind, wanted)), None)
    return (7 if value is None else value + 1) if change is None else change(value)


def first_bad_by_hand(ebb: Ebbtide) -> int | None:
    """The first seq at which log and batches do not fit together, by hashlib over the rows."""
    log = [row for key, row in sorted(rows_of(ebb, event_log).items()) if key[0] == NS]
    chain = [row for key, row in sorted(rows_of(ebb, batches).items()) if key[0] == NS]
    by_entry, by_batch = _bad_entry(log), _bad_batch(chain, {row["seq"]: row["hash"] for row in log})
    if by_batch is not None and by_entry is not None and by_batch[0] <= by_entry <= by_batch[1]:
        return by_entry
    return min((seq for seq in (by_entry, by_batch and by_batch[0]) if seq is not None), default=None)


def _bad_entry(log: list[dict[str, Any]]) -> int | None:
    heads: dict[UUID, tuple[int, bytes]] = {}
    for place, row in enumerate(log, 1):
        if row["seq"] != place:
            return place
        version, head = heads.get(row["stream_id"], (0, bytes(32)))
        hashed = hashlib.sha256(row["prev_hash"] + canonical(entry_from(row))).digest()
        nine = all(
            row[name] is None or row[name] == round(row[name], 9)
            for name in ("salience", "confidence", "salience_delta", "confidence_delta")
        )
        if (row["version"], row["prev_hash"], row["hash"], nine) != (version + 1, head, hashed, True):
            return place
        heads[row["stream_id"]] = (row["version"], row["hash"])
    return None


def _bad_batch(chain: list[dict[str, Any]], hashes: dict[int, bytes]) -> tuple[int, int] | None:
    """The first and last seq of the first batch that does not fit; the last is the first where its row does not."""
    end, before = 0, bytes(32)
    for number, row in enumerate(chain, 1):
        first, last = row["first_seq"], row["first_seq"] + row["entries"] - 1
        said = "\x1f".join((row["namespace_id"], *(str(n) for n in (row["batch"], first, last, row["entries"]))))
        hashed = hashlib.sha256(before + said.encode() + row["root"]).digest()
        if (row["batch"], first, row["prev_hash"], row["hash"]) != (number, end + 1, before, hashed):
            return end + 1, end
        if any(seq not in hashes for seq in range(first, last + 1)):
            return first, last
        if row["root"] != root_of([hashes[seq] for seq in range(first, last + 1)]):
            return first, last
        end, before = last, hashed
    return None if set(hashes) <= set(range(1, end + 1)) else (end + 1, end)


def written_anew(ebb: Ebbtide, alter: Callable[[dict[str, Any]], None], first: int = 1) -> None:
    """What somebody who can write the database does: alters entries, and every hash after them.

    All links, roots and heads are made to fit, so that nothing but a rule or a kept digest can tell.
    """
    log = [row for key, row in sorted(rows_of(ebb, event_log).items()) if key[0] == NS]
    for row in log[first - 1 :]:
        alter(row)
    heads: dict[UUID, bytes] = {}
    for row in log:
        row["prev_hash"] = heads.get(row["stream_id"], bytes(32))
        row["hash"] = hashlib.sha256(row["prev_hash"] + canonical(entry_from(row))).digest()
        heads[row["stream_id"]] = row["hash"]
    hashes = [row["hash"] for row in log]
    chain = [row for key, row in sorted(rows_of(ebb, batches).items()) if key[0] == NS]
    before = bytes(32)
    for row in chain:
        begin, last = row["first_seq"], row["first_seq"] + row["entries"] - 1
        row |= {"prev_hash": before, "root": root_of(hashes[begin - 1 : last])}
        said = "\x1f".join((NS, *(str(n) for n in (row["batch"], begin, last, row["entries"]))))
        before = row["hash"] = hashlib.sha256(before + said.encode() + row["root"]).digest()
    _replace(ebb, event_log, log)
    _replace(ebb, batches, chain)
    head = rows_of(ebb, namespaces)[NS,]
    own = [row["hash"] for row in log if row["stream_type"] == "namespace"][-1]
    _replace(ebb, namespaces, [head | {"head_hash": own, "last_batch_hash": before}])
    for table in (streams, memory_state):
        mine = [row for key, row in rows_of(ebb, table).items() if key[0] == NS]
        name = list(table.primary_key)[1].name
        _replace(ebb, table, [row | {"head_hash": heads[row[name]]} for row in mine])


def _replace(ebb: Ebbtide, table: Table, mine: list[dict[str, Any]]) -> None:
    others = {key: row for key, row in rows_of(ebb, table).items() if key[0] != NS}
    put(ebb, table, others | {tuple(row[c.name] for c in table.primary_key): row for row in mine})
