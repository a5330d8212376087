"""Walking through time: what is due is run as an instant is reached, missed slots made up by the newest."""

from __future__ import annotations

from ebbtide.organise.ledger import Ledger, Run
from ebbtide.organise.run import Organiser
from ebbtide.policy.schedule import newest_start


class Walker:
    """Runs what is due in namespaces while time goes forward; it reads a namespace's ledger once."""

    def __init__(self, organiser: Organiser) -> None:
        self._organiser = organiser
        self._ledgers: dict[str, Ledger] = {}
        self._next: dict[str, int] = {}

    def waits(self, namespace: str, at: int) -> bool:
        """Whether a start lies between the last instant reached and this one, so that something may be due."""
        return namespace not in self._next or at >= self._next[namespace]

    def reach(self, namespace: str, at: int) -> list[Run]:
        """Runs what is due in a namespace by an instant."""
        if not self.waits(namespace, at):
            return []
        if namespace not in self._ledgers:
            if not self._organiser.has(namespace):
                return []
            self._ledgers[namespace] = self._organiser.ledger(namespace)
        ledger = self._ledgers[namespace]
        runs = []
        for start, task in ledger.due(ledger.scheduled, at):
            runs.append(self._organiser.run(namespace, task, start))
            ledger.last[task] = max(start, ledger.last.get(task, start))
            ledger.unfinished.pop(task, None)
        self._next[namespace] = min(newest_start(step, at) + step for step in ledger.intervals.values())
        return [run for run in runs if run is not None]
