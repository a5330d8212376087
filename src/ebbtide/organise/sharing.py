"""A pass over namespaces, shared with other organisers: each is run by whoever takes it first.

What one namespace comes to stops no other. One that fails is tried again after the others, and set aside when it has
failed so many times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from ebbtide.model.errors import EbbtideError, StoreUnavailable
from ebbtide.model.identity import uuid8
from ebbtide.model.words import RunStatus, Task
from ebbtide.organise.lease import Lease, Overtaken, Taken, one_line, put_aside, set_aside
from ebbtide.organise.ledger import Ledger, Run, run_id_of
from ebbtide.organise.run import Organiser

TRIES = 3
"""So often a namespace is tried in one pass."""

TOGETHER = 100
"""So many namespaces are looked at before any of them is run: others may have done the next ones meanwhile."""

Slots = Callable[[Ledger], Sequence[tuple[int, Task]]]
"""What is due by the ledger of a namespace."""

FAILURES = (DBAPIError, EbbtideError, ValueError)
"""What can go wrong with one namespace: in the database, by a rule, or as a policy or entry that cannot be read."""


def shared(organiser: Organiser, names: Iterable[str], due: Slots) -> list[Run]:
    """Runs what is due in namespaces, as far as no other organiser has them; by namespace, in order of time.

    Each pass begins with another namespace, so that several spread. Raises what takes the store out of reach.
    """
    found: dict[str, list[Run]] = {name: [] for name in names}
    with organiser.transaction():
        aside = put_aside(organiser.db, organiser.connection)
    for name in found.keys() & aside.keys():
        found[name].append(quarantined(aside[name]))
        organiser.told.ran(found[name][0], 0)
    open_to_all = [name for name in found if name not in aside]
    first = random.Random(organiser.holder).randrange(len(open_to_all) or 1)
    open_to_all = open_to_all[first:] + open_to_all[:first]
    waiting: list[str] = []
    for place in range(0, len(open_to_all), TOGETHER):
        group = _with_something_due(organiser, open_to_all[place : place + TOGETHER], due)
        waiting += [name for name in group if not _cared_for(organiser, name, due, found[name], TRIES - 1)]
    for tries_left in reversed(range(TRIES - 1)):
        waiting = [name for name in waiting if not _cared_for(organiser, name, due, found[name], tries_left)]
    return [run for runs in found.values() for run in runs]


def _with_something_due(organiser: Organiser, names: list[str], due: Slots) -> list[str]:
    """The namespaces in which something is due; all where one cannot be read: each is then looked at by itself."""
    try:
        ledgers = organiser.ledgers(names)
        return [name for name in names if name not in ledgers or due(ledgers[name])]
    except FAILURES as error:
        if _concerns_all(error):
            raise
        return names


def _concerns_all(error: Exception) -> bool:
    """Whether an error is no fault of a namespace: the store is out of reach."""
    return isinstance(error, StoreUnavailable) or (isinstance(error, DBAPIError) and error.connection_invalidated)


def _cared_for(organiser: Organiser, name: str, due: Slots, runs: list[Run], tries_left: int) -> bool:
    """Whether nothing is left to do in a namespace in this pass; what was run is added to `runs`."""
    slot: tuple[int, Task] | None = None
    try:
        if organiser.stopped:
            return True
        taken = organiser.take(name, wait=not tries_left)
        if not isinstance(taken, Lease):
            organiser.told.passed_by(taken)
            return taken != Taken.BUSY
        for slot in due(organiser.ledger(name)):
            run = organiser.run(name, slot[1], slot[0])
            runs += [] if run is None else [run]
        organiser.give_back(well=not organiser.stopped)
    except Overtaken:
        organiser.lease = None
    except FAILURES as error:
        if _concerns_all(error):
            raise
        if tries_left:
            organiser.give_back(well=False)
            return False
        runs += _set_aside(organiser, name, slot, error)
    return True


def _set_aside(organiser: Organiser, name: str, slot: tuple[int, Task] | None, error: Exception) -> list[Run]:
    if organiser.lease is None:
        organiser.take(name, wait=False)
    organiser.lease = None
    start, task = (None, None) if slot is None else slot
    with organiser.transaction():
        why = one_line(error)
        set_aside(organiser.db, organiser.connection, name, organiser.holder, task=task, slot=start, why=why)
        row = put_aside(organiser.db, organiser.connection).get(name)
    if row is None:
        return []
    run = quarantined(row)
    organiser.told.ran(run, 0)
    return [run]


def quarantined(row: Any) -> Run:
    """A namespace that is set aside, a row of `leases`, as a run: that of the slot that failed.

    Where no single slot did, `task` is `all` and the instant that from which it is tried again.
    """
    name, status = row.namespace_id, RunStatus.QUARANTINED
    if row.task is None:
        return Run(uuid8("quarantine", name), "all", name, row.retry_at, status, error=row.error)
    return Run(run_id_of(name, Task(row.task), row.slot), row.task, name, row.slot, status, error=row.error)
