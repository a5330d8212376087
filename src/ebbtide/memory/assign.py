"""Assigning a policy version to the objects that can still change: one pass, set-based, in chunks.

From now on, never from a past instant. Each object begins a segment that goes on where the old one is, so the curve
bends but does not jump; its rules' instants are found for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    Select,
    SmallInteger,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
)

from ebbtide.decay import facts
from ebbtide.decay.fsrs import learning
from ebbtide.log.head import Head, lock_or_create
from ebbtide.model.words import Condition, Curve, DecayProfile, EpistemicType, LifecycleState, OpType
from ebbtide.policy.document import Policy
from ebbtide.project.passes import SCORED, Actor, Chunk, Columns, staged
from ebbtide.project.scope import CHUNK, IN_SCOPE, Scope, next_scope
from ebbtide.project.segments import CARRIES, after, begun, folded, stage, standing, table_for
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_objects, memory_state


def under_another(policy: Policy) -> Any:
    """Which objects can still change and are not under a policy version."""
    return and_(
        memory_state.c.lifecycle_state.in_([LifecycleState.ACTIVE.value, LifecycleState.ARCHIVED.value]),
        memory_state.c.tombstoned_at.is_(None),
        or_(memory_state.c.policy_id != policy.id, memory_state.c.policy_version != policy.version),
    )


def _profile(policy: Policy) -> Any:
    """The profile of an object under a policy, as `Policy.profile_for` has it."""
    objects = memory_objects.c
    unknown = and_(
        objects.epistemic_type == EpistemicType.CONDITIONAL.value,
        objects.condition == Condition.UNKNOWN.value,
    )
    return case(
        (objects.profile_override.isnot(None), objects.profile_override),
        (unknown, policy.params.conditional_while_unknown.value),
        *((objects.epistemic_type == kind.value, name.value) for kind, name in policy.params.mapping.items()),
        else_=memory_state.c.decay_profile,
    )


def _segments(policy: Policy, which: Any, at: int) -> Select[Any]:
    """The new segments: values as they stand under the old policy, to go on under the new one."""
    s, o = memory_state.c, memory_objects.c
    begin = func.greatest(literal(at, BigInteger), s.fact_at, type_=BigInteger)
    profile = _profile(policy)
    learnt = {name: learning(terms) for name, terms in policy.params.profiles.items() if terms.curve == Curve.FSRS}

    def kept(column: Any, initial: Mapping[DecayProfile, float]) -> Any:
        """What FSRS knows of an object already, else what its profile begins with."""
        whens = [(profile == name.value, func.coalesce(column, value)) for name, value in initial.items()]
        return cast(case(*whens, else_=None) if whens else literal(None, Double), Double)

    expires_at = case(
        (or_(s.pinned, s.held), None),
        else_=facts.expiry(SQL, policy.params.retention, _Both(), begin),
    )
    changes = {
        "stability": kept(s.stability, {name: one.stability for name, one in learnt.items()}),
        "difficulty": kept(s.difficulty, {name: one.difficulty for name, one in learnt.items()}),
        "decay_profile": cast(profile, Text),
        "expires_at": cast(expires_at, BigInteger),
    }
    return (
        standing(policy, begin, changes)
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .where(which)
    )


class _Both:
    """The columns of an object and of its state under one name, as `MemoryState` has them."""

    def __getattr__(self, name: str) -> Any:
        return memory_state.c[name] if name in memory_state.c else memory_objects.c[name]


@dataclass
class Assignment:
    """Assigns a policy version on one connection, chunk by chunk; begun and killed, it goes on when asked again."""

    db: Database
    connection: Connection
    clock: Callable[[], int]
    entropy: Callable[[int], bytes]
    chunk_size: int = CHUNK

    def run(self, namespace: str, policy: Policy, actor: Actor) -> int:
        """Makes a policy the namespace's, and that of each of its objects that can still change; how many changed."""
        at, changed, after = self.clock(), 0, None
        while True:
            with self.connection.begin():
                head = lock_or_create(self.db, self.connection, namespace, self.entropy)
                scope = next_scope(
                    self.db,
                    self.connection,
                    namespace,
                    after,
                    under_another(policy),
                    {},
                    name=f"not under {policy.name}",
                    size=self.chunk_size,
                )
                changed += self._chunk(head, policy, scope, at, actor)
            if scope.last:
                return changed
            after = scope.to

    def _chunk(self, head: Head, policy: Policy, scope: Scope, at: int, actor: Actor) -> int:
        named = (head.policy_id, head.policy_version) == (policy.id, policy.version)
        if named and not scope.objects:
            return 0
        previous = None if head.policy_id is None else f"{head.policy_id}@{head.policy_version}"
        head = replace(head, policy_id=policy.id, policy_version=policy.version)
        chunk = Chunk(self.db, self.connection, head, now=self.clock(), actor=actor)
        shelf = Shelf(self.connection)
        for owner in (STORE_WIDE, head.namespace_id):
            shelf.put(owner, policy, chunk.recorded_at)
        document = {} if named else {"previous": previous, "document": policy.model_dump(mode="json", by_alias=True)}
        chunk.note(OpType.POLICY_ASSIGNED, {**document, **scope.bounds()}, effective_at=at)
        changed = reassign(self.db, self.connection, chunk, scope, policy, at) if scope.objects else 0
        chunk.close()
        return changed


def reassign(db: Database, connection: Connection, chunk: Chunk, scope: Scope, policy: Policy, at: int) -> int:
    """Writes POLICY_ASSIGNED with a new segment to each object of a chunk; how many."""
    rows = _segments(policy, and_(IN_SCOPE, under_another(policy)), at)
    segments = table_for("pass_reassigned", rows)
    stage(connection, segments, rows, scope.parameters())
    statements = staged(
        db,
        "pass_assigned",
        begun(db, segments),
        [_entry(db)],
        lambda c: {**folded(c), "fact_version": c.fact_version + 1, "fact_at": c.begin},
    )
    return chunk.write(statements, {})


def _entry(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.POLICY_ASSIGNED.value,
            "fact_version": columns.fact_version + 1,
            "effective_at": columns.begin,
            **{name: columns[name] for name in SCORED},
            "carries": literal(CARRIES, SmallInteger),
            "after": after(db, columns),
        }

    return entry
