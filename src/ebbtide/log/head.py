"""The head of a namespace's log: the row that every writer locks first.

Sequence numbers come from here, so commit order is seq order, a rollback leaves no hole, and whoever reads at
`seq > n` misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip

from ebbtide.log.batches import hash_of_batch
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, namespaces


@dataclass(frozen=True, slots=True)
class Head:
    """Where a namespace's log ends, and what is fixed for the namespace as a whole.

    `version` and `head_hash` are of the namespace's own stream; `began_at` is the earliest instant anything in it took
    effect; `secret` keys the names of lines that came without a ref.
    """

    namespace_id: str
    last_seq: int
    last_batch: int
    last_batch_hash: bytes
    last_recorded_at: int
    fence: int
    version: int
    head_hash: bytes
    began_at: int | None
    policy_id: str | None
    policy_version: str | None
    secret: bytes

    def with_effect(self, at: int) -> Head:
        """The head once something took effect at an instant."""
        return self if self.began_at is not None and self.began_at <= at else replace(self, began_at=at)


def lock(db: Database, connection: Connection, namespace: str) -> Head | None:
    """Locks a namespace's head until the transaction ends; None where there is no such namespace."""
    row = connection.execute(db.lock_clause(select(namespaces).where(namespaces.c.namespace_id == namespace))).first()
    return None if row is None else Head(**row._mapping)


def lock_or_create(db: Database, connection: Connection, namespace: str, entropy: Callable[[int], bytes]) -> Head:
    """Locks a namespace's head, making it where there is none."""
    found = lock(db, connection, namespace)
    if found is not None:
        return found
    empty = Head(namespace, 0, 0, bytes(32), 0, 0, 0, bytes(32), None, None, None, entropy(16))
    values = {name: getattr(empty, name) for name in Head.__slots__}
    connection.execute(insert_or_skip(namespaces).values(values).on_conflict_do_nothing())
    made = lock(db, connection, namespace)
    assert made is not None, "inserted, or another transaction's that has just committed"
    return made


def close_batch(connection: Connection, head: Head, entries: int, root: bytes) -> Head:
    """Ends a write transaction's part in one namespace: the batch row, and the head moved on.

    `head` carries the new version, hash and recorded_at; its last_seq is still that from before the batch.
    """
    batch, first = head.last_batch + 1, head.last_seq + 1
    digest = hash_of_batch(head.last_batch_hash, head.namespace_id, batch, first, entries, root)
    connection.execute(
        insert(batches).values(
            namespace_id=head.namespace_id,
            batch=batch,
            first_seq=first,
            entries=entries,
            root=root,
            prev_hash=head.last_batch_hash,
            hash=digest,
        )
    )
    moved = replace(head, last_seq=head.last_seq + entries, last_batch=batch, last_batch_hash=digest)
    values = {name: getattr(moved, name) for name in Head.__slots__ if name not in ("namespace_id", "secret")}
    connection.execute(update(namespaces).where(namespaces.c.namespace_id == head.namespace_id).values(values))
    return moved
