"""Where a store stands, in the few numbers that an alert or a dashboard needs.

What is asked of the run ledger walks its key from the newest slot backwards, so that it costs the same after years.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, column, func, select, values

from ebbtide.log.digest import heads
from ebbtide.model.words import LifecycleState, RunStatus, Task
from ebbtide.policy.document import Policy
from ebbtide.policy.schedule import newest_start
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.database import Database
from ebbtide.store.tables import leases, memory_state, namespaces, organiser_runs


@dataclass(frozen=True, slots=True)
class Standing:
    """A store at an instant (µs).

    `due` counts ACTIVE memories whose next rule's instant has come, `quarantined` namespaces that are set aside. By
    task: `held`, namespaces whose newest slot the guard holds; `lag`, how long (µs) the slot has been due that has
    waited longest; `last`, the newest slot that was ended. `head` is the SHA-256 over the ends of all logs, as
    `ebb digest` prints them: namespace, seq, batch and hash, joined by U+001F, each ended by a line feed.
    """

    migration: str
    namespaces: int
    entries: int
    head: str
    due: int
    quarantined: int
    held: Mapping[Task, int]
    lag: Mapping[Task, int]
    last: Mapping[Task, int]


def standing(db: Database, connection: Connection, at: int, migration: str) -> Standing:
    """Reads where a store stands at an instant; the caller has made sure which migration it is at."""
    ends = heads(connection, None)
    said = "".join(f"{end.namespace_id}\x1f{end.seq}\x1f{end.batch}\x1f{end.hash}\n" for end in ends)
    aside = select(func.count()).select_from(leases).where(leases.c.retry_at > db.now())
    held, lag, last = _slots(connection, at)
    return Standing(
        migration=migration,
        namespaces=len(ends),
        entries=sum(end.seq for end in ends),
        head=hashlib.sha256(said.encode()).hexdigest(),
        due=_due(connection, at),
        quarantined=connection.execute(aside).scalar_one(),
        held=held,
        lag=lag,
        last=last,
    )


def _due(connection: Connection, at: int) -> int:
    """By namespace, since the index over due_at is."""
    m, n = memory_state.c, namespaces.c
    mine = m.namespace_id == n.namespace_id, m.due_at <= at, m.lifecycle_state == LifecycleState.ACTIVE.value
    each = select(func.count()).select_from(memory_state).where(*mine).correlate(namespaces).scalar_subquery()
    total: int = connection.execute(select(func.coalesce(func.sum(each), 0))).scalar_one()
    return int(total)


def _slots(connection: Connection, at: int) -> tuple[dict[Task, int], dict[Task, int], dict[Task, int]]:
    tasks = values(column("task", Text), name="tasks").data([(task.value,) for task in Task])
    runs, n = organiser_runs.c, namespaces.c

    def newest(what: ColumnElement[Any], *which: ColumnElement[bool]) -> Any:
        mine = runs.namespace_id == n.namespace_id, runs.task == tasks.c.task, *which
        found = select(what).where(*mine).order_by(runs.slot.desc()).limit(1)
        return found.correlate(namespaces, tasks).scalar_subquery()

    done = newest(runs.slot, runs.finished_at.isnot(None))
    each = (
        select(
            n.namespace_id,
            n.policy_id,
            n.policy_version,
            tasks.c.task,
            done.label("done"),
            func.coalesce(done, n.began_at - 1).label("through"),
            newest(runs.status).label("status"),
        )
        .select_from(namespaces.join(tasks, n.began_at.isnot(None)))
        .subquery()
        .c
    )
    query = select(
        each.policy_id,
        each.policy_version,
        each.task,
        func.min(each.namespace_id).label("namespace_id"),
        func.max(each.done).label("done"),
        func.min(each.through).label("through"),
        func.count().filter(each.status == RunStatus.HELD.value).label("held"),
    ).group_by(each.policy_id, each.policy_version, each.task)
    held, lag, last = dict.fromkeys(Task, 0), dict.fromkeys(Task, 0), dict[Task, int]()
    policies: dict[tuple[str, str], Policy | None] = {}
    shelf = Shelf(connection)
    for row in connection.execute(query):
        task, version = Task(row.task), (row.policy_id, row.policy_version)
        held[task] += row.held
        if row.done is not None:
            last[task] = max(row.done, last.get(task, row.done))
        if version not in policies:
            policies[version] = shelf.find(STORE_WIDE, *version) or shelf.find(row.namespace_id, *version)
        policy = policies[version]
        if policy is not None and task in policy.scheduled():
            interval = policy.interval(task)
            lag[task] = max(lag[task], at - newest_start(interval, row.through) - interval)
    return held, lag, last
