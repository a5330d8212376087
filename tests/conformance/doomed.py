"""A process that does one piece of work on a store and is killed after so many SQL statements.

It is imported by the processes that die, so it imports as little as it can. `work` names what is done.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

from sqlalchemy import create_engine, event, make_url, text

from ebbtide import Ebbtide

CHUNK = 5
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
ASKED = [
    {"op": "EVENT", "ref": "said", "content": "I moved"},
    *(BELIEF | {"ref": f"new-{n}", "value": n, "evidence": ["said"]} for n in range(10)),
    {"op": "EVENT", "ref": "elsewhere", "namespace": "other", "content": "hello"},
    {"op": "REINFORCE", "ref": "good", "object": "m1", "signal": "CONFIRMED", "reason": "said so"},
    {"op": "SUPERSEDE", "ref": "newer", "object": "m2", "value": "newer"},
    {"op": "PIN", "ref": "kept", "object": "m3"},
]
WORKS: dict[str, Callable[[Ebbtide], Any]] = {
    "organise": lambda ebb: ebb.organise(),
    "assign": lambda ebb: ebb.assign_policy("permastore@1.0.0"),
    "ask": lambda ebb: ebb.ask(*ASKED),
}


def counted() -> Callable[[int], bytes]:
    """Bytes that differ at every call and repeat from run to run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def opened(url: str, now: int) -> Ebbtide:
    """The store at an instant, with chunks of a few objects."""
    return Ebbtide(url, clock=lambda: now, entropy=counted(), chunk_size=CHUNK)


def watch(ebb: Ebbtide, told: Callable[[str], None]) -> None:
    """Tells every SQL statement once it has been executed."""

    @event.listens_for(ebb.store.db.engine(), "after_cursor_execute")
    def executed(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        told(statement)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work_and_die(url: str, now: int, work: str, statement: int, checkin: int) -> None:
    """Does the work, and dies after the statement of a number, or when it lets go of a connection, so many times."""
    ebb, statements, checkins = opened(url, now), count(1), count(1)
    watch(ebb, lambda _: die() if next(statements) == statement else None)
    event.listen(ebb.store.db.engine(), "checkin", lambda *_: die() if next(checkins) == checkin else None)
    WORKS[work](ebb)


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["ebbtide", "doomed"])


def buried(url: str) -> None:
    """Waits until PostgreSQL has noticed the death of all who had a store open; nobody may have it open meanwhile.

    A server sees that a client is gone when it looks, a moment later; until then its lease is a living one's.
    """
    if url.startswith("postgresql"):
        engine = create_engine(make_url(url).set(database="postgres"))
        ends = text("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = :name")
        with engine.connect() as connection:
            assert all(connection.execute(ends, {"name": make_url(url).database}).scalars())
        engine.dispose()


def killed(url: str, now: int, work: str, *, statement: int = 0, checkin: int = 0) -> bool:
    """Runs the work in a process of its own that is to die; whether it did. 0 is never."""
    process = _processes.Process(target=work_and_die, args=(url, now, work, statement, checkin))
    process.start()
    process.join()
    buried(url)
    assert process.exitcode in (0, -signal.SIGKILL), f"the process ended with {process.exitcode}"
    return process.exitcode != 0
