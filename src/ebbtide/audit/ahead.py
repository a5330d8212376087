"""What comes next in a namespace, and when its log was last verified."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import BigInteger, Connection, and_, func, literal, select

from ebbtide.model import instant
from ebbtide.model.words import LifecycleState, OpType, StreamType
from ebbtide.store.tables import event_log, memory_objects, memory_state


class Due(BaseModel):
    """A memory whose next rule strikes at an instant, if nothing touches it before."""

    id: UUID
    ref: str | None
    due_at: datetime
    due_rule: str
    decay_profile: str
    salience: float


class DueBy(BaseModel):
    """How many memories meet a rule up to an instant."""

    rule: str
    by: datetime
    memories: int


class Ahead(BaseModel):
    """The next rules: the first of them, and how many there are up to each of some instants."""

    next: list[Due]
    counts: list[DueBy]


class Check(BaseModel):
    """What a verification of the log found, as it was recorded there."""

    at: datetime
    seq: int
    ok: bool
    entries: int


def ahead(connection: Connection, namespace: str, instants: Sequence[int], limit: int) -> Ahead:
    """What is due next of the ACTIVE memories of a namespace, in order of time."""
    s, o = memory_state.c, memory_objects.c
    waits = [
        s.namespace_id == namespace,
        s.lifecycle_state == LifecycleState.ACTIVE.value,
        s.due_at.isnot(None),
    ]
    same = and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id)
    first = (
        select(s.object_id, o.ref, s.due_at, s.due_rule, s.decay_profile, s.salience)
        .join_from(memory_state, memory_objects, same)
        .where(*waits)
        .order_by(s.due_at, s.object_id)
        .limit(limit)
    )
    up_to = [func.count().filter(s.due_at <= literal(at, BigInteger)).label(f"by_{at}") for at in instants]
    counts = select(s.due_rule, *up_to).where(*waits).group_by(s.due_rule).order_by(s.due_rule)
    return Ahead(
        next=[
            Due(
                id=row.object_id,
                ref=row.ref,
                due_at=instant.to_datetime(row.due_at),
                due_rule=row.due_rule,
                decay_profile=row.decay_profile,
                salience=row.salience,
            )
            for row in connection.execute(first)
        ],
        counts=[
            DueBy(rule=row.due_rule, by=instant.to_datetime(at), memories=row._mapping[f"by_{at}"])
            for row in connection.execute(counts)
            for at in instants
        ],
    )


def last_check(connection: Connection, namespace: str) -> Check | None:
    """The last verification of a namespace's log that was recorded in it; None where there is none."""
    log = event_log.c
    query = (
        select(log.seq, log.recorded_at, log.payload)
        .where(
            log.namespace_id == namespace,
            log.stream_type == StreamType.NAMESPACE.value,
            log.op_type == OpType.INTEGRITY_CHECK.value,
        )
        .order_by(log.seq.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    said = json.loads(row.payload)
    return Check(at=instant.to_datetime(row.recorded_at), seq=row.seq, ok=said["ok"], entries=said["entries"])
