"""The centrality pass: κ follows an object's in-degree, and where it changes a new segment begins.

What counts are the edges that point at a memory from another one, or from an entity, which is not erased; a merged
entity counts as the one it stands for, and a relation said twice counts once. An object with a rule due by then is
left as it is: the rule is executed first, at its instant and with the scores there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Connection,
    Select,
    SmallInteger,
    Table,
    and_,
    exists,
    func,
    literal,
    or_,
    select,
)

from ebbtide.decay.centrality import kappa, replaced
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import parts
from ebbtide.model.state import MemoryState
from ebbtide.model.words import LifecycleState, OpType
from ebbtide.policy.document import Policy
from ebbtide.project.passes import AS_OF, NAMESPACE, SCORED, Chunk, Columns, Staged, json_of, staged, whole
from ebbtide.project.scope import IN_SCOPE, Scope
from ebbtide.project.segments import CARRIES, after, begun, folded, stage, standing, table_for
from ebbtide.project.shelf import Shelf
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import edges, entities, memory_state, policy_profiles

_BEGIN = func.greatest(AS_OF, memory_state.c.fact_at, type_=BigInteger)
"""When the segment begins: at the slot's start, or with a fact that came since."""

_POINTED_AT = select(edges.c.target_id).where(edges.c.namespace_id == NAMESPACE)

CENTRAL = and_(
    memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    memory_state.c.stopped_at.is_(None),
    memory_state.c.segment_at <= _BEGIN,
    or_(memory_state.c.due_at.is_(None), memory_state.c.due_at > _BEGIN),
    or_(memory_state.c.centrality != 0, memory_state.c.object_id.in_(_POINTED_AT)),
)
"""Which objects may get another κ: ACTIVE, time going on for them, nothing due; pointed at, or so before."""


def centrality(
    db: Database, connection: Connection, chunk: Chunk, scope: Scope, shelf: Shelf, as_of: int
) -> dict[str, int]:
    """Writes CENTRALITY_BOOST for the objects of a chunk whose κ has changed by a slot's start; the counts."""
    if scope.objects:
        given = scope.parameters() | {AS_OF.key: as_of}
        for found in _policies(connection, given):
            own = shelf.terms(chunk.namespace, *found).policy
            rows, segments, statements = db.once(f"centrality {own.digest()}", partial(_statements, db, own))
            if stage(connection, segments, rows, given):
                chunk.write(statements, given)
    return {"examined": scope.objects}


def central_to_be(connection: Connection, state: MemoryState, weight: float, at: int) -> float:
    """The κ that a pass would give a memory by the graph as it is, with relations made by an instant."""
    given = {NAMESPACE.key: state.namespace_id, AS_OF.key: at}
    pointed_at = exists(_POINTED_AT.where(edges.c.target_id == state.object_id))
    if not state.centrality and not connection.execute(select(pointed_at), given).scalar():
        return 0.0
    degrees = _degrees()
    query = select(degrees.c.degree, degrees.c.largest).where(degrees.c.target_id == state.object_id)
    found = connection.execute(query, given).first()
    return 0.0 if found is None else float(kappa(SCALAR, weight, found.degree, found.largest))


def _policies(connection: Connection, given: dict[str, Any]) -> list[tuple[str, str]]:
    """The policy versions of the objects in the chunk."""
    columns = memory_state.c
    query = select(columns.policy_id, columns.policy_version).where(IN_SCOPE, CENTRAL).distinct()
    return sorted((row.policy_id, row.policy_version) for row in connection.execute(query, given))


def _statements(db: Database, policy: Policy) -> tuple[Select[Any], Table, Staged]:
    rows = _changed(policy)
    segments = table_for("pass_central", rows)
    statements = staged(
        db, "pass_centrality", begun(db, segments), [_boost(db)], lambda c: {**folded(c), "fact_at": c.begin}
    )
    return rows, segments, statements


def _changed(policy: Policy) -> Select[Any]:
    """Segments with another κ, for the objects under a policy."""
    s = memory_state.c
    degrees = _degrees()
    degree = func.coalesce(degrees.c.degree, 0, type_=BigInteger)
    largest = func.coalesce(degrees.c.largest, 1, type_=BigInteger)
    new = kappa(SQL, policy.params.centrality.weight, degree, largest)
    decaying, _ = parts(SQL, policy_profiles.c, s, _BEGIN)
    changes = {
        "centrality": new,
        "decaying": replaced(SQL, decaying, s.centrality, new),
        "old_centrality": s.centrality,
        "in_degree": degree,
        "largest_in_degree": largest,
    }
    return (
        standing(policy, _BEGIN, changes)
        .outerjoin(degrees, degrees.c.target_id == s.object_id)
        .where(
            IN_SCOPE,
            CENTRAL,
            s.policy_id == policy.id,
            s.policy_version == policy.version,
            new != s.centrality,
        )
    )


def _degrees() -> CTE:
    """The in-degree of each memory that is not erased and is pointed at, and the largest of them."""
    e, source, target = edges.c, memory_state.alias("source"), memory_state.alias("target")
    stands_for = _stands_for()
    counted = (
        select(
            e.target_id,
            func.coalesce(stands_for.c.primary_id, e.source_id).label("source_id"),
            e.edge_type,
        )
        .join_from(edges, target, and_(e.namespace_id == target.c.namespace_id, e.target_id == target.c.object_id))
        .outerjoin(source, and_(e.namespace_id == source.c.namespace_id, e.source_id == source.c.object_id))
        .outerjoin(stands_for, stands_for.c.entity_id == e.source_id)
        .where(
            e.namespace_id == NAMESPACE,
            e.created_at <= AS_OF,
            e.source_id != e.target_id,
            target.c.erased_at.is_(None),
            source.c.erased_at.is_(None),
        )
        .distinct()
        .subquery()
    )
    degree = func.count(counted.c.source_id)
    return (
        select(counted.c.target_id, degree.label("degree"), func.max(degree).over().label("largest"))
        .group_by(counted.c.target_id)
        .cte("degrees")
    )


def _stands_for() -> Any:
    """Each merged entity with the one that it stands for, through any number of merges."""
    n = entities.c
    merged = select(n.entity_id, n.merged_into.label("primary_id")).where(
        n.namespace_id == NAMESPACE, n.merged_into.isnot(None)
    )
    steps = merged.cte("merges", recursive=True)
    further = (
        select(steps.c.entity_id, n.merged_into)
        .join_from(steps, entities, n.entity_id == steps.c.primary_id)
        .where(n.namespace_id == NAMESPACE, n.merged_into.isnot(None))
    )
    steps = steps.union_all(further)
    last = and_(n.namespace_id == NAMESPACE, n.entity_id == steps.c.primary_id, n.merged_into.is_(None))
    return select(steps.c.entity_id, steps.c.primary_id).join_from(steps, entities, last).subquery("stands_for")


def _boost(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.CENTRALITY_BOOST.value,
            "effective_at": columns.begin,
            **{name: columns[name] for name in SCORED},
            "carries": literal(CARRIES, SmallInteger),
            "payload": json_of(
                centrality=db.decimal(columns.centrality),
                old_centrality=db.decimal(columns.old_centrality),
                in_degree=whole(columns.in_degree),
                largest_in_degree=whole(columns.largest_in_degree),
            ),
            "after": after(db, columns),
        }

    return entry
