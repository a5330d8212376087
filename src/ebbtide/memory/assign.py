"""Assigning a policy version to the objects that can still change: one pass, set-based, in chunks.

From now on, never from a past instant. Each object begins a segment that goes on where the old one is, so the curve
bends but does not jump; its rules' instants are found for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Connection,
    SmallInteger,
    and_,
    literal,
)

from ebbtide.log.head import Head, lock_or_create
from ebbtide.model.words import OpType
from ebbtide.policy.document import Policy
from ebbtide.project.assigned import segments_under, under_another
from ebbtide.project.passes import SCORED, Actor, Chunk, Columns, staged
from ebbtide.project.scope import CHUNK, IN_SCOPE, Scope, next_scope
from ebbtide.project.segments import CARRIES, after, begun, folded, stage, table_for
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.database import Database


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
        changed = reassign(self.db, self.connection, chunk, scope, policy, at)
        chunk.close()
        return changed


def reassign(db: Database, connection: Connection, chunk: Chunk, scope: Scope, policy: Policy, at: int) -> int:
    """Writes POLICY_ASSIGNED with a new segment to each object of a chunk; how many."""
    rows = segments_under(policy, and_(IN_SCOPE, under_another(policy)), at)
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
