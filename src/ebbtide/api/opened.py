"""An open store: its database, clock and policies, which everything that is asked of it uses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy.exc import DBAPIError

from ebbtide.audit import doctor, views
from ebbtide.memory.desk import Entropy
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.model.identity import identifier
from ebbtide.model.words import ActorType
from ebbtide.organise.summarise import Summariser
from ebbtide.policy.files import library
from ebbtide.project.passes import Actor
from ebbtide.project.scope import CHUNK
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.store import DEFAULT_URL, Store

When = datetime | str | None
"""An instant: an aware datetime, or ISO 8601 text with a zone. None is now."""

Progress = Callable[[int, int], None]
"""Told how much of a long work is done, of how much."""


def no_progress(done: int, total: int) -> None:
    """Tells nobody."""
    del done, total


def system_clock() -> int:
    """The machine's clock, as an instant."""
    return time.time_ns() // 1000


def micros(when: When, field: str) -> int | None:
    """An instant in µs; a naive or unreadable one is refused under the name of its field."""
    if when is None:
        return None
    try:
        return instant.parse(when) if isinstance(when, str) else instant.to_micros(when)
    except BadInput as error:
        raise BadInput(error.message, field=field) from error


def at_most(limit: int | None) -> int | None:
    """A limit as a query takes it; one below 0, or beyond what can be counted, is refused."""
    if limit is not None and not 0 <= limit < 1 << 31:
        raise BadInput("must be from 0 to 2147483647", field="limit")
    return limit


def actor_of(actor: str, actor_type: str) -> Actor:
    """Who asks; an unknown type or a name that cannot stand in the log is refused."""
    if actor_type not in list(ActorType):
        raise BadInput(f"{actor_type!r} is none of {', '.join(ActorType)}", field="actor_type")
    return Actor(identifier(actor, "actor"), ActorType(actor_type))


class Opened:
    """Opens, sets up and closes a store."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        clock: Callable[[], int] = system_clock,
        entropy: Entropy = secrets.token_bytes,
        wait: float = 30.0,
        policies: Path | None = None,
        queries: Path | None = None,
        chunk_size: int = CHUNK,
        summariser: Summariser | None = None,
    ) -> None:
        self.store = Store(url, wait=wait)
        self._clock = clock
        self._entropy = entropy
        self._library = library(policies)
        self._queries = queries
        self._chunk_size = chunk_size
        self._summariser = summariser

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

    def init(self) -> tuple[str | None, str]:
        """Creates or migrates the schema, makes the audit views anew and registers the policies at hand.

        The migration before and after. One transaction: a migration that fails leaves the store as it was.
        """
        try:
            with self.store.db.connect() as connection, connection.begin():
                result = self.store.migrate(connection)
                views.install(self.store.db, connection)
                shelf = Shelf(connection)
                for policy, _ in self._library.values():
                    shelf.put(STORE_WIDE, policy, self._clock())
        except DBAPIError as error:
            if not self.store.db.denied(error):
                raise
            reason = str(error.orig).strip().splitlines()[0]
            raise StoreUnavailable(f"{reason}: set the store up as a role that may create tables and roles") from error
        self.store.checkpoint()
        return result

    def problems(self) -> list[str]:
        """What is wrong with the store or its set-up, each with what to do; empty where all is well."""
        with self.store.begin() as connection:
            return list(doctor.problems(self.store.db, connection, self._clock()))
