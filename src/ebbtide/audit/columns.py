"""Columns that the audit views have in common."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_

from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log, memory_objects

log = event_log.c


def times(db: Database, columns: Any, *names: str) -> list[Any]:
    """Columns in µs as TIMESTAMPTZ, under their names."""
    return [db.timestamp(columns[name]).label(name) for name in names]


def numbers(db: Database, document: Any, *keys: str) -> list[Any]:
    """Numbers of a JSON document under their keys."""
    return [db.number(db.member(document, key)).label(key) for key in keys]


def policy(columns: Any) -> Any:
    """`id@version`, null where there is none."""
    return (columns.policy_id + "@" + columns.policy_version).label("policy")


def entry(db: Database, columns: Any = log) -> list[Any]:
    """What every entry has: its place, its id, its two times and who asked."""
    return [
        columns.namespace_id,
        columns.seq,
        columns.id,
        *times(db, columns, "recorded_at", "effective_at"),
        columns.actor_id,
        columns.actor_type,
    ]


def of_object(db: Database, columns: Any = log) -> list[Any]:
    """The same of an object's entry, with the object's id and ref; to be read from `with_ref`."""
    return [*entry(db, columns), columns.stream_id.label("object_id"), memory_objects.c.ref, columns.version]


def with_ref(entries: Any = event_log) -> Any:
    """Entries, each beside the object in whose stream it is; PostgreSQL joins only where a column of it is wanted."""
    return entries.join(memory_objects, named(entries.c, entries.c.stream_id), isouter=True)


def with_content(entries: Any = event_log) -> Any:
    """Entries of the log, each beside what was written with it."""
    same = and_(log.namespace_id == contents.c.namespace_id, log.seq == contents.c.seq)
    return entries.join(contents, same, isouter=True)


def named(columns: Any, object_id: Any, objects: Any = memory_objects) -> Any:
    """The condition under which a row of an object is that of an id."""
    return and_(objects.c.namespace_id == columns.namespace_id, objects.c.object_id == object_id)
