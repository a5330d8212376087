"""Aliases: names under which a memory was said again, each of which stands for the memory that said it first.

A row follows from the `alias_id` of a DEDUP_RESOLVED entry in that memory's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, select

from ebbtide.store.database import Database
from ebbtide.store.tables import aliases


def resolved(
    db: Database, connection: Connection, namespace: str, ids: Sequence[UUID], known_at: int | None = None
) -> dict[UUID, UUID]:
    """Of some ids those that are aliases, as far as known at an instant, each with the memory it stands for."""
    query = select(aliases.c.alias_id, aliases.c.object_id).where(
        aliases.c.namespace_id == namespace, db.among(aliases.c.alias_id, ids)
    )
    if known_at is not None:
        query = query.where(aliases.c.recorded_at <= known_at)
    return {row.alias_id: row.object_id for row in connection.execute(query)}
