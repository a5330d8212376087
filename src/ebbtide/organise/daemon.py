"""The daemon: wakes up, runs what is due, sleeps. The alarm clock decides nothing; the run ledger does.

SIGTERM and SIGINT finish the chunk in hand. On DuckDB the file is open during a pass only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import structlog
from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from ebbtide.model.errors import BadInput, StoreUnavailable

log = structlog.get_logger()


@contextmanager
def beside(one_pass: Callable[[Callable[[], bool]], Any], *, every: float, failed: Callable[[], Any]) -> Iterator[None]:
    """Calls `one_pass` as `daemon` does, in a thread of its own, for as long as something else goes on.

    At the end the chunk in hand is finished. An error that ends it calls `failed`.
    """
    scheduler, stop = BackgroundScheduler(timezone="UTC"), threading.Event()

    def end(error: BaseException) -> None:
        log.error("the organiser has ended", exc_info=error)
        stop.set()
        failed()

    _set_alarm(scheduler, one_pass, stop, every, end)
    scheduler.start()
    try:
        yield
    finally:
        stop.set()
        scheduler.shutdown()


def daemon(one_pass: Callable[[Callable[[], bool]], Any], *, every: float, **said: Any) -> None:
    """Calls `one_pass` at once and then every so many seconds, until told to stop.

    It is given the question whether to stop, to be asked between chunks. A store that is busy or out of reach is
    waited for until the next wake-up; any other error ends the daemon. `said` is logged as it starts.
    """
    if not every > 0:
        raise BadInput("must be more than 0 seconds", field="every")
    scheduler, stop = BlockingScheduler(timezone="UTC"), threading.Event()
    failed: list[BaseException] = []

    def end(_signal: int = 0, _frame: FrameType | None = None) -> None:
        stop.set()
        shut_down()

    def end_with(error: BaseException) -> None:
        failed.append(error)  # The main thread raises it.
        end()

    def shut_down(_event: object = None) -> None:
        # Not from within the job, whose end the scheduler waits for; and only what runs can be shut down.
        if stop.is_set() and scheduler.running:
            threading.Thread(target=scheduler.shutdown, daemon=True).start()

    previous = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _set_alarm(scheduler, one_pass, stop, every, end_with)
        scheduler.add_listener(shut_down, EVENT_SCHEDULER_STARTED)
        log.info("started", every=every, **said)
        if not stop.is_set():
            scheduler.start()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if failed:
        raise failed[0]
    log.info("stopped")


def _set_alarm(
    scheduler: BaseScheduler,
    one_pass: Callable[[Callable[[], bool]], Any],
    stop: threading.Event,
    every: float,
    end: Callable[[BaseException], Any],
) -> None:
    """Has a scheduler call `one_pass` at once and then every so many seconds, one at a time, until `stop`.

    A store that cannot be had now is waited for; any other error is handed to `end`.
    """

    def wake() -> None:
        if stop.is_set():
            return
        try:
            one_pass(stop.is_set)
        except StoreUnavailable as error:
            log.warning("store unavailable, trying again at the next wake-up", error=str(error))
        except BaseException as error:  # noqa: BLE001 - handed on: in a job of the scheduler it would be lost
            end(error)

    scheduler.add_job(
        wake,
        IntervalTrigger(seconds=every),
        next_run_time=datetime.now(UTC),
        coalesce=True,
        max_instances=1,
        misfire_grace_time=None,
    )
