"""The audit view of the whole log by its plain columns: no JSON and no other table is read for it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

from sqlalchemy import BigInteger, Double, LargeBinary, Select, SmallInteger, Text, Uuid, case, func, literal, select

from ebbtide.audit.columns import entry, log, policy
from ebbtide.model.words import StreamType
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log


def views(db: Database) -> Mapping[str, Select[Any]]:
    """The views by name."""
    return {"entries": _entries(db)}


def _entries(db: Database) -> Select[Any]:
    return select(
        *entry(db),
        db.day(log.recorded_at).label("recorded_day"),
        db.day(log.effective_at).label("effective_day"),
        log.op_type,
        log.stream_type,
        case((log.stream_type == StreamType.OBJECT.value, log.stream_id)).label("object_id"),
        log.version,
        log.fact_version,
        log.lifecycle_state,
        log.salience,
        log.confidence,
        log.salience_delta,
        log.confidence_delta,
        log.decay_profile,
        log.policy_id,
        log.policy_version,
        policy(log),
        # The same on both databases: what a value takes on disk is each one's own.
        reduce(operator.add, (_octets(db, column) for column in event_log.columns)).label("bytes"),
    )


_WIDTHS = {Uuid: 16, BigInteger: 8, Double: 8, SmallInteger: 2, LargeBinary: 32}
"""Bytes of a value by its type; what is binary in the log is SHA-256."""


def _octets(db: Database, column: Any) -> Any:
    if isinstance(column.type, Text):
        return func.coalesce(db.octets(column), 0)
    width = _WIDTHS[type(column.type)]
    return case((column.isnot(None), width), else_=0) if column.nullable else literal(width, BigInteger)
