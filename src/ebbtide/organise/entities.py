"""Merging entities: of one type, those that share a name, canonical or alias, are one; the younger goes into the older.

A merged entity's names count for the one it stands for, so merging goes on until no two share a name.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, and_, func, select, union_all, update

from ebbtide.model.words import OpType
from ebbtide.project.passes import AS_OF, NAMESPACE, Chunk
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, entities


def merge_entities(db: Database, connection: Connection, chunk: Chunk, as_of: int) -> None:
    """ENTITY_MERGE for each entity that shares a name with an older one, in the namespace's own stream.

    They are few, and chained one after the other; so each is written by itself.
    """
    query = db.once("entities to merge", lambda: _to_merge(db))
    given = {NAMESPACE.key: chunk.namespace, AS_OF.key: as_of}
    while merges := connection.execute(query, given).all():
        for merged, primary in merges:
            payload = {"primary_entity_id": str(primary), "merged_entity_id": str(merged)}
            chunk.note(OpType.ENTITY_MERGE, payload, effective_at=as_of)
            connection.execute(
                update(entities)
                .where(entities.c.namespace_id == chunk.namespace, entities.c.entity_id == merged)
                .values(merged_into=primary)
            )


def _to_merge(db: Database) -> Select[Any]:
    """Entities to merge now, each with the oldest one that shares a name and is not to be merged itself."""
    e, content = entities.c, db.json(contents.c.content)
    mine = and_(e.namespace_id == NAMESPACE, e.created_at <= AS_OF)
    stand = (
        select(e.entity_id, e.entity_id.label("primary_id"), e.created_at, e.content_seq)
        .where(mine, e.merged_into.is_(None))
        .cte("stand", recursive=True)
    )
    stand = stand.union_all(
        select(e.entity_id, stand.c.primary_id, stand.c.created_at, stand.c.content_seq).where(
            mine, e.merged_into == stand.c.entity_id
        )
    )
    with_content = entities.join(
        contents, and_(e.namespace_id == contents.c.namespace_id, e.content_seq == contents.c.seq)
    )
    canonical, alias = db.member(content, "canonical_name"), db.members(content, "aliases")
    said = union_all(
        *(select(e.entity_id, name.label("name")).select_from(with_content).where(mine) for name in (canonical, alias))
    ).subquery()
    names = (
        select(stand.c.primary_id, stand.c.created_at, stand.c.content_seq, e.entity_type, said.c.name)
        .where(said.c.entity_id == stand.c.entity_id, e.entity_id == stand.c.primary_id, e.namespace_id == NAMESPACE)
        .distinct()
        .cte("names")
    )
    young, old = names.alias("young").c, names.alias("old").c
    pairs = (
        select(young.primary_id.label("merged"), old.primary_id, old.created_at, old.content_seq)
        .where(
            young.entity_type == old.entity_type,
            young.name == old.name,
            (young.created_at > old.created_at)
            | ((young.created_at == old.created_at) & (young.content_seq > old.content_seq)),
        )
        .distinct()
        .cte("pairs")
    )
    p, merged = pairs.c, select(pairs.alias("to_merge").c.merged)
    place = func.row_number().over(partition_by=p.merged, order_by=(p.created_at, p.content_seq)).label("place")
    chosen = select(p.merged, p.primary_id, place).where(p.primary_id.notin_(merged)).subquery().c
    return select(chosen.merged, chosen.primary_id).where(chosen.place == 1).order_by(chosen.merged)
