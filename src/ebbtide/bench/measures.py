"""What is measured. Each measure works on one store, of which nothing else is asked, in a process of its own.

A timing is of the call that a user makes, opening and closing the store and committing included.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import func, select

from ebbtide.api import Ebbtide
from ebbtide.bench import filling
from ebbtide.bench.floor import BEYOND, bare, scan
from ebbtide.bench.scratch import Updates, bytes_used, peak_of, server_process, updates
from ebbtide.model import instant
from ebbtide.model.words import Task
from ebbtide.store.tables import event_log

DECAY = (Task.DECAY_RAPID_FAST, Task.DECAY_MEDIUM, Task.DECAY_SLOW)
MONDAY = instant.parse("2026-01-05T00:00:00Z")
WEEK = 7 * instant.DAY
ENOUGH = 1000
"""So many entries tell what one takes on disk: tables and files grow by whole pages and blocks."""
SINGLES, BATCHES, LINES = 30, 5, 1000
CYCLES, DAYS = 30, 365


@dataclass
class Taken:
    """What a measure took: seconds of each time it was done, bytes of each entry it wrote, behind which seq."""

    seconds: list[float]
    floors: list[float] = field(default_factory=list)
    after: int = 0
    bytes_per_entry: float | None = None
    peak: int = 0
    server_peak: int | None = None
    figures: dict[str, float] = field(default_factory=dict)


@contextmanager
def opened(url: str, at: int) -> Iterator[Ebbtide]:
    """The store, at an instant."""
    with Ebbtide(url, clock=lambda: at) as ebb:
        yield ebb


def timed(work: Callable[[], Any]) -> float:
    """Seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _writing(url: str, at: int, *works: Callable[[Ebbtide], Any]) -> Taken:
    """What each of some works takes that write, and what they write takes in the store."""
    with opened(url, at) as ebb:
        before = _size(ebb)
        seconds = [timed(partial(work, ebb)) for work in works]
        after = _size(ebb)
        entries = after.entries - before.entries
        each = (after.bytes - before.bytes) / entries if entries >= ENOUGH else None
        return Taken(seconds, after=before.last_seq, bytes_per_entry=each, server_peak=_server_peak(ebb))


@dataclass(frozen=True, slots=True)
class Size:
    """Entries, the last seq of any namespace, and bytes in use of a store."""

    entries: int
    last_seq: int
    bytes: int


def _size(ebb: Ebbtide) -> Size:
    with ebb.store.session() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        seq = event_log.c.seq
        entries, last = alone.execute(select(func.count(), func.coalesce(func.max(seq), 0)).where(seq < BEYOND)).one()
        return Size(entries, last, bytes_used(ebb.store.db, alone))


def _server_peak(ebb: Ebbtide) -> int | None:
    """The most memory that the server's process for this store took, shared memory included; where it can be told."""
    with ebb.store.session() as connection, connection.begin():
        process = server_process(ebb.store.db, connection)
    return None if process is None else peak_of(process)


# What writes


def fill(url: str, objects: int, spaces: int) -> Taken:
    """Makes the store that all other measures begin with."""
    return _writing(url, filling.BEGIN + instant.DAY // 2, lambda ebb: filling.filled(ebb, objects, spaces))


def decay(url: str, week: int) -> Taken:
    """A decay cycle: every memory of every profile is evaluated, on a Monday, and its scores have changed."""
    return _writing(url, MONDAY + week * WEEK, lambda ebb: ebb.organise(tasks=DECAY))


def lifecycle(url: str, day: int) -> Taken:
    """A lifecycle pass, so many days after all was asserted."""
    return _writing(url, filling.BEGIN + day * instant.DAY, lambda ebb: ebb.organise(tasks=[Task.LIFECYCLE]))


def singles(url: str) -> Taken:
    """One memory asserted, again and again."""
    asked = filling.requests(SINGLES, filling.names(1)[0], "single")
    return _writing(url, MONDAY, *(partial(_ask, one) for one in asked))


def _ask(request: dict[str, Any], ebb: Ebbtide) -> None:
    ebb.ask(request)


def batched(url: str) -> Taken:
    """A file of lines ingested, again and again."""
    works = []
    for number in range(BATCHES):
        lines = filling.requests(LINES, filling.names(1)[0], f"batch {number},")
        data = b"\n".join(json.dumps(line).encode() for line in lines)
        works.append(partial(_ingest, data))
    return _writing(url, MONDAY, *works)


def _ingest(data: bytes, ebb: Ebbtide) -> None:
    ebb.ingest(io.BytesIO(data), "bench.jsonl")


def written(url: str, after: int, columns: tuple[str, ...], together: int) -> list[float]:
    """The floor of what was written after a seq: seconds of each transaction with so many of the same rows, bare."""
    with opened(url, MONDAY) as ebb:
        return bare(ebb.store, after, columns, together)


# What reads


def rebuild(url: str) -> Taken:
    """The state folded from the log and compared with what is there, which is the same."""
    return _whole(url, lambda ebb: _must(ebb.rebuild().equal))


def verify(url: str) -> Taken:
    """Every hash and link recomputed, and everything else compared with the log."""
    return _whole(url, lambda ebb: _must(ebb.verify().ok))


def plan(url: str) -> Taken:
    """What a correction would change is worked out."""
    return _whole(url, lambda ebb: ebb.plan_replay(filling.POLICY, filling.CORRECTED))


def _whole(url: str, work: Callable[[Ebbtide], Any]) -> Taken:
    with opened(url, MONDAY + CYCLES * WEEK) as ebb:
        took = timed(lambda: work(ebb))
        return Taken([took], server_peak=_server_peak(ebb))


def _must(well: bool) -> None:
    if not well:
        raise RuntimeError("the store that was measured is not whole: this is a defect")


def scanned(url: str) -> list[float]:
    """The floor of what reads the log: seconds of one scan of it."""
    with opened(url, MONDAY) as ebb:
        return [timed(lambda: scan(ebb.store)) for _ in range(3)]


# What time leaves


def cycles(url: str) -> Taken:
    """Many decay cycles, one after the other, and what they leave of PostgreSQL's table."""
    before, (entries, size) = _grown(url)
    taken = [decay(url, week) for week in range(CYCLES)]
    after, (more_entries, larger) = _grown(url)
    figures: dict[str, float] = {"cycles": CYCLES}
    if before and after:
        figures["hot_ratio"] = (after.hot - before.hot) / (after.all - before.all)
        figures["growth"] = after.bytes / before.bytes
    each = (larger - size) / (more_entries - entries)
    return Taken([one.seconds[0] for one in taken], bytes_per_entry=each, figures=figures)


def _grown(url: str) -> tuple[Updates | None, tuple[int, int]]:
    with opened(url, MONDAY) as ebb:
        size = _size(ebb)
        with ebb.store.begin() as connection:
            return updates(ebb.store.db, connection), (size.entries, size.bytes)


def year(url: str, objects: int) -> Taken:
    """A year lived through under `default`, every slot of the schedule; what a memory leaves in it."""
    end = filling.BEGIN + DAYS * instant.DAY
    with opened(url, end) as ebb:
        before = _size(ebb)
        ebb.ask(*filling.requests(objects, filling.names(1)[0]))
        took = timed(lambda: ebb.walk(instant.iso(filling.BEGIN), instant.iso(end)))
        after = _size(ebb)
    entries, size = after.entries - before.entries, after.bytes - before.bytes
    figures = {"entries_per_object": entries / objects, "bytes_per_object": size / objects}
    return Taken([took], bytes_per_entry=size / entries, figures=figures)
