"""Reading memory: effective scores and eligibility at an instant, from the state as it is or from the log as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Double,
    Integer,
    Select,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
)

from ebbtide.decay.segment import evaluate
from ebbtide.model import instant
from ebbtide.model.state import COLUMNS, OBJECT_COLUMNS, STATE_COLUMNS, MemoryState
from ebbtide.model.upcast import upcast
from ebbtide.model.words import Condition, EpistemicType, LifecycleState, OpType
from ebbtide.project.refold import refold, until
from ebbtide.project.writer import state_from
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import contents, event_log, memory_objects, memory_state, policy_profiles, suppressions

BELIEVED_ENOUGH = 0.30
"""UNVERIFIED is retrieved only with a confidence above this."""


class Memory(BaseModel):
    """A memory object as of an instant.

    Scores are effective, in [0, 1]; the stored ones are what the last entry left.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    ref: str | None
    namespace_id: str
    type: str
    epistemic_type: str
    source_type: str
    condition: str | None
    subject: str | None
    value: JsonValue
    evidence: list[UUID]
    lifecycle_state: str
    pinned: bool
    held: bool
    suppressed: bool
    eligible: bool
    withheld: str | None
    salience: float
    confidence: float
    stored_salience: float
    stored_confidence: float
    decay_profile: str
    policy: str
    created_at: datetime
    modified_at: datetime
    accessed_at: datetime | None
    reinforced_at: datetime | None
    restored_at: datetime | None
    decayed_at: datetime | None
    due_at: datetime | None
    due_rule: str | None
    expires_at: datetime | None
    erased_at: datetime | None
    warned: bool
    supersedes: UUID | None
    superseded_by: UUID | None
    version: int
    fact_version: int


class Stored(Memory):
    """A memory that was to be stored; `duplicate` says that it was there already."""

    duplicate: bool


class LogEntry(BaseModel):
    """One entry of the log. An object's entries are in the stream that bears its id."""

    model_config = ConfigDict(frozen=True)

    seq: int
    id: UUID
    stream_type: str
    stream_id: UUID
    op_type: str
    recorded_at: datetime
    effective_at: datetime
    actor_id: str
    actor_type: str
    version: int
    lifecycle_state: str | None
    salience: float | None
    confidence: float | None
    salience_delta: float | None
    confidence_delta: float | None
    policy: str | None
    payload: JsonValue
    content: JsonValue
    hash: str


def suppressed(objects: Any, at: Any, known_at: int | None = None) -> ColumnElement[bool]:
    """Whether a suppression holds at an instant that speaks of the object, or of what it is; as known at another."""
    return exists().where(suppressing(objects, at, known_at))


def suppressing(objects: Any, at: Any, known_at: int | None = None) -> ColumnElement[bool]:
    """Which suppressions hold at an instant and speak of the object, or of what it is; as known at another."""
    rows = suppressions.c
    filtered = and_(
        rows.object_id.is_(None),
        *(
            or_(rows[name].is_(None), rows[name] == objects[name])
            for name in ("object_type", "epistemic_type", "subject")
        ),
    )
    return and_(
        rows.namespace_id == objects.namespace_id,
        or_(rows.object_id == objects.object_id, filtered),
        rows.suppressed_at <= at,
        or_(rows.expires_at.is_(None), rows.expires_at > at),
        or_(
            rows.ended_at.is_(None),
            rows.ended_at > at,
            literal(False) if known_at is None else rows.end_recorded_at > known_at,
        ),
        literal(True) if known_at is None else rows.recorded_at <= known_at,
    )


def withheld(found: Any, at: Any) -> ColumnElement[str]:
    """Why a memory is not retrieved by default, or null where it is eligible; the first reason that holds."""
    unconfirmed = func.coalesce(found.condition, Condition.UNKNOWN.value) != Condition.TRUE.value
    return case(
        (found.erased_at.isnot(None), "erased"),
        (found.lifecycle_state != LifecycleState.ACTIVE.value, func.lower(found.lifecycle_state, type_=Text)),
        (and_(found.expires_at.isnot(None), found.expires_at <= at), "expired"),
        (found.suppressed, "suppressed"),
        (found.epistemic_type == EpistemicType.HYPOTHETICAL.value, "hypothetical"),
        (
            and_(found.epistemic_type == EpistemicType.UNVERIFIED.value, found.confidence <= BELIEVED_ENOUGH),
            "unverified",
        ),
        (and_(found.epistemic_type == EpistemicType.CONDITIONAL.value, unconfirmed), "condition_not_true"),
        else_=literal(None, Text),
    )


def evaluated(
    db: Database,
    at: Any,
    state: Any = memory_state,
    objects: Any = memory_objects,
    known_at: int | None = None,
    *,
    where: Sequence[ColumnElement[bool]] = (),
) -> Select[Any]:
    """Memory objects with their effective scores at an instant, an expression in µs; those of which `where` holds.

    `state` and `objects` are what to read: the tables, or a subquery with the same columns. `known_at` bounds what
    was known of suppressions.
    """
    s, o, policy = state.c, objects.c, policy_profiles.c
    hidden = suppressed(o, at, known_at)
    scores = evaluate(SQL, policy, s, func.coalesce(s.stopped_at, at, type_=BigInteger))
    salience = case((s.pinned, literal(1.0, Double)), else_=scores.salience)
    joined = state
    if objects is not state:
        joined = state.join(objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
    joined = joined.join(
        policy_profiles,
        and_(
            s.namespace_id == policy.namespace_id,
            s.policy_id == policy.policy_id,
            s.policy_version == policy.policy_version,
            s.decay_profile == policy.decay_profile,
        ),
    ).outerjoin(contents, and_(o.namespace_id == contents.c.namespace_id, o.content_seq == contents.c.seq))
    scored = (
        select(
            *(s[name] for name in STATE_COLUMNS if name not in ("salience", "confidence", "head_hash")),
            *(o[name] for name in OBJECT_COLUMNS if name not in ("namespace_id", "object_id")),
            s.salience.label("stored_salience"),
            s.confidence.label("stored_confidence"),
            salience.label("salience"),
            scores.confidence.label("confidence"),
            case((hidden, True), else_=False).label("suppressed"),
            contents.c.content,
        )
        .select_from(joined)
        .where(*where)
        .subquery()
        .c
    )
    # In a layer of their own: the suppressions are looked through once.
    return select(*scored, withheld(scored, at).label("withheld"))


_NAMESPACE: BindParameter[str] = bindparam("read_namespace", type_=Text)
_AT: BindParameter[int] = bindparam("read_at", type_=BigInteger)
_OBJECT: BindParameter[UUID] = bindparam("read_object", type_=Uuid)
_LIMIT: BindParameter[int] = bindparam("read_limit", type_=Integer)


def _present(db: Database, at: Any, namespace: Any) -> Any:
    return evaluated(db, at, where=[memory_state.c.namespace_id == namespace]).subquery()


def source(
    db: Database,
    namespace: str,
    as_of: int | None,
    known_at: int | None,
    at: int,
    only: Sequence[UUID] | None = None,
) -> Any:
    """What to read for an instant: the state as it is, or, where the past is asked for, the log as it was then.

    With `only` nothing but some objects' entries are folded.
    """
    instant_column = literal(at, BigInteger)
    if as_of is None and known_at is None:
        return _present(db, instant_column, namespace)
    entries = until(at, known_at)
    if only is not None:
        mine = db.among(event_log.c.stream_id, only)
        entries = mine if entries is None else and_(mine, entries)
    past = db.fence(refold(db, [namespace], entries))
    return evaluated(db, instant_column, past, past, known_at).subquery()


def memories(
    db: Database,
    connection: Connection,
    namespace: str,
    *,
    now: int,
    as_of: int | None = None,
    known_at: int | None = None,
    only: Sequence[UUID] | None = None,
    everything: bool = False,
    limit: int | None = None,
) -> list[Memory]:
    """The memories of a namespace, most salient first: those eligible for retrieval, or all of them.

    `as_of` asks what held then as far as known today, `known_at` what was known then; the limit comes after the filter.
    """
    at = as_of if as_of is not None else known_at if known_at is not None else now
    eligible = only is None and not everything
    if as_of is None and known_at is None and (only is None or len(only) == 1):
        kind = f"memories {only is None} {eligible} {limit is None}"
        query = db.once(kind, lambda: _as_they_are(db, only is not None, eligible, limit is not None))
        given = {_NAMESPACE.key: namespace, _AT.key: at, _OBJECT.key: only and only[0], _LIMIT.key: limit}
        return [shown(row._mapping) for row in connection.execute(query, given)]
    found = source(db, namespace, as_of, known_at, at, only)
    query = in_order(found, eligible, limit)
    if only is not None:
        query = query.where(db.among(found.c.object_id, only))
    return [shown(row._mapping) for row in connection.execute(query)]


def _as_they_are(db: Database, one: bool, eligible: bool, limited: bool) -> Select[Any]:
    """What most calls ask, built once: to put such a statement together takes longer than to run it."""
    found = _present(db, _AT, _NAMESPACE)
    query = in_order(found, eligible, _LIMIT if limited else None)
    return query.where(found.c.object_id == _OBJECT) if one else query


def in_order(found: Any, eligible: bool, limit: Any) -> Select[Any]:
    """Memories of a subquery, most salient first, the younger of two before: those eligible for retrieval, or all."""
    query = select(found).order_by(found.c.salience.desc(), found.c.created_at.desc(), found.c.object_id)
    if eligible:
        query = query.where(found.c.withheld.is_(None))
    return query if limit is None else query.limit(limit)


def memory_and_state(
    db: Database,
    connection: Connection,
    namespace: str,
    object_id: UUID,
    *,
    at: int,
    as_of: int | None = None,
    known_at: int | None = None,
) -> tuple[Memory, MemoryState] | None:
    """A memory as it is shown at an instant, and the state that follows from; the state's `head_hash` is left out."""
    found = source(db, namespace, as_of, known_at, at, [object_id])
    row = connection.execute(select(found).where(found.c.object_id == object_id)).mappings().first()
    if row is None:
        return None
    stored = {"salience": row["stored_salience"], "confidence": row["stored_confidence"], "head_hash": b""}
    state = state_from({name: row[name] for name in COLUMNS if name not in stored} | stored)
    return shown(row), state


def shown(row: Any) -> Memory:
    """A memory from a row of `evaluated`."""
    times = (
        "created_at",
        "modified_at",
        "accessed_at",
        "reinforced_at",
        "restored_at",
        "decayed_at",
        "due_at",
        "expires_at",
        "erased_at",
    )
    content = None if row["content"] is None else json.loads(row["content"])
    made: dict[str, Any] = {name: row[name] for name in Memory.model_fields if name in row}
    made |= {name: _time(row[name]) for name in times}
    made |= {
        "id": row["object_id"],
        "type": row["object_type"],
        "value": None if content is None else content["value"],
        "evidence": json.loads(row["evidence"]),
        "eligible": row["withheld"] is None,
        "policy": f"{row['policy_id']}@{row['policy_version']}",
    }
    return Memory(**made)


def history(
    connection: Connection,
    namespace: str,
    stream: UUID,
    known_at: int | None = None,
    after_version: int = 0,
    limit: int | None = None,
) -> list[LogEntry]:
    """The entries of one stream, oldest first, with what callers wrote as far as it is kept."""
    mine = and_(event_log.c.stream_id == stream, event_log.c.version > after_version)
    query = _entries(namespace).where(mine).order_by(event_log.c.version).limit(limit)
    if known_at is not None:
        query = query.where(event_log.c.recorded_at <= known_at)
    return [log_entry(row._mapping) for row in connection.execute(query)]


def recent(connection: Connection, namespace: str, stream: UUID, limit: int) -> tuple[list[LogEntry], int]:
    """The newest entries of one stream, newest first, but for scores that passes took; and how many there are."""
    log = event_log.c
    taken = and_(log.op_type == OpType.DECAY_APPLIED.value, log.payload == "{}")
    query = _entries(namespace).where(log.stream_id == stream, ~taken).order_by(log.version.desc()).limit(limit)
    count = select(func.max(log.version)).where(log.namespace_id == namespace, log.stream_id == stream)
    found = [log_entry(row._mapping) for row in connection.execute(query)]
    return found, connection.execute(count).scalar() or 0


def behind(connection: Connection, namespace: str, seq: int, limit: int) -> list[LogEntry]:
    """The next entries of a namespace behind a place in its log.

    Places are given under the head's lock, so commit order is seq order, and none is missed.
    """
    query = _entries(namespace).where(event_log.c.seq > seq).order_by(event_log.c.seq).limit(limit)
    return [log_entry(row._mapping) for row in connection.execute(query)]


def _entries(namespace: str) -> Select[Any]:
    same = and_(event_log.c.namespace_id == contents.c.namespace_id, event_log.c.seq == contents.c.seq)
    query = select(event_log, contents.c.content).join_from(event_log, contents, same, isouter=True)
    return query.where(event_log.c.namespace_id == namespace)


def log_entry(row: Any) -> LogEntry:
    """An entry from a row of `event_log` with the `content` that is kept of it."""
    made: dict[str, Any] = {name: row[name] for name in LogEntry.model_fields if name in row}
    made |= {
        "recorded_at": instant.to_datetime(row["recorded_at"]),
        "effective_at": instant.to_datetime(row["effective_at"]),
        "policy": None if row["policy_id"] is None else f"{row['policy_id']}@{row['policy_version']}",
        "payload": upcast(row["schema_version"], row["op_type"], (json.loads(row["payload"]), None))[0],
        "content": None if row["content"] is None else json.loads(row["content"]),
        "hash": bytes(row["hash"]).hex(),
    }
    return LogEntry(**made)


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else instant.to_datetime(micros)
