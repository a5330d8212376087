"""Applying a plan: POLICY_CORRECTED, and one CORRECTED for each object that changes.

In chunks, each a transaction. Killed anywhere, applying the same plan again goes on behind the last one: what is done
is known by the correction's id, which follows from what the plan changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Connection,
    Double,
    MetaData,
    Select,
    SmallInteger,
    Table,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    literal,
    select,
)

from ebbtide.decay.maths import decimals9
from ebbtide.log.head import Head, lock
from ebbtide.model.errors import Refused
from ebbtide.model.identity import uuid8
from ebbtide.model.state import BITS, GROUPS
from ebbtide.model.words import OpType
from ebbtide.project.passes import NAMESPACE, Actor, Chunk, Columns, Staged, empty, json_of, quoted, staged, state_json
from ebbtide.project.scope import CHUNK
from ebbtide.project.shelf import Shelf
from ebbtide.replay.plan import CORRECTED, GROUPS_CORRECTED, Plan, Planner
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import event_log, memory_state

_STATE = tuple(memory_state.c[name] for name in CORRECTED)
PLANNED = Table(
    "replay_planned",
    MetaData(),
    Column("object_id", Uuid),
    Column("fact_version", BigInteger),
    Column("from_state", Text),
    Column("lifecycle_state", Text),
    Column("new_salience", Double),
    Column("new_confidence", Double),
    *(Column(f"planned_{column.name}", type(column.type)) for column in _STATE),
    prefixes=["TEMPORARY"],
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying wrote: entries in all, objects corrected now, and objects that got a fact in between.

    The latter are left as they are: a new plan has them.
    """

    entries: int
    changed: int
    meanwhile: list[str]


@dataclass
class Application:
    """Applies plans on one connection, outside of a transaction."""

    db: Database
    connection: Connection
    clock: Callable[[], int]
    actor: Actor
    progress: Callable[[int, int], None]
    chunk_size: int = CHUNK

    def run(self, plan: Plan) -> Applied:
        """Writes what a plan says. Raises `Refused` where the log has moved on in a way that changes it."""
        self._check(plan)
        entries, changed, meanwhile = 0, 0, list[str]()
        rows = plan.rows.combine_chunks()
        for namespace in plan.seq:
            mine = rows.filter(pc.equal(rows["namespace_id"], namespace))
            correction = self._id(plan, namespace)
            written, begun = self._begin(plan, namespace, correction, nothing=not mine.num_rows)
            entries += written
            for start in range(0, mine.num_rows, self.chunk_size):
                part = mine.slice(start, self.chunk_size)
                done, wrote = self._chunk(plan, namespace, correction, part)
                entries, changed = entries + wrote, changed + done
                self.progress(min(start + self.chunk_size, mine.num_rows), mine.num_rows)
            meanwhile += self._left_out(namespace, begun, correction, mine)
        return Applied(entries, changed, meanwhile)

    def _id(self, plan: Plan, namespace: str) -> UUID:
        return uuid8("correction", namespace, plan.digest())

    def _check(self, plan: Plan) -> None:
        """A plan holds as long as planning again gives the same, but for what applying it has done already."""
        with self.db.snapshot(self.connection).begin():
            begun = any(self._began_at(namespace, self._id(plan, namespace)) for namespace in plan.seq)
            if begun or not self._moved_on(plan):
                return
            only = next(iter(plan.seq)) if len(plan.seq) == 1 else None
            again = Planner(self.db, self.connection, plan.as_of, lambda done, total: None).plan(plan.asked, only)
        if again.digest() != plan.digest():
            raise Refused(
                f"the log has moved on: {_first_difference(plan, again)}; make a new plan", rule="plan_outdated"
            )

    def _moved_on(self, plan: Plan) -> bool:
        """Whether anything was recorded since that a plan depends on: facts, transitions, runs, policies."""
        log = event_log.c
        for namespace, seq in plan.seq.items():
            query = select(log.seq).where(
                log.namespace_id == namespace,
                log.seq > seq,
                (log.fact_version.isnot(None)) | log.op_type.in_([op.value for op in _MATTERS]),
            )
            if self.connection.execute(query.limit(1)).first() is not None:
                return True
        return False

    def _began_at(self, namespace: str, correction: UUID) -> int | None:
        log = event_log.c
        said = self.db.member(self.db.json(log.payload), "correction")
        query = select(log.seq).where(
            log.namespace_id == namespace,
            log.op_type == OpType.POLICY_CORRECTED.value,
            said == str(correction),
        )
        return self.connection.execute(query).scalar()

    def _begin(self, plan: Plan, namespace: str, correction: UUID, *, nothing: bool) -> tuple[int, int]:
        """POLICY_CORRECTED, once; the entries written and its seq. Where `nothing` changes, only to change versions."""
        with self.connection.begin():
            head = self._locked(namespace)
            known = self._began_at(namespace, correction)
            if known is not None:
                return 0, known
            by, old = plan.asked.by, plan.asked.replaced
            current = f"{head.policy_id}@{head.policy_version}"
            if nothing and current != old:
                return 0, head.last_seq
            if current == old:
                head = replace(head, policy_id=by.id, policy_version=by.version)
            chunk = Chunk(self.db, self.connection, head, now=self.clock(), actor=self.actor)
            Shelf(self.connection).put(namespace, by, chunk.recorded_at)
            document = by.model_dump(mode="json", by_alias=True)
            said = {"correction": str(correction), "replaced": old, "by": by.name, "begins": plan.asked.begins}
            chunk.note(OpType.POLICY_CORRECTED, {**said, "document": document}, effective_at=chunk.recorded_at)
            if current == old:
                named = {"previous": old, "document": document}
                chunk.note(OpType.POLICY_ASSIGNED, named, effective_at=chunk.recorded_at)
            chunk.close()
            return chunk.entries, head.last_seq + 1

    def _chunk(self, plan: Plan, namespace: str, correction: UUID, rows: pa.Table) -> tuple[int, int]:
        with self.connection.begin():
            head = self._locked(namespace)
            chunk = Chunk(self.db, self.connection, head, now=self.clock(), actor=self.actor)
            empty(self.connection, PLANNED)
            self.db.load(self.connection, PLANNED, _loadable(rows))
            statements = self.db.once(f"corrected {plan.asked.replaced} {plan.asked.by.name}", lambda: _staged(self.db))
            given = {
                "replay_correction": str(correction),
                "replay_replaced": plan.asked.replaced,
                "replay_by": plan.asked.by.name,
                "replay_at": chunk.recorded_at,
            }
            done = chunk.write(statements, given)
            if done:
                chunk.close()
            return done, chunk.entries

    def _locked(self, namespace: str) -> Head:
        head = lock(self.db, self.connection, namespace)
        assert head is not None, "namespaces are never removed"
        return head

    def _left_out(self, namespace: str, begun: int, correction: UUID, rows: pa.Table) -> list[str]:
        """Objects of the plan that this correction has not corrected."""
        log = event_log.c
        said = self.db.member(self.db.json(log.payload), "correction")
        query = select(cast(log.stream_id, Text)).where(
            log.namespace_id == namespace,
            log.seq > begun,
            log.op_type == OpType.CORRECTED.value,
            said == str(correction),
        )
        with self.connection.begin():
            done = np.array(self.connection.execute(query).scalars().all(), dtype=object)
        ids = rows["object_id"].to_numpy()
        missing = ~np.isin(ids.astype(str), done.astype(str)) if len(ids) else np.zeros(0, dtype=bool)
        return [ref or one for ref, one in zip(rows["ref"].to_numpy()[missing], ids[missing], strict=True)]


_MATTERS = (OpType.POLICY_ASSIGNED, OpType.POLICY_CORRECTED, OpType.ORGANISER_RUN)


def _first_difference(plan: Plan, again: Plan) -> str:
    names = ["object_id", "lifecycle_state", *CORRECTED]
    before = {row["object_id"]: row for row in plan.rows.select([*names, "ref"]).to_pylist()}
    after = {row["object_id"]: row for row in again.rows.select([*names, "ref"]).to_pylist()}
    differing = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    first = (before.get(differing[0]) or after[differing[0]])["ref"] or differing[0]
    return f"{len(differing)} objects would change otherwise, {first} among them"


def _loadable(rows: pa.Table) -> pa.RecordBatch:
    """The rows of a plan as those of `PLANNED`."""
    known = [c.name for c in PLANNED.columns]
    arrays = [rows[name.removeprefix("planned_")].combine_chunks() for name in known]
    return pa.record_batch(arrays, names=known)


_GIVEN = ("correction", "replaced", "by")


def _rows() -> Select[Any]:
    s, p = memory_state.c, PLANNED.c
    return (
        select(
            s.object_id,
            s.version,
            s.head_hash,
            s.fact_version,
            s.salience,
            s.confidence,
            *(c for c in p if c.name not in ("object_id", "fact_version")),
            decimals9(SQL, p.new_salience - s.salience).label("salience_delta"),
            decimals9(SQL, p.new_confidence - s.confidence).label("confidence_delta"),
        )
        .join_from(PLANNED, memory_state, and_(s.namespace_id == NAMESPACE, s.object_id == p.object_id))
        .where(s.fact_version == p.fact_version)
    )


def _staged(db: Database) -> Staged:
    at: BindParameter[int] = bindparam("replay_at", type_=BigInteger)
    given: list[BindParameter[str]] = [bindparam(f"replay_{name}", type_=Text) for name in _GIVEN]

    def entry(columns: Columns) -> Mapping[str, Any]:
        groups = {
            group: state_json(db, {name: columns[f"planned_{name}"] for name in GROUPS[group]})
            for group in GROUPS_CORRECTED
        }
        moved = columns.lifecycle_state != columns.from_state
        return {
            "op_type": OpType.CORRECTED.value,
            "fact_version": columns.fact_version + 1,
            "effective_at": at,
            "lifecycle_state": case((moved, columns.lifecycle_state), else_=None),
            "salience": columns.new_salience,
            "confidence": columns.new_confidence,
            "salience_delta": columns.salience_delta,
            "confidence_delta": columns.confidence_delta,
            "decay_profile": columns.planned_decay_profile,
            "policy_id": columns.planned_policy_id,
            "policy_version": columns.planned_policy_version,
            "carries": literal(sum(BITS[group] for group in GROUPS_CORRECTED), SmallInteger),
            "payload": json_of(
                **{name: quoted(value) for name, value in zip(_GIVEN, given, strict=True)},
                from_state=quoted(columns.from_state),
                to_state=quoted(columns.lifecycle_state),
            ),
            "after": json_of(**groups),
        }

    return staged(
        db,
        "pass_corrected",
        _rows(),
        [entry],
        lambda c: {
            "fact_version": c.fact_version + 1,
            "fact_at": at,
            "lifecycle_state": c.lifecycle_state,
            "salience": c.new_salience,
            "confidence": c.new_confidence,
            **{column.name: c[f"planned_{column.name}"] for column in _STATE},
        },
    )
