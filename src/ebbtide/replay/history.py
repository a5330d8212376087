"""The facts of a namespace's objects as whole columns, in log order: what a recomputation works on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, Connection, Double, Select, Text, and_, case, cast, func, or_, select

from ebbtide.decay.columns import NONE
from ebbtide.model.state import GROUPS, MemoryState
from ebbtide.model.words import OpType, StreamType, TombstoneReason
from ebbtide.project.scope import Scope
from ebbtide.replay.columns import table_of
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_objects, memory_state

RULED = "RULED_TOMBSTONE"
"""A tombstone that a ttl's rule wrote without erasing: no fact, but recomputed."""

ERASED = "ERASED"
"""A tombstone that erased, whoever asked: what is erased stays so."""

_FACTS = (
    OpType.ASSERT,
    OpType.ACCESS,
    OpType.REINFORCE,
    OpType.PENALTY,
    OpType.PIN,
    OpType.UNPIN,
    OpType.HOLD,
    OpType.RELEASE,
    OpType.SUPPRESS,
    OpType.UNSUPPRESS,
    OpType.SUPERSEDE,
    OpType.ARCHIVE,
    OpType.RESTORE,
    OpType.DEPRECATE,
    OpType.CONDITION_SET,
    OpType.EPISTEMIC_TRANSITION,
    OpType.POLICY_ASSIGNED,
    OpType.CENTRALITY_BOOST,
    OpType.TOMBSTONE,
    OpType.CORRECTED,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts in order of object and seq, one element each.

    `place` is the object's position among the ids, `at` when the fact took effect (µs) or, where it came late, when it
    says it did; `word` is the signal, condition, type or reason it names; `nth` counts the same signals of one actor.
    """

    place: Any
    seq: Any
    op: Any
    at: Any
    policy: Any
    word: Any
    nth: Any
    dependent: Any
    session: Any
    until: Any
    baseline: Any
    confidence: Any
    kind: Any
    condition: Any
    override: Any


@dataclass(frozen=True, slots=True)
class History:
    """The objects of a range by id, their facts, and their state as it is."""

    ids: Any
    facts: Facts
    live: Any
    refs: Any


def read(db: Database, connection: Connection, scope: Scope) -> History:
    """Reads the facts and states of a range of objects."""
    ids, refs, live = read_states(db, connection, scope)
    known = table_of(db, connection, _facts(db, scope))
    place = np.searchsorted(ids.astype(str), _words(known, "stream_id").astype(str)) if len(ids) else np.empty(0, int)
    return History(
        ids=ids,
        facts=Facts(
            place=place,
            **{f.name: _column(known, f.name) for f in fields(Facts) if f.name != "place"},
        ),
        live=live,
        refs=refs,
    )


def read_states(db: Database, connection: Connection, scope: Scope, *which: Any) -> tuple[Any, Any, Any]:
    """Ids, refs and states of a range of objects as they are, in order of the ids; of those that meet conditions.

    What no recomputation needs is left out of the states.
    """
    states = table_of(db, connection, _states(scope).where(*which))
    made: dict[str, Any] = dict.fromkeys(f.name for f in fields(MemoryState))
    live: Any = MemoryState(**made | {name: _column(states, name) for name in states.column_names})
    return _words(states, "object_id"), _words(states, "ref"), live


def _words(table: pa.Table, name: str) -> Any:
    return table[name].to_numpy()


def _column(table: pa.Table, name: str) -> Any:
    column = table[name]
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).fill_null(NONE).to_numpy()
    if pa.types.is_floating(column.type):
        return column.fill_null(math.nan).to_numpy()
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy()
    return column.to_numpy()


def _within(scope: Scope, column: Any) -> list[Any]:
    found = []
    if scope.after is not None:
        found.append(column > scope.after)
    if scope.to is not None:
        found.append(column <= scope.to)
    return found


_TEXTS = ("evidence", "subject")
_OBJECT = tuple(
    c for c in memory_objects.columns if c.name in GROUPS["object"] and c.name not in ("evidence", "subject")
)


def _states(scope: Scope) -> Select[Any]:
    s, o = memory_state, memory_objects
    return (
        select(*(c for c in s.columns if c.name not in ("namespace_id", "head_hash")), *_OBJECT)
        .join_from(s, o, and_(s.c.namespace_id == o.c.namespace_id, s.c.object_id == o.c.object_id))
        .where(s.c.namespace_id == scope.namespace, *_within(scope, s.c.object_id))
        .order_by(s.c.object_id)
    )


def _facts(db: Database, scope: Scope) -> Select[Any]:
    """One row a fact. What rules did is none, and is worked out anew: but for what they erased."""
    log = event_log.c
    e = db.fence(
        select(
            log.stream_id,
            log.seq,
            log.op_type,
            log.effective_at,
            log.actor_id,
            log.policy_id,
            log.policy_version,
            db.json(log.payload).label("said"),
            db.json(case((_BEGINS, log.after), else_=None)).label("left"),
        ).where(
            log.namespace_id == scope.namespace,
            log.stream_type == StreamType.OBJECT.value,
            log.op_type.in_([op.value for op in _FACTS]),
            *_within(scope, log.stream_id),
        )
    ).c
    said = e.said
    signal = db.member(said, "signal_type")
    nth = func.row_number(type_=BigInteger).over(
        partition_by=(e.stream_id, e.op_type, e.actor_id, signal), order_by=e.seq
    )
    ruled = and_(
        e.op_type == OpType.TOMBSTONE.value,
        db.member(said, "reason") == TombstoneReason.RETENTION.value,
        db.member(said, "record", "after", "erased_at").is_(None),
    )
    erased = _is(e, OpType.TOMBSTONE) & _erased(db, e)
    kind = case((ruled, RULED), (erased, ERASED), else_=e.op_type)
    stated = func.coalesce(db.micros(db.member(said, "stated_at")), e.effective_at, type_=BigInteger)
    found = db.fence(
        select(
            e.stream_id,
            e.seq,
            cast(kind, Text).label("op"),
            case((_is(e, OpType.ASSERT), e.effective_at), else_=stated).label("at"),
            e.policy_id.concat("@").concat(e.policy_version).label("policy"),
            func.coalesce(
                signal, *(db.member(said, name) for name in ("condition", "to_type", "reason")), type_=Text
            ).label("word"),
            nth.label("nth"),
            (func.coalesce(db.member(said, "correlation_discount_applied"), "false") == "true").label("dependent"),
            db.member(said, "session_id").label("session"),
            db.micros(db.member(said, "expires_at")).label("until"),
            (func.coalesce(db.member(said, "freeze"), "false") == "true").label("freezes"),
            db.member(said, "policy_ref").label("policy_ref"),
            cast(db.number(db.member(e.left, "segment", "baseline")), Double).label("baseline"),
            cast(
                db.number(
                    case(
                        (_is(e, OpType.CENTRALITY_BOOST), db.member(e.left, "segment", "centrality")),
                        else_=db.member(e.left, "segment", "confidence_base"),
                    )
                ),
                Double,
            ).label("confidence"),
            db.member(e.left, "object", "epistemic_type").label("kind"),
            db.member(e.left, "object", "condition").label("condition"),
            db.member(e.left, "object", "profile_override").label("override"),
        )
    ).c
    by_rule = and_(found.op.in_([OpType.ARCHIVE.value, OpType.DEPRECATE.value]), found.policy_ref.isnot(None))
    idle = and_(found.op == OpType.SUPPRESS.value, ~found.freezes)
    names = ("stream_id", "seq", "op", "at", "policy", "word", "nth", "dependent", "session", "until")
    begun = ("baseline", "confidence", "kind", "condition", "override")
    return (
        select(*(found[name] for name in (*names, *begun)))
        .where(~or_(by_rule, idle))
        .order_by(found.stream_id, found.seq)
    )


_BEGINS = event_log.c.op_type.in_([OpType.ASSERT.value, OpType.CENTRALITY_BOOST.value])


def _is(e: Any, op: OpType) -> Any:
    return e.op_type == op.value


def _erased(db: Database, e: Any) -> Any:
    return db.member(e.said, "record", "after", "erased_at").isnot(None)
