"""The audit views: what an auditor reads with SQL. Their definitions come from the same formulas as everything else.

They are made anew by every migration, in schema `audit` on both databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Text, Uuid, and_, case, cast, func, or_, select, text

from ebbtide.audit import parameters, plain, records
from ebbtide.audit.columns import entry as _entry
from ebbtide.audit.columns import numbers, with_content, with_ref
from ebbtide.audit.columns import of_object as _of_object
from ebbtide.audit.columns import policy as _policy
from ebbtide.audit.columns import times as _times
from ebbtide.log.canonical import SEPARATOR
from ebbtide.memory.read import evaluated
from ebbtide.model.words import DecayProfile, Expiry, OpType, StreamType, Task, TombstoneReason
from ebbtide.project.shelf import STORE_WIDE
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log, event_state, memory_objects, organiser_runs, policies

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


def names(db: Database) -> list[str]:
    """The names of all views."""
    return list(_views(db))


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
        **records.views(db),
        **plain.views(db),
        **parameters.views(),
    }


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
        found.evidence,
        found.lifecycle_state,
        found.pinned,
        found.held,
        found.frozen,
        found.suppressed,
        case((found.withheld.is_(None), True), else_=False).label("eligible"),
        found.withheld,
        found.salience,
        found.confidence,
        found.stored_salience,
        found.stored_confidence,
        found.baseline,
        found.centrality,
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
            "segment_at",
            "due_at",
        ),
        found.due_rule,
        *_times(db, found, "exit_at"),
        found.exit_rule,
        *_times(db, found, "expires_at", "thaws_at", "tombstoned_at", "erased_at"),
        found.access_count,
        found.reinforce_count,
        found.supersedes,
        found.superseded_by,
        found.version,
        found.fact_version,
    )


def _events(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    event_id = cast(db.member(payload, "event_id"), Uuid)
    known = and_(event_state.c.namespace_id == log.namespace_id, event_state.c.event_id == event_id)
    return (
        select(
            *_entry(db),
            event_id.label("event_id"),
            *(db.member(payload, key).label(key) for key in ("ref", "stream", "role", "subject")),
            db.member(db.json(contents.c.content), "content").label("content"),
            *_times(db, event_state.c, "tombstoned_at", "erased_at"),
            db.hex(log.hash).label("hash"),
        )
        .select_from(with_content().join(event_state, known, isouter=True))
        .where(log.op_type == OpType.EVENT.value)
    )


def _operations(db: Database) -> Select[Any]:
    """RFC-0002's shape: every entry but events, with a JSON payload in the keys that readers of such logs rely on."""
    said = db.json(contents.c.content)
    value = db.member(said, "value")
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
            memory_objects.c.ref,
            log.version,
            log.policy_id,
            log.policy_version,
            _policy(log),
            log.lifecycle_state,
            log.salience,
            log.confidence,
            log.salience_delta,
            log.confidence_delta,
            log.decay_profile,
            db.member(said, "reason").label("stated_reason"),
            case((db.member(db.json(log.payload), "late") == "true", True), else_=False).label("late"),
            payload.label("payload"),
            db.hex(log.hash).label("hash"),
        )
        .select_from(with_content(with_ref()))
        .where(log.op_type != OpType.EVENT.value)
    )


_OF_A_PASS = "{}"
"""The payload of a DECAY_APPLIED that no transition follows."""
_TASKS = {
    Task.DECAY_RAPID_FAST: (DecayProfile.RAPID, DecayProfile.FAST),
    Task.DECAY_MEDIUM: (DecayProfile.MEDIUM,),
    Task.DECAY_SLOW: (DecayProfile.SLOW,),
}


def _decay_applied(db: Database) -> Select[Any]:
    """What passes took, and what stood at the instant of a rule that moved a memory.

    Nothing is joined: there are thousands for each memory, and DuckDB joins also what nobody asks for. The run's id
    is derived from its slot, as `organise.ledger` derives it.
    """
    payload = db.json(log.payload)
    task = case(*((log.decay_profile.in_([p.value for p in found]), name.value) for name, found in _TASKS.items()))
    slot = func.concat_ws(SEPARATOR, "run", log.namespace_id, task, cast(log.effective_at, Text), type_=Text)
    return select(
        *_entry(db),
        db.day(log.effective_at).label("effective_day"),
        log.stream_id.label("object_id"),
        log.version,
        log.decay_profile,
        log.policy_id,
        log.policy_version,
        _policy(log),
        log.salience,
        log.confidence,
        log.salience_delta,
        log.confidence_delta,
        _list(db, payload, "thresholds_triggered"),
        *numbers(db, payload, "threshold", "archive_min_confidence"),
        db.member(payload, "to_state").label("to_state"),
        case((log.payload == _OF_A_PASS, db.uuid8(slot))).label("run_id"),
    ).where(log.op_type == OpType.DECAY_APPLIED.value)


def _list(db: Database, payload: Any, key: str) -> Any:
    """A JSON list of codes or ids, the same text on both databases."""
    return func.replace(db.member(payload, key), ", ", ",", type_=Text).label(key)


def _transitions(db: Database) -> Select[Any]:
    """Every change of lifecycle state, and every warning; by rule or by hand."""
    entries, runs = _changes(), records.runs(db)
    e = entries.c
    payload, met = db.json(e.payload), db.json(e.payload_before)
    said = and_(contents.c.namespace_id == e.namespace_id, contents.c.seq == e.seq)
    closes = and_(runs.c.namespace_id == e.namespace_id, runs.c.seq == e.run_seq, runs.c.first_seq <= e.seq)
    reason = db.member(payload, "reason")
    archived = e.op_type.in_([OpType.ARCHIVE.value, OpType.DEPRECATE.value])
    by_rule = and_(archived, db.member(payload, "policy_ref").isnot(None))
    rule = case(
        (e.op_type == OpType.DECAY_WARNING.value, "warning"),
        (by_rule, reason),
        (and_(e.op_type == OpType.TOMBSTONE.value, reason == TombstoneReason.RETENTION.value), "ttl"),
    )

    def at_the_rule(key: str) -> Any:
        own = db.number(db.member(payload, key))
        return case((by_rule, db.number(db.member(met, key))), (e.op_type == OpType.DECAY_WARNING.value, own))

    return (
        select(
            *_of_object(db, e),
            e.op_type,
            e.from_state,
            e.lifecycle_state.label("to_state"),
            rule.label("rule"),
            reason.label("reason"),
            db.member(db.json(contents.c.content), "reason").label("stated_reason"),
            func.coalesce(at_the_rule("salience"), e.salience).label("salience"),
            func.coalesce(at_the_rule("confidence"), e.confidence).label("confidence"),
            *(at_the_rule(key).label(key) for key in ("threshold", "archive_min_confidence")),
            e.decay_profile,
            e.policy_id,
            e.policy_version,
            _policy(e),
            runs.c.run_id,
        )
        .select_from(with_ref(entries).join(contents, said, isouter=True).join(runs, closes, isouter=True))
        .where(
            or_(
                and_(e.lifecycle_state.isnot(None), e.op_type != OpType.ASSERT.value),
                e.op_type == OpType.DECAY_WARNING.value,
            )
        )
    )


def _changes() -> Any:
    """What changes or announces a state, with the state and the entry before it and the next run that ends a chunk.

    What a rule met stands in the DECAY_APPLIED right before its transition.
    """
    stream = (log.namespace_id, log.stream_id)
    before = func.lag(log.lifecycle_state).over(
        partition_by=(*stream, log.lifecycle_state.is_(None)), order_by=log.version
    )
    run = case((log.op_type == OpType.ORGANISER_RUN.value, log.seq))
    others = log.op_type.in_([OpType.DECAY_WARNING.value, OpType.ORGANISER_RUN.value])
    met = and_(log.op_type == OpType.DECAY_APPLIED.value, log.payload != _OF_A_PASS)
    return (
        select(
            event_log,
            func.lag(log.payload).over(partition_by=stream, order_by=log.version).label("payload_before"),
            case((log.lifecycle_state.isnot(None), before)).label("from_state"),
            func.min(run).over(partition_by=log.namespace_id, order_by=log.seq.desc(), rows=(None, 0)).label("run_seq"),
        )
        .where(or_(log.lifecycle_state.isnot(None), others, met))
        .subquery("changes")
    )


def _tombstones(db: Database) -> Select[Any]:
    """What was deleted logically. An object's record has its state before and after, an event's what was done."""
    payload = db.json(log.payload)
    target = cast(db.member(payload, "target_id"), Uuid)
    event = and_(event_state.c.namespace_id == log.namespace_id, event_state.c.event_id == target)
    erased = or_(
        db.member(payload, "record", "action") == Expiry.ERASE.value,
        db.member(payload, "record", "after", "erased_at").isnot(None),
    )
    return (
        select(
            *_entry(db),
            target.label("target_id"),
            db.member(payload, "target_type").label("target_type"),
            func.coalesce(memory_objects.c.ref, event_state.c.ref).label("ref"),
            case((erased, Expiry.ERASE.value), else_=Expiry.ARCHIVE.value).label("action"),
            db.member(payload, "reason").label("reason"),
            db.member(payload, "record", "before", "lifecycle_state").label("from_state"),
            log.salience,
            log.confidence,
            db.member(payload, "policy_ref").label("policy_ref"),
            db.member(payload, "content_hash_of_deleted").label("content_hash_of_deleted"),
            db.timestamp(db.micros(db.member(payload, "tombstone_ts"))).label("tombstone_ts"),
            *(
                db.timestamp(cast(db.member(payload, "record", key), BigInteger)).label(key)
                for key in ("evaluated_at", "expired_at")
            ),
            db.member(payload, "record", "checksum").label("checksum"),
        )
        .select_from(with_ref().join(event_state, event, isouter=True))
        .where(log.op_type == OpType.TOMBSTONE.value)
    )


def _reinforcements(db: Database) -> Select[Any]:
    payload = db.json(log.payload)
    discounted = db.member(payload, "correlation_discount_applied")
    return (
        select(
            *_of_object(db),
            log.op_type,
            *(db.member(payload, key).label(key) for key in ("signal_type", "signal_source", "session_id")),
            *numbers(db, payload, "gamma", "gamma_effective", "session_gamma_total", "delta"),
            case((discounted == "true", True), (discounted == "false", False)).label("correlation_discount_applied"),
            _list(db, payload, "evidence_ids"),
            log.salience.label("new_salience"),
            log.confidence.label("new_confidence"),
            log.salience_delta,
            log.confidence_delta,
            _policy(log),
        )
        .select_from(with_ref())
        .where(log.op_type.in_([OpType.REINFORCE.value, OpType.PENALTY.value]))
    )


def _policy_versions(db: Database) -> Select[Any]:
    return select(
        policies.c.policy_id,
        policies.c.policy_version,
        _policy(policies.c),
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
