"""Runs: one slot of one task in one namespace, in chunks, each a transaction; and what is due at an instant.

The slot's row in `organiser_runs` is the truth: claimed by inserting it, moved on in each chunk's transaction, done
with its last chunk. Killed anywhere, a run goes on behind its last committed chunk. The guard judges a slot as it is
claimed, and what it said stands in the row; an approved slot is begun again in the same row.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from ebbtide.log.head import Head, lock
from ebbtide.model.entry import Draft
from ebbtide.model.errors import NotFound
from ebbtide.model.words import OpType, Ruling, RunStatus, Task
from ebbtide.organise import lifecycle as leaving
from ebbtide.organise import retention as expiring
from ebbtide.organise.centrality import CENTRAL, centrality
from ebbtide.organise.decay import SUBJECT_TO_DECAY, decay, parameters
from ebbtide.organise.dedup import SUBJECT_TO_DEDUP, dedup
from ebbtide.organise.guard import GUARDED, Judge, Verdict
from ebbtide.organise.lease import LEASE, Lease, Taken, check, claim, release
from ebbtide.organise.ledger import COUNTS, Ledger, Run, newest_slots, policy_of, run_id_of
from ebbtide.organise.lifecycle import lifecycle
from ebbtide.organise.listed import JUDGED_AT
from ebbtide.organise.reports import Reports
from ebbtide.organise.retention import retention
from ebbtide.organise.summarise import WINDOWS, Summariser, Summary, summarised, windows, written
from ebbtide.policy.document import Policy
from ebbtide.project.passes import AS_OF, ORGANISER, Actor, Chunk
from ebbtide.project.scope import CHUNK, Scope, next_scope
from ebbtide.project.shelf import Shelf
from ebbtide.project.writer import Writer
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, namespaces, organiser_runs

_LEAVE: dict[Ruling | None, Any] = {
    Ruling.HELD: (leaving.TO_WARN, "to warn"),
    Ruling.APPROVED: (leaving.LISTED, "listed to leave"),
}
"""Which objects a lifecycle slot covers after the guard has held it, or an operator approved it."""

REHEARSED = "rehearsed"
"""Why there is no summary of a window that a dry run takes for one that gets one."""


@dataclass
class Organiser:
    """Runs slots on one connection.

    `transaction` begins each chunk's transaction (a dry run hands in one that never commits); `clock` tells the
    instant entries are recorded at; `stopping` is asked between chunks, and a run told to stop goes on next time.
    `summariser` gives the summariser under a policy; with none, each window counts as one that gets a
    summary. While one runs, the
    connection is `released`, which may leave another one in its place. `guarded` is whether the guard judges slots,
    `over_all` whether over all namespaces too. `holder` is its name in leases; while it has a `lease`, each chunk's
    transaction checks it.
    """

    db: Database
    connection: Connection
    clock: Callable[[], int]
    transaction: Callable[[], AbstractContextManager[Any]]
    chunk_size: int = CHUNK
    stopping: Callable[[], bool] = field(default=lambda: False)
    entropy: Callable[[int], bytes] = secrets.token_bytes
    summariser: Callable[[Policy], Summariser] | None = None
    released: Callable[[], AbstractContextManager[Any]] = nullcontext
    guarded: bool = True
    over_all: bool = True
    told: Reports = field(default_factory=Reports)
    holder: str = field(default_factory=lambda: secrets.token_hex(16))
    lease: Lease | None = None

    def __post_init__(self) -> None:
        self.stopped = False
        self._written: dict[str, int] = {}
        self._shelf = Shelf(self.connection)
        self._guard = Judge(self.db, self.connection, over_all=self.over_all)

    def use(self, connection: Connection) -> None:
        """Goes on, on another connection."""
        self.connection, self.transaction = connection, connection.begin
        self._shelf = Shelf(connection)
        # What it has counted holds for the whole pass, be a connection let go of in between or not.
        self._guard.use(connection)

    def take(self, namespace: str, *, wait: bool) -> Lease | Taken:
        """Takes the lease of a namespace, or says why it cannot be had."""
        with self.transaction():
            self.db.end_when_idle(self.connection, LEASE)
            found = claim(self.db, self.connection, namespace, self.holder, wait=wait)
        self.lease = found if isinstance(found, Lease) else None
        return found

    def give_back(self, *, well: bool) -> None:
        """Gives the lease back, if there is one; `well` if all that was due is done."""
        if self.lease is not None:
            with self.transaction():
                release(self.connection, self.lease, well=well)
            self.lease = None

    def _lock(self, namespace: str, *, away: bool = False) -> Head:
        """Locks the head for a chunk; raises `Overtaken` where the lease is another's by now."""
        began = time.monotonic()
        try:
            if self.lease is not None:
                # Who is stopped in the middle would else keep the namespace locked for as long as it is stopped.
                self.db.end_when_idle(self.connection, LEASE)
            head = lock(self.db, self.connection, namespace)
        finally:
            self.told.waited(time.monotonic() - began)
        assert head is not None, "namespaces are never removed"
        if self.lease is not None:
            check(self.db, self.connection, self.lease, head, away=away)
        return head

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
        found = self.ledgers([namespace]).get(namespace)
        if found is None:
            raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
        return found

    def ledgers(self, names: Sequence[str]) -> dict[str, Ledger]:
        """The same of several namespaces by two queries: at most wake-ups there is nothing to do in most of them."""
        with self.transaction():
            policies = self._shelf.in_force(self.db, names)
            slots = self.connection.execute(newest_slots(self.db, names)).all()
        began = {row.namespace_id: row.began_at for row in slots}
        last = {(row.namespace_id, Task(row.task)): row.last for row in slots if row.last is not None}
        unfinished = {(row.namespace_id, Task(row.task)): row.open for row in slots if row.open is not None}
        return {
            name: Ledger(
                {task: terms.policy.interval(task) for task in Task},
                terms.policy.scheduled(),
                {task: last[name, task] for task in Task if (name, task) in last},
                {task: unfinished[name, task] for task in Task if (name, task) in unfinished},
                began[name],
            )
            for name, terms in policies.items()
        }

    def run(self, namespace: str, task: Task, start: int) -> Run | None:
        """Runs a slot to its end; None where it was done before, or the organiser was told to stop."""
        chunk = self._one_chunk_of_windows if task == Task.SUMMARISE else self._one_chunk
        began = time.monotonic()
        while not self._stops():
            finished, run = chunk(namespace, task, start)
            self.told.wrote(self._written)
            self._written = {}
            if finished:
                if run is not None:
                    self.told.ran(run, time.monotonic() - began)
                return run
        return None

    def _stops(self) -> bool:
        self.stopped = self.stopped or self.stopping()
        return self.stopped

    def _one_chunk(self, namespace: str, task: Task, start: int) -> tuple[bool, Run | None]:
        with self.transaction():
            return self._chunk(namespace, task, start)

    def _chunk(self, namespace: str, task: Task, start: int) -> tuple[bool, Run | None]:
        head = self._lock(namespace)
        now = max(self.clock(), head.last_recorded_at)
        slot = self._claim(head, task, start, now)
        if slot["finished_at"] is not None:
            return True, None
        return self.proceed(head, slot, now)

    def proceed(
        self, head: Head, slot: Mapping[str, Any], now: int, actor: Actor = ORGANISER
    ) -> tuple[bool, Run | None]:
        """The next chunk of a slot that is claimed, in the caller's transaction; whether it was the last, and the run.

        `actor` is who runs it; what is done to memories is the organiser's.
        """
        task, start, verdict = Task(slot["task"]), slot["slot"], Verdict.read(slot["guard"])
        scope = self._scope(slot, verdict)
        chunk = Chunk(self.db, self.connection, head, now=now)
        ruled = (None, 0) if verdict is None else (verdict.verdict, verdict.seq)
        if task == Task.RETENTION:
            counts = retention(self.db, self.connection, chunk, scope, self._policy(head), start, *ruled)
        elif task == Task.LIFECYCLE:
            counts = lifecycle(self.db, self.connection, chunk, scope, start, *ruled)
        elif task == Task.CENTRALITY:
            counts = centrality(self.db, self.connection, chunk, scope, self._shelf, start)
        elif task == Task.DEDUP:
            counts = dedup(self.db, self.connection, chunk, scope, self._policy(head), start)
        else:
            counts = decay(self.db, chunk, scope, task, start)
        counts = counts | {"entries": chunk.entries}
        run = _moved_on(slot, scope, counts)
        chunk.note(OpType.ORGANISER_RUN, _report(slot, scope, run.status, counts), effective_at=start, actor=actor)
        chunk.close()
        self._keep(run, scope, now)
        self._count(head)
        return scope.last, run

    def _one_chunk_of_windows(self, namespace: str, task: Task, start: int) -> tuple[bool, Run | None]:
        """Reads windows, lets them be summarised with no transaction open, and writes what came of them."""
        with self.transaction():
            head = self._lock(namespace, away=True)
            # The slot is claimed with its first entry: what stands in the ledger without one would be in no log.
            columns = organiser_runs.c
            query = select(columns.finished_at, columns.after_object).where(_slot(namespace, task, start))
            slot = self.connection.execute(query).first()
            if slot is not None and slot.finished_at is not None:
                return True, None
            policy, after = self._policy(head), None if slot is None else slot.after_object
            found = windows(self.db, self.connection, namespace, policy.params.summarise, start, after)
        if self.summariser is None or not found:
            summaries = [Summary(window, None, REHEARSED) for window in found]
        else:
            with self.released():
                summaries = summarised(found, self.summariser(policy), self.stopping)
        last = len(found) < WINDOWS and len(summaries) == len(found)
        scope = Scope(namespace, after, None if last else summaries[-1].window.summary, len(summaries))
        with self.transaction():
            return self._write_summaries(task, start, scope, summaries)

    def _write_summaries(
        self, task: Task, start: int, scope: Scope, summaries: Sequence[Summary]
    ) -> tuple[bool, Run | None]:
        writer = Writer(self.db, self.connection, scope.namespace, now=self.clock(), entropy=self.entropy)
        if self.lease is not None:
            check(self.db, self.connection, self.lease, writer.head)
        slot = self._claim(writer.head, task, start, writer.recorded_at)
        if slot["finished_at"] is not None or slot["after_object"] != scope.after:
            return False, None  # Another organiser did this part meanwhile: what comes next is looked up anew.
        policy = self._policy(writer.head)
        terms = self._shelf.terms(scope.namespace, policy.id, policy.version)
        left_out = written(self.db, self.connection, writer, terms, summaries, start)
        failed = sum(one.why != REHEARSED for one in left_out)
        counts = {"examined": scope.objects, "entries": 2 * (len(summaries) - failed)}
        run = _moved_on(slot, scope, counts)
        report = _report(slot, scope, run.status, counts)
        if left_out:
            report["not_summarised"] = [one.window.told() | {"why": one.why} for one in left_out]
        stream_type, stream_id = writer.own_stream()
        writer.append(
            Draft(
                stream_type=stream_type,
                stream_id=stream_id,
                op_type=OpType.ORGANISER_RUN,
                effective_at=start,
                actor_id=ORGANISER.id,
                actor_type=ORGANISER.type,
                payload=report,
                fact=False,
                policy_id=policy.id,
                policy_version=policy.version,
            )
        )
        before = writer.head
        writer.flush()
        self._keep(run, scope, writer.recorded_at)
        self._count(before)
        return scope.last, run

    def _count(self, before: Head) -> None:
        """Counts what this chunk wrote, for whom it is told once it is committed: all behind the head it locked."""
        if self.told.counts:
            log = event_log.c
            mine = log.namespace_id == before.namespace_id, log.seq > before.last_seq
            query = select(log.op_type, func.count()).where(*mine).group_by(log.op_type)
            self._written = dict(self.connection.execute(query).tuples().all())

    def _keep(self, run: Run, scope: Scope, now: int) -> None:
        """Moves the slot's row on."""
        counts = {name: getattr(run, name) for name in (*COUNTS, "entries")}
        self.connection.execute(
            update(organiser_runs)
            .where(_slot(run.namespace_id, run.task, run.as_of))
            .values(
                status=str(run.status),
                guard=run.guard,
                after_object=scope.to,
                finished_at=now if scope.last else None,
                **counts,
            )
        )

    def _scope(self, slot: Mapping[str, Any], verdict: Verdict | None) -> Scope:
        task, start = Task(slot["task"]), slot["slot"]
        ruling = None if verdict is None else verdict.verdict
        given: dict[str, Any] = {AS_OF.key: start}
        if verdict is not None and ruling == Ruling.APPROVED:
            given |= {JUDGED_AT.key: verdict.seq}
        if task == Task.RETENTION:
            if ruling == Ruling.HELD:
                return Scope(slot["namespace_id"], None, None, 0)
            listed = ruling == Ruling.APPROVED
            which, name = (expiring.LISTED, "listed to expire") if listed else (expiring.EXPIRED, "expired")
        elif task == Task.LIFECYCLE:
            which, name = _LEAVE.get(ruling, (leaving.DUE, "due"))
        elif task == Task.CENTRALITY:
            which, name = CENTRAL, "central"
        elif task == Task.DEDUP:
            which, name = SUBJECT_TO_DEDUP, "subject to dedup"
        else:
            which, given, name = SUBJECT_TO_DECAY, parameters(task, start), "subject to decay"
        after, size = slot["after_object"], self.chunk_size
        return next_scope(self.db, self.connection, slot["namespace_id"], after, which, given, name=name, size=size)

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
        policy = self._policy(head)
        interval = policy.interval(task)
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
            "guard": self._judged(head, task, policy, start),
            "started_at": now,
            "finished_at": None,
            **dict.fromkeys((*COUNTS, "entries"), 0),
        }
        self.connection.execute(insert(organiser_runs), slot)
        return slot

    def _judged(self, head: Head, task: Task, policy: Policy, start: int) -> str | None:
        if task not in GUARDED:
            return None
        off = Verdict(Ruling.OFF, head.last_seq)
        verdict = self._guard.judge(head, task, policy, start) if self.guarded else off
        return None if verdict is None else verdict.text()

    def _policy(self, head: Head) -> Policy:
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        return self._shelf.terms(head.namespace_id, head.policy_id, head.policy_version).policy


def _moved_on(slot: Mapping[str, Any], scope: Scope, counts: Mapping[str, int]) -> Run:
    """What a slot has come to with another chunk."""
    total = {name: slot[name] + counts.get(name, 0) for name in (*COUNTS, "entries")}
    verdict = Verdict.read(slot["guard"])
    status = RunStatus.RUNNING
    if verdict is not None and verdict.verdict == Ruling.HELD:
        status = RunStatus.HELD  # With its first chunk: by no part of it anything left.
    elif scope.last:
        status = RunStatus.DONE if total["entries"] else RunStatus.NOTHING_DUE
    named = (slot["run_id"], slot["task"], slot["namespace_id"], slot["slot"])
    return Run(*named, status, **total, policy=policy_of(slot), guard=slot["guard"])


def _slot(namespace: str, task: str, start: int) -> Any:
    return (
        (organiser_runs.c.namespace_id == namespace)
        & (organiser_runs.c.task == task)
        & (organiser_runs.c.slot == start)
    )


def _report(slot: Mapping[str, Any], scope: Scope, status: str, counts: Mapping[str, int]) -> dict[str, Any]:
    """What ORGANISER_RUN says: which run, which range of objects, as of when, what the guard said, what it came to."""
    verdict = Verdict.read(slot["guard"])
    return {
        "run_id": str(slot["run_id"]),
        "task": slot["task"],
        "slot": slot["slot"],
        "as_of": slot["as_of"],
        "missed": slot["missed"],
        **({} if verdict is None else {"guard": verdict.document()}),
        **scope.bounds(),
        "status": status,
        **{name: counts.get(name, 0) for name in (*COUNTS, "entries")},
    }
