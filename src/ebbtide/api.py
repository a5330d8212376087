"""Ebbtide as a Python object: open a store, ask of memory, let time pass, read and audit."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from uuid import UUID

from sqlalchemy import Connection

from ebbtide.memory import read
from ebbtide.memory.decide import id_of
from ebbtide.memory.desk import Desk, Entropy, Taken, note_refusal
from ebbtide.memory.ingest import Ingested, Placed, read_lines, refuse_all
from ebbtide.memory.read import LogEntry, Memory
from ebbtide.memory.requests import DEFAULT_NAMESPACE, AnyRequest, request_from
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, EbbtideError, NotFound, Refused
from ebbtide.model.words import Task
from ebbtide.organise.run import Organiser, Run
from ebbtide.organise.scope import CHUNK
from ebbtide.policy.document import Policy
from ebbtide.policy.files import pick
from ebbtide.store.store import DEFAULT_URL, Store

When = datetime | str | None
DEFAULT_POLICY = "default@1.0.0"


def system_clock() -> int:
    """The machine's clock, as an instant."""
    return time.time_ns() // 1000


class Ebbtide:
    """A store of memory. Every call is a unit of work of its own: on return it is committed, or nothing of it is.

    `clock` (µs since 1970) and `entropy` come from outside where a caller needs them to.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        clock: Callable[[], int] = system_clock,
        entropy: Entropy = secrets.token_bytes,
        wait: float = 30.0,
        policies: Path | None = None,
        chunk_size: int = CHUNK,
    ) -> None:
        self.store = Store(url, wait=wait)
        self._clock = clock
        self._entropy = entropy
        self._policies = policies
        self._chunk_size = chunk_size

    @classmethod
    def open(cls, url: str = DEFAULT_URL, **options: Any) -> Self:
        """Opens a store, setting it up where it is new. Options are those of the constructor."""
        opened = cls(url, **options)
        if opened.store.revision() is None:
            opened.init()
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the store's connections."""
        self.store.db.engine().dispose()

    # Setting up

    def init(self) -> tuple[str | None, str]:
        """Creates or migrates the schema; the migration before and after."""
        with self.store.db.connect() as connection, connection.begin():
            result = self.store.migrate(connection)
        self.store.checkpoint()
        return result

    # Asking of memory

    def ask(self, *requests: AnyRequest | dict[str, Any]) -> list[Taken]:
        """Takes requests, all or none of them, in one transaction."""
        lines = [request if isinstance(request, read_types) else request_from(request) for request in requests]
        with self._session() as connection:
            return self._take_all(connection, [(line, line.ref) for line in lines])

    def _take_all(self, connection: Connection, lines: Sequence[tuple[AnyRequest, str | None]]) -> list[Taken]:
        try:
            with connection.begin():
                desk = self._desk(connection, [line for line, _ in lines])
                desk.prepare(lines)
                taken = []
                for line, key in lines:
                    current = line
                    taken.append(desk.take(line, key))
                desk.close()
        except Refused as refused:
            with connection.begin():
                note_refusal(connection, current, refused, clock=self._clock(), entropy=self._entropy)
            raise
        return taken

    def _desk(self, connection: Connection, lines: Iterable[AnyRequest]) -> Desk:
        now = self._clock()
        begins: dict[str, int] = {}
        for line in lines:
            at = now if line.effective_at is None else line.effective_at
            begins[line.namespace] = min(at, begins.get(line.namespace, at))
        desk = Desk(
            self.store.db,
            connection,
            clock=now,
            entropy=self._entropy,
            default_policy=pick(DEFAULT_POLICY, self._policies),
        )
        for namespace in sorted(begins):
            desk.open([namespace], begins[namespace])
        return desk

    # Letting time pass

    def organise(
        self,
        *,
        tasks: Iterable[Task] | None = None,
        namespace: str | None = None,
        as_of: When = None,
        dry_run: bool = False,
    ) -> list[Run]:
        """Runs what is due at an instant (default: now), each task once, at the newest start it makes up."""
        at = self._past(as_of)
        chosen = list(tasks) if tasks is not None else list(Task)
        with self._organiser(dry_run) as organiser:
            found = []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                for start, task in organiser.due(name, chosen, at):
                    run = organiser.run(name, task, start)
                    if run is not None:
                        found.append(run)
            return found

    @contextmanager
    def _organiser(self, dry_run: bool = False) -> Iterator[Organiser]:
        with self._session() as connection:
            if not dry_run:
                yield Organiser(self.store.db, connection, self._clock, connection.begin, self._chunk_size)
                return
            with connection.begin() as whole:
                yield Organiser(self.store.db, connection, self._clock, nullcontext, self._chunk_size)
                whole.rollback()

    # Reading

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
        with self._session() as connection, connection.begin():
            return read.memories(
                self.store.db,
                connection,
                namespace,
                now=self._clock(),
                as_of=_micros(as_of),
                known_at=_micros(known_at),
                everything=everything,
                limit=limit,
            )

    def _past(self, when: When) -> int:
        now = self._clock()
        at = _micros(when)
        if at is not None and at > now:
            raise BadInput(f"{instant.iso(at)} has not come yet: a pass that writes runs up to now", field="as-of")
        return now if at is None else at

    def _session(self) -> Any:
        return self.store.session()


def _micros(when: When) -> int | None:
    if when is None:
        return None
    return instant.parse(when) if isinstance(when, str) else instant.to_micros(when)


read_types = AnyRequest
