"""Exposures: the instants at which a memory's use was confirmed or missed, as whole columns.

A REINFORCE is a recall, a PENALTY a miss, whatever its signal: UNUSED changes no score, and yet was a miss.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, Connection, Double, Integer, Text, and_, case, cast, func, literal, select

from ebbtide.decay.columns import NONE, taken
from ebbtide.model.instant import DAY
from ebbtide.model.words import Clock, OpType, StreamType
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_objects, memory_state

BATCH = 100_000
_READ = (
    OpType.ACCESS,
    OpType.REINFORCE,
    OpType.PENALTY,
    OpType.RESTORE,
    OpType.PIN,
    OpType.SUPPRESS,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What happened to objects, one element a fact, in order of object and log.

    `kind` is by what a policy picks an object's profile: epistemic type, condition and its own profile, joined by "/".
    `effect` is the effective γ or δ of a signal: what has none changes nothing. `stops` marks what stops an object's
    time. Instants are µs.
    """

    object: Any
    profile: Any
    kind: Any
    created_at: Any
    op: Any
    at: Any
    effect: Any
    stops: Any


@dataclass(frozen=True, slots=True)
class Exposures:
    """Signals in order of object and log, one element each; ages are in days.

    `since` is the age by each clock of a profile, `idle` the time since the signal before, or since the object began;
    `since_review` that since the last signal that changed anything, which `reviews` says of this one. `reinforcements`
    and `accesses` count the uses before it. Where `stood` is set, the object's time had been stopped, so that
    its age is not known from these facts.
    """

    object: Any
    profile: Any
    kind: Any
    recalled: Any
    reviews: Any
    since_created: Any
    since_reinforced: Any
    since_accessed: Any
    since_review: Any
    idle: Any
    reinforcements: Any
    accesses: Any
    stood: Any

    def __len__(self) -> int:
        return len(self.object)

    def age(self, clock: Clock) -> Any:
        """The age by a profile's clock."""
        return {
            Clock.CREATED: self.since_created,
            Clock.LAST_REINFORCED: self.since_reinforced,
            Clock.LAST_ACCESSED: self.since_accessed,
        }[clock]

    def at(self, places: Any) -> Exposures:
        """Some of them."""
        return taken(self, places)


def read(db: Database, connection: Connection, namespace: str, until: int, known: int) -> Exposures:
    """The exposures of a namespace's objects with effective_at up to `until`, as known at an instant (µs)."""
    log, s, o = event_log.c, memory_state.c, memory_objects.c
    said = db.json(log.payload)
    same = [log.namespace_id == s.namespace_id, log.stream_id == s.object_id]
    freezes = and_(log.op_type == OpType.SUPPRESS.value, db.member(said, "freeze") == "true")
    effect = case(
        (log.op_type == OpType.REINFORCE.value, cast(db.number(db.member(said, "gamma_effective")), Double)),
        (log.op_type == OpType.PENALTY.value, cast(db.number(db.member(said, "delta")), Double)),
        else_=literal(0.0, Double),
    )
    query = (
        select(
            func.dense_rank(type_=BigInteger).over(order_by=log.stream_id).label("object"),
            s.decay_profile.label("profile"),
            func.concat_ws(
                "/", o.epistemic_type, func.coalesce(o.condition, ""), func.coalesce(o.profile_override, ""), type_=Text
            ).label("kind"),
            o.created_at,
            log.op_type.label("op"),
            log.effective_at.label("at"),
            effect.label("effect"),
            cast(case((freezes, 1), (log.op_type == OpType.PIN.value, 1), else_=0), Integer).label("stops"),
        )
        .join_from(event_log, memory_state, and_(*same))
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .where(
            log.namespace_id == namespace,
            log.stream_type == StreamType.OBJECT.value,
            log.op_type.in_([op.value for op in _READ]),
            log.effective_at <= until,
            log.recorded_at <= known,
        )
        .order_by(log.stream_id, log.seq)
    )
    batches = list(db.arrow(connection, query, BATCH))
    if not batches:
        return exposures(Facts(*(np.empty(0, dtype=np.int64) for _ in fields(Facts))))
    table = pa.Table.from_batches(batches)
    return exposures(Facts(*(table[f.name].to_numpy() for f in fields(Facts))))


def exposures(facts: Facts) -> Exposures:
    """The signals among the facts, each with how long ago what came before it was."""
    effective = np.asarray(facts.effect, dtype=np.float64) > 0
    recall, miss = facts.op == OpType.REINFORCE.value, facts.op == OpType.PENALTY.value
    access, stops = facts.op == OpType.ACCESS.value, np.asarray(facts.stops, dtype=bool)
    before = _Before(np.asarray(facts.object), np.asarray(facts.at, dtype=np.int64))
    review = (recall | miss) & effective
    begun = np.maximum(np.asarray(facts.created_at, dtype=np.int64), before.restored(facts.op == OpType.RESTORE.value))

    def since(*marks: Any, start: Any = begun) -> Any:
        return (before.at - np.maximum.reduce([start, *(before.last(mark) for mark in marks)])) / float(DAY)

    found = Exposures(
        object=before.object,
        profile=facts.profile,
        kind=facts.kind,
        recalled=recall,
        reviews=review,
        since_created=since(),
        since_reinforced=since(recall & effective),
        since_accessed=since(access | (recall & effective)),
        since_review=since(review),
        idle=since(recall | miss, start=facts.created_at),
        reinforcements=before.count(recall & effective),
        accesses=before.count(access),
        stood=before.count(stops) > 0,
    )
    return found.at(np.flatnonzero(recall | miss))


class _Before:
    """What came before each fact of its object."""

    def __init__(self, of: Any, at: Any) -> None:
        self.object, self.at = of, at
        self._rows = np.arange(len(of))
        self._first = np.searchsorted(of, of, side="left")

    def last(self, mark: Any) -> Any:
        """When what is marked last happened; `NONE` where it did not."""
        rows = self._last_row(mark)
        return np.where(rows >= 0, self.at[rows], NONE)

    def count(self, mark: Any) -> Any:
        """How often what is marked happened."""
        sums = np.concatenate([[0], np.cumsum(mark)])
        return sums[self._rows] - sums[self._first]

    def restored(self, mark: Any) -> Any:
        """When an object was last restored, before the instant itself: a signal that asks for it comes right behind."""
        rows = self._last_row(mark)
        at_once = (rows >= 0) & (self.at[rows] == self.at)
        rows = np.where(at_once, rows[rows], rows)
        return np.where(rows >= 0, self.at[rows], NONE)

    def _last_row(self, mark: Any) -> Any:
        found = np.maximum.accumulate(np.where(mark, self._rows, -1)) if len(mark) else self._rows
        found = np.concatenate([[-1], found[:-1]]).astype(np.int64)[: len(mark)]
        return np.where(found >= self._first, found, -1)
