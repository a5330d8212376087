"""Which objects one chunk of a pass covers: a range of ids of one namespace, and the policy each object is under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    Connection,
    Select,
    Text,
    Uuid,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)

from ebbtide.project.passes import NAMESPACE
from ebbtide.store.database import Database
from ebbtide.store.tables import memory_state, policy_profiles

CHUNK = 100_000
"""Objects in one transaction: large enough to be set-based, small enough to bound memory and what a crash repeats."""

_AFTER: BindParameter[UUID] = bindparam("pass_after", type_=Uuid)
_TO: BindParameter[UUID] = bindparam("pass_to", type_=Uuid)
_FIRST, _LAST = UUID(int=0), UUID(int=(1 << 128) - 1)


def in_range(object_id: Any) -> Any:
    """The condition under which an object's id, of the chunk's namespace, is in the chunk."""
    return and_(object_id > _AFTER, object_id <= _TO)


IN_SCOPE = and_(memory_state.c.namespace_id == NAMESPACE, in_range(memory_state.c.object_id))
"""The condition under which a row of the state is in the chunk."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Objects of a namespace after one id, up to and with another; None is no bound. `objects` meet the condition."""

    namespace: str
    after: UUID | None
    to: UUID | None
    objects: int

    def parameters(self) -> dict[str, Any]:
        """What `IN_SCOPE` is run with."""
        return {NAMESPACE.key: self.namespace, _AFTER.key: self.after or _FIRST, _TO.key: self.to or _LAST}

    def bounds(self) -> dict[str, str | None]:
        """The range as an entry tells it."""
        return {
            "after": None if self.after is None else str(self.after),
            "to": None if self.to is None else str(self.to),
        }

    @property
    def last(self) -> bool:
        """Whether nothing comes after it."""
        return self.to is None


def next_scope(
    db: Database,
    connection: Connection,
    namespace: str,
    after: UUID | None,
    which: Any,
    parameters: dict[str, Any],
    *,
    name: str,
    size: int,
) -> Scope:
    """The next range with at most `size` objects that meet a condition; without an upper bound if it is the last.

    It reads no further than one object behind the range, before whose id the range ends: chunk by chunk, a namespace is
    walked through once. `name` tells the conditions apart, whose statements are built once.
    """
    first = db.once(f"scope {name} {size}", lambda: _first(which, size + 1))
    found = connection.execute(first, Scope(namespace, after, None, 0).parameters() | parameters).one()
    if found.objects <= size:
        return Scope(namespace, after, None, found.objects)
    return Scope(namespace, after, UUID(int=UUID(found.last).int - 1), size)


def _first(which: Any, number: int) -> Select[Any]:
    """How many of the first so many objects there are, and the last one's id."""
    ids = select(memory_state.c.object_id).where(IN_SCOPE, which).order_by(memory_state.c.object_id)
    # The number stands in the statement: by a bound one PostgreSQL would plan for a tenth of the table.
    ids = ids.limit(literal_column(str(number)))
    found = ids.subquery().c
    return select(func.count().label("objects"), func.max(cast(found.object_id, Text)).label("last"))


def with_policy(query: Select[Any]) -> Select[Any]:
    """Joins each object's state with the numbers of its policy version and profile."""
    state, policy = memory_state.c, policy_profiles.c
    return query.join_from(
        memory_state,
        policy_profiles,
        and_(
            state.namespace_id == policy.namespace_id,
            state.policy_id == policy.policy_id,
            state.policy_version == policy.policy_version,
            state.decay_profile == policy.decay_profile,
        ),
    )
