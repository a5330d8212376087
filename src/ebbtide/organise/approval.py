"""What a held slot would do, whether that still stands, and doing it once an operator says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, RowMapping, Select, and_, cast, func, literal, or_, select

from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import evaluate
from ebbtide.log.head import lock
from ebbtide.model import instant
from ebbtide.model.errors import Refused
from ebbtide.model.state import BITS
from ebbtide.model.words import Expiry, LifecycleState, OpType, Rule, Ruling, StreamType, Task
from ebbtide.organise.guard import Verdict
from ebbtide.organise.ledger import Run
from ebbtide.organise.lifecycle import LEAVING
from ebbtide.organise.listed import JUDGED_AT, touched, untouched
from ebbtide.organise.retention import expires_by, expiring_events, policies_of_expired
from ebbtide.organise.run import Organiser
from ebbtide.policy.document import Policy
from ebbtide.project.passes import AS_OF, NAMESPACE, Actor
from ebbtide.project.scope import Scope, with_policy
from ebbtide.project.shelf import Shelf
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import event_log, event_state, memory_objects, memory_state, organiser_runs, policy_profiles


@dataclass(frozen=True, slots=True)
class Leaving:
    """One memory or event that a held slot would move or erase: by which rule, due when, and with which scores then."""

    id: UUID
    target_type: str
    ref: str | None
    rule: str
    at: int
    to_state: str
    erases: bool
    salience: float | None
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Changed:
    """Something that was listed and is not what it was: what it got, and when that was recorded."""

    name: str
    op_type: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Held:
    """A held slot: the first of what it would do, how many in all, and what of it has changed since it was judged."""

    total: int
    leaving: list[Leaving]
    changed: list[Changed] = field(default_factory=list)


def held(db: Database, connection: Connection, slot: RowMapping, limit: int) -> Held:
    """What a held slot would do if it was approved now, at most so much of it, the earliest first."""
    verdict = Verdict.read(slot["guard"])
    assert verdict is not None, "a slot is held by a verdict"
    given = _given(slot, verdict)
    queries = list(_lists(db, connection, slot, given))
    total = sum(connection.execute(select(func.count()).select_from(q.subquery()), given).scalar_one() for q in queries)
    found = [
        Leaving(*row) for query in queries for row in connection.execute(query.order_by("at", "id").limit(limit), given)
    ]
    found.sort(key=lambda one: (one.at, one.id))
    return Held(total, found[:limit], _changed(db, connection, slot, given))


def approve(organiser: Organiser, slot: RowMapping, actor: Actor) -> Run | None:
    """Does exactly what a held slot lists, as of the slot's start; refused where that is not what was held.

    Judged in the transaction of its first chunk; a fact that arrives before a later chunk keeps its memory out of it.
    Killed between chunks, `Organiser.run` goes on with it.
    """
    namespace, task, start = slot["namespace_id"], Task(slot["task"]), slot["slot"]
    with organiser.transaction():
        head = lock(organiser.db, organiser.connection, namespace)
        assert head is not None, "namespaces are never removed"
        columns = organiser_runs.c
        now_there = select(organiser_runs).where(columns.namespace_id == namespace, columns.run_id == slot["run_id"])
        current = organiser.connection.execute(now_there).mappings().one()
        verdict = _refuse_changed(organiser.db, organiser.connection, current)
        begun = dict(current) | {"guard": verdict.approved().text(), "after_object": None, "finished_at": None}
        now = max(organiser.clock(), head.last_recorded_at)
        finished, run = organiser.proceed(head, begun, now, actor)
    return run if finished else organiser.run(namespace, task, start)


def _refuse_changed(db: Database, connection: Connection, slot: RowMapping) -> Verdict:
    verdict = Verdict.read(slot["guard"])
    if verdict is None or verdict.verdict != Ruling.HELD:
        was = "was approved already and" if verdict and verdict.verdict == Ruling.APPROVED else "is not held: it"
        ends = "is done" if slot["finished_at"] is not None else "is running: `ebb organise` goes on with it"
        raise Refused(f"run {slot['run_id']} {was} {ends}", rule="guard")
    given = _given(slot, verdict)
    again = f"the next {slot['task']} slot is judged anew, see `ebb runs list`"
    policy = connection.execute(_POLICY_CHANGED, given).first()
    if policy is not None:
        raise Refused(
            f"the policy of {slot['namespace_id']} was changed at {instant.iso(policy.recorded_at)}, after the guard "
            f"held run {slot['run_id']}: {again}",
            rule="guard",
        )
    changed = _changed(db, connection, slot, given)
    if changed:
        first, more = changed[0], len(changed) - 1
        raise Refused(
            f"{first.name} got {first.op_type} at {instant.iso(first.recorded_at)}, after the guard held run "
            f"{slot['run_id']}{f', and {more} more changed' if more else ''}: {again}",
            rule="guard",
            object=first.name,
        )
    return verdict


_POLICY_CHANGED = (
    select(event_log.c.recorded_at)
    .where(
        event_log.c.namespace_id == NAMESPACE,
        event_log.c.seq > JUDGED_AT,
        event_log.c.stream_type == StreamType.NAMESPACE.value,
        event_log.c.op_type.in_([OpType.POLICY_ASSIGNED.value, OpType.POLICY_CORRECTED.value]),
    )
    .order_by(event_log.c.seq)
    .limit(1)
)


def _given(slot: RowMapping, verdict: Verdict) -> dict[str, Any]:
    scope = Scope(slot["namespace_id"], None, None, 0)
    return scope.parameters() | {AS_OF.key: slot["as_of"], JUDGED_AT.key: verdict.seq}


# What it lists


def _lists(db: Database, connection: Connection, slot: RowMapping, given: dict[str, Any]) -> Iterator[Select[Any]]:
    """Queries whose rows are those of `Leaving`."""
    shelf = Shelf(connection)
    if slot["task"] == Task.LIFECYCLE:
        yield _transitions(db)
        return
    for name in policies_of_expired(connection, given):
        yield _expiries(db, shelf.terms(slot["namespace_id"], *name).policy)
    policy = shelf.terms(slot["namespace_id"], slot["policy_id"], slot["policy_version"]).policy
    if any(rule.match.events for rule in policy.params.retention):
        yield _events(policy)


def _transitions(db: Database) -> Select[Any]:
    s, p = memory_state.c, policy_profiles.c
    scores = evaluate(SQL, p, s, s.exit_at)
    found = db.fence(
        with_policy(
            select(
                s.object_id,
                memory_objects.c.ref,
                s.exit_rule,
                s.exit_at,
                scores.salience.label("salience"),
                scores.confidence.label("confidence"),
                p.archive_min_confidence,
            )
        )
        .join(memory_objects, _same_object())
        .where(s.namespace_id == NAMESPACE, LEAVING, untouched(s.object_id))
    ).c
    return select(
        found.object_id.label("id"),
        literal("memory_object").label("target_type"),
        found.ref,
        found.exit_rule.label("rule"),
        found.exit_at.label("at"),
        leaves_for(SQL, found, found.exit_rule, found.confidence).label("to_state"),
        literal(False).label("erases"),
        found.salience,
        found.confidence,
    )


def _expiries(db: Database, policy: Policy) -> Select[Any]:
    s = memory_state.c
    which, action = expires_by(policy)
    scores = evaluate(SQL, policy_profiles.c, s, func.coalesce(s.stopped_at, s.due_at, type_=BigInteger))
    found = db.fence(
        with_policy(
            select(
                s.object_id,
                memory_objects.c.ref,
                s.due_at,
                (action == Expiry.ERASE.value).label("erases"),
                scores.salience.label("salience"),
                scores.confidence.label("confidence"),
            )
        )
        .join(memory_objects, _same_object())
        .where(which, untouched(s.object_id))
    ).c
    return select(
        found.object_id.label("id"),
        literal("memory_object").label("target_type"),
        found.ref,
        literal(Rule.TTL.value).label("rule"),
        found.due_at.label("at"),
        literal(LifecycleState.ARCHIVED.value).label("to_state"),
        found.erases,
        found.salience,
        found.confidence,
    )


def _events(policy: Policy) -> Select[Any]:
    which, ends, action = expiring_events(policy)
    return select(
        event_state.c.event_id.label("id"),
        literal("event").label("target_type"),
        event_state.c.ref,
        literal(Rule.TTL.value).label("rule"),
        cast(ends, BigInteger).label("at"),
        literal(LifecycleState.ARCHIVED.value).label("to_state"),
        (action == Expiry.ERASE.value).label("erases"),
        literal(None).label("salience"),
        literal(None).label("confidence"),
    ).where(which, event_state.c.seq <= JUDGED_AT)


def _same_object() -> Any:
    return and_(
        memory_state.c.namespace_id == memory_objects.c.namespace_id,
        memory_state.c.object_id == memory_objects.c.object_id,
    )


# What changed


def _changed(db: Database, connection: Connection, slot: RowMapping, given: dict[str, Any]) -> list[Changed]:
    """What was listed and got an entry since, by which it is not what it was; in the order of the log."""
    objects = db.once(f"changed since held {slot['task']}", lambda: _changed_objects(db, Task(slot["task"])))
    queries = [objects]
    policy = Shelf(connection).terms(slot["namespace_id"], slot["policy_id"], slot["policy_version"]).policy
    if slot["task"] == Task.RETENTION and any(rule.match.events for rule in policy.params.retention):
        queries.append(_changed_events(policy))
    rows = [row for query in queries for row in connection.execute(query, given)]
    rows.sort(key=lambda row: row.seq)
    return [Changed(row.ref or str(row.id), row.op_type, row.recorded_at) for row in rows]


def _changed_objects(db: Database, task: Task) -> Select[Any]:
    log = event_log.c
    facts = (
        select(log.stream_id, func.min(log.seq).label("first")).where(touched(log)).group_by(log.stream_id).subquery()
    )
    place = func.row_number().over(partition_by=log.stream_id, order_by=log.seq.desc())
    before = (
        select(log.stream_id, log.after, place.label("place"))
        .where(
            log.namespace_id == NAMESPACE,
            log.seq <= JUDGED_AT,
            log.carries.op("&")(BITS["due"]) != 0,
            log.stream_id.in_(select(facts.c.stream_id)),
        )
        .subquery()
    )
    last = db.fence(select(before.c.stream_id, db.json(before.c.after).label("after")).where(before.c.place == 1))
    o = memory_objects.c
    return (
        select(o.object_id.label("id"), o.ref, log.seq, log.op_type, log.recorded_at)
        .select_from(last.join(facts, last.c.stream_id == facts.c.stream_id))
        .join(event_log, and_(log.namespace_id == NAMESPACE, log.seq == facts.c.first))
        .join(memory_objects, and_(o.namespace_id == NAMESPACE, o.object_id == facts.c.stream_id))
        .where(_was_listed(db, last.c.after, task))
    )


def _was_listed(db: Database, after: Any, task: Task) -> Any:
    """Whether an object was listed, by the last that the log said then of what is due for it."""
    at, exits, expires = (
        cast(db.member(after, "due", name), BigInteger) for name in ("due_at", "exit_at", "expires_at")
    )
    ttl = db.member(after, "due", "due_rule") == Rule.TTL.value
    if task == Task.RETENTION:
        return and_(ttl, at <= AS_OF)
    return and_(~ttl, at <= AS_OF, exits <= AS_OF, or_(expires.is_(None), expires > exits))


def _changed_events(policy: Policy) -> Select[Any]:
    """Events that would have expired, and got a tombstone since."""
    e, log = event_state.c, event_log.c
    which, _, _ = expiring_events(policy, kept=False)
    return (
        select(e.event_id.label("id"), e.ref, log.seq, log.op_type, log.recorded_at)
        .join_from(event_state, event_log, and_(log.namespace_id == NAMESPACE, log.stream_id == e.event_id))
        .where(which, log.seq > JUDGED_AT, log.op_type == OpType.TOMBSTONE.value, e.seq <= JUDGED_AT)
    )
