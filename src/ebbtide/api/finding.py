"""Finding memories, page by page."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ebbtide.api.opened import Opened, When, micros
from ebbtide.memory import find
from ebbtide.memory.find import Filter
from ebbtide.memory.read import Memory
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier

LARGEST = 1_000
"""How many memories a page has at most."""


class Page(BaseModel):
    """Memories, and the cursor of the page after them; null on the last one."""

    model_config = ConfigDict(frozen=True)

    memories: list[Memory]
    next: str | None


class Finding(Opened):
    """Looks for memories. Nothing is written."""

    def find(
        self,
        wanted: Filter = Filter(),  # noqa: B008 - it is frozen
        *,
        namespace: str = DEFAULT_NAMESPACE,
        everything: bool = False,
        as_of: When = None,
        known_at: When = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """The memories that meet a filter, most salient first: of those eligible for retrieval, or of all.

        The pages after the first one, by the `next` that came with it, speak of the same instant.
        """
        identifier(namespace, "namespace")
        wanted.check()
        if not 1 <= limit <= LARGEST:
            raise BadInput(f"must be from 1 to {LARGEST}", field="limit")
        after = None if cursor is None else find.Place.read(cursor)
        with self.store.begin() as connection:
            found, following = find.page(
                self.store.db,
                connection,
                namespace,
                wanted,
                now=self._clock(),
                as_of=micros(as_of, "as-of"),
                known_at=micros(known_at, "known-at"),
                everything=everything,
                after=after,
                limit=limit,
            )
        return Page(memories=found, next=None if following is None else following.text())
