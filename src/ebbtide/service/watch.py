"""What an organiser tells the outside of its passes: a line of log per run, metrics, and whether it is well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

from ebbtide.audit.standing import Standing
from ebbtide.model import instant
from ebbtide.model.errors import EbbtideError
from ebbtide.model.words import RunStatus
from ebbtide.organise.lease import Taken
from ebbtide.organise.ledger import Run
from ebbtide.organise.reports import Reports
from ebbtide.service.metrics import Metrics

log = structlog.get_logger()

MISSED = 3
"""So many wake-ups without a pass, or a chunk of one, and it is no longer ready; a minute at the least."""


class Watch(Reports):
    """Hears of every run of an organiser that wakes up every so many seconds.

    `counts` says whether metrics are read by anybody; `clock` gives seconds that never run backwards. Told from the
    organiser's thread, asked from others.
    """

    def __init__(self, *, every: float, counts: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts = counts
        self._clock = clock
        self.metrics = Metrics()
        self._patience = max(MISSED * every, 60.0)
        self._lock = threading.Lock()
        self._alive = self._clock()
        self._wrong: str | None = "no pass has come to its end yet"
        self._standing: Standing | None = None

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Around a pass: how long it took, and whether it came to its end."""
        began = self._clock()
        try:
            yield
        except EbbtideError as error:
            self._ended(f"the last pass failed: {error}")
            self.metrics.passed(self._clock() - began, well=False)
            raise
        self._ended(None)
        self.metrics.passed(self._clock() - began, well=True)

    def _ended(self, wrong: str | None) -> None:
        with self._lock:
            self._alive, self._wrong = self._clock(), wrong

    def ran(self, run: Run, seconds: float) -> None:
        waits = run.status in (RunStatus.HELD, RunStatus.QUARANTINED)
        why = {"why": run.error or str(run.verdict)} if waits else {}
        (log.warning if waits else log.info)(
            "run",
            run_id=str(run.run_id),
            task=run.task,
            namespace=run.namespace_id,
            slot=instant.iso(run.as_of),
            policy=run.policy,
            status=str(run.status),
            entries=run.entries,
            examined=run.examined,
            seconds=round(seconds, 6),
            **why,
        )
        self.metrics.ran(run, seconds)

    def wrote(self, entries: Mapping[str, int]) -> None:
        with self._lock:
            self._alive = self._clock()
        self.metrics.wrote(entries)

    def waited(self, seconds: float) -> None:
        self.metrics.waited(seconds)

    def passed_by(self, why: Taken) -> None:
        self.metrics.passed_by(why)

    def stands(self, found: Standing) -> None:
        """Keeps where the store stands, for whoever asks until the next pass."""
        with self._lock:
            self._standing = found
        self.metrics.stands(found)

    def health(self) -> dict[str, Any]:
        """Whether the organiser is ready, if not why, and where the store stood after the last pass."""
        with self._lock:
            found, problems = self._standing, [] if self._wrong is None else [self._wrong]
            silent = self._clock() - self._alive
        if silent > self._patience:
            problems.append(f"no pass and no chunk of one has ended for {silent:.0f} s")
        document: dict[str, Any] = {"live": True, "ready": not problems, "problems": problems}
        if found is not None:
            document |= {
                "migration": found.migration,
                "log": {"namespaces": found.namespaces, "entries": found.entries, "head": found.head},
                "last_slots": {task.value: instant.iso(slot) for task, slot in found.last.items()},
                "due": found.due,
                "held": sum(found.held.values()),
                "quarantined": found.quarantined,
            }
        return document
