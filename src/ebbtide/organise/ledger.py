"""The run ledger: what one slot of one task came to, and what is due in a namespace by what was run there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, ScalarSelect, Select, Text, column, func, select, true, values

from ebbtide.model.identity import uuid8
from ebbtide.model.words import Task
from ebbtide.organise.guard import Verdict
from ebbtide.policy.schedule import newest_start, starts_between
from ebbtide.store.database import Database
from ebbtide.store.tables import namespaces, organiser_runs

COUNTS = ("examined", "decayed", "warned", "archived", "deprecated", "expired")
_ORDER = {task: place for place, task in enumerate(Task)}


@dataclass(frozen=True, slots=True)
class Run:
    """What one slot came to. `entries` counts those of objects; each chunk adds its ORGANISER_RUN.

    `policy` is the version it ran under; `guard` is the guard's verdict as JSON text, where one was given; `error` is
    why a namespace is set aside.
    """

    run_id: UUID
    task: str
    namespace_id: str
    as_of: int
    status: str
    examined: int = 0
    decayed: int = 0
    warned: int = 0
    archived: int = 0
    deprecated: int = 0
    expired: int = 0
    entries: int = 0
    policy: str | None = None
    guard: str | None = None
    error: str | None = None

    @property
    def verdict(self) -> Verdict | None:
        """What the guard said of the slot."""
        return Verdict.read(self.guard)

    @classmethod
    def from_row(cls, row: RowMapping) -> Run:
        """A run from its row of the ledger."""
        return cls(**{name: row[name] for name in cls.__slots__ if name in row}, policy=policy_of(row))


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was run in a namespace: per task its interval (µs), its newest slot, and slots begun but not finished.

    `scheduled` are the tasks that run by themselves under its policy.
    `began` is the earliest instant anything in the namespace took effect: slots before it are none.
    """

    intervals: Mapping[Task, int]
    scheduled: tuple[Task, ...]
    last: dict[Task, int]
    unfinished: dict[Task, int]
    began: int

    def due(self, tasks: Iterable[Task], as_of: int) -> list[tuple[int, Task]]:
        """The slots to run at an instant: what was begun and not finished, then per task the newest not begun.

        Those in between are made up by the newest.
        """
        found = set()
        for task in tasks:
            if task in self.unfinished:
                found.add((self.unfinished[task], task))
            start = newest_start(self.intervals[task], as_of)
            if start > self._done(task):
                found.add((start, task))
        return sorted(found, key=lambda slot: (slot[0], _ORDER[slot[1]]))

    def between(self, tasks: Iterable[Task], begin: int, end: int) -> Iterator[tuple[int, Task]]:
        """Every slot from one instant to another that is not done, in order of time."""
        chosen = {task: self.intervals[task] for task in tasks}
        for start, task in starts_between(chosen, max(begin, self.began), end):
            if start > self._done(task) or start == self.unfinished.get(task):
                yield start, task

    def _done(self, task: Task) -> int:
        return self.last.get(task, self.began - 1)


def run_id_of(namespace: str, task: Task, start: int) -> UUID:
    """A run's id follows from its slot."""
    return uuid8("run", namespace, task, start)


def policy_of(slot: Mapping[str, Any] | RowMapping) -> str:
    """The policy version in a row of the ledger, as `id@version`."""
    return f"{slot['policy_id']}@{slot['policy_version']}"


def newest_slots(db: Database, names: Sequence[str]) -> Select[Any]:
    """By namespace and task the newest slot and the newest unfinished one, by an index: as quick after years."""
    tasks = values(column("task", Text), name="tasks").data([(task.value,) for task in Task])
    runs, n = organiser_runs.c, namespaces.c
    mine = runs.namespace_id == n.namespace_id, runs.task == tasks.c.task

    def newest(*which: ColumnElement[bool]) -> ScalarSelect[int]:
        return select(func.max(runs.slot)).where(*mine, *which).correlate(namespaces, tasks).scalar_subquery()

    return (
        select(
            n.namespace_id,
            n.began_at,
            tasks.c.task,
            newest().label("last"),
            newest(runs.finished_at.is_(None)).label("open"),
        )
        .select_from(namespaces.join(tasks, true()))
        .where(db.among(n.namespace_id, names))
    )
