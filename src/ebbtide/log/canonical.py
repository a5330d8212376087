"""The canonical form of an entry and its hash, in Python and in SQL, to the same byte.

hash = SHA-256(prev_hash ‖ canonical). canonical is the UTF-8 of every column of `event_log` but seq, prev_hash and
hash, in the order of the table, joined by U+001F, null as U+001E: instants and counts as decimal integers, scores as
integer 10⁻⁹, ids as lower-case UUIDs, bytes as lower-case hexadecimal, payload and after to the letter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Double, func, literal
from sqlalchemy import Text as SqlText

from ebbtide.model.entry import Entry
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log

NONCE = 16
"""Bytes of a nonce, before a content and its hash."""
SEPARATOR = "\x1f"
NULL = "\x1e"
COLUMNS: tuple[str, ...] = tuple(c.name for c in event_log.columns if c.name not in ("seq", "prev_hash", "hash"))
_SCORES = frozenset(c.name for c in event_log.columns if isinstance(c.type, Double))


def _text(column: str, value: Any) -> str:
    if value is None:
        return NULL
    if column in _SCORES:
        return str(math.floor(value * 1e9 + 0.5))
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def canonical(entry: Entry) -> bytes:
    """The bytes that an entry's hash is taken over, after the previous hash of its stream."""
    return canonical_text({column: getattr(entry, column) for column in COLUMNS})


def canonical_text(values: Mapping[str, Any]) -> bytes:
    """`canonical` of an entry by column, whose ids and bytes may be texts already."""
    return SEPARATOR.join(_text(column, values[column]) for column in COLUMNS).encode()


def hash_of(entry: Entry) -> bytes:
    """SHA-256(prev_hash ‖ canonical), 32 bytes."""
    return hashlib.sha256(entry.prev_hash + canonical(entry)).digest()


def sql_hash(db: Database, prev_hash: Any, values: Mapping[str, Any]) -> ColumnElement[bytes]:
    """`hash_of` over SQL expressions by column; a column that is not given is null."""
    texts = [_sql_text(db, values[column]) if column in values else literal(NULL) for column in COLUMNS]
    return db.sha256(prev_hash.op("||")(db.utf8(func.concat_ws(SEPARATOR, *texts, type_=SqlText))))


def _sql_text(db: Database, value: Any) -> ColumnElement[str]:
    column = value if isinstance(value, ColumnElement) else literal(str(value), SqlText)
    return func.coalesce(db.as_text(column), NULL, type_=SqlText)
