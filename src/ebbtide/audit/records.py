"""Audit views of what stands beside memories: refusals, suppressions, evidence, policies assigned, batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Select, Uuid, and_, case, cast, func, or_, select

from ebbtide.audit.columns import entry, log, named, of_object, policy, times, with_ref
from ebbtide.model.words import OpType, StreamType
from ebbtide.store import tables
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, edges, entities, event_log, event_state, evidence_links, memory_objects


def views(db: Database) -> Mapping[str, Select[Any]]:
    """The views by name."""
    return {
        "refusals": _refusals(db),
        "suppressions": _suppressions(db),
        "evidence": _evidence(db),
        "relations": _relations(db),
        "policy_assignments": _policy_assignments(db),
        "policy_corrections": _policy_corrections(db),
        "corrections": _corrections(db),
        "integrity_checks": _integrity_checks(db),
        "batches": _batches(db),
        "namespaces": _namespaces(db),
    }


def runs(db: Database) -> Any:
    """The ORGANISER_RUN that closes each chunk of a run, with the first entry of the chunk's batch."""
    payload = db.json(log.payload)
    ends = and_(batches.c.namespace_id == log.namespace_id, batches.c.first_seq + batches.c.entries - 1 == log.seq)
    return (
        select(
            log.namespace_id,
            log.seq,
            batches.c.first_seq,
            cast(db.member(payload, "run_id"), Uuid).label("run_id"),
            db.member(payload, "task").label("task"),
        )
        .join_from(event_log, batches, ends)
        .where(log.op_type == OpType.ORGANISER_RUN.value)
        .subquery("runs")
    )


def _refusals(db: Database) -> Select[Any]:
    rows = tables.refusals.c
    return select(
        rows.namespace_id,
        rows.id,
        *times(db, rows, "recorded_at", "effective_at"),
        rows.actor_id,
        rows.actor_type,
        rows.op_type,
        rows.object_id,
        memory_objects.c.ref,
        rows.rule,
    ).join_from(tables.refusals, memory_objects, named(rows, rows.object_id), isouter=True)


def _suppressions(db: Database) -> Select[Any]:
    rows, now = tables.suppressions.c, db.now()
    active = and_(
        rows.suppressed_at <= now,
        or_(rows.expires_at.is_(None), rows.expires_at > now),
        or_(rows.ended_at.is_(None), rows.ended_at > now),
    )
    return select(
        rows.namespace_id,
        rows.suppression_id,
        rows.object_id,
        memory_objects.c.ref,
        rows.object_type,
        rows.epistemic_type,
        rows.subject,
        rows.suppressed_by,
        *times(db, rows, "suppressed_at", "expires_at", "ended_at"),
        case((active, True), else_=False).label("active"),
        *times(db, rows, "recorded_at", "end_recorded_at"),
        rows.policy_ref,
    ).join_from(tables.suppressions, memory_objects, named(rows, rows.object_id), isouter=True)


def _evidence(db: Database) -> Select[Any]:
    """One row for each event or memory that serves a memory."""
    link, event, state = evidence_links.c, event_state.c, tables.memory_state.alias("source_state")
    source = memory_objects.alias("source")
    happened = and_(event.namespace_id == link.namespace_id, event.event_id == link.evidence_id)
    joined = (
        evidence_links.join(memory_objects, named(link, link.object_id), isouter=True)
        .join(event_state, happened, isouter=True)
        .join(source, named(link, link.evidence_id, source), isouter=True)
        .join(state, named(link, link.evidence_id, state), isouter=True)
    )
    return select(
        link.namespace_id,
        link.object_id,
        memory_objects.c.ref,
        link.evidence_id,
        case((event.event_id.isnot(None), "event"), (source.c.object_id.isnot(None), "memory")).label("evidence_type"),
        func.coalesce(event.ref, source.c.ref).label("evidence_ref"),
        event.stream,
        db.timestamp(func.coalesce(event.erased_at, state.c.erased_at, type_=BigInteger)).label("erased_at"),
    ).select_from(joined)


def _relations(db: Database) -> Select[Any]:
    """How memories and entities are related, contradictions among them."""
    edge = edges.c
    joined: Any = edges
    refs = []
    for end in ("source", "target"):
        memory, entity = memory_objects.alias(f"{end}_memory"), entities.alias(f"{end}_entity")
        other = edge[f"{end}_id"]
        same = and_(entity.c.namespace_id == edge.namespace_id, entity.c.entity_id == other)
        joined = joined.join(memory, named(edge, other, memory), isouter=True).join(entity, same, isouter=True)
        refs.append(func.coalesce(memory.c.ref, entity.c.ref).label(f"{end}_ref"))
    return select(
        edge.namespace_id,
        edge.edge_id.label("id"),
        edge.edge_type,
        edge.source_id,
        refs[0],
        edge.target_id,
        refs[1],
        edge.confidence,
        db.timestamp(edge.created_at).label("created_at"),
    ).select_from(joined)


def _policy_assignments(db: Database) -> Select[Any]:
    """Which version a namespace was put under, when and by whom; the entries of its objects follow."""
    payload = db.json(log.payload)
    # An assignment's later chunks do not say again what it was.
    says = and_(log.stream_type == StreamType.NAMESPACE.value, db.member(payload, "document").isnot(None))
    number = func.sum(case((says, 1), else_=0)).over(partition_by=log.namespace_id, order_by=log.seq)
    assigned = select(
        event_log, says.label("says"), db.member(payload, "previous").label("previous"), number.label("number")
    ).where(log.op_type == OpType.POLICY_ASSIGNED.value)
    each = assigned.subquery("each").c
    mine = case((each.stream_type == StreamType.OBJECT.value, 1))
    counted = select(
        *each, func.count(mine).over(partition_by=(each.namespace_id, each.number)).label("memories")
    ).subquery("counted")
    found = counted.c
    return select(
        *entry(db, found),
        found.policy_id,
        found.policy_version,
        policy(found),
        found.previous,
        found.memories,
    ).where(found.says)


def _policy_corrections(db: Database) -> Select[Any]:
    """Which version was replaced by which, for which time, and how many memories that changed."""
    payload = db.json(log.payload)
    changed = event_log.alias("changed")
    correction = db.member(db.json(changed.c.payload), "correction")
    count = (
        select(changed.c.namespace_id, correction.label("correction"), func.count().label("memories"))
        .where(changed.c.op_type == OpType.CORRECTED.value)
        .group_by(changed.c.namespace_id, correction)
        .subquery("changed_by")
    )
    same = and_(count.c.namespace_id == log.namespace_id, count.c.correction == db.member(payload, "correction"))
    return (
        select(
            *entry(db),
            cast(db.member(payload, "correction"), Uuid).label("correction"),
            db.member(payload, "replaced").label("replaced"),
            db.member(payload, "by").label("replaced_by"),
            db.timestamp(cast(db.member(payload, "begins"), BigInteger)).label("begins_at"),
            func.coalesce(count.c.memories, 0, type_=BigInteger).label("memories"),
        )
        .join_from(event_log, count, same, isouter=True)
        .where(log.op_type == OpType.POLICY_CORRECTED.value)
    )


def _corrections(db: Database) -> Select[Any]:
    """What a correction changed, one row for each memory."""
    payload = db.json(log.payload)
    return (
        select(
            *of_object(db),
            cast(db.member(payload, "correction"), Uuid).label("correction"),
            db.member(payload, "replaced").label("replaced"),
            db.member(payload, "by").label("replaced_by"),
            *(db.member(payload, key).label(key) for key in ("from_state", "to_state")),
            log.salience,
            log.confidence,
            log.salience_delta,
            log.confidence_delta,
            log.decay_profile,
            policy(log),
        )
        .select_from(with_ref())
        .where(log.op_type == OpType.CORRECTED.value)
    )


def _integrity_checks(db: Database) -> Select[Any]:
    payload = db.json(log.payload)

    def whole(key: str) -> Any:
        return cast(db.member(payload, key), BigInteger)

    return select(
        *entry(db),
        case((db.member(payload, "ok") == "true", True), else_=False).label("ok"),
        whole("entries").label("entries"),
        whole("batches").label("batches"),
        db.member(payload, "code").label("code"),
        whole("seq").label("bad_seq"),
    ).where(log.op_type == OpType.INTEGRITY_CHECK.value)


def _batches(db: Database) -> Select[Any]:
    """Each write transaction in a namespace, and the run that it was a chunk of."""
    rows, run = batches.c, runs(db)
    last = rows.first_seq + rows.entries - 1
    return select(
        rows.namespace_id,
        rows.batch,
        rows.first_seq,
        last.label("last_seq"),
        rows.entries,
        *times(db, log, "recorded_at"),
        run.c.task,
        run.c.run_id,
        *(db.hex(rows[name]).label(name) for name in ("root", "prev_hash", "hash")),
    ).select_from(
        batches.join(event_log, and_(log.namespace_id == rows.namespace_id, log.seq == last), isouter=True).join(
            run, and_(run.c.namespace_id == rows.namespace_id, run.c.seq == last), isouter=True
        )
    )


def _namespaces(db: Database) -> Select[Any]:
    """Where each namespace's log ends, and the policy it is under."""
    rows = tables.namespaces.c
    return select(
        rows.namespace_id,
        rows.last_seq,
        rows.last_batch,
        db.hex(rows.last_batch_hash).label("last_batch_hash"),
        *times(db, rows, "last_recorded_at", "began_at"),
        rows.policy_id,
        rows.policy_version,
        policy(rows),
    )
