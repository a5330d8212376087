"""The store in numbers: memories by state and profile, and when each task ran last and runs next."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Table, func, select

from ebbtide.model import instant
from ebbtide.model.words import Task
from ebbtide.policy.schedule import newest_start
from ebbtide.project.shelf import Shelf
from ebbtide.store.tables import memory_state, namespaces, organiser_runs


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


def status(connection: Connection, namespace: str | None, now: int) -> Status:
    """Counts and schedule of one namespace or of all."""
    heads = connection.execute(
        select(namespaces).where(*_of(namespaces, namespace)).order_by(namespaces.c.namespace_id)
    ).all()
    state = memory_state.c
    counts = connection.execute(
        select(
            state.namespace_id,
            state.lifecycle_state,
            state.decay_profile,
            func.count().label("objects"),
            func.count().filter(state.warned).label("warned"),
            func.count().filter(state.pinned).label("pinned"),
        )
        .where(*_of(memory_state, namespace))
        .group_by(state.namespace_id, state.lifecycle_state, state.decay_profile)
        .order_by(state.namespace_id, state.lifecycle_state, state.decay_profile)
    )
    runs = {
        (row.namespace_id, row.task): row
        for row in connection.execute(
            select(organiser_runs).where(*_of(organiser_runs, namespace)).order_by(organiser_runs.c.slot)
        )
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
                    last_status=None if run is None else run.status,
                    next_run=instant.to_datetime(newest_start(interval, now) + interval),
                )
            )
    return Status(
        counts=[StateCount.model_validate(row._asdict()) for row in counts],
        tasks=tasks,
        entries=sum(head.last_seq for head in heads),
    )


def _of(table: Table, namespace: str | None) -> list[ColumnElement[bool]]:
    return [] if namespace is None else [table.c.namespace_id == namespace]
