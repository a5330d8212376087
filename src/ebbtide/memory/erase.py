"""Erasure: what a person asked to be forgotten is gone from every table in one transaction, and a receipt says so.

Objects by name, all of a subject, or a whole namespace; with them the evidence that serves nothing else. A legal hold
on any of it refuses the whole erasure. Tombstones stay, and the chain of hashes verifies as before: the log never
held the text, only SHA-256(nonce ‖ content), and the nonces are gone but for the receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Text, and_, func, literal, or_, select

from ebbtide.log.head import lock
from ebbtide.model import instant
from ebbtide.model.errors import NotFound, Refused
from ebbtide.model.words import Expiry, OpType, StreamType, TombstoneReason
from ebbtide.project import tombstone
from ebbtide.project.passes import NAMESPACE, Actor, Chunk
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

    `target_type` is memory_object or event, or entry for what stood in the namespace's own stream.
    """

    target_id: UUID
    target_type: str
    content_hash: str
    nonce: str


class Receipt(BaseModel):
    """What an erasure did. It alone still has the nonces: keep it with care."""

    namespace_id: str
    subject: str | None
    objects: list[UUID] | None
    reason: str
    created_at: datetime
    erased: Counts
    kept: Counts
    tombstones: list[UUID]
    items: list[Erased]
    head: dict[str, Any]
    still_holding: list[str]


STILL_HOLDING = [
    "the database's write-ahead log, archives and backups, until they are recycled",
    "whatever keeps copies of its own, such as a vector index, until it follows the log",
]


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be erased: objects, or all of a subject, or, with neither, all of the namespace."""

    namespace: str
    objects: tuple[UUID, ...] = ()
    subject: str | None = None

    def of_objects(self, db: Database) -> ColumnElement[bool]:
        """Which objects are meant, over `memory_state` joined with `memory_objects`."""
        mine = and_(memory_state.c.namespace_id == self.namespace, memory_state.c.erased_at.is_(None))
        if self.objects:
            return and_(mine, db.among(memory_state.c.object_id, self.objects))
        return mine if self.subject is None else and_(mine, memory_objects.c.subject == self.subject)

    def of_events(self) -> ColumnElement[bool]:
        """Which events are meant themselves, whatever they are evidence of."""
        mine = and_(event_state.c.namespace_id == self.namespace, event_state.c.erased_at.is_(None))
        if self.objects:
            return and_(mine, literal(False))
        return mine if self.subject is None else and_(mine, event_state.c.subject == self.subject)


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
        self._refuse_held(target)
        now = max(self.clock(), head.last_recorded_at)
        chunk = Chunk(self.db, self.connection, head, now=now, actor=actor)
        first = head.last_seq + 1
        given = {NAMESPACE.key: target.namespace} | tombstone.parameters(reason, now, instant.iso(now))
        verdict = Verdict(
            at=SQL.greatest(memory_state.c.fact_at, now),
            action=literal(Expiry.ERASE.value, Text),
            policy_ref=literal(f"{head.policy_id}@{head.policy_version}", Text),
        )
        before = self._contents(target.namespace)
        objects = chunk.write(tombstone.objects(self.db, "erased_objects", target.of_objects(self.db), verdict), given)
        verdict = Verdict(
            at=SQL.greatest(event_state.c.effective_at, now), action=verdict.action, policy_ref=verdict.policy_ref
        )
        unused = and_(
            event_state.c.namespace_id == target.namespace,
            event_state.c.erased_at.is_(None),
            tombstone.serves_no_other(),
        )
        which = or_(target.of_events(), unused)
        events = chunk.write(tombstone.events(self.db, "erased_events", which, verdict), given)
        if not chunk.entries:
            raise NotFound("there is nothing left to erase: it is erased already", field="object")
        written = self._written(target.namespace, first)
        everything = not target.objects and target.subject is None
        gone = tombstone.gone(self.db, subject=target.subject, everything=everything)
        items = self._items(target.namespace, gone)
        tombstone.erase_contents(self.db, self.connection, target.namespace, gone)
        after = self._contents(target.namespace)
        moved = chunk.close()
        return Receipt(
            namespace_id=target.namespace,
            subject=target.subject,
            objects=list(target.objects) or None,
            reason=reason,
            created_at=instant.to_datetime(now),
            erased=Counts(objects=objects, events=events, contents=before - after),
            kept=self._kept(target.namespace, after),
            tombstones=[row.id for row in written],
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

    def _refuse_held(self, target: Target) -> None:
        query = (
            select(memory_objects.c.ref, memory_objects.c.object_id)
            .join_from(
                memory_objects,
                memory_state,
                and_(
                    memory_objects.c.namespace_id == memory_state.c.namespace_id,
                    memory_objects.c.object_id == memory_state.c.object_id,
                ),
            )
            .where(target.of_objects(self.db), memory_state.c.held)
            .order_by(memory_objects.c.object_id)
        )
        held = [row.ref or str(row.object_id) for row in self.connection.execute(query)]
        if held:
            named = ", ".join(held[:5]) + (f" and {len(held) - 5} more" if len(held) > 5 else "")
            raise Refused(
                f"{named} {'is' if len(held) == 1 else 'are'} held: release first", rule="held", object=held[0]
            )

    def _written(self, namespace: str, first: int) -> Sequence[Any]:
        log = event_log.c
        query = select(log.id, log.stream_type, log.stream_id).where(
            log.namespace_id == namespace, log.seq >= first, log.op_type == OpType.TOMBSTONE.value
        )
        return self.connection.execute(query.order_by(log.seq)).all()

    def _items(self, namespace: str, gone: ColumnElement[bool]) -> list[Erased]:
        """Every content that goes, with its hash and nonce, in order of the log."""
        log, e = event_log.c, event_state.c
        query = (
            select(log.stream_type, log.stream_id, log.id, e.event_id, log.content_hash, contents.c.nonce)
            .join_from(
                contents, event_log, and_(log.namespace_id == contents.c.namespace_id, log.seq == contents.c.seq)
            )
            .outerjoin(event_state, and_(e.namespace_id == log.namespace_id, e.seq == log.seq))
            .where(gone)
            .order_by(log.seq)
        )
        return [
            Erased(
                target_id=target_id,
                target_type=target_type,
                content_hash=bytes(row.content_hash).hex(),
                nonce=bytes(row.nonce).hex(),
            )
            for row in self.connection.execute(query, {NAMESPACE.key: namespace})
            for target_type, target_id in [_whose(row)]
        ]

    def _contents(self, namespace: str) -> int:
        query = select(func.count()).select_from(contents).where(contents.c.namespace_id == namespace)
        return int(self.connection.execute(query).scalar_one())

    def _kept(self, namespace: str, contents_left: int) -> Counts:
        def left(table: Any) -> int:
            query = select(func.count()).where(table.c.namespace_id == namespace, table.c.erased_at.is_(None))
            return int(self.connection.execute(query).scalar_one())

        return Counts(objects=left(memory_state), events=left(event_state), contents=contents_left)


def _whose(row: Any) -> tuple[str, UUID]:
    """What a content is of: a memory, an event, or, in the namespace's own stream, the entry it came with."""
    if row.stream_type == StreamType.OBJECT.value:
        return "memory_object", row.stream_id
    return ("entry", row.id) if row.event_id is None else ("event", row.event_id)
