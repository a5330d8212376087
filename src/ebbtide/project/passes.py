"""The set-based writer: whole columns of entries appended and folded in SQL, without a row fetched into Python.

A chunk is one transaction's part of a pass over one namespace. Rows are staged in a temporary table together with the
ids and hashes of their entries; from there they go into the log and, by an UPDATE, into the state. The statements of
a pass are built once per database and run with parameters: for a small namespace, building them costs more than
running them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Insert,
    MetaData,
    Select,
    SmallInteger,
    Table,
    Text,
    Update,
    Uuid,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import NullType

from ebbtide.log.batches import root_in_store, root_of
from ebbtide.log.canonical import SEPARATOR, hash_of, sql_hash
from ebbtide.log.head import Head, close_batch
from ebbtide.model.entry import SCHEMA_VERSION, Entry
from ebbtide.model.identity import id_of_entry, id_of_namespace
from ebbtide.model.words import ActorType, OpType, StreamType
from ebbtide.project.writer import as_json, entry_row
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_state, streams

Columns = Any
"""The columns of a subquery or table, by attribute: SQLAlchemy's `.c`."""

Plan = Callable[[Columns], Mapping[str, Any]]
"""What one entry of each staged row holds: expressions by column of `event_log`, over the staged columns."""

SCORED = (
    "salience",
    "confidence",
    "salience_delta",
    "confidence_delta",
    "decay_profile",
    "policy_id",
    "policy_version",
)
"""The columns of an entry that say which scores it left, and what they follow from."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decides or asks."""

    id: str
    type: ActorType


ORGANISER = Actor("ebbtide", ActorType.SYSTEM_PROCESS)

NAMESPACE: BindParameter[str] = bindparam("pass_namespace", type_=Text)
"""The namespace of the chunk, in the statements of a pass."""

AS_OF: BindParameter[int] = bindparam("pass_as_of", type_=BigInteger)
"""The instant a pass evaluates at."""

_RECORDED_AT: BindParameter[int] = bindparam("pass_recorded_at", type_=BigInteger)
_FIRST_SEQ: BindParameter[int] = bindparam("pass_first_seq", type_=BigInteger)
_ACTOR_ID: BindParameter[str] = bindparam("pass_actor_id", type_=Text)
_ACTOR_TYPE: BindParameter[str] = bindparam("pass_actor_type", type_=Text)


@dataclass(frozen=True, slots=True)
class Staged:
    """The statements of one pass: fill the temporary table, append each plan's entries, fold them into the state.

    `heads` keeps the heads of streams that are not an object's.
    """

    table: Table
    fill: Insert
    append: tuple[Insert, ...]
    fold: Update
    heads: tuple[Insert, ...] = ()


def staged(
    db: Database,
    name: str,
    rows: Select[Any],
    plans: Sequence[Plan],
    fold: Callable[[Columns], Mapping[str, Any]],
    *,
    target: Table = memory_state,
    id_of: Callable[[Columns], Any] | None = None,
    stream_type: StreamType = StreamType.OBJECT,
) -> Staged:
    """Builds a pass over `rows`: `object_id`, `version`, `head_hash` and what the plans and `fold` use.

    Rows are numbered by object. Each gets the entries of all plans, one after the other: contiguous seq, versions that
    follow, chained hashes. `fold` gives the columns to set in `target`, whose second key is the object's id; in
    `memory_state` version and head hash follow by themselves. `id_of` derives an entry's id from what it decides.
    """
    source = db.fence(rows)
    number = (func.row_number(type_=BigInteger).over(order_by=source.c.object_id) - 1).label("n")
    layer = db.fence(select(*source.c, number))
    for place, plan in enumerate(plans):
        named = cast(_seq(layer.c, place, len(plans)), Text) if id_of is None else id_of(layer.c)
        ids = db.uuid8(func.concat(NAMESPACE, SEPARATOR, named, type_=Text))
        layer = db.fence(select(*layer.c, ids.label(f"id_{place}")))
        hashed = sql_hash(db, _previous(layer.c, place), _values(layer.c, plan, place, stream_type))
        layer = db.fence(select(*layer.c, hashed.label(f"hash_{place}")))
    table = temporary(name, layer)
    columns = table.c
    found = db.in_place(table, target, NAMESPACE).c
    values = dict(fold(found))
    if target is memory_state:
        values |= {"version": found.version + len(plans), "head_hash": found[f"hash_{len(plans) - 1}"]}
    return Staged(
        table,
        insert(table).from_select([column.name for column in columns], select(*layer.c)),
        tuple(_append(columns, plan, place, len(plans), stream_type) for place, plan in enumerate(plans)),
        update(target)
        .where(target.c.namespace_id == NAMESPACE, list(target.primary_key)[1] == found.object_id)
        .values(values),
        () if stream_type == StreamType.OBJECT else (_heads(columns, len(plans)),),
    )


def _heads(columns: Columns, each: int) -> Insert:
    rows = select(NAMESPACE, columns.object_id, columns.version + each, columns[f"hash_{each - 1}"])
    made = insert_or_update(streams).from_select([c.name for c in streams.columns], rows)
    return made.on_conflict_do_update(
        index_elements=[c.name for c in streams.primary_key],
        set_={"version": made.excluded.version, "head_hash": made.excluded.head_hash},
    )


def _append(columns: Columns, plan: Plan, place: int, each: int, stream_type: StreamType) -> Insert:
    values = _values(columns, plan, place, stream_type) | {
        "seq": _seq(columns, place, each),
        "prev_hash": _previous(columns, place),
        "hash": columns[f"hash_{place}"],
    }
    chosen = [_typed(values[c.name], c).label(c.name) for c in event_log.columns if c.name in values]
    return insert(event_log).from_select([c.name for c in chosen], select(*chosen))


def _seq(columns: Columns, place: int, each: int) -> ColumnElement[int]:
    return cast(columns.n, BigInteger) * each + _FIRST_SEQ + place


def _previous(columns: Columns, place: int) -> Any:
    return columns.head_hash if place == 0 else columns[f"hash_{place - 1}"]


def _values(columns: Columns, plan: Plan, place: int, stream_type: StreamType) -> dict[str, Any]:
    return {
        "namespace_id": NAMESPACE,
        "id": columns[f"id_{place}"],
        "stream_type": literal(stream_type.value, Text),
        "stream_id": columns.object_id,
        "version": columns.version + (place + 1),
        "schema_version": literal(SCHEMA_VERSION, SmallInteger),
        "recorded_at": _RECORDED_AT,
        "actor_id": _ACTOR_ID,
        "actor_type": _ACTOR_TYPE,
        "carries": literal(0, SmallInteger),
        "payload": literal("{}", Text),
        **plan(columns),
    }


def _typed(value: Any, column: Column[Any]) -> Any:
    return value if isinstance(value, ColumnElement) else literal(value, column.type)


def temporary(name: str, layer: Any) -> Table:
    """A temporary table with the columns of a subquery."""
    for column in layer.c:
        assert not isinstance(column.type, NullType), f"{column.name} has no type"
    columns = [Column(column.name, column.type) for column in layer.c]
    return Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])


def empty(connection: Connection, table: Table) -> None:
    """Makes a temporary table where it is not there yet, and empties it."""
    connection.execute(CreateTable(table, if_not_exists=True))
    connection.execute(text(f"TRUNCATE {table.name}"))


class Chunk:
    """One transaction's part of a pass over one namespace, whose head the caller has locked."""

    def __init__(self, db: Database, connection: Connection, head: Head, *, now: int, actor: Actor = ORGANISER) -> None:
        self._db = db
        self._connection = connection
        self.head = head
        self.recorded_at = max(now, head.last_recorded_at)
        self.entries = 0
        self._actor = actor
        self._noted: list[bytes] = []

    @property
    def namespace(self) -> str:
        return self.head.namespace_id

    def write(self, staged: Staged, parameters: Mapping[str, Any]) -> int:
        """Runs a pass over the chunk: how many rows it wrote the entries of."""
        given = {
            NAMESPACE.key: self.namespace,
            _RECORDED_AT.key: self.recorded_at,
            _FIRST_SEQ.key: self.head.last_seq + self.entries + 1,
            _ACTOR_ID.key: self._actor.id,
            _ACTOR_TYPE.key: self._actor.type.value,
            **parameters,
        }
        empty(self._connection, staged.table)
        filled = self._connection.execute(staged.fill, given, execution_options={"preserve_rowcount": True})
        if filled.rowcount:
            for statement in (*staged.append, staged.fold, *staged.heads):
                self._connection.execute(statement, given)
            self.entries += filled.rowcount * len(staged.append)
        return filled.rowcount

    def note(
        self, op_type: OpType, payload: Mapping[str, Any], *, effective_at: int, actor: Actor | None = None
    ) -> None:
        """Appends an entry to the namespace's own stream, by the chunk's actor or another."""
        head, actor = self.head, actor or self._actor
        seq = head.last_seq + self.entries + 1
        entry = Entry(
            namespace_id=self.namespace,
            seq=seq,
            id=id_of_entry(self.namespace, seq),
            stream_type=StreamType.NAMESPACE,
            stream_id=id_of_namespace(self.namespace),
            version=head.version + 1,
            op_type=op_type,
            recorded_at=self.recorded_at,
            effective_at=effective_at,
            actor_id=actor.id,
            actor_type=actor.type,
            payload=as_json(payload),
            policy_id=head.policy_id,
            policy_version=head.policy_version,
            prev_hash=head.head_hash,
        )
        entry = replace(entry, hash=hash_of(entry))
        self._connection.execute(insert(event_log), entry_row(entry))
        self.entries += 1
        self._noted.append(entry.hash)
        self.head = replace(head, version=entry.version, head_hash=entry.hash).with_effect(effective_at)

    def close(self) -> Head:
        """Ends the transaction's part: the batch over all its entries, and the head moved on."""
        head = replace(self.head, last_recorded_at=self.recorded_at)
        if len(self._noted) == self.entries:
            root = root_of(self._noted)
        else:
            root = root_in_store(self._db, self._connection, self.namespace, head.last_seq + 1, self.entries)
        return close_batch(self._connection, head, self.entries, root)


def json_of(**members: Any) -> ColumnElement[str]:
    """A JSON object as text over SQL expressions: members are JSON texts already, null becomes null."""
    return func.concat("{", json_members(**members), "}", type_=Text)


def json_members(**members: Any) -> ColumnElement[str]:
    """The members of a JSON object without its braces."""
    pieces: list[Any] = []
    for place, (name, value) in enumerate(members.items()):
        pieces += [f'{"," if place else ""}"{name}":', func.coalesce(value, "null", type_=Text)]
    return func.concat(*pieces, type_=Text)


def quoted(value: Any) -> ColumnElement[str]:
    """A code as a JSON text; null stays null. For codes and policy names only: nothing is escaped."""
    return literal('"', Text).concat(value).concat('"')


def whole(value: Any) -> ColumnElement[str]:
    """An integer as a JSON text; null stays null."""
    return cast(value, Text)


def state_json(db: Database, values: Mapping[str, Any]) -> ColumnElement[str]:
    """State columns as a JSON object, each by its type."""
    return json_of(**{name: _member(db, name, value) for name, value in values.items()})


def _member(db: Database, name: str, value: Any) -> ColumnElement[str]:
    kind = memory_state.c[name].type
    if isinstance(kind, Boolean):
        return case((value, "true"), else_="false")
    if isinstance(kind, Double):
        return db.real(value) if name in ("stability", "difficulty") else db.decimal(value)
    return quoted(cast(value, Text)) if isinstance(kind, Text | Uuid) else whole(value)
