"""Which objects one chunk of a pass covers: a range of ids of one namespace, and the policy each object is under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, and_, select

from ebbtide.store.tables import memory_state, policy_profiles

CHUNK = 50_000
"""Objects in one transaction: large enough to be set-based, small enough to bound memory and what a crash repeats."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Objects of a namespace after one id, up to and with another; None is no bound."""

    namespace: str
    after: UUID | None
    to: UUID | None

    def covers(self, table: Any) -> Any:
        """The condition under which a row is in the range."""
        bounds = [table.c.namespace_id == self.namespace]
        if self.after is not None:
            bounds.append(table.c.object_id > self.after)
        if self.to is not None:
            bounds.append(table.c.object_id <= self.to)
        return and_(*bounds)

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


def next_scope(connection: Connection, namespace: str, after: UUID | None, which: Any, size: int = CHUNK) -> Scope:
    """The next range with at most `size` objects that meet a condition; without an upper bound if it is the last."""
    rest = Scope(namespace, after, None)
    found = connection.execute(
        select(memory_state.c.object_id)
        .where(rest.covers(memory_state), which)
        .order_by(memory_state.c.object_id)
        .offset(size - 1)
        .limit(2)
    ).scalars()
    bounds = list(found)
    return Scope(namespace, after, bounds[0]) if len(bounds) == 2 else rest


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
