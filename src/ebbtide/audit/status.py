"""The store in numbers: memories by state and profile, and when each task ran last and runs next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from ebbtide.model import instant
from ebbtide.model.words import RunStatus, Task
from ebbtide.policy.schedule import newest_start
from ebbtide.project.refold import refold, until
from ebbtide.project.shelf import Shelf
from ebbtide.store.database import Database
from ebbtide.store.tables import leases, memory_state, namespaces, organiser_runs


class StateCount(BaseModel):
    """How many memories of a namespace are in a state under a profile, and how many of them were warned or pinned."""

    namespace_id: str
    lifecycle_state: str
    decay_profile: str
    objects: int
    warned: int
    pinned: int


class TaskStatus(BaseModel):
    """When a task ran last in a namespace (the start of its slot), and when its next slot starts."""

    namespace_id: str
    task: str
    policy: str
    last_run: datetime | None
    last_status: str | None
    next_run: datetime


class Status(BaseModel):
    """The state of a store."""

    counts: list[StateCount]
    tasks: list[TaskStatus]
    entries: int


def status(
    db: Database,
    connection: Connection,
    namespace: str | None,
    now: int,
    as_of: int | None = None,
    known_at: int | None = None,
) -> Status:
    """Counts and schedule of one namespace or of all, now or as of an instant, as far as known at another."""
    heads = connection.execute(
        select(namespaces).where(*_of(namespaces, namespace)).order_by(namespaces.c.namespace_id)
    ).all()
    at = as_of if as_of is not None else known_at if known_at is not None else now
    past = as_of is not None or known_at is not None
    names = [head.namespace_id for head in heads]
    counted = _counts(refold(db, names, until(at, known_at)).subquery().c) if past else _counts(memory_state.c)
    counts = [
        StateCount.model_validate(row._asdict())
        for row in connection.execute(counted if past else counted.where(*_of(memory_state, namespace)))
    ]
    recorded = at if known_at is None else known_at
    done = [organiser_runs.c.as_of <= at, organiser_runs.c.started_at <= recorded] if past else []
    runs = {
        (row.namespace_id, row.task): row for row in connection.execute(_newest(*_of(organiser_runs, namespace), *done))
    }
    aside = {
        row.namespace_id: row
        for row in connection.execute(select(leases).where(leases.c.retry_at > db.now(), *_of(leases, namespace)))
        if not past
    }
    shelf = Shelf(connection)
    tasks = []
    for head in heads:
        policy = shelf.terms(head.namespace_id, head.policy_id, head.policy_version).policy
        for task in Task:
            run = runs.get((head.namespace_id, task.value))
            if run is None and task not in policy.scheduled():
                continue
            interval = policy.interval(task)
            tasks.append(
                TaskStatus(
                    namespace_id=head.namespace_id,
                    task=task,
                    policy=policy.name,
                    last_run=None if run is None else instant.to_datetime(run.slot),
                    last_status=_status(aside.get(head.namespace_id), task, run),
                    next_run=instant.to_datetime(min(newest_start(interval, at) + interval, instant.LAST)),
                )
            )
    return Status(
        counts=counts,
        tasks=tasks,
        entries=sum(head.last_seq for head in heads),
    )


def _newest(*which: ColumnElement[bool]) -> Select[Any]:
    """The run of the newest slot of each task."""
    runs = organiser_runs.c
    place = func.row_number().over(partition_by=(runs.namespace_id, runs.task), order_by=runs.slot.desc())
    found = select(runs.namespace_id, runs.task, runs.slot, runs.status, place.label("place")).where(*which).subquery()
    return select(found).where(found.c.place == 1)


def _status(aside: Any, task: Task, run: Any) -> str | None:
    """That of the last run; `quarantined` if the namespace is set aside for this task, or as a whole."""
    if aside is not None and aside.task in (None, task.value):
        return RunStatus.QUARANTINED
    return None if run is None else str(run.status)


def _counts(state: Any) -> Select[Any]:
    """Objects by state and profile; `state` has the columns of `memory_state`."""
    named = (state.namespace_id, state.lifecycle_state, state.decay_profile)
    return (
        select(
            *named,
            func.count().label("objects"),
            func.count().filter(state.warned).label("warned"),
            func.count().filter(state.pinned).label("pinned"),
        )
        .group_by(*named)
        .order_by(*named)
    )


def _of(table: Table, namespace: str | None) -> list[ColumnElement[bool]]:
    return [] if namespace is None else [table.c.namespace_id == namespace]
