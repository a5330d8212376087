"""The fold in SQL: the state that a range of the log leaves, for a whole namespace in one statement.

Last writer wins, per group of columns: one scan finds the last version that carries each group, a second one picks
those entries up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    Text,
    Uuid,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from ebbtide.model.state import BITS, GROUPS
from ebbtide.model.words import OpType, StreamType
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_objects, memory_state

_TYPES = {column.name: column.type for table in (memory_objects, memory_state) for column in table.columns}


PATHS = tuple((group, name) for group, names in GROUPS.items() for name in names)
"""Where each column stands in an entry's `after`."""


def until(as_of: int | None, known_at: int | None) -> ColumnElement[bool] | None:
    """Entries effective by `as_of` and recorded by `known_at`; None where neither bounds anything."""
    bounds = [
        column <= at
        for column, at in ((event_log.c.effective_at, as_of), (event_log.c.recorded_at, known_at))
        if at is not None
    ]
    return and_(*bounds) if bounds else None


def refold(db: Database, names: Sequence[str], which: ColumnElement[bool] | None = None) -> Select[Any]:
    """The state of every object of some namespaces after those of their entries that `which` lets through.

    The columns are those of `MemoryState`.
    """
    log = event_log.c
    mine = [db.among(log.namespace_id, names), log.stream_type == StreamType.OBJECT.value]
    # A stream's id is its own within its namespace; of a single one it says enough, and groups quicker.
    key = ("stream_id",) if len(names) == 1 else ("namespace_id", "stream_id")
    if which is not None:
        mine.append(which)

    def last(condition: Any) -> ColumnElement[int]:
        return func.max(case((condition, log.version)))

    marks = {
        "any": func.max(log.version),
        "fact": last(log.fact_version.isnot(None)),
        "begun": last(or_(log.fact_version.isnot(None), log.op_type == OpType.CENTRALITY_BOOST.value)),
        "state": last(log.lifecycle_state.isnot(None)),
        "score": last(log.salience.isnot(None)),
        "decay": last(log.op_type == OpType.DECAY_APPLIED.value),
        **{group: last(log.carries.op("&")(bit) != 0) for group, bit in BITS.items()},
    }
    heads = (
        select(*(log[name] for name in key), *(mark.label(f"at_{name}") for name, mark in marks.items()))
        .where(*mine)
        .group_by(*(log[name] for name in key))
        .subquery()
    )

    # A document is read before the aggregate: to carry whole documents through it takes memory by the gigabyte.
    entries = db.fence(
        select(
            *(log[name] for name in key),
            log.version,
            log.hash,
            log.fact_version,
            log.effective_at,
            log.lifecycle_state,
            log.salience,
            log.confidence,
            db.document(log.after, PATHS).label("document"),
            *(heads.c[f"at_{mark}"] for mark in marks),
        )
        .join_from(event_log, heads, and_(*(log[name] == heads.c[name] for name in key)))
        .where(*mine, or_(*(log.version == heads.c[f"at_{mark}"] for mark in marks)))
    ).c

    def picked(mark: str, value: Any) -> Any:
        return func.max(case((entries.version == entries[f"at_{mark}"], value)), type_=value.type)

    chosen = db.fence(
        select(
            *(entries[name].label("object_id" if name == "stream_id" else name) for name in key),
            picked("any", entries.version).label("version"),
            picked("any", db.hex(entries.hash)).label("head"),
            picked("fact", entries.fact_version).label("fact_version"),
            picked("begun", entries.effective_at).label("fact_at"),
            picked("state", entries.lifecycle_state).label("lifecycle_state"),
            picked("score", entries.salience).label("salience"),
            picked("score", entries.confidence).label("confidence"),
            picked("decay", entries.effective_at).label("decayed_at"),
            *(
                picked(group, db.part(entries.document, PATHS, (group, name))).label(name)
                for group, names in GROUPS.items()
                for name in names
            ),
        ).group_by(*(entries[name] for name in key))
    ).c
    namespace = literal(names[0], Text).label("namespace_id") if len(names) == 1 else chosen.namespace_id
    plain = ("object_id", "version", "fact_version", "fact_at", "lifecycle_state", "salience", "confidence")
    return select(
        namespace,
        *(chosen[name] for name in (*plain, "decayed_at")),
        db.unhex(chosen.head).label("head_hash"),
        *(_read(chosen[name], name).label(name) for names in GROUPS.values() for name in names),
    )


def _read(value: ColumnElement[str], name: str) -> ColumnElement[Any]:
    kind = _TYPES[name]
    if isinstance(kind, Text):
        return value
    if isinstance(kind, Boolean):
        return value == "true"
    return cast(value, Uuid if isinstance(kind, Uuid) else type(kind))
