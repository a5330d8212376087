"""Erasure: what a person asked to be forgotten is gone from every table in one transaction, and a receipt says so.

Objects by name, all of a subject, or a whole namespace; with them the evidence that serves nothing else, and every
summary made from any of it. A legal hold on any of it refuses the whole erasure. Tombstones stay, and the chain of
hashes verifies as before: the log never held the text, only SHA-256(nonce ‖ content), and the nonces are gone but for
the receipt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_json
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Delete,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
)

from ebbtide.log.head import lock
from ebbtide.model import instant
from ebbtide.model.errors import NotFound, Refused
from ebbtide.model.words import Expiry, OpType, Resolution, StreamType, TombstoneReason
from ebbtide.project import tombstone
from ebbtide.project.passes import NAMESPACE, Actor, Chunk, Staged, empty, temporary
from ebbtide.project.summaries import SINCE, made_from_erased
from ebbtide.project.tombstone import Verdict
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import contents, event_log, event_state, memory_objects, memory_state


class Counts(BaseModel):
    """How many objects, events and contents."""

    objects: int
    events: int
    contents: int


class Erased(BaseModel):
    """One content that was erased: by its hash and nonce the receipt's holder can show what it was.

    `seq` is the entry it was written with; `target_type` is memory_object, event, or namespace for what was written of
    a subject or of the whole.
    """

    target_id: UUID
    target_type: str
    seq: int
    content_hash: str
    nonce: str

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        """One content from its row."""
        return cls(
            target_id=row.target_id,
            target_type=row.target_type,
            seq=row.seq,
            content_hash=bytes(row.content_hash).hex(),
            nonce=bytes(row.nonce).hex(),
        )


class Receipt(BaseModel):
    """What an erasure did. It alone still has the nonces: keep it with care.

    `summaries` are the memories that went because they were made from what was erased; they count as objects.
    """

    namespace_id: str
    subject: str | None
    objects: list[UUID] | None
    summaries: list[UUID]
    reason: str
    created_at: datetime
    erased: Counts
    kept: Counts
    tombstones: list[UUID]
    items: list[Erased]
    head: dict[str, Any]
    still_holding: list[str]

    def confirmation(self) -> str:
        """A digest of exactly what goes: the same of a preview and of the erasure, unless any of it has changed.

        It is over hashes with the nonces in them, so that nobody can make it who was not shown the preview.
        """
        what = [self.namespace_id, self.subject, self.reason, sorted(self.objects or []), self.summaries, self.erased]
        going = [[item.target_id, item.seq, item.content_hash] for item in self.items]
        return hashlib.sha256(to_json([what, going])).hexdigest()


STILL_HOLDING = [
    "the database's write-ahead log, archives and backups, until they are recycled",
    "whatever keeps copies of its own, such as a vector index, until it follows the log",
]


class _By(StrEnum):
    """How an erasure is told what goes."""

    OBJECTS = "objects"
    SUBJECT = "subject"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be erased: objects, or all of a subject, or, with neither, all of the namespace."""

    namespace: str
    objects: tuple[UUID, ...] = ()
    subject: str | None = None

    @property
    def by(self) -> _By:
        if self.objects:
            return _By.OBJECTS
        return _By.EVERYTHING if self.subject is None else _By.SUBJECT


_SUBJECT: BindParameter[str] = bindparam("erase_subject", type_=Text)
_POLICY: BindParameter[str] = bindparam("erase_policy", type_=Text)
_MEANT = temporary("erase_meant", select(memory_objects.c.object_id).subquery())
"""The objects that are named, and those that were merged into them."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements of an erasure, in the order in which they run; built once for each way to say what goes."""

    held: Select[Any]
    objects: Staged
    events: Staged
    held_summaries: Select[Any]
    summaries: Staged
    items: Select[Any]
    contents: Delete

    @classmethod
    def of(cls, db: Database, by: _By) -> _Statements:
        of_memory = Verdict(
            at=SQL.greatest(memory_state.c.fact_at, tombstone.EVALUATED_AT),
            action=literal(Expiry.ERASE.value, Text),
            policy_ref=_POLICY,
        )
        of_event = replace(of_memory, at=SQL.greatest(event_state.c.effective_at, tombstone.EVALUATED_AT))
        objects, events = _meant(memory_state, by), or_(_meant(event_state, by), _unused())
        gone = tombstone.of_erased(db, subject=_SUBJECT if by == _By.SUBJECT else None, everything=by == _By.EVERYTHING)
        return cls(
            held=_held(objects),
            objects=tombstone.objects(db, f"erased_{by}_objects", objects, of_memory),
            events=tombstone.events(db, f"erased_{by}_events", events, of_event),
            held_summaries=_held(made_from_erased()),
            summaries=tombstone.objects(db, f"erased_{by}_summaries", made_from_erased(), of_memory),
            items=_items(gone),
            contents=delete(contents).where(gone),
        )


def _meant(table: Table, by: _By) -> ColumnElement[bool]:
    """Which objects, over `memory_state` joined with `memory_objects`, or which events are meant themselves."""
    mine = and_(table.c.namespace_id == NAMESPACE, table.c.erased_at.is_(None))
    if by == _By.EVERYTHING:
        return mine
    if by == _By.SUBJECT:
        return and_(mine, (memory_objects if table is memory_state else table).c.subject == _SUBJECT)
    # Events are meant by what they are evidence of alone.
    named = table.c.object_id.in_(select(_MEANT.c.object_id)) if table is memory_state else literal(False)
    return and_(mine, named)


def _unused() -> ColumnElement[bool]:
    return and_(event_state.c.namespace_id == NAMESPACE, event_state.c.erased_at.is_(None), tombstone.serves_no_other())


def _held(which: ColumnElement[bool]) -> Select[Any]:
    o, s = memory_objects.c, memory_state.c
    return (
        select(o.ref, o.object_id)
        .join_from(memory_objects, memory_state, and_(o.namespace_id == s.namespace_id, o.object_id == s.object_id))
        .where(which, s.held)
        .order_by(o.object_id)
    )


def _items(which: ColumnElement[bool]) -> Select[Any]:
    """Hash and nonce of every content that goes, by what it is of."""
    log, e = event_log.c, event_state.c
    return (
        select(
            log.seq,
            log.content_hash,
            contents.c.nonce,
            func.coalesce(e.event_id, log.stream_id).label("target_id"),
            case(
                (e.event_id.isnot(None), "event"),
                (log.stream_type == StreamType.OBJECT.value, "memory_object"),
                else_="namespace",
            ).label("target_type"),
        )
        .join_from(contents, event_log, and_(log.namespace_id == contents.c.namespace_id, log.seq == contents.c.seq))
        .outerjoin(event_state, and_(e.namespace_id == log.namespace_id, e.seq == log.seq))
        .where(which)
        .order_by(log.seq)
    )


@dataclass
class Erasure:
    """Erases on one connection, in the caller's transaction."""

    db: Database
    connection: Connection
    clock: Callable[[], int]

    def run(self, target: Target, reason: TombstoneReason, actor: Actor) -> Receipt:
        """Erases a target; the receipt. Raises `Refused` where a hold forbids it, `NotFound` where nothing is meant."""
        head = lock(self.db, self.connection, target.namespace)
        if head is None:
            raise NotFound(f"there is no namespace {target.namespace!r}", field="namespace")
        self._refuse_unknown(target)
        target = replace(target, objects=self._with_merged(target))
        now = max(self.clock(), head.last_recorded_at)
        chunk = Chunk(self.db, self.connection, head, now=now, actor=actor)
        first = head.last_seq + 1
        given = tombstone.parameters(reason, now, instant.iso(now)) | {
            NAMESPACE.key: target.namespace,
            SINCE.key: first,
            _SUBJECT.key: target.subject,
            _POLICY.key: f"{head.policy_id}@{head.policy_version}",
        }
        statements: _Statements = self.db.once(f"erase {target.by}", lambda: _Statements.of(self.db, target.by))
        empty(self.connection, _MEANT)
        self.db.bulk_insert(self.connection, _MEANT, [{"object_id": one} for one in target.objects])
        self._refuse_held(statements.held, given)
        objects = chunk.write(statements.objects, given)
        events = chunk.write(statements.events, given)
        summaries = self._erase_summaries(chunk, statements, given)
        if not chunk.entries:
            raise NotFound("there is nothing left to erase: it is erased already", field="object")
        written = self._written(target.namespace, first)
        items = [Erased.of(row) for row in self.connection.execute(statements.items, given)]
        gone = self.connection.execute(statements.contents, given, execution_options={"preserve_rowcount": True})
        moved = chunk.close()
        return Receipt(
            namespace_id=target.namespace,
            subject=target.subject,
            objects=list(target.objects) or None,
            summaries=summaries,
            reason=reason,
            created_at=instant.to_datetime(now),
            erased=Counts(objects=objects + len(summaries), events=events, contents=gone.rowcount),
            kept=self._kept(target.namespace),
            tombstones=written,
            items=items,
            head={"seq": moved.last_seq, "batch": moved.last_batch, "hash": moved.last_batch_hash.hex()},
            still_holding=STILL_HOLDING,
        )

    def _refuse_unknown(self, target: Target) -> None:
        if not target.objects:
            return
        query = select(memory_state.c.object_id).where(
            memory_state.c.namespace_id == target.namespace,
            self.db.among(memory_state.c.object_id, target.objects),
        )
        there = set(self.connection.execute(query).scalars())
        for wanted in target.objects:
            if wanted not in there:
                raise NotFound(f"there is no memory {wanted} in namespace {target.namespace!r}", field="object")

    def _erase_summaries(self, chunk: Chunk, statements: _Statements, given: Mapping[str, Any]) -> list[UUID]:
        """Erases the summaries made from what the transaction has erased so far; a held one refuses it all."""
        self._refuse_held(statements.held_summaries, given)
        if not chunk.write(statements.summaries, given):
            return []
        written = statements.summaries.table.c.object_id
        return list(self.connection.execute(select(written).order_by(written)).scalars())

    def _with_merged(self, target: Target) -> tuple[UUID, ...]:
        """The objects meant and those that dedup merged into them, and into those: they say the same."""
        o, log = memory_objects.c, event_log.c
        found = wanted = dict.fromkeys(target.objects)
        merged = and_(
            log.namespace_id == o.namespace_id,
            log.stream_id == o.object_id,
            log.op_type == OpType.SUPERSEDE.value,
            self.db.member(self.db.json(log.payload), "reason").in_([reason.value for reason in Resolution]),
        )
        while wanted:
            query = (
                select(o.object_id)
                .where(o.namespace_id == target.namespace, self.db.among(o.superseded_by, list(wanted)))
                .where(exists(select(log.seq).where(merged)))
                .order_by(o.content_seq)
            )
            wanted = dict.fromkeys(self.connection.execute(query).scalars())
            found |= wanted
        return tuple(found)

    def _refuse_held(self, query: Select[Any], given: Mapping[str, Any]) -> None:
        held = [row.ref or str(row.object_id) for row in self.connection.execute(query, given)]
        if held:
            named = ", ".join(held[:5]) + (f" and {len(held) - 5} more" if len(held) > 5 else "")
            raise Refused(
                f"{named} {'is' if len(held) == 1 else 'are'} held: release first", rule="held", object=held[0]
            )

    def _written(self, namespace: str, first: int) -> list[UUID]:
        log = event_log.c
        query = select(log.id).where(
            log.namespace_id == namespace, log.seq >= first, log.op_type == OpType.TOMBSTONE.value
        )
        return list(self.connection.execute(query.order_by(log.seq)).scalars())

    def _kept(self, namespace: str) -> Counts:
        def left(table: Any, *conditions: Any) -> int:
            query = select(func.count()).select_from(table).where(table.c.namespace_id == namespace, *conditions)
            return int(self.connection.execute(query).scalar_one())

        return Counts(
            objects=left(memory_state, memory_state.c.erased_at.is_(None)),
            events=left(event_state, event_state.c.erased_at.is_(None)),
            contents=left(contents),
        )
