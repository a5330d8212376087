"""Letting time pass: the organiser's tasks, once or walked through a span of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial

from ebbtide.api.opened import Opened, Progress, When, micros, no_progress
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.words import Task
from ebbtide.organise.extract import extract, refuse_missing
from ebbtide.organise.lease import put_aside
from ebbtide.organise.ledger import Ledger, Run
from ebbtide.organise.reports import Reports
from ebbtide.organise.run import Organiser
from ebbtide.organise.sharing import quarantined, shared
from ebbtide.organise.summarise import Summariser
from ebbtide.policy.document import Policy


class Passing(Opened):
    """What time asks."""

    def organise(
        self,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        as_of: When = None,
        dry_run: bool = False,
        no_guard: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        told: Reports | None = None,
    ) -> list[Run]:
        """Runs what is due at an instant (default: now), each task once, at the newest start it makes up.

        Without `tasks`, those that the namespace's policy schedules. A dry run does all of it in one transaction and
        rolls it back; of a summariser that is the caller's own it takes for granted that it makes something of every
        window. With `no_guard` no slot is held, and its run
        says so.

        Other organisers may run on the same store: each namespace is run by one of them. One that fails stops no
        other; it is set aside for a while, and its run is `quarantined`. `told` hears of the runs as they end.
        """
        at, chosen = self._past(as_of), self._tasks(tasks)
        with self._organiser(dry_run, stopping, guarded=not no_guard, told=told) as organiser:
            if dry_run:
                return self._rehearsed(organiser, chosen, namespace, at)
            names = organiser.namespaces() if namespace is None else [_known(organiser, namespace)]
            return shared(organiser, names, lambda ledger: _due(ledger, chosen, at))

    @staticmethod
    def _rehearsed(organiser: Organiser, chosen: list[Task] | None, namespace: str | None, at: int) -> list[Run]:
        """Runs what is due at an instant as `organise` does, but for leases, in one transaction."""
        found = []
        aside = put_aside(organiser.db, organiser.connection)
        for name in organiser.namespaces() if namespace is None else [_known(organiser, namespace)]:
            if name in aside:
                found.append(quarantined(aside[name]))
                continue
            runs = (organiser.run(name, task, start) for start, task in _due(organiser.ledger(name), chosen, at))
            found += [run for run in runs if run is not None]
        return found

    def walk(
        self,
        begin: When,
        end: When,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        no_guard: bool = False,
        progress: Progress = no_progress,
    ) -> list[Run]:
        """Walks the schedule from one instant to another in domain time, every slot of it, in all namespaces at once.

        With `no_guard` no slot is held, and its run says so.
        """
        first, last, chosen = self._past(begin), self._past(end), self._tasks(tasks)
        if first > last:
            raise BadInput("the walk ends before it begins: --from must not be after --to", field="from")
        with self._organiser(guarded=not no_guard) as organiser:
            found, slots = [], []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                ledger = organiser.ledger(name)
                between = ledger.between(ledger.scheduled if chosen is None else chosen, first, last)
                slots += [(start, task, name) for start, task in between]
            slots.sort(key=lambda slot: slot[0])
            for place, (start, task, name) in enumerate(slots, 1):
                run = organiser.run(name, task, start)
                progress(place, len(slots))
                if run is not None:
                    found.append(run)
            return found

    @contextmanager
    def _organiser(
        self,
        dry_run: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        *,
        guarded: bool = True,
        over_all: bool = True,
        told: Reports | None = None,
    ) -> Iterator[Organiser]:
        told = told or Reports()
        with ExitStack() as held:
            began = time.monotonic()
            connection = held.enter_context(self.store.session())
            told.waited(time.monotonic() - began)
            if dry_run:
                whole = held.enter_context(connection.begin())
                yield Organiser(
                    self.store.db,
                    connection,
                    self._clock,
                    _already_begun,
                    self._chunk_size,
                    entropy=self._entropy,
                    # The built-in summariser is rehearsed too; a caller's own may cost something, and is not asked.
                    summariser=self._summariser_under if self._summariser is None else None,
                    guarded=guarded,
                    over_all=over_all,
                )
                whole.rollback()
                return

            @contextmanager
            def released() -> Iterator[None]:
                """Lets go of the store, on DuckDB of its file, for as long as something else takes."""
                held.close()
                yield
                organiser.use(held.enter_context(self.store.session()))

            organiser = Organiser(
                self.store.db,
                connection,
                self._clock,
                connection.begin,
                self._chunk_size,
                stopping,
                self._entropy,
                self._summariser_under,
                released,
                guarded,
                over_all,
                told,
            )
            yield organiser

    def _summariser_under(self, policy: Policy) -> Summariser:
        if self._summariser is not None:
            return self._summariser
        return partial(extract, sentences=policy.params.summarise.max_sentences)

    def _tasks(self, given: Iterable[Task | str] | None) -> list[Task] | None:
        """The tasks named, in their order; None where none are. What cannot be done is refused."""
        if given is None:
            return None
        try:
            named = {Task(name) for name in given}
        except ValueError as error:
            raise BadInput(f"{error}: one of {', '.join(Task)}", field="task") from error
        if Task.SUMMARISE in named and self._summariser is None:
            refuse_missing()
        return [task for task in Task if task in named]

    def _past(self, when: When) -> int:
        now = self._clock()
        at = micros(when, "as-of")
        if at is not None and at > now:
            raise BadInput(f"{instant.iso(at)} has not come yet: a pass that writes runs up to now", field="as-of")
        return now if at is None else at


def _already_begun() -> AbstractContextManager[None]:
    return nullcontext()


def _known(organiser: Organiser, namespace: str) -> str:
    if not organiser.has(namespace):
        raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
    return namespace


def _due(ledger: Ledger, chosen: list[Task] | None, at: int) -> list[tuple[int, Task]]:
    return ledger.due(ledger.scheduled if chosen is None else chosen, at)
