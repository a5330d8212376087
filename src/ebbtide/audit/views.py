"""The audit views: what an auditor reads with SQL. Their definitions come from the same formulas as everything else.

They are made anew by every migration, in schema `audit` on both databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, and_, case, select, text

from ebbtide.memory.read import evaluated
from ebbtide.model.words import OpType, StreamType
from ebbtide.project.shelf import STORE_WIDE
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log, organiser_runs, policies

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
        "organiser_runs": _runs(db),
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
        *_times(db, found, "expires_at", "erased_at"),
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
    return [*_entry(db), log.stream_id.label("object_id")]


def _decay_applied(db: Database) -> Select[Any]:
    return select(
        *_of_object(db),
        log.decay_profile,
        log.policy_id,
        log.policy_version,
        log.salience,
        log.confidence,
        log.salience_delta,
        log.confidence_delta,
        db.member(db.json(log.payload), "thresholds_triggered").label("thresholds_triggered"),
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
        runs.guard,
        *(runs[name] for name in counts),
        *_times(db, runs, "started_at", "finished_at"),
    )
