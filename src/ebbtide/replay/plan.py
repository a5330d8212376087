"""A plan: per object what a corrected policy would have made of it, beside what is; a file to look at and to apply.

Planning only reads. The file is Parquet, one row per object that changes, with everything that applying needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import Connection, func, select

from ebbtide.decay import facts
from ebbtide.decay.columns import COLUMNS, NONE, taken
from ebbtide.decay.segment import Terms
from ebbtide.log.head import Head
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import id_of_namespace
from ebbtide.model.state import GROUPS
from ebbtide.model.words import OpType, StreamType
from ebbtide.policy.document import Policy, split_name
from ebbtide.project.scope import Scope
from ebbtide.project.shelf import Shelf
from ebbtide.replay.executed import runs_of
from ebbtide.replay.history import History, read
from ebbtide.replay.recompute import Correction, Recomputation, Recomputed
from ebbtide.store.database import Database
from ebbtide.store.tables import event_log, memory_state, namespaces, refusals

GROUPS_CORRECTED = ("segment", "due", "clocks", "counts", "flags")
"""The groups of columns that a correction may set."""

CORRECTED = tuple(name for group in GROUPS_CORRECTED for name in GROUPS[group])
_POLICY = ("policy_id", "policy_version")
FORMAT = "ebbtide-replay-plan-1"
AT_ONCE = 200_000
"""Objects recomputed at a time: bounds memory."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A correction as it is asked for: one version read as another, from an instant (µs) on or always."""

    replaced: str
    by: Policy
    begins: int | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact that met another state than it did, or a request that was refused meanwhile."""

    namespace_id: str
    object: str
    seq: int | None
    op_type: str
    what: str


@dataclass(frozen=True, slots=True)
class Change:
    """One object's old and new state and scores, as of when the plan was made."""

    namespace_id: str
    object: str
    from_state: str
    to_state: str
    salience: float
    new_salience: float
    confidence: float
    new_confidence: float


@dataclass
class Plan:
    """What a correction would change. `seq` is by namespace where the log stood, `rows` the objects that change."""

    asked: Asked
    as_of: int
    seq: dict[str, int]
    objects: int
    rows: pa.Table
    conflicts: list[Conflict] = field(default_factory=list)
    irreversible: list[str] = field(default_factory=list)
    refused: list[Conflict] = field(default_factory=list)

    @property
    def changed(self) -> int:
        return int(self.rows.num_rows)

    def by_transition(self) -> dict[str, int]:
        """How many objects go from which state to which."""
        counted = self.rows.group_by(["from_state", "lifecycle_state"]).aggregate([([], "count_all")]).to_pylist()
        return dict(sorted((f"{one['from_state']}→{one['lifecycle_state']}", one["count_all"]) for one in counted))

    def largest(self, number: int = 10) -> list[Change]:
        """The objects whose salience changes most."""
        rows = self.rows
        if not rows.num_rows:
            return []
        by = np.abs(rows["new_salience"].to_numpy() - rows["old_salience"].to_numpy())
        order = np.argsort(-by, kind="stable")[:number]
        return [
            Change(
                row["namespace_id"],
                row["ref"] or row["object_id"],
                row["from_state"],
                row["lifecycle_state"],
                row["old_salience"],
                row["new_salience"],
                row["old_confidence"],
                row["new_confidence"],
            )
            for row in rows.take(pa.array(order)).to_pylist()
        ]

    def digest(self) -> str:
        """SHA-256 (hex) over what the plan would change: two plans of the same changes have the same."""
        found = hashlib.sha256(f"{self.asked.replaced}\x1f{self.asked.by.digest()}\x1f{self.asked.begins}".encode())
        for name in ("namespace_id", "object_id", "lifecycle_state", *CORRECTED):
            for part in _bytes_of(self.rows[name]):
                found.update(part)
        return found.hexdigest()


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes]:
    """A column as bytes, alike however it is parted: which are null, then the values; of texts the lengths first."""
    known = pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    yield np.packbits(known.is_null().to_numpy(zero_copy_only=False)).tobytes()
    if pa.types.is_string(column.type):
        # Made anew by `fill_null`, so that the buffer holds nothing else.
        words = pc.binary_join_element_wise(known.fill_null(""), "", "")
        yield pc.binary_length(words).to_numpy().tobytes()
        yield words.buffers()[2].to_pybytes() if len(words) else b""
    else:
        yield known.fill_null(pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False).tobytes()


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("namespace_id", "object_id", "ref", "from_state")),
        ("fact_version", pa.int64()),
        *((name, pa.float64()) for name in ("old_salience", "old_confidence", "new_salience", "new_confidence")),
        ("lifecycle_state", pa.string()),
        *(
            (
                name,
                {"BigInteger": pa.int64(), "Double": pa.float64(), "Boolean": pa.bool_()}.get(
                    type(memory_state.c[name].type).__name__, pa.string()
                ),
            )
            for name in CORRECTED
        ),
    ]
)


class Planner:
    """Works plans out, on a connection within a transaction."""

    def __init__(self, db: Database, connection: Connection, now: int, progress: Callable[[int, int], None]) -> None:
        self._db = db
        self._connection = connection
        self._shelf = Shelf(connection)
        self._now = now
        self._progress = progress

    def plan(self, asked: Asked, namespace: str | None) -> Plan:
        """What a correction would change in one namespace, or in all whose log names the version."""
        chosen = self._namespaces(asked.replaced, namespace)
        if not chosen:
            where = f"namespace {namespace!r}" if namespace else "any namespace"
            raise NotFound(f"no decision in {where} was taken under {asked.replaced}", field="replace")
        plan = Plan(asked, self._now, {}, 0, SCHEMA.empty_table())
        tables = []
        total = sum(self._objects(head.namespace_id) for head in chosen)
        for head in chosen:
            plan.seq[head.namespace_id] = head.last_seq
            corrections = [*self.recorded(head.namespace_id), _correction(asked, head.last_seq + 1)]
            for scope in self._scopes(head.namespace_id):
                history = read(self._db, self._connection, scope)
                found = self._recompute(history, head.namespace_id, corrections, asked)
                tables.append(self._compare(plan, head.namespace_id, history, found, asked))
                plan.objects += len(history.ids)
                self._progress(plan.objects, total)
        plan.rows = pa.concat_tables(tables) if tables else plan.rows
        plan.refused = list(self._refused(plan))
        return plan

    def recorded(self, namespace: str) -> list[Correction]:
        """The corrections that were applied in a namespace, oldest first."""
        log = event_log.c
        e = self._db.fence(
            select(log.seq, self._db.json(log.payload).label("said")).where(
                log.namespace_id == namespace,
                log.stream_id == id_of_namespace(namespace),
                log.op_type == OpType.POLICY_CORRECTED.value,
            )
        ).c
        names = ("replaced", "by", "begins")
        query = select(e.seq, *(self._db.member(e.said, name).label(name) for name in names)).order_by(e.seq)
        return [
            Correction(row.replaced, row.by, None if row.begins is None else int(row.begins), row.seq)
            for row in self._connection.execute(query)
        ]

    def _namespaces(self, name: str, namespace: str | None) -> list[Head]:
        policy_id, version = split_name(name)
        log = event_log.c
        named = (
            select(log.namespace_id)
            .where(
                log.stream_type == StreamType.NAMESPACE.value,
                log.op_type == OpType.POLICY_ASSIGNED.value,
                log.policy_id == policy_id,
                log.policy_version == version,
            )
            .distinct()
        )
        if namespace is not None:
            named = named.where(log.namespace_id == namespace, log.stream_id == id_of_namespace(namespace))
        query = select(namespaces).where(namespaces.c.namespace_id.in_(named)).order_by(namespaces.c.namespace_id)
        return [Head(**row._mapping) for row in self._connection.execute(query)]

    def _objects(self, namespace: str) -> int:
        query = select(func.count()).select_from(memory_state).where(memory_state.c.namespace_id == namespace)
        return int(self._connection.execute(query).scalar_one())

    def _scopes(self, namespace: str) -> Iterator[Scope]:
        after = None
        while True:
            s = memory_state.c
            query = select(s.object_id).where(s.namespace_id == namespace).order_by(s.object_id).offset(AT_ONCE - 1)
            if after is not None:
                query = query.where(s.object_id > after)
            to = self._connection.execute(query.limit(1)).scalar()
            yield Scope(namespace, after, to, 0)
            if to is None:
                return
            after = to

    def _recompute(self, history: History, namespace: str, corrections: list[Correction], asked: Asked) -> Recomputed:
        runs = runs_of(self._db, self._connection, namespace, history.ids)
        new = Terms.of(asked.by)

        def terms(name: str) -> Terms:
            return new if name == asked.by.name else self._shelf.terms(namespace, *split_name(name))

        return Recomputation(history, runs, corrections, terms).run()

    def _compare(self, plan: Plan, namespace: str, history: History, found: Recomputed, asked: Asked) -> pa.Table:
        """The rows of the objects whose state differs in more than the name of its policy."""
        live, new = history.live, found.state
        gone = live.erased_at != NONE
        differs = live.lifecycle_state != new.lifecycle_state
        for name in CORRECTED:
            if name not in _POLICY:
                differs |= _differ(getattr(live, name), getattr(new, name))
        refs = COLUMNS.known(history.refs, history.ids)
        plan.irreversible += [str(ref) for ref in refs[gone & found.unerased]]
        plan.conflicts += [
            Conflict(namespace, str(refs[place]), seq, op, what)
            for place, seq, op, what in sorted(found.conflicts.rows)
            if not gone[place]
        ]
        rows = np.flatnonzero(differs & ~gone)
        new, old = taken(new, rows), taken(live, rows)
        (old_salience, old_confidence), (salience, confidence) = (
            self._shown(namespace, state, asked.by) for state in (old, new)
        )
        made = {
            "namespace_id": np.full(len(rows), namespace, dtype=object),
            "object_id": history.ids[rows],
            "ref": history.refs[rows],
            "from_state": old.lifecycle_state,
            "fact_version": old.fact_version,
            "old_salience": old_salience,
            "old_confidence": old_confidence,
            "new_salience": salience,
            "new_confidence": confidence,
            "lifecycle_state": new.lifecycle_state,
            **{name: getattr(new, name) for name in CORRECTED},
        }
        return pa.table({f.name: _arrow(made[f.name], f.type) for f in SCHEMA}, schema=SCHEMA)

    def _shown(self, namespace: str, state: Any, by: Policy) -> tuple[Any, Any]:
        """Effective salience and confidence of states as of now, each under its own policy version."""
        size = len(state.policy_id)
        salience, confidence = np.zeros(size), np.zeros(size)
        for policy_id, version in sorted(
            set(zip(state.policy_id.tolist(), state.policy_version.tolist(), strict=True))
        ):
            mine = (state.policy_id == policy_id) & (state.policy_version == version)
            own = (policy_id, version) == (by.id, by.version)
            terms = Terms.of(by) if own else self._shelf.terms(namespace, policy_id, version)
            at = np.full(int(mine.sum()), self._now)
            salience[mine], confidence[mine] = facts.shown(taken(state, mine), terms, at, COLUMNS)
        return salience, confidence

    def _refused(self, plan: Plan) -> Iterator[Conflict]:
        """Requests about objects that change which a rule refused: listed, not invented."""
        r = refusals.c
        ids = plan.rows["object_id"].combine_chunks()
        for namespace in plan.seq:
            query = (
                select(r.object_id, r.op_type, r.rule, r.recorded_at)
                .where(r.namespace_id == namespace, r.object_id.isnot(None))
                .order_by(r.recorded_at, r.id)
            )
            for batch in self._db.arrow(self._connection, query, AT_ONCE):
                about = batch.filter(pc.is_in(batch["object_id"], value_set=ids)).to_pylist()
                places = pc.index_in(pa.array([one["object_id"] for one in about], pa.string()), value_set=ids)
                named = plan.rows["ref"].take(places).to_pylist()
                for one, ref in zip(about, named, strict=True):
                    what = f"refused by {one['rule']} at {instant.iso(one['recorded_at'])}"
                    yield Conflict(namespace, ref or one["object_id"], None, one["op_type"], what)


def _correction(asked: Asked, until: int) -> Correction:
    return Correction(asked.replaced, asked.by.name, asked.begins, until)


def _differ(one: Any, other: Any) -> Any:
    if one.dtype.kind == "f":
        return ~((one == other) | (np.isnan(one) & np.isnan(other)))
    return one != other


def _arrow(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_int64(kind):
        return pa.array(values, type=kind, mask=values == NONE)
    if pa.types.is_floating(kind):
        return pa.array(values, type=kind, from_pandas=True)
    return pa.array(values.tolist(), type=kind)


def write(plan: Plan, path: Path) -> None:
    """Writes a plan's file; one that is there is replaced."""
    told = {
        "format": FORMAT,
        "replaced": plan.asked.replaced,
        "by": plan.asked.by.model_dump(mode="json", by_alias=True),
        "begins": plan.asked.begins,
        "as_of": plan.as_of,
        "seq": plan.seq,
        "objects": plan.objects,
        "conflicts": [asdict(one) for one in plan.conflicts],
        "irreversible": plan.irreversible,
        "refused": [asdict(one) for one in plan.refused],
    }
    rows = plan.rows.replace_schema_metadata({"ebbtide": json.dumps(told, ensure_ascii=False)})
    try:
        pq.write_table(rows, path)
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror or error}", file=str(path)) from error


def load(path: Path) -> Plan:
    """Reads a plan's file; anything else is refused."""
    try:
        rows = pq.read_table(path)
        told = json.loads((rows.schema.metadata or {}).get(b"ebbtide", b"{}"))
    except (OSError, pa.ArrowInvalid, ValueError) as error:
        raise BadInput(f"is no plan: {str(error).splitlines()[0]}", file=str(path)) from error
    if told.get("format") != FORMAT or not rows.schema.equals(SCHEMA, check_metadata=False):
        raise BadInput("is no plan of this version: make one with `ebb replay plan`", file=str(path))
    return Plan(
        Asked(told["replaced"], Policy.model_validate(told["by"]), told["begins"]),
        told["as_of"],
        told["seq"],
        told["objects"],
        rows.replace_schema_metadata(),
        [Conflict(**one) for one in told["conflicts"]],
        told["irreversible"],
        [Conflict(**one) for one in told["refused"]],
    )
