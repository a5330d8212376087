"""Runs: one slot of one task in one namespace, in chunks, each a transaction; and what is due at an instant.

The slot's row in `organiser_runs` is the truth: claimed by inserting it, moved on in each chunk's transaction, done
with its last chunk. Killed anywhere, a run goes on behind its last committed chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip

from ebbtide.log.head import Head, lock
from ebbtide.project.shelf import Shelf
from ebbtide.model.errors import NotFound
from ebbtide.model.identity import uuid8
from ebbtide.model.words import OpType, RunStatus, Task
from ebbtide.organise.decay import decay, subject_to
from ebbtide.organise.lifecycle import due_by, lifecycle
from ebbtide.policy.schedule import newest_start, starts_between
from ebbtide.project.scope import CHUNK, Scope, next_scope
from ebbtide.project.passes import Chunk
from ebbtide.store.database import Database
from ebbtide.store.tables import namespaces, organiser_runs

COUNTS = ("examined", "decayed", "warned", "archived", "deprecated", "expired")


@dataclass(frozen=True, slots=True)
class Run:
    """What one slot came to. `entries` counts those of objects; each chunk adds its ORGANISER_RUN."""

    run_id: UUID
    task: str
    namespace_id: str
    as_of: int
    status: RunStatus
    examined: int = 0
    decayed: int = 0
    warned: int = 0
    archived: int = 0
    deprecated: int = 0
    expired: int = 0
    entries: int = 0

    @classmethod
    def from_row(cls, row: RowMapping) -> Run:
        """A run from its row of the ledger."""
        return cls(**{name: row[name] for name in cls.__slots__})


def run_id_of(namespace: str, task: Task, start: int) -> UUID:
    """A run's id follows from its slot."""
    return uuid8("run", namespace, task, start)


@dataclass
class Organiser:
    """Runs slots on one connection.

    `transaction` begins each chunk's transaction (a dry run hands in one that never commits); `clock` tells the
    instant entries are recorded at; `stopping` is asked between chunks, and a run told to stop goes on next time.
    """

    db: Database
    connection: Connection
    clock: Callable[[], int]
    transaction: Callable[[], AbstractContextManager[Any]]
    chunk_size: int = CHUNK
    stopping: Callable[[], bool] = field(default=lambda: False)

    def namespaces(self) -> list[str]:
        """All namespaces, by name."""
        with self.transaction():
            return sorted(self.connection.execute(select(namespaces.c.namespace_id)).scalars())

    def has(self, namespace: str) -> bool:
        """Whether there is such a namespace."""
        with self.transaction():
            query = select(namespaces.c.namespace_id).where(namespaces.c.namespace_id == namespace)
            return self.connection.execute(query).first() is not None

    def intervals(self, namespace: str) -> dict[Task, int]:
        """The interval of each task under the namespace's policy, in µs."""
        return self._ledger(namespace)[0]

    def due(self, namespace: str, tasks: Iterable[Task], as_of: int) -> list[tuple[int, Task]]:
        """The slots to run at an instant: what was begun and not finished, and per task the newest that was not begun.

        Those in between are made up by the newest. A slot from before the namespace began is none.
        """
        intervals, last, began, unfinished = self._ledger(namespace)
        found = [(start, task) for task in tasks for start in unfinished.get(task, ())]
        for task in tasks:
            start = newest_start(intervals[task], as_of)
            if start >= began and start > last.get(task, began - 1):
                found.append((start, task))
        order = list(Task)
        return sorted(found, key=lambda slot: (slot[0], order.index(slot[1])))

    def walk(self, namespace: str, tasks: Iterable[Task], begin: int, end: int) -> Iterator[tuple[int, Task]]:
        """Every slot from one instant to another that was not done, in order of time."""
        intervals, last, began, unfinished = self._ledger(namespace)
        chosen = {task: intervals[task] for task in tasks}
        for start, task in starts_between(chosen, max(begin, began), end):
            if start > last.get(task, began - 1) or start in unfinished.get(task, ()):
                yield start, task

    def _ledger(self, namespace: str) -> tuple[dict[Task, int], dict[Task, int], int, dict[Task, list[int]]]:
        with self.transaction():
            head = self.connection.execute(
                select(namespaces.c.policy_id, namespaces.c.policy_version, namespaces.c.began_at).where(
                    namespaces.c.namespace_id == namespace
                )
            ).first()
            if head is None:
                raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
            policy = Shelf(self.connection).terms(namespace, head.policy_id, head.policy_version).policy
            rows = self.connection.execute(
                select(organiser_runs.c.task, func.max(organiser_runs.c.slot))
                .where(organiser_runs.c.namespace_id == namespace)
                .group_by(organiser_runs.c.task)
            )
            last = {Task(task): slot for task, slot in rows}
            open_slots: dict[Task, list[int]] = {}
            for task, slot in self.connection.execute(
                select(organiser_runs.c.task, organiser_runs.c.slot)
                .where(organiser_runs.c.namespace_id == namespace, organiser_runs.c.status == RunStatus.RUNNING.value)
                .order_by(organiser_runs.c.slot)
            ):
                open_slots.setdefault(Task(task), []).append(slot)
        return {task: policy.interval(task) for task in Task}, last, head.began_at, open_slots

    def run(self, namespace: str, task: Task, start: int) -> Run | None:
        """Runs a slot to its end; None where it was done before, or the organiser was told to stop."""
        while not self.stopping():
            with self.transaction():
                finished, run = self._one_chunk(namespace, task, start)
            if finished:
                return run
        return None

    def _one_chunk(self, namespace: str, task: Task, start: int) -> tuple[bool, Run | None]:
        head = lock(self.db, self.connection, namespace)
        assert head is not None, "namespaces are never removed"
        now = self.clock()
        slot = self._claim(head, task, start, now)
        if slot["status"] != RunStatus.RUNNING:
            return True, None
        which = due_by(start) if task == Task.LIFECYCLE else subject_to(task, start)
        scope = next_scope(self.connection, namespace, slot["after_object"], which, self.chunk_size)
        chunk = Chunk(self.db, self.connection, head, now=now)
        if task == Task.LIFECYCLE:
            counts = lifecycle(self.db, self.connection, chunk, scope, start)
        else:
            counts = decay(self.db, self.connection, chunk, scope, task, start)
        total = {name: slot[name] + counts.get(name, 0) for name in COUNTS} | {
            "entries": slot["entries"] + chunk.entries
        }
        status = (RunStatus.DONE if total["entries"] else RunStatus.NOTHING_DUE) if scope.last else RunStatus.RUNNING
        chunk.note(
            OpType.ORGANISER_RUN, _report(slot["run_id"], task, start, scope, status, counts), effective_at=start
        )
        chunk.close()
        self.connection.execute(
            update(organiser_runs)
            .where(_slot(namespace, task, start))
            .values(status=status.value, after_object=scope.to, finished_at=now if scope.last else None, **total)
        )
        return scope.last, Run(slot["run_id"], task, namespace, start, status, **total)

    def _claim(self, head: Head, task: Task, start: int, now: int) -> RowMapping:
        """The slot's row: inserted by whoever is first, under the namespace's lock."""
        namespace = head.namespace_id
        found = self.connection.execute(select(organiser_runs).where(_slot(namespace, task, start))).mappings().first()
        if found is not None:
            return found
        before = self.connection.execute(
            select(func.max(organiser_runs.c.slot)).where(
                organiser_runs.c.namespace_id == namespace, organiser_runs.c.task == task.value
            )
        ).scalar()
        interval = self._interval(head, task)
        self.connection.execute(
            insert_or_skip(organiser_runs)
            .values(
                namespace_id=namespace,
                task=task.value,
                slot=start,
                run_id=run_id_of(namespace, task, start),
                as_of=start,
                status=RunStatus.RUNNING.value,
                after_object=None,
                policy_id=head.policy_id,
                policy_version=head.policy_version,
                missed=0 if before is None else max(0, (start - before) // interval - 1),
                started_at=now,
                finished_at=None,
                **dict.fromkeys((*COUNTS, "entries"), 0),
            )
            .on_conflict_do_nothing()
        )
        return self.connection.execute(select(organiser_runs).where(_slot(namespace, task, start))).mappings().one()

    def _interval(self, head: Head, task: Task) -> int:
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        terms = Shelf(self.connection).terms(head.namespace_id, head.policy_id, head.policy_version)
        return terms.policy.interval(task)


def _slot(namespace: str, task: Task, start: int) -> Any:
    return (
        (organiser_runs.c.namespace_id == namespace)
        & (organiser_runs.c.task == task.value)
        & (organiser_runs.c.slot == start)
    )


def _report(
    run_id: UUID, task: Task, start: int, scope: Scope, status: RunStatus, counts: dict[str, int]
) -> dict[str, Any]:
    """What ORGANISER_RUN says: which run, which range of objects, as of when, and what it came to."""
    return {
        "run_id": str(run_id),
        "task": task,
        "slot": start,
        "as_of": start,
        **scope.bounds(),
        "status": status,
        **{name: counts.get(name, 0) for name in COUNTS},
    }
