"""What a held slot lists: what was due when the guard judged it, as far as nothing has happened to it since."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, BindParameter, ColumnElement, and_, bindparam, or_, select

from ebbtide.model.state import BITS
from ebbtide.model.words import OpType, StreamType
from ebbtide.project.passes import NAMESPACE
from ebbtide.store.tables import event_log

JUDGED_AT: BindParameter[int] = bindparam("guard_seq", type_=BigInteger)
"""The last seq of the namespace's log when the guard judged."""


def touched(log: Any) -> ColumnElement[bool]:
    """Entries since by which an object is not what it was: its facts, its transitions, and what began a segment.

    `log` has the columns of `event_log`.
    """
    began = and_(log.carries.op("&")(BITS["due"]) != 0, log.op_type != OpType.DECAY_WARNING.value)
    return and_(
        log.namespace_id == NAMESPACE,
        log.seq > JUDGED_AT,
        log.stream_type == StreamType.OBJECT.value,
        or_(log.fact_version.isnot(None), began),
    )


def untouched(object_id: Any) -> ColumnElement[bool]:
    """Whether nothing happened to an object since the guard judged: neither was it made since."""
    log = event_log.alias("since").c
    return ~select(log.seq).where(touched(log), log.stream_id == object_id).exists()
