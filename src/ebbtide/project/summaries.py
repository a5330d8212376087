"""What summaries were made from: erasing that erases them too, and a held one keeps it from expiring by erasure.

A summary is any memory of type SUMMARY; what it was made from is its evidence, events and memories, and by way of a
summary of summaries what those were made from. It is a copy, not a use: it keeps no evidence from being erased, and
does not take its evidence along.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, BindParameter, ColumnElement, Select, and_, bindparam, select, union_all

from ebbtide.model.words import ObjectType, OpType
from ebbtide.project.passes import NAMESPACE
from ebbtide.store.tables import event_log, event_state, evidence_links, memory_objects, memory_state

SINCE: BindParameter[int] = bindparam("erased_since_seq", type_=BigInteger)
"""The first seq of the transaction whose erasures count."""


def made_from_erased() -> ColumnElement[bool]:
    """Whether a memory, a row of `memory_state`, is a summary of something erased since `SINCE`, and not erased yet."""
    s = memory_state.c
    link, summary = evidence_links.c, _summaries()
    derived = (
        select(link.object_id)
        .join_from(evidence_links, summary, link.object_id == summary.c.object_id)
        .where(link.namespace_id == NAMESPACE, link.evidence_id.in_(_erased()))
        .cte("made_from_erased", recursive=True)
    )
    derived = derived.union(
        select(link.object_id)
        .join_from(derived, evidence_links, link.evidence_id == derived.c.object_id)
        .join(summary, link.object_id == summary.c.object_id)
        .where(link.namespace_id == NAMESPACE)
    )
    return and_(s.namespace_id == NAMESPACE, s.erased_at.is_(None), s.object_id.in_(select(derived.c.object_id)))


def kept_by_hold(id_: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a held summary was made from the event or memory of this id."""
    link, summary, s = evidence_links.c, _summaries(), memory_state.c
    kept = (
        select(link.evidence_id)
        .join_from(evidence_links, summary, link.object_id == summary.c.object_id)
        .join(memory_state, and_(link.namespace_id == s.namespace_id, link.object_id == s.object_id))
        .where(link.namespace_id == NAMESPACE, s.held, s.erased_at.is_(None))
        .cte("kept_by_hold", recursive=True)
    )
    kept = kept.union(
        select(link.evidence_id)
        .join_from(kept, summary, kept.c.evidence_id == summary.c.object_id)
        .join(evidence_links, link.object_id == summary.c.object_id)
        .where(link.namespace_id == NAMESPACE)
    )
    return id_.in_(select(kept.c.evidence_id))


def _summaries() -> Any:
    return (
        select(memory_objects.c.object_id)
        .where(memory_objects.c.namespace_id == NAMESPACE, memory_objects.c.object_type == ObjectType.SUMMARY.value)
        .subquery("summary")
    )


def _erased() -> Select[Any]:
    """The ids of events and memories erased since `SINCE`."""
    log = event_log.c
    written = and_(log.namespace_id == NAMESPACE, log.seq >= SINCE, log.op_type == OpType.TOMBSTONE.value)
    arms = []
    for table, key in ((memory_state, memory_state.c.object_id), (event_state, event_state.c.event_id)):
        mine = and_(log.namespace_id == table.c.namespace_id, log.stream_id == key)
        of_table = select(key.label("id")).join_from(event_log, table, mine)
        arms.append(of_table.where(written, table.c.erased_at.isnot(None)))
    found = union_all(*arms).subquery("erased")
    return select(found.c.id)
