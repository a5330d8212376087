"""Reading: memories, their histories, the state of the store and its run ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, and_, or_, select

from ebbtide.api.opened import Opened, When, at_most, micros
from ebbtide.audit.status import Status, status
from ebbtide.memory import read
from ebbtide.memory.case import ids_of
from ebbtide.memory.ranking import Candidate, Ranking, candidate, ranked
from ebbtide.memory.read import LogEntry, Memory
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import id_in, identifier
from ebbtide.organise.lease import put_aside
from ebbtide.organise.ledger import Run
from ebbtide.organise.sharing import quarantined
from ebbtide.store.tables import aliases, memory_objects, organiser_runs


class Reading(Opened):
    """What is there, and what was. Reading records nothing."""

    def memories(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        as_of: When = None,
        known_at: When = None,
        everything: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """The memories eligible for retrieval, or all, most salient first; as of an instant, as known at another."""
        return self._read(namespace, as_of, known_at, everything=everything, limit=at_most(limit))

    def memory(
        self,
        obj: UUID | str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        as_of: When = None,
        known_at: When = None,
    ) -> Memory:
        """One memory, by id or ref."""
        found = self._read(namespace, as_of, known_at, only=[str(obj)])
        if not found:
            raise NotFound(f"there is no memory {str(obj)!r} in namespace {namespace!r}", object=str(obj))
        return found[0]

    def _read(
        self, namespace: str, as_of: When, known_at: When, *, only: list[str] | None = None, **options: Any
    ) -> list[Memory]:
        identifier(namespace, "namespace")
        known = micros(known_at, "known-at")
        with self.store.begin() as connection:
            return read.memories(
                self.store.db,
                connection,
                namespace,
                now=self._clock(),
                as_of=micros(as_of, "as-of"),
                known_at=known,
                only=None if only is None else ids_of(self.store.db, connection, namespace, only, known),
                **options,
            )

    def namespace_of(self, obj: UUID | str, namespace: str | None) -> str:
        """The namespace meant: the one given; else, for an id, the one that has it; else the default one."""
        if namespace is not None:
            return namespace
        wanted = id_in(str(obj))
        if wanted is None:
            return DEFAULT_NAMESPACE
        query = select(memory_objects.c.namespace_id).where(memory_objects.c.object_id == wanted).limit(1)
        with self.store.begin() as connection:
            here = connection.execute(query.where(memory_objects.c.namespace_id == DEFAULT_NAMESPACE)).scalar()
            there = here or connection.execute(query).scalar()
            if there is None:
                alias = select(aliases.c.namespace_id).where(aliases.c.alias_id == wanted).limit(1)
                there = connection.execute(alias).scalar()
            return there or DEFAULT_NAMESPACE

    def rank(
        self,
        candidates: Iterable[Candidate | tuple[str, float]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        as_of: When = None,
        limit: int | None = None,
    ) -> Ranking:
        """Orders what a caller's own search found by similarity and effective salience; filters first, limits last."""
        given = [candidate(one) for one in candidates]
        with self.store.begin() as connection:
            return ranked(
                self.store.db,
                connection,
                namespace,
                given,
                now=self._clock(),
                as_of=micros(as_of, "as-of"),
                limit=at_most(limit),
            )

    def history(
        self,
        obj: UUID | str,
        *,
        namespace: str | None = None,
        known_at: When = None,
        after_version: int = 0,
        limit: int | None = None,
    ) -> list[LogEntry]:
        """The entries of one memory, oldest first; those behind a version of it, at most so many."""
        namespace = self.namespace_of(obj, namespace)
        with self.store.begin() as connection:
            known = micros(known_at, "known-at")
            (meant,) = ids_of(self.store.db, connection, namespace, [str(obj)], known)
            found = read.history(connection, namespace, meant, known, after_version, at_most(limit))
        if not found and not after_version:
            raise NotFound(f"there is no memory {str(obj)!r} in namespace {namespace!r}", object=str(obj))
        return found

    def recent(self, obj: UUID | str, *, namespace: str | None = None, limit: int = 60) -> tuple[list[LogEntry], int]:
        """The newest entries of one memory, newest first, without the scores that decay passes took alone.

        Beside them how many entries there are in all.
        """
        namespace = self.namespace_of(obj, namespace)
        with self.store.begin() as connection:
            (meant,) = ids_of(self.store.db, connection, namespace, [str(obj)])
            return read.recent(connection, namespace, meant, at_most(limit) or 0)

    def status(self, *, namespace: str | None = None, as_of: When = None, known_at: When = None) -> Status:
        """Memories by state and profile, and each task's last and next run."""
        at, known = micros(as_of, "as-of"), micros(known_at, "known-at")
        with self.store.begin() as connection:
            return status(self.store.db, connection, namespace, self._clock(), at, known)

    def runs(self, *, namespace: str | None = None, limit: int = 50, after: UUID | str | None = None) -> list[Run]:
        """The run ledger, newest slot first; before them the runs that failed, of namespaces that are set aside.

        `after` is a run of the ledger to go on behind.
        """
        rows = organiser_runs.c
        query = select(organiser_runs).order_by(rows.slot.desc(), rows.task, rows.namespace_id).limit(at_most(limit))
        if namespace is not None:
            query = query.where(rows.namespace_id == namespace)
        if after is not None:
            last = self._slot(after, namespace)
            same = and_(rows.task == last["task"], rows.namespace_id > last["namespace_id"])
            later = or_(rows.task > last["task"], same)
            query = query.where(or_(rows.slot < last["slot"], and_(rows.slot == last["slot"], later)))
        with self.store.begin() as connection:
            found = [Run.from_row(row._mapping) for row in connection.execute(query)]
            aside = {} if after is not None else put_aside(self.store.db, connection)
        failed = [quarantined(row) for name, row in aside.items() if namespace in (None, name)]
        known = {run.run_id for run in failed}
        return [*failed, *(run for run in found if run.run_id not in known)][:limit]

    def run(self, run_id: UUID | str, *, namespace: str | None = None) -> Run:
        """One run of the ledger, or of one namespace's part of it."""
        return Run.from_row(self._slot(run_id, namespace))

    def _slot(self, run_id: UUID | str, namespace: str | None = None) -> RowMapping:
        try:
            wanted = UUID(str(run_id))
        except ValueError as error:
            raise BadInput(f"{run_id!r} is no run id: `ebb runs list` shows them") from error
        query = select(organiser_runs).where(organiser_runs.c.run_id == wanted)
        if namespace is not None:
            query = query.where(organiser_runs.c.namespace_id == namespace)
        with self.store.begin() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}: `ebb runs list` shows them")
        return row._mapping
