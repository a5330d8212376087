"""The suite: which measures are taken, of how many memories, beside which floor."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ebbtide.bench import measures
from ebbtide.bench.machine import commit, machine, versions
from ebbtide.bench.measures import LINES, Taken
from ebbtide.bench.scratch import Scratch, peak_of, scratch
from ebbtide.project.scope import CHUNK
from ebbtide.store.store import database_at

Progress = Callable[[int, int], None]

SCORES = ("version", "head_hash", "salience", "confidence", "decayed_at")
"""What a decay pass sets in the state."""
FATES = (*SCORES, "fact_version", "fact_at", "lifecycle_state", "due_at", "due_rule", "stopped_at")
"""What a transition sets."""

BARE = "the same rows inserted and updated, bare"
SCAN = "one scan of the log"
CYCLE = "a decay cycle"

UP_TO = 100_000
"""So many memories live through many cycles at most: a million would leave thirty million entries."""
YEAR = 400
"""So many memories live through a year."""


@dataclass(frozen=True, slots=True)
class Result:
    """One measure: the median of `seconds` beside the median of its `floor_seconds`, and their ratio.

    `n` memories in so many `namespaces`; `floor` says what the floor does. `peak_rss_bytes` is the most memory that the
    process took, `server_peak_rss_bytes` that PostgreSQL's process took for it, where it is on the same machine.
    """

    name: str
    database: str
    n: int
    namespaces: int
    seconds: float
    floor_seconds: float | None
    ratio: float | None
    floor: str | None
    peak_rss_bytes: int
    server_peak_rss_bytes: int | None
    bytes_per_entry: float | None
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured, where, and of what."""

    machine: dict[str, Any]
    versions: dict[str, str]
    commit: str
    results: list[Result]


@dataclass(frozen=True, slots=True)
class Size:
    """So many memories in so many namespaces."""

    objects: int
    namespaces: int = 1


def alone(work: Callable[..., Any], *given: Any) -> Any:
    """Does something in a process of its own. A `Taken` knows its peak: the most memory (bytes) that it took."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(watched, work, *given).result()


def watched(work: Callable[..., Any], *given: Any) -> Any:
    """Does something here, and notes the most memory that this process has taken so far."""
    done = work(*given)
    if isinstance(done, Taken):
        done.peak = peak_of("self") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return done


def bench(
    url: str,
    sizes: Sequence[Size],
    progress: Progress = lambda _, __: None,
    measured: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Measures in stores made beside the one of a URL, which is left alone, and removed again.

    `measured` is handed the report so far after each part: a run that is broken off keeps what it has.
    """
    name = database_at(url, wait=30.0).name
    found = Report(machine(), versions(url), commit(), [])
    done, total = 0, len(sizes) * Round.PARTS + 1
    with scratch(url) as place:
        for size in sizes:
            for part in Round(place, name, size).parts():
                found.results.extend(part)
                measured(found)
                done += 1
                progress(done, total)
        store = place.new()
        found.results.append(_result("year", name, Size(YEAR), alone(measures.year, store, YEAR)))
        progress(total, total)
    return found


class Round:
    """The measures of one database and size, each on a copy of one filled store."""

    PARTS = 6

    def __init__(self, place: Scratch, database: str, size: Size) -> None:
        self._place = place
        self._database = database
        self._size = size
        self._filled = ""
        self._cycle: list[float] = []

    def parts(self) -> Iterator[list[Result]]:
        """The results, part by part."""
        self._filled = self._place.new()
        yield [self._result("fill", alone(measures.fill, self._filled, self._size.objects, self._size.namespaces))]
        for part in (self._decay, self._lifecycle, self._ingest, self._reading, self._cycles):
            url = self._place.copy(self._filled)
            yield list(part(url))
            self._place.drop(url)
        self._place.drop(self._filled)

    def _result(self, name: str, taken: Taken, floor: str | None = None) -> Result:
        return _result(name, self._database, self._size, taken, floor)

    def _decay(self, url: str) -> Iterator[Result]:
        taken = []
        for week in range(3):
            taken.append(alone(measures.decay, url, week))
            taken[-1].floors = [sum(alone(measures.written, url, taken[-1].after, SCORES, CHUNK))]
        together = _joined(taken)
        self._cycle = together.seconds
        yield self._result("decay_cycle", together, BARE)

    def _lifecycle(self, url: str) -> Iterator[Result]:
        idle = _joined([alone(measures.lifecycle, url, day) for day in range(1, 5)])
        idle.floors = self._cycle
        yield self._result("lifecycle_0_percent_due", idle, CYCLE)
        for percent, day in ((1, 5), (50, 11)):
            taken = alone(measures.lifecycle, url, day)
            taken.floors = [sum(alone(measures.written, url, taken.after, FATES, CHUNK))]
            yield self._result(f"lifecycle_{percent}_percent_due", taken, BARE)

    def _ingest(self, url: str) -> Iterator[Result]:
        for name, work, lines in (("single", measures.singles, 1), ("batch", measures.batched, LINES)):
            taken = alone(work, url)
            taken.floors = alone(measures.written, url, taken.after, FATES, lines)
            taken.figures = {"lines": lines, "p95_seconds": _p95(taken.seconds)}
            yield self._result(f"ingest_{name}", taken, BARE)

    def _reading(self, url: str) -> Iterator[Result]:
        floors = alone(measures.scanned, url)
        for name, work in (("rebuild", measures.rebuild), ("verify", measures.verify)):
            taken = alone(work, url)
            taken.floors = floors
            yield self._result(name, taken, SCAN)
        alone(measures.decay, url, 0)
        floors = alone(measures.scanned, url)
        taken = alone(measures.plan, url)
        taken.floors = floors
        yield self._result("replay_plan", taken, SCAN)

    def _cycles(self, url: str) -> Iterator[Result]:
        if self._size.objects <= UP_TO and self._size.namespaces == 1:
            yield self._result("decay_cycles", alone(measures.cycles, url))


def _joined(several: Sequence[Taken]) -> Taken:
    """Several times the same as one."""
    peaks = [one.server_peak for one in several if one.server_peak is not None]
    return Taken(
        [seconds for one in several for seconds in one.seconds],
        [seconds for one in several for seconds in one.floors],
        bytes_per_entry=several[-1].bytes_per_entry,
        peak=max(one.peak for one in several),
        server_peak=max(peaks, default=None),
    )


def _p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20, method="inclusive")[-1]


def _result(name: str, database: str, size: Size, taken: Taken, floor: str | None = None) -> Result:
    seconds = statistics.median(taken.seconds)
    floor_seconds = statistics.median(taken.floors) if taken.floors else None
    return Result(
        name,
        database,
        size.objects,
        size.namespaces,
        seconds,
        floor_seconds,
        seconds / floor_seconds if floor_seconds else None,
        floor,
        taken.peak,
        taken.server_peak,
        taken.bytes_per_entry,
        taken.figures,
    )
