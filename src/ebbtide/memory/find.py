"""Finding memories page by page: filters, and a place to go on from.

A page speaks of the instant of the first one, so the order holds from page to page; a memory that gets a fact meanwhile
may move in it.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, func, or_

from ebbtide.memory.read import Memory, in_order, shown, source
from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier
from ebbtide.model.words import DecayProfile, EpistemicType, LifecycleState, ObjectType
from ebbtide.store.database import Database

_WORDS = {
    "object_type": ObjectType,
    "epistemic_type": EpistemicType,
    "lifecycle_state": LifecycleState,
    "decay_profile": DecayProfile,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What memories have to be; what is None does not matter. `text` is part of the value, in any case."""

    object_type: str | None = None
    epistemic_type: str | None = None
    lifecycle_state: str | None = None
    decay_profile: str | None = None
    subject: str | None = None
    text: str | None = None
    pinned: bool | None = None
    held: bool | None = None
    warned: bool | None = None

    def check(self) -> None:
        """Refuses what no memory can be."""
        for name, kind in _WORDS.items():
            given = getattr(self, name)
            if given is not None and given not in list(kind):
                raise BadInput(f"{given!r} is none of {', '.join(kind)}", field=name)
        for name in ("subject", "text"):
            if getattr(self, name) is not None:
                identifier(getattr(self, name), name)

    def on(self, db: Database, found: Any) -> list[ColumnElement[bool]]:
        """The conditions on the columns of `read.evaluated`."""
        exact = (*_WORDS, "subject", "pinned", "held", "warned")
        which = [found[name] == given for name in exact if (given := getattr(self, name)) is not None]
        if self.text is not None:
            value = db.member(db.json(found.content), "value")
            which.append(func.strpos(func.lower(value), func.lower(self.text)) > 0)
        return which


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which memory a page begins, in the order as of an instant."""

    at: int
    salience: float
    created_at: int
    object_id: UUID

    def text(self) -> str:
        """As a caller hands it back; what it is made of is no promise."""
        parts = [self.at, self.salience, self.created_at, self.object_id.hex]
        return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that a page gave; any other text is refused."""
        try:
            at, salience, created_at, object_id = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            place = cls(int(at), float(salience), int(created_at), UUID(object_id))
            instant.to_datetime(place.at), instant.to_datetime(place.created_at)
            if not math.isfinite(place.salience):
                raise ValueError(place.salience)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadInput("is no cursor: give the `next` of the page before", field="cursor") from error
        return place

    def behind(self, found: Any) -> ColumnElement[bool]:
        """What comes after it: salience falls, then the age rises, then by id."""
        younger = or_(
            found.created_at < self.created_at,
            and_(found.created_at == self.created_at, found.object_id > self.object_id),
        )
        return or_(found.salience < self.salience, and_(found.salience == self.salience, younger))


def page(
    db: Database,
    connection: Connection,
    namespace: str,
    wanted: Filter,
    *,
    now: int,
    as_of: int | None,
    known_at: int | None,
    everything: bool,
    after: Place | None,
    limit: int,
) -> tuple[list[Memory], Place | None]:
    """The next memories that meet a filter, most salient first, and where the next page begins, if there is one.

    Those eligible for retrieval, or with `everything` all of them. Filters come before the limit.
    """
    at = as_of if as_of is not None else known_at if known_at is not None else after.at if after is not None else now
    found = source(db, namespace, as_of, known_at, at)
    query = in_order(found, not everything, limit + 1).where(*wanted.on(db, found.c))
    if after is not None:
        query = query.where(after.behind(found.c))
    rows = [row._mapping for row in connection.execute(query)]
    last = rows[limit - 1] if len(rows) > limit else None
    following = None if last is None else Place(at, last["salience"], last["created_at"], last["object_id"])
    return [shown(row) for row in rows[:limit]], following
