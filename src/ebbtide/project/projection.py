"""What the log says that each table of the state holds: one query a table, over the log of one namespace.

Every table but `event_log`, `batches`, `contents` and `refusals` is a cache. These queries are the other way to fill
them, set-based; the writers keep the same rows in step as they append.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Select,
    Table,
    Text,
    Uuid,
    and_,
    case,
    cast,
    func,
    literal,
    select,
)

from ebbtide.decay.segment import Terms
from ebbtide.model.words import Expiry, OpType, StreamType
from ebbtide.policy.document import Policy
from ebbtide.project.passes import json_of, quoted
from ebbtide.project.shelf import profile_rows
from ebbtide.store.database import Database
from ebbtide.store.tables import (
    aliases,
    batches,
    edges,
    entities,
    event_log,
    event_state,
    evidence_links,
    memory_objects,
    memory_state,
    namespaces,
    organiser_runs,
    policies,
    policy_profiles,
    streams,
    suppressions,
)

HEAD = tuple(c for c in namespaces.columns if c.name not in ("fence", "secret"))
"""What of a head follows from the log: a fence is a lease's, the secret is outside."""


def columns_of(table: Table) -> tuple[Column[Any], ...]:
    """The columns of a table that follow from the log."""
    return HEAD if table is namespaces else tuple(table.columns)


def from_log(db: Database, namespace: str, folded: Table) -> dict[Table, Select[Any]]:
    """The rows of each table that follows from a namespace's log; `folded` holds its objects as `refold` gives them."""
    found = {
        memory_objects: select(*(folded.c[c.name] for c in memory_objects.columns)),
        memory_state: select(*(folded.c[c.name] for c in memory_state.columns)),
        evidence_links: _evidence(db, folded),
        event_state: _events(db, namespace),
        streams: _streams(namespace),
        aliases: _aliases(db, namespace),
        suppressions: _suppressions(db, namespace),
        entities: _entities(db, namespace),
        edges: _edges(db, namespace),
        organiser_runs: _runs(db, namespace),
        namespaces: _head(namespace),
    }
    return {table: _typed(table, query) for table, query in found.items()}


def _typed(table: Table, query: Select[Any]) -> Select[Any]:
    inner = query.subquery()
    return select(*(cast(inner.c[c.name], c.type).label(c.name) for c in columns_of(table)))


def _entries(db: Database, namespace: str, *ops: OpType) -> Any:
    """Entries of some kinds with their payload ready to be read."""
    log = event_log.c
    return db.fence(
        select(*log, db.json(log.payload).label("said")).where(
            log.namespace_id == namespace, log.op_type.in_([op.value for op in ops])
        )
    ).c


def _id(text: Any) -> Any:
    return cast(text, Uuid)


def _evidence(db: Database, folded: Table) -> Select[Any]:
    each = db.elements(folded.c.evidence)
    pairs = select(folded.c.namespace_id, folded.c.object_id, each.label("evidence")).subquery().c
    return select(pairs.namespace_id, pairs.object_id, _id(pairs.evidence).label("evidence_id")).distinct()


def _events(db: Database, namespace: str) -> Select[Any]:
    said = _entries(db, namespace, OpType.EVENT)
    gone = _entries(db, namespace, OpType.TOMBSTONE)
    last = func.row_number().over(partition_by=gone.stream_id, order_by=gone.version.desc())
    erased = db.member(gone.said, "record", "action") == Expiry.ERASE.value
    tombstones = (
        select(gone.stream_id, gone.effective_at, erased.label("erased"), last.label("place"))
        .where(gone.stream_type == StreamType.EVENTS.value)
        .subquery()
        .c
    )
    events = select(
        said.namespace_id,
        _id(db.member(said.said, "event_id")).label("event_id"),
        said.seq,
        *(db.member(said.said, name).label(name) for name in ("ref", "role", "stream", "subject")),
        said.effective_at,
    ).subquery()
    return select(
        *events.c,
        tombstones.effective_at.label("tombstoned_at"),
        case((tombstones.erased, tombstones.effective_at)).label("erased_at"),
    ).select_from(
        events.outerjoin(
            tombstones.stream_id.table, and_(tombstones.stream_id == events.c.event_id, tombstones.place == 1)
        )
    )


def _streams(namespace: str) -> Select[Any]:
    log = event_log.c
    newest = func.row_number().over(partition_by=log.stream_id, order_by=log.version.desc())
    heads = (
        select(log.namespace_id, log.stream_id, log.version, log.hash.label("head_hash"), newest.label("place"))
        .where(log.namespace_id == namespace, log.stream_type == StreamType.EVENTS.value)
        .subquery()
        .c
    )
    return select(heads.namespace_id, heads.stream_id, heads.version, heads.head_hash).where(heads.place == 1)


def _aliases(db: Database, namespace: str) -> Select[Any]:
    e = _entries(db, namespace, OpType.DEDUP_RESOLVED)
    alias = db.member(e.said, "alias_id")
    return select(
        e.namespace_id,
        _id(alias).label("alias_id"),
        e.stream_id.label("object_id"),
        db.member(e.said, "ref").label("ref"),
        e.recorded_at,
    ).where(alias.isnot(None))


def _suppressions(db: Database, namespace: str) -> Select[Any]:
    begun = _entries(db, namespace, OpType.SUPPRESS)
    ended = _entries(db, namespace, OpType.UNSUPPRESS)
    each = db.elements(db.member(ended.said, "suppression_ids")).label("one")
    pairs = select(ended.effective_at, ended.recorded_at, ended.seq, each).subquery().c
    first = func.row_number().over(partition_by=pairs.one, order_by=pairs.seq)
    ends = select(_id(pairs.one).label("id"), pairs.effective_at, pairs.recorded_at, first.label("place")).subquery()
    said = select(
        begun.namespace_id,
        *(_id(db.member(begun.said, name)).label(name) for name in ("suppression_id", "object_id")),
        *(db.member(begun.said, name).label(name) for name in ("object_type", "epistemic_type", "subject")),
        begun.actor_id.label("suppressed_by"),
        begun.effective_at.label("suppressed_at"),
        db.micros(db.member(begun.said, "expires_at")).label("expires_at"),
        begun.recorded_at,
        db.member(begun.said, "policy_ref").label("policy_ref"),
    ).subquery()
    joined = said.outerjoin(ends, and_(ends.c.id == said.c.suppression_id, ends.c.place == 1))
    return select(
        *said.c, ends.c.effective_at.label("ended_at"), ends.c.recorded_at.label("end_recorded_at")
    ).select_from(joined)


def _entities(db: Database, namespace: str) -> Select[Any]:
    made = _entries(db, namespace, OpType.ENTITY_CREATE)
    merged = _entries(db, namespace, OpType.ENTITY_MERGE)
    merges = select(
        *(
            _id(db.member(merged.said, name)).label(label)
            for name, label in (("merged_entity_id", "merged"), ("primary_entity_id", "into"))
        )
    ).subquery()
    created = select(
        made.namespace_id,
        _id(db.member(made.said, "entity_id")).label("entity_id"),
        *(db.member(made.said, name).label(name) for name in ("ref", "entity_type")),
        made.effective_at.label("created_at"),
        made.seq.label("content_seq"),
    ).subquery()
    joined = created.outerjoin(merges, merges.c.merged == created.c.entity_id)
    return select(*created.c, merges.c.into.label("merged_into")).select_from(joined)


def _edges(db: Database, namespace: str) -> Select[Any]:
    e = _entries(db, namespace, OpType.RELATE, OpType.CONTRADICTION_NOTED)
    noted = e.op_type == OpType.CONTRADICTION_NOTED.value

    def either(related: str, contradicted: str) -> Any:
        return _id(case((noted, db.member(e.said, contradicted)), else_=db.member(e.said, related)))

    return select(
        e.namespace_id,
        e.id.label("edge_id"),
        case((noted, "CONTRADICTS"), else_=db.member(e.said, "edge_type")).label("edge_type"),
        either("source_id", "object_id_a").label("source_id"),
        either("target_id", "object_id_b").label("target_id"),
        case((noted, 1.0), else_=db.number(db.member(e.said, "confidence"))).label("confidence"),
        e.effective_at.label("created_at"),
    )


_WEIGHED = ("seq", "due", "of", "policy_due", "policy_of", "event_due", "event_of")
"""The numbers of a guard's verdict, in their order in the slot's row."""

_SUMS = ("examined", "decayed", "warned", "archived", "deprecated", "expired", "entries")


def _runs(db: Database, namespace: str) -> Select[Any]:
    e = _entries(db, namespace, OpType.ORGANISER_RUN)

    def number(name: str) -> Any:
        return cast(db.member(e.said, name), BigInteger)

    ruling = db.member(e.said, "guard", "verdict")
    numbers = {name: db.member(e.said, "guard", name) for name in _WEIGHED}
    chunks = db.fence(
        select(
            e.namespace_id,
            e.seq,
            e.recorded_at,
            e.policy_id,
            e.policy_version,
            case((ruling.isnot(None), json_of(verdict=quoted(ruling), **numbers))).label("guard"),
            *(db.member(e.said, name).label(name) for name in ("task", "run_id", "status", "to")),
            *(number(name).label(name) for name in ("slot", "as_of", "missed", *_SUMS)),
        )
    ).c
    spans = (
        select(
            chunks.task,
            chunks.slot,
            func.min(chunks.seq).label("first"),
            func.max(chunks.seq).label("last"),
            *(func.sum(chunks[name]).label(name) for name in _SUMS),
        )
        .group_by(chunks.task, chunks.slot)
        .subquery()
    )
    first, last = chunks.seq.table.alias("first_chunk").c, chunks.seq.table.alias("last_chunk").c
    return select(
        first.namespace_id,
        first.task,
        first.slot,
        _id(first.run_id).label("run_id"),
        first.as_of,
        last.status,
        _id(last.to).label("after_object"),
        first.policy_id,
        first.policy_version,
        first.missed,
        last.guard,
        *(spans.c[name] for name in _SUMS),
        first.recorded_at.label("started_at"),
        case((last.to.is_(None), last.recorded_at)).label("finished_at"),
    ).select_from(
        spans.join(first.seq.table, first.seq == spans.c.first).join(last.seq.table, last.seq == spans.c.last)
    )


def _head(namespace: str) -> Select[Any]:
    log = event_log.c
    span = (
        select(
            func.max(log.seq).label("last_seq"),
            func.max(log.recorded_at).label("last_recorded_at"),
            func.min(log.effective_at).label("began_at"),
        )
        .where(log.namespace_id == namespace)
        .subquery()
    )
    own = (
        select(log.version, log.hash.label("head_hash"))
        .where(log.namespace_id == namespace, log.stream_type == StreamType.NAMESPACE.value)
        .order_by(log.version.desc())
        .limit(1)
        .subquery()
    )
    assigned = (
        select(log.policy_id, log.policy_version)
        .where(
            log.namespace_id == namespace,
            log.stream_type == StreamType.NAMESPACE.value,
            log.op_type == OpType.POLICY_ASSIGNED.value,
        )
        .order_by(log.version.desc())
        .limit(1)
        .subquery()
    )
    batch = (
        select(batches.c.batch.label("last_batch"), batches.c.hash.label("last_batch_hash"))
        .where(batches.c.namespace_id == namespace)
        .order_by(batches.c.batch.desc())
        .limit(1)
        .subquery()
    )
    always = literal(True)
    return select(literal(namespace, Text).label("namespace_id"), span, own, assigned, batch).select_from(
        span.join(own, always).join(assigned, always).join(batch, always)
    )


def policies_in_log(db: Database, connection: Connection, namespace: str) -> list[tuple[Policy, int]]:
    """The policy versions whose documents stand in a namespace's log, each with when it was first recorded."""
    e = _entries(db, namespace, OpType.POLICY_ASSIGNED, OpType.POLICY_CORRECTED)
    document = db.member(e.said, "document")
    query = (
        select(document.label("document"), func.min(e.recorded_at).label("at"))
        .where(e.stream_type == StreamType.NAMESPACE.value, document.isnot(None))
        .group_by(document)
        .order_by(func.min(e.seq))
    )
    found = [(Policy.model_validate(json.loads(row.document)), row.at) for row in connection.execute(query)]
    first: dict[str, tuple[Policy, int]] = {}
    for policy, at in found:
        first.setdefault(policy.name, (policy, at))
    return list(first.values())


def policy_rows(found: list[tuple[Policy, int]], namespace: str) -> dict[Table, list[dict[str, Any]]]:
    """The rows of the policies of a namespace, and of the numbers derived from them."""
    documents = [
        {
            "namespace_id": namespace,
            "policy_id": policy.id,
            "policy_version": policy.version,
            "document": policy.canonical(),
            "registered_at": at,
        }
        for policy, at in found
    ]
    numbers = [row for policy, _ in found for row in profile_rows(namespace, Terms.of(policy))]
    return {policies: documents, policy_profiles: numbers}
