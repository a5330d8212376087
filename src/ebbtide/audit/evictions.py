"""What left retrieval since a place in the log, for those who keep copies, such as a vector index.

A named consumer's place is kept in the store, and moves when it says what it has dealt with.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import BigInteger, Connection, and_, exists, literal, or_, select

from ebbtide.decay.segment import confidence
from ebbtide.memory.read import BELIEVED_ENOUGH, evaluated
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.words import EpistemicType, OpType, StreamType
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import consumers, event_log, memory_objects, memory_state, namespaces, policy_profiles


class Eviction(BaseModel):
    """A memory that is not to be retrieved any more, and why: drop what you keep of it."""

    model_config = ConfigDict(frozen=True)

    object_id: UUID
    ref: str | None
    reason: str


class Evictions(BaseModel):
    """What left retrieval since a consumer's place; `position` is what to acknowledge once it is dealt with."""

    model_config = ConfigDict(frozen=True)

    consumer: str
    position: str
    as_of: datetime
    evictions: list[Eviction]


def evictions(db: Database, connection: Connection, namespace: str, consumer: str, now: int) -> Evictions:
    """Memories that may have been eligible at a consumer's place and are not now; the same until acknowledged.

    One may be listed that was not eligible before either: to drop it twice harms nobody, to miss one would.
    """
    query = select(namespaces.c.last_seq).where(namespaces.c.namespace_id == namespace)
    head = connection.execute(query).scalar()
    if head is None:
        raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
    seq, at = _place(connection, namespace, consumer)
    log, state = event_log.c, memory_state.c
    behind = and_(log.namespace_id == namespace, log.seq > seq)
    touched = exists().where(behind, log.stream_id == state.object_id)
    filtered = exists().where(
        behind, log.stream_type == StreamType.NAMESPACE.value, log.op_type == OpType.SUPPRESS.value
    )
    # What the clock alone did: a ttl that ended, and belief that sank below what is retrieved.
    expired = and_(state.expires_at > at, state.expires_at <= now)
    sank = and_(
        memory_objects.c.epistemic_type == EpistemicType.UNVERIFIED.value,
        confidence(SQL, policy_profiles.c, state, literal(at, BigInteger)) > BELIEVED_ENOUGH,
    )
    left = [state.namespace_id == namespace, or_(touched, filtered, expired, sank)]
    found = evaluated(db, literal(now, BigInteger), where=left).subquery().c
    rows = connection.execute(
        select(found.object_id, found.ref, found.withheld.label("reason"))
        .where(found.withheld.isnot(None))
        .order_by(found.object_id)
    )
    return Evictions(
        consumer=consumer,
        position=f"{head}@{now}",
        as_of=instant.to_datetime(now),
        evictions=[Eviction.model_validate(row._asdict()) for row in rows],
    )


def _place(connection: Connection, namespace: str, consumer: str) -> tuple[int, int]:
    query = select(consumers.c.seq, consumers.c.as_of).where(
        consumers.c.namespace_id == namespace, consumers.c.consumer == consumer
    )
    row = connection.execute(query).first()
    return (0, 0) if row is None else (row.seq, row.as_of)


def acknowledge(db: Database, connection: Connection, namespace: str, consumer: str, position: str) -> None:
    """Moves a consumer's place forward, in the caller's transaction; never back."""
    seq, _, at = position.partition("@")
    if not (seq.isdecimal() and at.isdecimal()):
        raise BadInput(f"{position!r} is no position: give the one that came with the evictions", field="position")
    known = _place(connection, namespace, consumer)
    moved = {"seq": max(int(seq), known[0]), "as_of": max(int(at), known[1])}
    db.upsert(connection, consumers, [{"namespace_id": namespace, "consumer": consumer, **moved}])
