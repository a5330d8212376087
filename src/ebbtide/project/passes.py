"""The set-based writer: whole columns of entries appended and folded in SQL, without a row fetched into Python.

A chunk is one transaction's part of a pass over one namespace. Rows are staged in a temporary table together with the
ids and hashes of their entries; from there they go into the log and, by an UPDATE, into the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    MetaData,
    Select,
    SmallInteger,
    Table,
    Text,
    Uuid,
    cast,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import NullType

from ebbtide.log.batches import root_in_store
from ebbtide.log.canonical import SEPARATOR, hash_of, sql_hash
from ebbtide.log.head import Head, close_batch
from ebbtide.model.entry import SCHEMA_VERSION, Entry
from ebbtide.model.identity import id_of_entry, id_of_namespace
from ebbtide.model.words import ActorType, OpType, StreamType
from ebbtide.project.writer import as_json, entry_row
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_state

Columns = Any
"""The columns of a subquery or table, by attribute: SQLAlchemy's `.c`."""

Plan = Callable[[Columns], Mapping[str, Any]]
"""What one entry of each staged row holds: expressions by column of `event_log`, over the staged columns."""



@dataclass(frozen=True, slots=True)
class Actor:
    """Who decides or asks."""

    id: str
    type: ActorType


ORGANISER = Actor("ebbtide", ActorType.SYSTEM_PROCESS)


@dataclass(frozen=True, slots=True)
class Stage:
    """Staged rows: the temporary table, how many there are, and what they write."""

    table: Table
    rows: int
    plans: Sequence[Plan]
    first_seq: int


class Chunk:
    """One transaction's part of a pass over one namespace, whose head the caller has locked."""

    def __init__(
        self, db: Database, connection: Connection, head: Head, *, now: int, actor: Actor = ORGANISER
    ) -> None:
        self._db = db
        self._connection = connection
        self.head = head
        self.recorded_at = max(now, head.last_recorded_at)
        self.entries = 0
        self._actor = actor

    @property
    def namespace(self) -> str:
        return self.head.namespace_id

    def stage(self, name: str, rows: Select[Any], plans: Sequence[Plan]) -> Stage:
        """Stages rows (`object_id`, `version`, `head_hash` and what the plans use), numbered by object.

        Each row gets the entries of all plans, one after the other: contiguous seq, chained hashes.
        """
        source = self._db.fence(rows)
        number = (func.row_number(type_=BigInteger).over(order_by=source.c.object_id) - 1).label("n")
        layer = self._db.fence(select(*source.c, number))
        first_seq = self.head.last_seq + self.entries + 1
        for place, plan in enumerate(plans):
            seq = self._seq(layer.c, first_seq, place, len(plans))
            ids = self._db.uuid8(func.concat(self.namespace, SEPARATOR, cast(seq, Text), type_=Text))
            layer = self._db.fence(select(*layer.c, ids.label(f"id_{place}")))
            values = self._values(layer.c, plan, place)
            hashed = sql_hash(self._db, self._previous(layer.c, place), values).label(f"hash_{place}")
            layer = self._db.fence(select(*layer.c, hashed))
        table = temporary(name, layer)
        self._connection.execute(CreateTable(table, if_not_exists=True))
        self._connection.execute(text(f"TRUNCATE {name}"))
        count = self._connection.execute(
            insert(table).from_select([column.name for column in table.columns], select(*layer.c)),
            execution_options={"preserve_rowcount": True},
        ).rowcount
        return Stage(table, count, plans, first_seq)

    def append(self, stage: Stage) -> None:
        """Inserts the entries of staged rows into the log."""
        for place, plan in enumerate(stage.plans):
            columns = stage.table.c
            values = self._values(columns, plan, place) | {
                "seq": self._seq(columns, stage.first_seq, place, len(stage.plans)),
                "prev_hash": self._previous(columns, place),
                "hash": columns[f"hash_{place}"],
            }
            chosen = [_typed(values[c.name], c).label(c.name) for c in event_log.columns if c.name in values]
            names = [column.name for column in chosen]
            self._connection.execute(insert(event_log).from_select(names, select(*chosen).order_by(columns.n)))
        self.entries += stage.rows * len(stage.plans)

    def update(self, stage: Stage, values: Mapping[str, Any]) -> None:
        """Folds staged rows into the state; version and head hash follow from their entries."""
        last = len(stage.plans) - 1
        columns = stage.table.c
        self._connection.execute(
            update(memory_state)
            .where(memory_state.c.namespace_id == self.namespace, memory_state.c.object_id == columns.object_id)
            .values(version=columns.version + last + 1, head_hash=columns[f"hash_{last}"], **values)
        )

    def note(
        self, op_type: OpType, payload: Mapping[str, Any], *, effective_at: int
    ) -> None:
        """Appends an entry to the namespace's own stream."""
        head = self.head
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
            actor_id=self._actor.id,
            actor_type=self._actor.type,
            payload=as_json(payload),
            policy_id=head.policy_id,
            policy_version=head.policy_version,
            prev_hash=head.head_hash,
        )
        entry = replace(entry, hash=hash_of(entry))
        self._db.bulk_insert(self._connection, event_log, [entry_row(entry)])
        self.entries += 1
        self.head = replace(head, version=entry.version, head_hash=entry.hash).with_effect(effective_at)

    def close(self) -> Head:
        """Ends the transaction's part: the batch over all its entries, and the head moved on."""
        head = replace(self.head, last_recorded_at=self.recorded_at)
        root = root_in_store(self._db, self._connection, self.namespace, head.last_seq + 1, self.entries)
        return close_batch(self._connection, head, self.entries, root)

    def _seq(self, columns: Columns, first_seq: int, place: int, each: int) -> ColumnElement[int]:
        return cast(columns.n, BigInteger) * each + literal(first_seq + place, BigInteger)

    @staticmethod
    def _previous(columns: Columns, place: int) -> ColumnElement[bytes]:
        return columns.head_hash if place == 0 else columns[f"hash_{place - 1}"]

    def _values(self, columns: Columns, plan: Plan, place: int) -> dict[str, Any]:
        return {
            "namespace_id": literal(self.namespace, Text),
            "id": columns[f"id_{place}"],
            "stream_type": literal(StreamType.OBJECT.value, Text),
            "stream_id": columns.object_id,
            "version": columns.version + (place + 1),
            "schema_version": literal(SCHEMA_VERSION, SmallInteger),
            "recorded_at": literal(self.recorded_at, BigInteger),
            "actor_id": literal(self._actor.id, Text),
            "actor_type": literal(self._actor.type.value, Text),
            "carries": literal(0, SmallInteger),
            "payload": literal("{}", Text),
            **plan(columns),
        }


def _typed(value: Any, column: Column[Any]) -> Any:
    return value if isinstance(value, ColumnElement) else literal(value, column.type)


def temporary(name: str, layer: Any) -> Table:
    """A temporary table with the columns of a subquery."""
    columns = []
    for column in layer.c:
        kind = {"object_id": Uuid, "head_hash": LargeBinary}.get(column.name)
        assert kind or not isinstance(column.type, NullType), f"{column.name} has no type"
        columns.append(Column(column.name, kind() if kind else column.type))
    return Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])


def json_of(**members: Any) -> ColumnElement[str]:
    """A JSON object as text over SQL expressions: members are JSON texts already, None and null become null."""
    pieces: list[Any] = ["{"]
    for place, (name, value) in enumerate(members.items()):
        pieces += [f'{"," if place else ""}"{name}":', func.coalesce(value, "null", type_=Text)]
    return func.concat(*pieces, "}", type_=Text)


def quoted(value: Any) -> ColumnElement[str]:
    """A code as a JSON text; null stays null. For codes and policy names only: nothing is escaped."""
    return literal('"', Text).concat(value).concat('"')


def whole(value: Any) -> ColumnElement[str]:
    """An integer as a JSON text; null stays null."""
    return cast(value, Text)
