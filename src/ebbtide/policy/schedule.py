"""Slots: which starts a task has. UTC only; starts are multiples of the interval since Monday 1970-01-05T00:00Z."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from ebbtide.model.instant import DAY
from ebbtide.model.words import Task

ANCHOR = 4 * DAY
"""Monday 1970-01-05T00:00Z: weekly slots start on Mondays."""

_ORDER = {task: place for place, task in enumerate(Task)}


def newest_start(interval: int, at: int) -> int:
    """The newest start at or before an instant."""
    return ANCHOR + (at - ANCHOR) // interval * interval


def starts_between(intervals: Mapping[Task, int], begin: int, end: int) -> Iterator[tuple[int, Task]]:
    """Every slot with begin ≤ start ≤ end, in order of time, at one start in the order of the tasks."""

    def of(task: Task, interval: int) -> Iterator[tuple[int, int, Task]]:
        start = newest_start(interval, begin - 1) + interval
        while start <= end:
            yield start, _ORDER[task], task
            start += interval

    for start, _, task in heapq.merge(*(of(task, interval) for task, interval in intervals.items())):
        yield start, task
