"""The audit views: what an auditor reads with SQL. Their definitions come from the same formulas as everything else.

They are made anew by every migration, in schema `audit` on both databases.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    LargeBinary,
    Select,
    SmallInteger,
    Text,
    Uuid,
    and_,
    case,
    func,
    literal,
    select,
    text,
)

from ebbtide.decay.segment import half_life
from ebbtide.memory.read import evaluated
from ebbtide.model.words import Curve, OpType, StreamType
from ebbtide.policy.document import TierThresholds
from ebbtide.project.shelf import STORE_WIDE
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import contents, event_log, organiser_runs, policies, policy_profiles, refusals

log = event_log.c


def install(db: Database, connection: Connection) -> None:
    """Creates or replaces all views, in the caller's transaction."""
    for name in reversed(list(_views(db))):
        connection.execute(text(f"DROP VIEW IF EXISTS audit.{name}"))
    for name, query in _views(db).items():
        # The tables are named with their schema: a view may bear the name of one.
        body = query.compile(
            dialect=connection.dialect,
            compile_kwargs={"literal_binds": True},
            schema_translate_map={None: db.schema},
            render_schema_translate=True,
        )
        connection.exec_driver_sql(f"CREATE VIEW audit.{name} AS {body}")
        if db.name == "postgresql":
            connection.execute(text(f"GRANT SELECT ON audit.{name} TO ebbtide_auditor, ebbtide_app"))


def _views(db: Database) -> Mapping[str, Select[Any]]:
    memories = _memories(db)
    eligible = memories.subquery()
    return {
        "memories": memories,
        "eligible_memories": select(*(c for c in eligible.c if c.name not in ("eligible", "withheld"))).where(
            eligible.c.eligible
        ),
        "events": _events(db),
        "operations": _operations(db),
        "decay_applied": _decay_applied(db),
        "lifecycle_transitions": _transitions(db),
        "tombstones": _tombstones(db),
        "reinforcements": _reinforcements(db),
        "policy_versions": _policy_versions(db),
        "policy_parameters": _policy_parameters(),
        "organiser_runs": _runs(db),
        "entries": _entries(db),
        "refusals": _refusals(db),
    }


def _times(db: Database, columns: Any, *names: str) -> list[Any]:
    return [db.timestamp(columns[name]).label(name) for name in names]


def _policy(columns: Any) -> Any:
    return (columns.policy_id + "@" + columns.policy_version).label("policy")


def _memories(db: Database) -> Select[Any]:
    found = evaluated(db, db.now()).subquery().c
    return select(
        found.namespace_id,
        found.object_id.label("id"),
        found.ref,
        found.object_type.label("type"),
        found.epistemic_type,
        found.source_type,
        found.condition,
        found.subject,
        db.member(db.json(found.content), "value").label("value"),
        found.lifecycle_state,
        found.pinned,
        found.frozen,
        found.held,
        found.suppressed,
        case((found.withheld.is_(None), True), else_=False).label("eligible"),
        found.withheld,
        found.salience,
        found.confidence,
        found.stored_salience,
        found.stored_confidence,
        found.decay_profile,
        _policy(found),
        found.warned,
        *_times(
            db,
            found,
            "created_at",
            "modified_at",
            "accessed_at",
            "reinforced_at",
            "restored_at",
            "decayed_at",
            "due_at",
        ),
        found.due_rule,
        *_times(db, found, "exit_at"),
        found.exit_rule,
        *_times(db, found, "expires_at", "thaws_at", "erased_at"),
        found.access_count,
        found.reinforce_count,
        found.supersedes,
        found.superseded_by,
        found.version,
        found.fact_version,
    )


def _entry(db: Database) -> list[Any]:
    return [
        log.namespace_id,
        log.seq,
        log.id,
        *_times(db, log, "recorded_at", "effective_at"),
        log.actor_id,
        log.actor_type,
    ]


def _events(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    return (
        select(
            *_entry(db),
            db.member(payload, "event_id").label("event_id"),
            db.member(payload, "ref").label("ref"),
            db.member(payload, "stream").label("stream"),
            db.member(payload, "role").label("role"),
            db.member(payload, "subject").label("subject"),
            db.member(db.json(contents.c.content), "content").label("content"),
        )
        .join_from(event_log, contents, _same_seq(), isouter=True)
        .where(log.op_type == OpType.EVENT.value)
    )


def _same_seq() -> Any:
    return and_(log.namespace_id == contents.c.namespace_id, log.seq == contents.c.seq)


def _operations(db: Database) -> Select[Any]:
    """RFC-0002's shape: every entry but events, with a JSON payload in the keys that readers of such logs rely on."""
    value = db.member(db.json(contents.c.content), "value")
    scores = db.json_object(new_salience=log.salience, new_confidence=log.confidence)
    decay = db.json_object(
        decay_delta=log.salience_delta,
        new_salience=log.salience,
        new_confidence=log.confidence,
        decay_profile_ref=log.decay_profile,
    )
    payload = case(
        (log.op_type == OpType.ASSERT.value, db.json_merged(log.payload, db.json_object(value=value))),
        (log.op_type == OpType.DECAY_APPLIED.value, db.json_merged(log.payload, decay)),
        (
            log.op_type.in_([OpType.REINFORCE.value, OpType.PENALTY.value]),
            db.json_merged(log.payload, scores),
        ),
        else_=log.payload,
    )
    return (
        select(
            *_entry(db),
            log.op_type,
            case((log.stream_type == StreamType.OBJECT.value, log.stream_id)).label("object_id"),
            log.version,
            _policy(log),
            payload.label("payload"),
            db.hex(log.hash).label("hash"),
        )
        .join_from(event_log, contents, _same_seq(), isouter=True)
        .where(log.op_type != OpType.EVENT.value)
    )


def _of_object(db: Database) -> list[Any]:
    return [*_entry(db), log.stream_id.label("object_id"), log.version]


def _decay_applied(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    return select(
        *_of_object(db),
        db.day(log.effective_at).label("effective_day"),
        log.decay_profile,
        log.policy_id,
        log.policy_version,
        log.salience,
        log.confidence,
        log.salience_delta,
        log.confidence_delta,
        db.member(payload, "thresholds_triggered").label("thresholds_triggered"),
        *(db.number(db.member(payload, key)).label(key) for key in ("threshold", "archive_min_confidence")),
    ).where(log.op_type == OpType.DECAY_APPLIED.value)


def _transitions(db: Database) -> Select[Any]:
    """Every change of lifecycle state, and every warning; by rule or by hand."""
    payload = db.json(log.payload)
    moved = log.lifecycle_state.isnot(None) & (log.op_type != OpType.ASSERT.value)
    return select(
        *_of_object(db),
        log.op_type,
        log.lifecycle_state.label("to_state"),
        db.member(payload, "reason").label("reason"),
        log.decay_profile,
        log.policy_id,
        log.policy_version,
    ).where(moved | (log.op_type == OpType.DECAY_WARNING.value))


def _tombstones(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    keys = ("target_id", "target_type", "reason", "policy_ref", "content_hash_of_deleted", "tombstone_ts")
    return select(*_entry(db), *(db.member(payload, key).label(key) for key in keys)).where(
        log.op_type == OpType.TOMBSTONE.value
    )


def _reinforcements(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    return select(
        *_of_object(db),
        log.op_type,
        db.member(payload, "signal_type").label("signal_type"),
        db.member(payload, "session_id").label("session_id"),
        *(db.number(db.member(payload, key)).label(key) for key in ("gamma", "gamma_effective", "delta")),
        log.salience.label("new_salience"),
        log.confidence.label("new_confidence"),
        log.salience_delta,
        log.confidence_delta,
    ).where(log.op_type.in_([OpType.REINFORCE.value, OpType.PENALTY.value]))


def _policy_versions(db: Database) -> Select[Any]:
    return select(
        policies.c.policy_id,
        policies.c.policy_version,
        db.timestamp(policies.c.registered_at).label("registered_at"),
        policies.c.document,
    ).where(policies.c.namespace_id == STORE_WIDE)


def _policy_parameters() -> Select[Any]:
    """The numbers of each version, by profile. A version is the same in every namespace, so it is here once."""
    p = policy_profiles.c
    curve = case((p.stretch > 0, Curve.FSRS.value), (p.shape > 0, Curve.POWER_LAW.value), else_=Curve.EXPONENTIAL.value)
    return select(
        p.policy_id,
        p.policy_version,
        _policy(p),
        p.decay_profile,
        curve.label("curve"),
        case((p.stretch > 0, None), else_=p.linear + p.shape).label("rate"),
        half_life(SQL, p).label("half_life_days"),
        *(p[name] for name in ("mu", "rho", "counts_accesses", "floor", "floor_after")),
        *(p[name] for name in TierThresholds.model_fields),
    ).distinct()


def _runs(db: Database) -> Select[Any]:
    runs = organiser_runs.c
    counts = ("missed", "examined", "decayed", "warned", "archived", "deprecated", "expired", "entries")
    return select(
        runs.namespace_id,
        runs.run_id,
        runs.task,
        *_times(db, runs, "slot", "as_of"),
        runs.status,
        _policy(runs),
        *(runs[name] for name in counts),
        *_times(db, runs, "started_at", "finished_at"),
    )


def _entries(db: Database) -> Select[Any]:
    """Every entry of the log by its plain columns: no JSON is read for it."""
    return select(
        *_entry(db),
        db.day(log.recorded_at).label("recorded_day"),
        db.day(log.effective_at).label("effective_day"),
        log.op_type,
        log.stream_type,
        _object_id(),
        log.version,
        log.fact_version,
        log.lifecycle_state,
        log.salience,
        log.confidence,
        log.salience_delta,
        log.confidence_delta,
        log.decay_profile,
        log.policy_id,
        log.policy_version,
        _size(db).label("bytes"),
    )


def _object_id() -> Any:
    return case((log.stream_type == StreamType.OBJECT.value, log.stream_id)).label("object_id")


_WIDTHS = {Uuid: 16, BigInteger: 8, Double: 8, SmallInteger: 2, LargeBinary: 32}
"""Bytes of a value by its type; what is binary in the log is SHA-256."""


def _size(db: Database) -> Any:
    """The bytes of an entry's values, the same on both databases: what they take on disk is each one's own."""
    return reduce(operator.add, (_octets(db, column) for column in event_log.columns))


def _octets(db: Database, column: Any) -> Any:
    if isinstance(column.type, Text):
        return func.coalesce(db.octets(column), 0)
    width = _WIDTHS[type(column.type)]
    return case((column.isnot(None), width), else_=0) if column.nullable else literal(width)


def _refusals(db: Database) -> Select[Any]:
    asked = refusals.c
    return select(
        asked.namespace_id,
        asked.id,
        *_times(db, asked, "recorded_at", "effective_at"),
        asked.op_type,
        asked.object_id,
        asked.actor_id,
        asked.actor_type,
        asked.rule,
    )
