"""Rehearsing: what the organiser's next pass would write, entry for entry, with nothing written."""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.api.opened import When, at_most
from ebbtide.api.passing import Passing
from ebbtide.model.words import Task
from ebbtide.organise.rehearsal import Rehearsal, decisions, heads


class Rehearsing(Passing):
    """What a pass would do. Nothing here changes anything."""

    def rehearse(
        self,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        as_of: When = None,
        no_guard: bool = False,
        limit: int = 50,
    ) -> Rehearsal:
        """What `organise` would do, as `organise(dry_run=True)` has it, and the first of the entries it would write.

        The pass is done in one transaction that is rolled back: until then it holds the heads of the namespaces.
        """
        at, chosen, most = self._past(as_of), self._tasks(tasks), at_most(limit) or 0
        with self._organiser(True, guarded=not no_guard) as organiser:
            before = heads(organiser.connection)
            runs = self._rehearsed(organiser, chosen, namespace, at)
            return decisions(organiser.connection, before, runs, most)
