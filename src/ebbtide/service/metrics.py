"""Metrics of an organiser, as Prometheus reads them. Labels are task, kind of entry and status: never a namespace.

Counters and histograms are of this process; gauges are of the store as it stood after the last pass, so that a scrape
opens no store.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from ebbtide import __version__
from ebbtide.audit.standing import Standing
from ebbtide.model import instant
from ebbtide.model.words import RunStatus, Task
from ebbtide.organise.lease import Taken
from ebbtide.organise.ledger import Run

_LONG = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600)
_SHORT = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60)


class Metrics:
    """All metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        ProcessCollector(registry=r)
        build = Gauge("ebbtide_build_info", "Always 1; the version is in the label", ["version"], registry=r)
        build.labels(__version__).set(1)
        self._entries = Counter("ebbtide_entries", "Entries this process appended to the log", ["op_type"], registry=r)
        self._runs = Counter(
            "ebbtide_runs", "Slots this process ran, or found set aside, by outcome", ["task", "status"], registry=r
        )
        self._examined = Counter("ebbtide_examined", "Memories and events that runs looked at", ["task"], registry=r)
        self._run_seconds = Histogram(
            "ebbtide_run_seconds", "How long a run took in one namespace", ["task"], buckets=_LONG, registry=r
        )
        self._rate = Gauge(
            "ebbtide_rows_per_second", "Memories and events looked at per second, newest run", ["task"], registry=r
        )
        self._pass_seconds = Histogram(
            "ebbtide_pass_seconds", "How long a pass over all namespaces took", buckets=_LONG, registry=r
        )
        self._failed = Counter(
            "ebbtide_failed_passes", "Passes that ended early, with the store busy or away", registry=r
        )
        self._last_pass = Gauge("ebbtide_last_pass_timestamp_seconds", "When a pass last came to its end", registry=r)
        self._waited = Histogram(
            "ebbtide_lock_wait_seconds",
            "How long a namespace's lock, or DuckDB's file, was waited for",
            buckets=_SHORT,
            registry=r,
        )
        self._passed_by = Counter(
            "ebbtide_passed_by", "Namespaces left to others: busy, leased or set aside", ["why"], registry=r
        )
        self._lag = Gauge(
            "ebbtide_lag_seconds", "How long the slot has been due that has waited longest", ["task"], registry=r
        )
        self._last_slot = Gauge(
            "ebbtide_last_slot_timestamp_seconds", "The newest slot that was ended", ["task"], registry=r
        )
        self._held = Gauge("ebbtide_held_slots", "Slots that the guard holds", ["task"], registry=r)
        self._due = Gauge("ebbtide_due_objects", "Memories whose next rule's instant has come", registry=r)
        self._quarantined = Gauge("ebbtide_quarantined_namespaces", "Namespaces that are set aside", registry=r)
        self._namespaces = Gauge("ebbtide_namespaces", "Namespaces with a log", registry=r)
        self._log = Gauge("ebbtide_log_entries", "Entries in all logs", registry=r)
        for task in Task:
            for metric in (self._examined, self._run_seconds, self._lag, self._held):
                metric.labels(task.value)
            for status in (RunStatus.DONE, RunStatus.NOTHING_DUE, RunStatus.HELD, RunStatus.QUARANTINED):
                self._runs.labels(task.value, status.value)
        for why in Taken:
            self._passed_by.labels(why.value)

    def ran(self, run: Run, seconds: float) -> None:
        """A run came to its end."""
        self._runs.labels(run.task, run.status).inc()
        if run.status == RunStatus.QUARANTINED:
            return
        self._run_seconds.labels(run.task).observe(seconds)
        if run.examined:
            self._examined.labels(run.task).inc(run.examined)
            self._rate.labels(run.task).set(run.examined / max(seconds, 1e-6))

    def wrote(self, entries: Mapping[str, int]) -> None:
        """Entries by type that were committed."""
        for op_type, number in entries.items():
            self._entries.labels(op_type).inc(number)

    def waited(self, seconds: float) -> None:
        """A lock was waited for."""
        self._waited.observe(seconds)

    def passed_by(self, why: Taken) -> None:
        """A namespace was left to others."""
        self._passed_by.labels(why.value).inc()

    def passed(self, seconds: float, *, well: bool) -> None:
        """A pass came to its end, or ended early."""
        if well:
            self._pass_seconds.observe(seconds)
            self._last_pass.set_to_current_time()
        else:
            self._failed.inc()

    def stands(self, found: Standing) -> None:
        """Where the store stands."""
        self._due.set(found.due)
        self._quarantined.set(found.quarantined)
        self._namespaces.set(found.namespaces)
        self._log.set(found.entries)
        for task, number in found.held.items():
            self._held.labels(task.value).set(number)
        for task, lag in found.lag.items():
            self._lag.labels(task.value).set(lag / instant.SECOND)
        for task, slot in found.last.items():
            self._last_slot.labels(task.value).set(slot / instant.SECOND)
