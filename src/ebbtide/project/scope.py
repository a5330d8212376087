"""Which objects one chunk of a pass covers: a range of ids of one namespace, and the policy each object is under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, Connection, Integer, Select, Uuid, and_, bindparam, func, select

from ebbtide.project.passes import NAMESPACE
from ebbtide.store.database import Database
from ebbtide.store.tables import memory_state, policy_profiles

CHUNK = 100_000
"""Objects in one transaction: large enough to be set-based, small enough to bound memory and what a crash repeats."""

_AFTER: BindParameter[UUID] = bindparam("pass_after", type_=Uuid)
_TO: BindParameter[UUID] = bindparam("pass_to", type_=Uuid)
_SIZE: BindParameter[int] = bindparam("pass_size", type_=Integer)
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

    `name` tells the conditions apart, whose statements are built once.
    """
    count, bound = db.once(f"scope {name}", lambda: _statements(which))
    rest = Scope(namespace, after, None, 0)
    given = rest.parameters() | parameters
    objects = connection.execute(count, given).scalar_one()
    if objects <= size:
        return Scope(namespace, after, None, objects)
    to = connection.execute(bound, given | {_SIZE.key: size - 1}).scalar_one()
    return Scope(namespace, after, to, size)


def _statements(which: Any) -> tuple[Select[Any], Select[Any]]:
    within = and_(IN_SCOPE, which)
    return (
        select(func.count()).select_from(memory_state).where(within),
        select(memory_state.c.object_id).where(within).order_by(memory_state.c.object_id).offset(_SIZE).limit(1),
    )


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
