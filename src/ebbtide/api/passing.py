"""Letting time pass: the organiser's tasks, once or walked through a span of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Connection

from ebbtide.api.opened import Opened, Progress, When, micros, no_progress
from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.model.words import Task
from ebbtide.organise.run import Organiser, Run


class Passing(Opened):
    """What time asks."""

    def organise(
        self,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        as_of: When = None,
        dry_run: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Run]:
        """Runs what is due at an instant (default: now), each task once, at the newest start it makes up."""
        at, chosen = self._past(as_of), _tasks(tasks)
        with self._organiser(dry_run, stopping) as organiser:
            found = []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                for start, task in organiser.ledger(name).due(chosen, at):
                    run = organiser.run(name, task, start)
                    if run is not None:
                        found.append(run)
            return found

    def walk(
        self,
        begin: When,
        end: When,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        progress: Progress = no_progress,
    ) -> list[Run]:
        """Walks the schedule from one instant to another in domain time, every slot of it."""
        first, last, chosen = self._past(begin), self._past(end), _tasks(tasks)
        if first > last:
            raise BadInput("the walk ends before it begins: --from must not be after --to", field="from")
        with self._organiser() as organiser:
            found = []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                slots = list(organiser.ledger(name).between(chosen, first, last))
                for place, (start, task) in enumerate(slots, 1):
                    run = organiser.run(name, task, start)
                    progress(place, len(slots))
                    if run is not None:
                        found.append(run)
            return found

    @contextmanager
    def _organiser(self, dry_run: bool = False, stopping: Callable[[], bool] = lambda: False) -> Iterator[Organiser]:
        with self.store.session() as connection:
            if not dry_run:
                yield self._organiser_on(connection, stopping)
                return
            with connection.begin() as whole:
                yield Organiser(self.store.db, connection, self._clock, _already_begun, self._chunk_size)
                whole.rollback()

    def _organiser_on(self, connection: Connection, stopping: Callable[[], bool] = lambda: False) -> Organiser:
        return Organiser(self.store.db, connection, self._clock, connection.begin, self._chunk_size, stopping)

    def _past(self, when: When) -> int:
        now = self._clock()
        at = micros(when, "as-of")
        if at is not None and at > now:
            raise BadInput(f"{instant.iso(at)} has not come yet: a pass that writes runs up to now", field="as-of")
        return now if at is None else at


def _already_begun() -> AbstractContextManager[None]:
    return nullcontext()


def _tasks(given: Iterable[Task | str] | None) -> list[Task]:
    if given is None:
        return list(Task)
    try:
        return [task for task in Task if task in {Task(name) for name in given}]
    except ValueError as error:
        raise BadInput(f"{error}: one of {', '.join(Task)}", field="task") from error
