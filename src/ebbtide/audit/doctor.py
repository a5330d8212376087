"""What is wrong with a store or its set-up, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from ebbtide.model import instant
from ebbtide.model.words import LifecycleState, Rule, RunStatus, Task
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, leases, memory_state, namespaces, organiser_runs


def problems(db: Database, connection: Connection, now: int) -> Iterator[str]:
    """Everything that an operator should know; nothing where all is well."""
    yield from db.problems(connection)
    ends = (
        select(event_log.c.namespace_id, func.max(event_log.c.seq).label("last"), func.count().label("entries"))
        .group_by(event_log.c.namespace_id)
        .subquery()
    )
    broken = connection.execute(
        select(namespaces.c.namespace_id, namespaces.c.last_seq, ends.c.last, ends.c.entries)
        .join_from(namespaces, ends, namespaces.c.namespace_id == ends.c.namespace_id, isouter=True)
        .where(
            or_(
                namespaces.c.last_seq != func.coalesce(ends.c.last, 0),
                namespaces.c.last_seq != func.coalesce(ends.c.entries, 0),
            )
        )
        .order_by(namespaces.c.namespace_id)
    )
    for row in broken:
        yield (
            f"namespace {row.namespace_id}: its head is at {row.last_seq}, its log holds {row.entries or 0} entries up "
            f"to {row.last or 0}: restore a backup"
        )
    ahead = connection.execute(
        select(namespaces.c.namespace_id, namespaces.c.last_recorded_at)
        .where(namespaces.c.last_recorded_at > now + 5 * instant.MINUTE)
        .order_by(namespaces.c.namespace_id)
    )
    for row in ahead:
        yield (
            f"namespace {row.namespace_id}: its last entry was recorded at {instant.iso(row.last_recorded_at)}, which "
            "this machine's clock has not reached: check the clocks"
        )
    overdue = connection.execute(
        select(
            memory_state.c.namespace_id,
            func.count().label("objects"),
            func.min(memory_state.c.due_at).label("since"),
        )
        .where(
            and_(memory_state.c.due_at < now - 2 * instant.DAY, memory_state.c.due_rule != Rule.TTL.value),
            memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
        )
        .group_by(memory_state.c.namespace_id)
        .order_by(memory_state.c.namespace_id)
    )
    held = _held(connection)
    for row in overdue:
        if (row.namespace_id, Task.LIFECYCLE.value) in held:
            continue
        yield (
            f"namespace {row.namespace_id}: {row.objects} memories have been due since {instant.iso(row.since)}: is "
            "the organiser running? (`ebb organise`, or `ebb daemon`)"
        )
    stuck = connection.execute(
        select(organiser_runs)
        .where(
            organiser_runs.c.finished_at.is_(None),
            organiser_runs.c.started_at < now - instant.HOUR,
        )
        .order_by(organiser_runs.c.namespace_id, organiser_runs.c.task)
    )
    for row in stuck:
        yield (
            f"namespace {row.namespace_id}: the {row.task} run of {instant.iso(row.slot)} was begun and not finished: "
            "`ebb organise` goes on with it"
        )
    for (namespace, task), row in held.items():
        yield (
            f"namespace {namespace}: the guard held the {task} run of {instant.iso(row.slot)}: see `ebb runs show "
            f"{row.run_id}`, then `ebb runs approve` it, or assign a policy that forgets less"
        )

    waiting = select(leases).where(leases.c.retry_at > db.now()).order_by(leases.c.namespace_id)
    for row in connection.execute(waiting):
        what = "it" if row.task is None else f"its {row.task} run of {instant.iso(row.slot)}"
        yield (
            f"namespace {row.namespace_id}: {what} failed and is set aside until {instant.iso(row.retry_at)} "
            f"({row.error}): mend that; `ebb runs retry {row.namespace_id}` tries it sooner"
        )


def _held(connection: Connection) -> dict[tuple[str, str], Any]:
    """The newest slot of each task that the guard held, where it did."""
    runs = organiser_runs.c
    newest = func.row_number().over(partition_by=(runs.namespace_id, runs.task), order_by=runs.slot.desc())
    last = select(runs.namespace_id, runs.task, runs.slot, runs.run_id, runs.status, newest.label("place")).subquery().c
    query = select(last.namespace_id, last.task, last.slot, last.run_id).where(
        last.place == 1, last.status == RunStatus.HELD.value
    )
    rows = connection.execute(query.order_by(last.namespace_id, last.task))
    return {(row.namespace_id, row.task): row for row in rows}
