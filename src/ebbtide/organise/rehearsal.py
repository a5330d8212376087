"""What a run would write, read from the log of a transaction that is then rolled back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, and_, func, or_, select

from ebbtide.model.words import StreamType
from ebbtide.organise.ledger import Run
from ebbtide.store.tables import event_log, memory_objects, namespaces


@dataclass(frozen=True, slots=True)
class Decision:
    """An entry that would be written about a memory or an event: `lifecycle_state` and scores are those it leaves.

    `rule` is the rule, or the reason, that it names.
    """

    namespace_id: str
    seq: int
    op_type: str
    id: UUID
    ref: str | None
    rule: str | None
    effective_at: int
    lifecycle_state: str | None
    salience: float | None
    confidence: float | None
    salience_delta: float | None
    confidence_delta: float | None
    hash: bytes


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The runs that would be, how many decisions they would write, and the first of them in order of the log."""

    runs: list[Run]
    total: int
    decisions: list[Decision]


def heads(connection: Connection) -> dict[str, int]:
    """Where each namespace's log ends."""
    n = namespaces.c
    return {row.namespace_id: row.last_seq for row in connection.execute(select(n.namespace_id, n.last_seq))}


def decisions(connection: Connection, before: dict[str, int], runs: Sequence[Run], limit: int) -> Rehearsal:
    """What was written behind the heads that logs had before, in namespaces that runs were in."""
    log, o = event_log.c, memory_objects.c
    touched = sorted({run.namespace_id for run in runs})
    if not touched:
        return Rehearsal(list(runs), 0, [])
    written = and_(
        or_(*(and_(log.namespace_id == name, log.seq > before[name]) for name in touched)),
        log.stream_type != StreamType.NAMESPACE.value,
    )
    total = connection.execute(select(func.count()).select_from(event_log).where(written)).scalar_one()
    query = (
        select(event_log, o.ref)
        .outerjoin(memory_objects, and_(o.namespace_id == log.namespace_id, o.object_id == log.stream_id))
        .where(written)
        .order_by(log.namespace_id, log.seq)
        .limit(limit)
    )
    return Rehearsal(list(runs), total, [_decision(row) for row in connection.execute(query).mappings()])


def _decision(row: Any) -> Decision:
    said = json.loads(row["payload"])
    triggered = said.get("thresholds_triggered") or [None]
    columns = {name: row[name] for name in Decision.__slots__ if name not in ("id", "rule")}
    return Decision(**columns, id=row["stream_id"], rule=said.get("reason") or triggered[0])
