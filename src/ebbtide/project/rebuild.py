"""Rebuilding the state of a namespace from its log: folded beside what is there, compared, and mended where it differs.

What the log gives goes into temporary tables and is compared with the tables column by column; only rows that differ
are written. PostgreSQL compares in a snapshot while writers go on, and takes the head's lock only to mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Table,
    Text,
    and_,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    union_all,
    update,
)

from ebbtide.log.head import lock
from ebbtide.model.entry import SCHEMA_VERSION
from ebbtide.model.errors import NotFound, Refused
from ebbtide.model.words import StreamType
from ebbtide.project.passes import empty, temporary
from ebbtide.project.projection import columns_of, from_log, policies_in_log, policy_rows
from ebbtide.project.refold import refold
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, evidence_links, memory_objects, memory_state, namespaces

NAMED = 20
"""So many differing rows of each table are named one by one."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row of the state that is not what the log gives: its table and, after the namespace, its key."""

    table: str
    key: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison of a namespace's state with its log found: per table the keys that differ, and how many."""

    expected: dict[Table, Table]
    differing: dict[Table, Table]
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def compare(db: Database, connection: Connection, namespace: str) -> Compared:
    """Folds the log beside the state and finds the rows that differ, in the caller's transaction.

    What was found is in temporary tables until the next comparison on the same connection.
    """
    _refuse_cut(connection, namespace)
    with db.many_rows(connection):
        return _compared(db, connection, namespace)


def _compared(db: Database, connection: Connection, namespace: str) -> Compared:
    folded = fold(db, connection, [namespace])
    queries: dict[Table, Any] = dict(from_log(db, namespace, folded))
    expected, differing, counts = {}, {}, {}
    for table, query in queries.items():
        # What is folded has the columns of both, and need not be written again.
        whole = table in (memory_objects, memory_state)
        expected[table] = folded if whole else _filled(db, connection, f"rebuilt_{table.name}", query)
    for table, rows in policy_rows(policies_in_log(db, connection, namespace), namespace).items():
        expected[table] = _filled(db, connection, f"rebuilt_{table.name}", select(table).where(~true()))
        if rows:
            connection.execute(insert(expected[table]), rows)
    for table, given in expected.items():
        differing[table] = _filled(db, connection, f"differing_{table.name}", _differences(table, given, namespace))
        counts[table.name] = connection.execute(select(func.count()).select_from(differing[table])).scalar_one()
    return Compared(expected, differing, counts)


AT_ONCE = 100_000
"""Objects folded by one statement: a million at once take more memory than DuckDB may have."""

TOGETHER = 20
"""So many namespaces are filled by one statement: DuckDB keeps megabytes for each statement of a transaction."""


def fold(db: Database, connection: Connection, names: Sequence[str]) -> Table:
    """Folds the logs of namespaces into a temporary table, whose columns are those of `MemoryState`."""
    table: Table = db.once("rebuilt_folded", lambda: temporary("rebuilt_folded", refold(db, [""]).subquery()))
    empty(connection, table)
    columns = [c.name for c in table.columns]
    for group, which in _groups(db, connection, names):
        connection.execute(insert(table).from_select(columns, refold(db, group, which)))
    return table


def _groups(
    db: Database, connection: Connection, names: Sequence[str]
) -> Iterator[tuple[list[str], ColumnElement[bool] | None]]:
    """What is folded together: large namespaces in ranges of ids, which are evenly spread, small ones at once."""
    log = event_log.c
    asserted = (log.stream_type == StreamType.OBJECT.value) & (log.version == 1)
    query = select(log.namespace_id, func.count()).where(db.among(log.namespace_id, names), asserted)
    counts = dict(connection.execute(query.group_by(log.namespace_id)).tuples().all())
    together: list[str] = []
    objects = 0
    for name in names:  # Also one of which no first entry is found: what else it has is folded.
        count = counts.get(name, 0)
        ranges = -(-count // AT_ONCE)
        if ranges > 1:
            bounds = [UUID(int=(place << 128) // ranges) for place in range(ranges)]
            for low, high in zip_longest(bounds, bounds[1:]):
                within = log.stream_id >= low
                yield [name], within if high is None else within & (log.stream_id < high)
            continue
        if together and objects + count > AT_ONCE:
            yield together, None
            together, objects = [], 0
        together.append(name)
        objects += count
    if together:
        yield together, None


def _refuse_cut(connection: Connection, namespace: str) -> None:
    """A head that is ahead of the log means that entries are missing, which no rebuild can bring back."""
    known = connection.execute(select(namespaces.c.last_seq).where(namespaces.c.namespace_id == namespace)).scalar()
    if known is None:
        raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
    log = event_log.c
    last, entries, newest = connection.execute(
        select(func.coalesce(func.max(log.seq), 0), func.count(), func.max(log.schema_version)).where(
            log.namespace_id == namespace
        )
    ).one()
    if (newest or 0) > SCHEMA_VERSION:
        raise Refused(
            f"the log of {namespace} has entries of version {newest}, and this Ebbtide reads up to {SCHEMA_VERSION}: "
            "upgrade it",
            rule="schema_version",
            object=namespace,
        )
    if not last == entries == known:
        raise Refused(
            f"the log of {namespace} should end at seq {known}, and has {entries} entries up to {last}: "
            "entries were taken away or put in; restore a backup, and see `ebb verify`",
            rule="log_incomplete",
            object=namespace,
        )


def _filled(db: Database, connection: Connection, name: str, query: Any) -> Table:
    # One table a name, since a statement is compiled anew for every table that it has not met.
    table: Table = db.once(name, lambda: temporary(name, query.subquery()))
    empty(connection, table)
    connection.execute(insert(table).from_select([c.name for c in table.columns], query))
    return table


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _differences(table: Table, given: Table, namespace: str) -> Select[Any]:
    """The keys of rows that only the state, or only the log, has so."""
    names = [column.name for column in columns_of(table)]
    rows = select(*(table.c[name] for name in names)).where(table.c.namespace_id == namespace)
    if table is namespaces:
        rows = rows.where(namespaces.c.last_seq > 0)
    there, keys = rows.subquery("there"), _keys(table)
    same = and_(*(there.c[k] == given.c[k] for k in keys))
    return (
        select(*(func.coalesce(there.c[k], given.c[k]).label(k) for k in keys))
        .select_from(there.outerjoin(given, same, full=True))
        .where(or_(*(there.c[name].is_distinct_from(given.c[name]) for name in names)))
        .distinct()
    )


def named(connection: Connection, compared: Compared) -> list[Wrong]:
    """Which rows differ, the first of each table by key, and how."""
    found = []
    for table, keys in compared.differing.items():
        if not compared.counts[table.name]:
            continue
        names = _keys(table)
        given = compared.expected[table].alias("given")
        same = and_(*(keys.c[k] == table.c[k] for k in names))
        expected = and_(*(keys.c[k] == given.c[k] for k in names))
        query = (
            select(
                *(keys.c[k] for k in names),
                table.c.namespace_id.isnot(None).label("is_there"),
                given.c.namespace_id.isnot(None).label("is_expected"),
                *(
                    table.c[c.name].is_distinct_from(given.c[c.name]).label(f"differs_{c.name}")
                    for c in columns_of(table)
                ),
            )
            .select_from(keys.outerjoin(table, same).outerjoin(given, expected))
            .order_by(*(keys.c[k] for k in names))
            .limit(NAMED)
        )
        for row in connection.execute(query).mappings():
            key = tuple(str(row[k]) for k in names[1:])
            found.append(Wrong(table.name, key, _what(row, [c.name for c in columns_of(table)])))
    return found


def _what(row: Any, columns: Sequence[str]) -> str:
    if not row["is_there"]:
        return "is missing"
    if not row["is_expected"]:
        return "is not in the log"
    return f"differs in {', '.join(name for name in columns if row[f'differs_{name}'])}"


def mend(connection: Connection, compared: Compared, namespace: str) -> None:
    """Makes the differing rows what the log says, in the caller's transaction, which holds the head's lock."""
    for table, keys in compared.differing.items():
        if not compared.counts[table.name]:
            continue
        given = compared.expected[table]
        names = [column.name for column in columns_of(table)]

        def same(one: Any, other: Any, table: Table = table) -> ColumnElement[bool]:
            return and_(*(one.c[k] == other.c[k] for k in _keys(table)))

        mine = and_(table.c.namespace_id == namespace, exists(select(literal(1)).where(same(keys, table))))
        wanted = exists(select(literal(1)).where(same(given, table)))
        rest = {name: given.c[name] for name in names if name not in _keys(table)}
        connection.execute(delete(table).where(mine, ~wanted))
        if rest:
            connection.execute(update(table).where(mine, same(given, table)).values(rest))
        if table is not namespaces:
            there = exists(select(literal(1)).where(same(table, given)))
            marked = exists(select(literal(1)).where(same(keys, given)))
            rows = select(*(given.c[name] for name in names)).where(marked, ~there)
            connection.execute(insert(table).from_select(names, rows))


def fill(db: Database, connection: Connection, names: Sequence[str]) -> None:
    """Writes the state of namespaces that have a log and no state yet, in the caller's transaction.

    The transaction holds the heads' locks. There is nothing to compare with, which is most of what a rebuild does.
    """
    if not names:
        return
    for name in names:
        _refuse_cut(connection, name)
    with db.many_rows(connection):
        _filled_in(db, connection, names)


def _filled_in(db: Database, connection: Connection, names: Sequence[str]) -> None:
    folded = fold(db, connection, names)
    for group in (names[place : place + TOGETHER] for place in range(0, len(names), TOGETHER)):
        queries = [from_log(db, name, folded) for name in group]
        for table in [table for table in queries[0] if table not in FOLDED]:
            _fill(connection, table, union_all(*(query[table] for query in queries)))
        found = [policy_rows(policies_in_log(db, connection, name), name) for name in group]
        for table in found[0]:
            rows = [row for one in found for row in one[table]]
            if rows:
                db.bulk_insert(connection, table, rows)
    for table, query in from_log(db, names[0], folded).items():
        if table in FOLDED:
            _fill(connection, table, query)


FOLDED = (memory_objects, memory_state, evidence_links)
"""Tables that follow from the folded objects, whichever namespaces they are of."""


def _fill(connection: Connection, table: Table, query: Any) -> None:
    names = [column.name for column in columns_of(table)]
    if table is not namespaces:
        connection.execute(insert(table).from_select(names, query))
        return
    given = query.subquery().c
    head = {name: given[name] for name in names if name not in _keys(table)}
    connection.execute(update(namespaces).where(namespaces.c.namespace_id == given.namespace_id).values(head))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuild of one namespace: the digest of its state before and after, and which rows were wrong.

    `wrong` names the first of each table; `mended` counts all of them by table.
    """

    namespace_id: str
    entries: int
    before: str
    after: str
    mended: dict[str, int]
    wrong: list[Wrong]


def rebuild(db: Database, connection: Connection, namespace: str) -> Rebuilt:
    """Makes the state of a namespace what its log gives, on a connection without a transaction."""
    with db.snapshot(connection).begin():
        compared = compare(db, connection, namespace)
        before = state_digest(db, connection, namespace)
        entries = _entries(connection, namespace)
    if not compared.total:
        return Rebuilt(namespace, entries, before, before, {}, [])
    with connection.begin():
        lock(db, connection, namespace)
        compared = compare(db, connection, namespace)
        wrong = named(connection, compared)
        mend(connection, compared, namespace)
        after, entries = state_digest(db, connection, namespace), _entries(connection, namespace)
    mended = {name: count for name, count in compared.counts.items() if count}
    return Rebuilt(namespace, entries, before, after, mended, wrong)


def _entries(connection: Connection, namespace: str) -> int:
    query = select(func.count()).select_from(event_log).where(event_log.c.namespace_id == namespace)
    return int(connection.execute(query).scalar_one())


def state_digest(db: Database, connection: Connection, namespace: str) -> str:
    """SHA-256 (hex) over every column of the state of all objects, in order of their ids; alike on both databases.

    Rows are hashed one by one, then in blocks of some thousands, then those: memory stays bounded.
    """
    both = [*(memory_objects.c), *(c for c in memory_state.c if c.name not in ("namespace_id", "object_id"))]
    pieces = [func.coalesce(db.as_text(column), "\x1e", type_=Text) for column in both]
    row = db.sha256(db.utf8(func.concat_ws("\x1f", *pieces, type_=Text)))
    # Hashed before they are sorted, so that the sort moves hashes and not whole rows.
    hashed = db.fence(
        select(row.label("hash"), memory_state.c.object_id)
        .join_from(
            memory_objects,
            memory_state,
            and_(
                memory_objects.c.namespace_id == memory_state.c.namespace_id,
                memory_objects.c.object_id == memory_state.c.object_id,
            ),
        )
        .where(memory_state.c.namespace_id == namespace)
    ).c
    rows = select(hashed.hash, func.row_number().over(order_by=hashed.object_id).label("n")).subquery()
    place = cast(func.floor((rows.c.n - 1) / literal(4096.0)), Integer)
    blocks = (
        select(place.label("place"), db.sha256(db.join_bytes(rows.c.hash, rows.c.n)).label("hash"))
        .group_by(place)
        .subquery()
    )
    total = db.hex(db.sha256(db.join_bytes(blocks.c.hash, blocks.c.place)))
    found = connection.execute(select(func.count(), total).select_from(blocks)).one()
    return str(found[1]) if found[0] else EMPTY


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The digest of no objects: SHA-256 of nothing."""
