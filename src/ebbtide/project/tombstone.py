"""Tombstones, set-based: the standard record of a logical deletion, and the state or the content that goes with it.

The payload's keys are those of RFC-0007 section 9; beside them `record` holds the state before and after, the
instants and a checksum. A tombstone's id is derived from what it decides, so a retry meets the same entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Double,
    LargeBinary,
    SmallInteger,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    select,
    union,
)

from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import evaluate
from ebbtide.log.canonical import SEPARATOR
from ebbtide.model.state import BITS, GROUPS
from ebbtide.model.words import Expiry, LifecycleState, ObjectType, OpType, StreamType
from ebbtide.project.passes import (
    NAMESPACE,
    Columns,
    Staged,
    json_members,
    json_of,
    quoted,
    staged,
    state_json,
    whole,
)
from ebbtide.project.scope import with_policy
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import (
    contents,
    edges,
    event_log,
    event_state,
    evidence_links,
    memory_objects,
    memory_state,
    policy_profiles,
    streams,
)

REASON: BindParameter[str] = bindparam("tombstone_reason", type_=Text)
EVALUATED_AT: BindParameter[int] = bindparam("tombstone_evaluated_at", type_=BigInteger)
_TIMESTAMP: BindParameter[str] = bindparam("tombstone_ts", type_=Text)

_STATE = tuple(c for c in memory_state.columns if c.name not in ("namespace_id", "object_id", "head_hash"))


def parameters(reason: str, evaluated_at: int, timestamp: str) -> dict[str, Any]:
    """What the statements of a tombstone pass are run with, beside those of the pass."""
    return {REASON.key: reason, EVALUATED_AT.key: evaluated_at, _TIMESTAMP.key: timestamp}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a tombstone pass decides of each row, as expressions over its tables: when, what, and under which policy."""

    at: Any
    action: Any
    policy_ref: Any


def objects(db: Database, name: str, which: Any, verdict: Verdict) -> Staged:
    """TOMBSTONE for each object that meets a condition: archived, its time stopped, nothing due any more."""
    s, o = memory_state.c, memory_objects.c
    scores = evaluate(SQL, policy_profiles.c, s, func.coalesce(s.stopped_at, verdict.at, type_=BigInteger))
    found = db.fence(
        with_policy(
            select(
                s.object_id,
                s.head_hash,
                *(s[column.name] for column in _STATE),
                cast(verdict.at, BigInteger).label("expired_at"),
                cast(verdict.action, Text).label("action"),
                cast(verdict.policy_ref, Text).label("policy_ref"),
                case((s.pinned, literal(1.0, Double)), else_=scores.salience).label("new_salience"),
                scores.confidence.label("new_confidence"),
                event_log.c.content_hash,
            )
        )
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .join(event_log, and_(o.namespace_id == event_log.c.namespace_id, o.content_seq == event_log.c.seq))
        .where(which)
    ).c
    erased = case((found.action == Expiry.ERASE.value, found.expired_at))
    rows = select(
        *found,
        decimals9(SQL, found.new_salience - found.salience).label("salience_delta"),
        decimals9(SQL, found.new_confidence - found.confidence).label("confidence_delta"),
        func.coalesce(found.stopped_at, found.expired_at, type_=BigInteger).label("new_stopped_at"),
        cast(func.coalesce(found.erased_at, erased), BigInteger).label("new_erased_at"),
    )
    return staged(db, name, rows, [_object(db)], _folded, id_of=_decides)


def _decides(columns: Columns) -> Any:
    """What a tombstone's id is derived from, after its namespace."""
    parts = (cast(columns.object_id, Text), columns.action, REASON, columns.policy_ref, cast(columns.expired_at, Text))
    return func.concat("tombstone", *(piece for part in parts for piece in (SEPARATOR, part)), type_=Text)


_NEW: Mapping[str, Any] = {
    "lifecycle_state": lambda c: literal(LifecycleState.ARCHIVED.value, Text),
    "version": lambda c: c.version + 1,
    "fact_version": lambda c: c.fact_version + 1,
    "fact_at": lambda c: c.expired_at,
    "salience": lambda c: c.new_salience,
    "confidence": lambda c: c.new_confidence,
    "due_at": lambda c: literal(None, BigInteger),
    "due_rule": lambda c: literal(None, Text),
    "exit_at": lambda c: literal(None, BigInteger),
    "exit_rule": lambda c: literal(None, Text),
    "stopped_at": lambda c: c.new_stopped_at,
    "tombstoned_at": lambda c: c.expired_at,
    "erased_at": lambda c: c.new_erased_at,
}
"""What a tombstone changes of the state. `expires_at` stays, as what was decided by it."""


def _folded(columns: Columns) -> dict[str, Any]:
    return {name: new(columns) for name, new in _NEW.items() if name != "version"}


def _object(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        after = {c.name: _NEW[c.name](columns) if c.name in _NEW else columns[c.name] for c in _STATE}
        before = {c.name: columns[c.name] for c in _STATE}
        return {
            "op_type": OpType.TOMBSTONE.value,
            "fact_version": columns.fact_version + 1,
            "effective_at": columns.expired_at,
            "lifecycle_state": literal(LifecycleState.ARCHIVED.value, Text),
            "salience": columns.new_salience,
            "confidence": columns.new_confidence,
            "salience_delta": columns.salience_delta,
            "confidence_delta": columns.confidence_delta,
            "decay_profile": columns.decay_profile,
            "policy_id": columns.policy_id,
            "policy_version": columns.policy_version,
            "carries": literal(BITS["due"] | BITS["flags"], SmallInteger),
            "payload": _payload(
                db, columns, "memory_object", before=state_json(db, before), after=state_json(db, after)
            ),
            "after": json_of(
                **{group: state_json(db, {name: after[name] for name in GROUPS[group]}) for group in ("due", "flags")}
            ),
        }

    return entry


def _payload(db: Database, columns: Columns, target_type: str, **states: Any) -> ColumnElement[str]:
    record = json_members(**states, evaluated_at=whole(EVALUATED_AT), expired_at=whole(columns.expired_at))
    checksum = db.hex(db.sha256(db.utf8(func.concat("{", record, "}", type_=Text))))
    return json_of(
        target_id=quoted(cast(columns.object_id, Text)),
        target_type=literal(f'"{target_type}"', Text),
        reason=quoted(REASON),
        policy_ref=quoted(columns.policy_ref),
        content_hash_of_deleted=quoted(db.hex(columns.content_hash)),
        tombstone_ts=quoted(_TIMESTAMP),
        record=func.concat("{", record, ",", json_members(checksum=quoted(checksum)), "}", type_=Text),
    )


def events(db: Database, name: str, which: Any, verdict: Verdict) -> Staged:
    """TOMBSTONE for each event that meets a condition, in a stream of the event's own."""
    e = event_state.c
    rows = (
        select(
            e.event_id.label("object_id"),
            func.coalesce(streams.c.version, literal(0, BigInteger), type_=BigInteger).label("version"),
            func.coalesce(streams.c.head_hash, literal(bytes(32), LargeBinary), type_=LargeBinary).label("head_hash"),
            cast(verdict.at, BigInteger).label("expired_at"),
            cast(verdict.action, Text).label("action"),
            cast(verdict.policy_ref, Text).label("policy_ref"),
            event_log.c.content_hash,
        )
        .join_from(event_state, event_log, and_(e.namespace_id == event_log.c.namespace_id, e.seq == event_log.c.seq))
        .outerjoin(streams, and_(e.namespace_id == streams.c.namespace_id, e.event_id == streams.c.stream_id))
        .where(which)
    )

    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.TOMBSTONE.value,
            "effective_at": columns.expired_at,
            "payload": _payload(db, columns, "event", action=quoted(columns.action)),
        }

    return staged(
        db,
        name,
        rows,
        [entry],
        lambda c: {
            "tombstoned_at": c.expired_at,
            "erased_at": case((c.action == Expiry.ERASE.value, c.expired_at)),
        },
        target=event_state,
        id_of=_decides,
        stream_type=StreamType.EVENTS,
    )


def serves_no_other() -> ColumnElement[bool]:
    """Whether an event is evidence of objects, all of which are erased; being summarised is no use of it."""
    link, s, o, e = evidence_links.c, memory_state.c, memory_objects.c, event_state.c
    users = (
        select(link.object_id)
        .join_from(
            evidence_links, memory_state, and_(link.namespace_id == s.namespace_id, link.object_id == s.object_id)
        )
        .join(memory_objects, and_(link.namespace_id == o.namespace_id, link.object_id == o.object_id))
        .where(
            link.namespace_id == e.namespace_id,
            link.evidence_id == e.event_id,
            o.object_type != ObjectType.SUMMARY.value,
        )
    )
    return and_(exists(users), ~exists(users.where(s.erased_at.is_(None))))


def of_erased(db: Database, *, subject: Any = None, everything: bool = False) -> ColumnElement[bool]:
    """Which contents, by `contents`, are of erased objects and events of the pass's namespace.

    That is every content of every entry in an erased object's stream, each erased event's, what was written of an
    edge at an erased object, what was written of a `subject` in the namespace's own stream, and with `everything` all
    of the namespace's.
    """
    mine = contents.c.namespace_id == NAMESPACE
    if everything:
        return mine
    log, s, e, edge = event_log.c, memory_state.c, event_state.c, edges.c
    of_objects = (
        select(log.seq)
        .join_from(event_log, memory_state, and_(log.namespace_id == s.namespace_id, log.stream_id == s.object_id))
        .where(log.namespace_id == NAMESPACE, log.content_hash.isnot(None), s.erased_at.isnot(None))
    )
    of_events = select(e.seq).where(e.namespace_id == NAMESPACE, e.erased_at.isnot(None))
    of_edges = (
        select(log.seq)
        .join_from(event_log, edges, and_(log.namespace_id == edge.namespace_id, log.id == edge.edge_id))
        .join(memory_state, and_(edge.namespace_id == s.namespace_id, end == s.object_id))
        .where(log.namespace_id == NAMESPACE, log.content_hash.isnot(None), s.erased_at.isnot(None))
        for end in (edge.source_id, edge.target_id)
    )
    gone = [of_objects, of_events, *of_edges]
    if subject is not None:
        gone.append(
            select(log.seq).where(
                log.namespace_id == NAMESPACE,
                log.stream_type == StreamType.NAMESPACE.value,
                log.content_hash.isnot(None),
                db.member(db.json(log.payload), "subject") == subject,
            )
        )
    return and_(mine, contents.c.seq.in_(union(*gone)))


def erase_contents(db: Database, connection: Connection, namespace: str) -> int:
    """Deletes what callers wrote of what is erased in a namespace, in the caller's transaction; the rows."""
    statement = db.once("contents of what is erased", lambda: delete(contents).where(of_erased(db)))
    done = connection.execute(statement, {NAMESPACE.key: namespace}, execution_options={"preserve_rowcount": True})
    return int(done.rowcount)
