"""Explaining: why a memory is as it is, and what comes next."""

from __future__ import annotations

from uuid import UUID

from ebbtide.api.opened import When, micros
from ebbtide.api.reading import Reading
from ebbtide.audit import explain
from ebbtide.audit.explain import Instants
from ebbtide.audit.explanation import Explanation
from ebbtide.memory.case import ids_of
from ebbtide.model.errors import NotFound
from ebbtide.model.identity import identifier


class Explaining(Reading):
    """Explains memories. Nothing is written."""

    def explain(
        self, obj: UUID | str, *, namespace: str | None = None, as_of: When = None, known_at: When = None
    ) -> Explanation:
        """One memory by id or ref: its state, its segment with numbers put in, its policy, clocks and flags, which
        rule fired last, and what the organiser does next, and when, if nothing touches it.

        All of one instant of the store. The forecast is what the next rules do; a fact, or another centrality, begins
        a new future.
        """
        name = identifier(self.namespace_of(obj, namespace), "namespace")
        when = Instants(self._clock(), micros(as_of, "as-of"), micros(known_at, "known-at"))
        db = self.store.db
        with self.store.session() as connection, db.snapshot(connection).begin():
            (meant,) = ids_of(db, connection, name, [str(obj)], when.known_at)
            found = explain.explain(db, connection, name, meant, when=when, files=self._library)
        if found is None:
            raise NotFound(f"there is no memory {str(obj)!r} in namespace {name!r}", object=str(obj))
        return found
