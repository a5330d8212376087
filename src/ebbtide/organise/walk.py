"""Walking through time: what is due is run as an instant is reached, missed slots made up by the newest."""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.model.words import Task
from ebbtide.organise.run import Organiser, Run
from ebbtide.policy.schedule import newest_start


class Walker:
    """Runs what is due in namespaces while time goes forward; it asks the ledger only when a start has been reached."""

    def __init__(self, organiser: Organiser, tasks: Iterable[Task] = tuple(Task)) -> None:
        self._organiser = organiser
        self._tasks = tuple(tasks)
        self._next: dict[str, int] = {}

    def waits(self, namespace: str, at: int) -> bool:
        """Whether a start lies between the last instant reached and this one, so that something may be due."""
        return namespace not in self._next or at >= self._next[namespace]

    def reach(self, namespace: str, at: int) -> list[Run]:
        """Runs what is due in a namespace by an instant."""
        if not self.waits(namespace, at):
            return []
        runs = [self._organiser.run(namespace, task, start) for start, task in self._organiser.due(namespace, self._tasks, at)]
        intervals = self._organiser.intervals(namespace)
        self._next[namespace] = min(newest_start(intervals[task], at) + intervals[task] for task in self._tasks)
        return [run for run in runs if run is not None]
