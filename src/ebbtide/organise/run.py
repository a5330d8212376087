"""Runs: one slot of one task in one namespace, in chunks, each a transaction; and what is due at an instant.

The slot's row in `organiser_runs` is the truth: claimed by inserting it, moved on in each chunk's transaction, done
with its last chunk. Killed anywhere, a run goes on behind its last committed chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, case, func, insert, select, update

from ebbtide.log.head import Head, lock
from ebbtide.model.errors import NotFound
from ebbtide.model.identity import uuid8
from ebbtide.model.words import OpType, RunStatus, Task
from ebbtide.organise.decay import SUBJECT_TO_DECAY, decay, parameters
from ebbtide.organise.dedup import SUBJECT_TO_DEDUP, dedup
from ebbtide.organise.lifecycle import DUE, lifecycle
from ebbtide.organise.retention import EXPIRED, retention
from ebbtide.policy.document import Policy
from ebbtide.policy.schedule import newest_start, starts_between
from ebbtide.project.passes import AS_OF, Chunk
from ebbtide.project.scope import CHUNK, Scope, next_scope
from ebbtide.project.shelf import Shelf
from ebbtide.store.database import Database
from ebbtide.store.tables import namespaces, organiser_runs

COUNTS = ("examined", "decayed", "warned", "archived", "deprecated", "expired")
_ORDER = {task: place for place, task in enumerate(Task)}


@dataclass(frozen=True, slots=True)
class Run:
    """What one slot came to. `entries` counts those of objects; each chunk adds its ORGANISER_RUN."""

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

    @classmethod
    def from_row(cls, row: RowMapping) -> Run:
        """A run from its row of the ledger."""
        return cls(**{name: row[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was run in a namespace: per task its interval (µs), its newest slot, and slots begun but not finished.

    `began` is the earliest instant anything in the namespace took effect: slots before it are none.
    """

    intervals: Mapping[Task, int]
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

    def __post_init__(self) -> None:
        self._shelf = Shelf(self.connection)

    def namespaces(self) -> list[str]:
        """All namespaces that anything happened in, by name."""
        with self.transaction():
            query = select(namespaces.c.namespace_id).where(namespaces.c.began_at.isnot(None))
            return sorted(self.connection.execute(query).scalars())

    def has(self, namespace: str) -> bool:
        """Whether there is such a namespace."""
        with self.transaction():
            query = select(namespaces.c.namespace_id).where(namespaces.c.namespace_id == namespace)
            return self.connection.execute(query).first() is not None

    def ledger(self, namespace: str) -> Ledger:
        """What was run in a namespace so far."""
        with self.transaction():
            head = self.connection.execute(
                select(namespaces.c.policy_id, namespaces.c.policy_version, namespaces.c.began_at).where(
                    namespaces.c.namespace_id == namespace
                )
            ).first()
            if head is None:
                raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
            policy = self._shelf.terms(namespace, head.policy_id, head.policy_version).policy
            runs = organiser_runs.c
            running = func.max(case((runs.status == RunStatus.RUNNING.value, runs.slot)))
            rows = self.connection.execute(
                select(runs.task, func.max(runs.slot), running)
                .where(runs.namespace_id == namespace)
                .group_by(runs.task)
            ).all()
        return Ledger(
            {task: policy.interval(task) for task in Task},
            {Task(task): last for task, last, _ in rows},
            {Task(task): open_slot for task, _, open_slot in rows if open_slot is not None},
            head.began_at,
        )

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
        scope = self._scope(namespace, task, start, slot["after_object"])
        chunk = Chunk(self.db, self.connection, head, now=now)
        if task == Task.RETENTION:
            counts = retention(self.db, self.connection, chunk, scope, self._policy(head), start)
        elif task == Task.LIFECYCLE:
            counts = lifecycle(self.db, self.connection, chunk, scope, start)
        elif task == Task.DEDUP:
            counts = dedup(self.db, self.connection, chunk, scope, self._policy(head), start)
        else:
            counts = decay(self.db, chunk, scope, task, start)
        total = {name: slot[name] + counts.get(name, 0) for name in COUNTS}
        total["entries"] = slot["entries"] + chunk.entries
        status = RunStatus.RUNNING
        if scope.last:
            status = RunStatus.DONE if total["entries"] else RunStatus.NOTHING_DUE
        chunk.note(OpType.ORGANISER_RUN, _report(slot, scope, status, counts), effective_at=start)
        chunk.close()
        self.connection.execute(
            update(organiser_runs)
            .where(_slot(namespace, task, start))
            .values(status=status.value, after_object=scope.to, finished_at=now if scope.last else None, **total)
        )
        return scope.last, Run(slot["run_id"], task, namespace, start, status, **total)

    def _scope(self, namespace: str, task: Task, start: int, after: UUID | None) -> Scope:
        if task == Task.RETENTION:
            which, given, name = EXPIRED, {AS_OF.key: start}, "expired"
        elif task == Task.LIFECYCLE:
            which, given, name = DUE, {AS_OF.key: start}, "due"
        elif task == Task.DEDUP:
            which, given, name = SUBJECT_TO_DEDUP, {AS_OF.key: start}, "subject to dedup"
        else:
            which, given, name = SUBJECT_TO_DECAY, parameters(task, start), "subject to decay"
        return next_scope(self.db, self.connection, namespace, after, which, given, name=name, size=self.chunk_size)

    def _claim(self, head: Head, task: Task, start: int, now: int) -> Mapping[str, Any]:
        """The slot's row: inserted by whoever is first, under the namespace's lock."""
        newest = (
            self.connection.execute(
                select(organiser_runs)
                .where(
                    organiser_runs.c.namespace_id == head.namespace_id,
                    organiser_runs.c.task == task.value,
                    organiser_runs.c.slot <= start,
                )
                .order_by(organiser_runs.c.slot.desc())
                .limit(1)
            )
            .mappings()
            .first()
        )
        if newest is not None and newest["slot"] == start:
            return dict(newest)
        interval = self._policy(head).interval(task)
        slot = {
            "namespace_id": head.namespace_id,
            "task": task.value,
            "slot": start,
            "run_id": run_id_of(head.namespace_id, task, start),
            "as_of": start,
            "status": RunStatus.RUNNING.value,
            "after_object": None,
            "policy_id": head.policy_id,
            "policy_version": head.policy_version,
            "missed": 0 if newest is None else max(0, (start - newest["slot"]) // interval - 1),
            "started_at": now,
            "finished_at": None,
            **dict.fromkeys((*COUNTS, "entries"), 0),
        }
        self.connection.execute(insert(organiser_runs), slot)
        return slot

    def _policy(self, head: Head) -> Policy:
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        return self._shelf.terms(head.namespace_id, head.policy_id, head.policy_version).policy


def _slot(namespace: str, task: Task, start: int) -> Any:
    return (
        (organiser_runs.c.namespace_id == namespace)
        & (organiser_runs.c.task == task.value)
        & (organiser_runs.c.slot == start)
    )


def _report(slot: Mapping[str, Any], scope: Scope, status: RunStatus, counts: Mapping[str, int]) -> dict[str, Any]:
    """What ORGANISER_RUN says: which run, which range of objects, as of when, and what it came to."""
    return {
        "run_id": str(slot["run_id"]),
        "task": slot["task"],
        "slot": slot["slot"],
        "as_of": slot["as_of"],
        **scope.bounds(),
        "status": status,
        **{name: counts.get(name, 0) for name in COUNTS},
    }
