"""Which run executed a rule: the first chunk of its task, behind one place of the log, that covers the object and was
evaluated at or after the rule's instant. ORGANISER_RUN closes each chunk and says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import BigInteger, Connection, Text, case, cast, func, select

from ebbtide.model.identity import id_of_namespace
from ebbtide.model.words import OpType, Rule, Ruling, RunStatus, Task
from ebbtide.replay.columns import table_of
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log

NEVER = np.iinfo(np.int64).max
"""Behind every place of the log."""
_ALL = "~"
"""Behind every id: how far a run's last chunk goes."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one task, in order: as of when, where their last chunk stands, and each chunk's place and range.

    `first` to `first + chunks` are a run's chunks in `seq`; `to` is up to which position among the objects' ids a
    chunk goes. `newest` is the newest as-of up to a run: one that was approved comes late. It executes only what has
    been as it is since the place `listed`, where the guard judged it; of other runs that is `NEVER`.
    """

    as_of: Any
    newest: Any
    listed: Any
    last: Any
    first: Any
    seq: Any
    to: Any

    def doubled(self) -> Runs:
        """The same with places that are twice as far apart."""
        listed = np.where(self.listed == NEVER, NEVER, 2 * self.listed)
        return replace(self, listed=listed, last=2 * self.last, seq=2 * self.seq)

    def first_chunk(self, behind: Any, at: Any, place: Any, fact: Any) -> Any:
        """The place of the chunk that executed a rule due `at`, for objects by position; `NEVER` where none did.

        It stands behind the place `behind`; `fact` is where the object's last fact stands.
        """
        found = np.full(len(at), NEVER)
        if not len(self.as_of):
            return found
        run = np.maximum(
            np.searchsorted(self.newest, at, side="left"), np.searchsorted(self.last, behind, side="right")
        )
        rows = np.flatnonzero(run < len(self.as_of))
        while rows.size:
            seq = self._chunk_of(run[rows], place[rows])
            covers = (self.as_of[run[rows]] >= at[rows]) & (self.listed[run[rows]] >= fact[rows])
            hit = (seq > behind[rows]) & covers
            found[rows[hit]] = seq[hit]
            rows = rows[~hit]
            run[rows] += 1
            rows = rows[run[rows] < len(self.as_of)]
        return found

    def _chunk_of(self, run: Any, place: Any) -> Any:
        """The place of the chunk of a run that covers an object; −1 where the run did not come to it."""
        ends = np.append(self.first[1:], len(self.seq))[run]
        chunk = self.first[run]
        # Most runs are one chunk; of the others, as many steps as they have chunks.
        while True:
            short = (chunk < ends) & (self.to[np.minimum(chunk, len(self.to) - 1)] <= place)
            if not short.any():
                return np.where(chunk < ends, self.seq[np.minimum(chunk, len(self.seq) - 1)], -1)
            chunk = chunk + short


def runs_of(db: Database, connection: Connection, namespace: str, ids: Any) -> dict[Task | Rule, Runs]:
    """The runs in a namespace by what they execute: those of lifecycle and retention that the guard did not hold; and
    for the warning those of lifecycle that it held too, which only warned.
    """
    found = _chunks(db, connection, namespace)
    words = ids.astype("U36")
    lifecycle, retention = (pc.equal(found["task"], task.value) for task in (Task.LIFECYCLE, Task.RETENTION))
    free = pc.not_equal(found["status"], RunStatus.HELD.value)
    return {
        Task.LIFECYCLE: _runs(found.filter(pc.and_(lifecycle, free)), words),
        Task.RETENTION: _runs(found.filter(pc.and_(retention, free)), words),
        Rule.WARNING: _runs(found.filter(lifecycle), words),
    }


def _chunks(db: Database, connection: Connection, namespace: str) -> pa.Table:
    """What ORGANISER_RUN said of each chunk of the two tasks, in log order."""
    log = event_log.c
    e = db.fence(
        select(log.seq, db.json(log.payload).label("said")).where(
            log.namespace_id == namespace,
            # By its own stream, which an index knows.
            log.stream_id == id_of_namespace(namespace),
            log.op_type == OpType.ORGANISER_RUN.value,
        )
    ).c
    approved = db.member(e.said, "guard", "verdict") == Ruling.APPROVED.value
    task = db.member(e.said, "task")
    query = (
        select(
            e.seq,
            task.label("task"),
            db.member(e.said, "status").label("status"),
            cast(db.member(e.said, "as_of"), BigInteger).label("as_of"),
            func.coalesce(db.member(e.said, "to"), _ALL, type_=Text).label("to"),
            func.coalesce(
                cast(case((approved, db.member(e.said, "guard", "seq"))), BigInteger), NEVER, type_=BigInteger
            ).label("listed"),
        )
        .where(task.in_([Task.LIFECYCLE.value, Task.RETENTION.value]))
        .order_by(e.seq)
    )
    return table_of(db, connection, query)


def _runs(chunks: pa.Table, ids: Any) -> Runs:
    as_of, listed, seq = (chunks[name].to_numpy() for name in ("as_of", "listed", "seq"))
    to = np.searchsorted(ids, chunks["to"].to_numpy().astype("U36"), side="right")
    if not len(seq):
        return Runs(as_of, as_of, listed, seq, np.empty(0, dtype=int), seq, to)
    # A run ends where another slot's begins, or where an operator began it again.
    begins = (np.diff(as_of, prepend=0) != 0) | (np.diff(listed, prepend=0) != 0)
    begins[0] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(seq)) - 1
    as_of = as_of[first]
    return Runs(as_of, np.maximum.accumulate(as_of), listed[first], seq[last], first, seq, to)
