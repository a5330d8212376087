"""An organiser in a process of its own, which does what it is told over a pipe, and may be stopped or killed at it.

It is imported by those processes, so it imports as little as it can.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from busy import BELIEF, PATIENCE, Caller
from sqlalchemy import event

from ebbtide import Ebbtide
from ebbtide.model.errors import StoreUnavailable
from ebbtide.model.instant import SECOND
from ebbtide.organise import lease, run

CHUNK = 4
OLD = "2026-01-05T09:00:00Z"
"""So long ago that a hunch of then has sunk by now."""


def counted() -> Callable[[int], bytes]:
    """Bytes that differ at every call and repeat from run to run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def organiser(url: str, orders: Connection, ahead: int, lease_seconds: float, stop_after: str) -> None:
    """Organises as of each instant it is sent, answers with the runs, and ends at None.

    Its clock is `ahead` of that by so much. It stops itself once, after a statement of a chunk that begins with
    `stop_after`, and says so before; "COMMIT" is right after a chunk that wrote is committed.
    """
    lease.LEASE = run.LEASE = round(lease_seconds * SECOND)
    now = [0]
    with Ebbtide(url, clock=lambda: now[0] + ahead, entropy=counted(), chunk_size=CHUNK) as ebb:
        if stop_after:
            stop_once(ebb, orders, stop_after)
        for at in iter(orders.recv, None):
            now[0] = at
            try:
                orders.send([(r.namespace_id, str(r.task), r.as_of, str(r.status)) for r in ebb.organise()])
            except StoreUnavailable as error:
                orders.send(str(error))


def stop_once(ebb: Ebbtide, orders: Connection, after: str) -> None:
    seen: list[str] = []

    def stop(statement: str) -> None:
        written = any("memory_state" in one and one.startswith("UPDATE") for one in seen)
        if "stopped" not in seen and statement.lstrip().startswith(after) and (written or after != "COMMIT"):
            seen.append("stopped")
            orders.send("stopping")
            os.kill(os.getpid(), signal.SIGSTOP)
        seen.append(statement)

    engine = ebb.store.db.engine()
    event.listen(engine, "after_cursor_execute", lambda *given: stop(given[2]))
    # It is told before the COMMIT; the next transaction begins right after.
    committed = [False]
    event.listen(engine, "commit", lambda _: committed.__setitem__(0, True))
    event.listen(engine, "begin", lambda _: stop("COMMIT") if committed[0] else None)


def walk(url: str, orders: Connection, steps: list[int]) -> None:
    """Builds its statements, says that it begins, and organises as of one instant after the other."""
    now = [steps[0]]
    # Held open, since on DuckDB to open the file takes most of the time.
    with Ebbtide(url, clock=lambda: now[0], entropy=counted(), chunk_size=CHUNK) as ebb, ebb.store.session():
        ebb.organise(dry_run=True)
        orders.send("begins")
        for at in steps:
            now[0] = at
            ebb.organise()
    orders.send("ended")


def ask(url: str, orders: Connection, name: str, seconds: float) -> None:
    """Asks a lot for so many seconds, and now and then remembers something old; answers with how much it asked."""
    until, number = time.monotonic() + seconds, count()
    with Ebbtide(url, wait=PATIENCE) as ebb:
        caller = Caller(ebb, name)
        while time.monotonic() < until and not orders.poll(0.2):
            caller.live(caller.record.requests + 20)
            said = BELIEF | {"namespace": "other", "epistemic_type": "HYPOTHETICAL", "effective_at": OLD}
            names = [f"{name} {next(number)}" for _ in range(3)]
            ebb.ask(*(said | {"ref": ref, "value": ref} for ref in names))
    orders.send(caller.record.requests)


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["ebbtide", "shift"])


@dataclass
class Worker:
    """A process at the other end of a pipe."""

    process: BaseProcess
    pipe: Connection

    def ask(self, order: Any) -> None:
        self.pipe.send(order)

    def answer(self, seconds: float = 240) -> Any:
        assert self.pipe.poll(seconds), "it does not answer"
        return self.pipe.recv()

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.pipe.send(None)
        self.process.join(60)
        assert self.process.exitcode == 0


def started(work: Callable[..., None], url: str, *given: Any) -> Worker:
    """Starts one; it ends with its pipe at the latest."""
    mine, its = _processes.Pipe()
    process = _processes.Process(target=work, args=(url, its, *given), daemon=True)
    process.start()
    its.close()
    return Worker(process, mine)


def hired(url: str, *, ahead: int = 0, lease_seconds: float = 60, stop_after: str = "") -> Worker:
    """Starts an organiser."""
    return started(organiser, url, ahead, lease_seconds, stop_after)
