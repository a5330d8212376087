"""Assigning a policy version to the objects that can still change: one pass, set-based, in chunks.

From now on, never from a past instant. Each object begins a segment that goes on where the old one is, so the curve
bends but does not jump; its rules' instants are found for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Double,
    FromClause,
    Select,
    SmallInteger,
    Text,
    and_,
    case,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
)

from ebbtide.decay import facts
from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import confidence, parts, salience
from ebbtide.log.head import Head, lock_or_create
from ebbtide.model.instant import DAY
from ebbtide.model.state import BITS
from ebbtide.model.words import Condition, Curve, EpistemicType, LifecycleState, OpType
from ebbtide.policy.document import Policy
from ebbtide.project.instants import crossings, due_group
from ebbtide.project.passes import Actor, Chunk, Columns, empty, json_of, quoted, staged, temporary, whole
from ebbtide.project.scope import CHUNK, IN_SCOPE, Scope, next_scope
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_objects, memory_state, policy_profiles


def under_another(policy: Policy) -> Any:
    """Which objects can still change and are not under a policy version."""
    return and_(
        memory_state.c.lifecycle_state.in_([LifecycleState.ACTIVE.value, LifecycleState.ARCHIVED.value]),
        memory_state.c.tombstoned_at.is_(None),
        or_(memory_state.c.policy_id != policy.id, memory_state.c.policy_version != policy.version),
    )


def _profile(policy: Policy) -> Any:
    """The profile of an object under a policy, as `Policy.profile_for` has it."""
    objects = memory_objects.c
    unknown = and_(
        objects.epistemic_type == EpistemicType.CONDITIONAL.value,
        objects.condition == Condition.UNKNOWN.value,
    )
    return case(
        (objects.profile_override.isnot(None), objects.profile_override),
        (unknown, policy.params.conditional_while_unknown.value),
        *((objects.epistemic_type == kind.value, name.value) for kind, name in policy.params.mapping.items()),
        else_=memory_state.c.decay_profile,
    )


def _segments(policy: Policy, which: Any, at: int) -> Select[Any]:
    """The new segments: values as they stand under the old policy, to go on under the new one."""
    s, o, old = memory_state.c, memory_objects.c, policy_profiles.alias("old_terms")
    begin = func.greatest(literal(at, BigInteger), s.fact_at, type_=BigInteger)
    here = func.coalesce(s.stopped_at, begin, type_=BigInteger)
    # A segment that begins when a freeze ends still begins then.
    starts = func.coalesce(s.stopped_at, func.greatest(begin, s.segment_at), type_=BigInteger)
    decaying, boost = parts(SQL, old.c, s, here)
    profile = _profile(policy)
    stabilities = [
        (profile == name.value, func.coalesce(s.stability, terms.initial_stability_days))
        for name, terms in policy.params.profiles.items()
        if terms.curve == Curve.FSRS
    ]
    stability = case(*stabilities, else_=None) if stabilities else literal(None, Double)
    grace = round(policy.params.restore_grace_days * DAY)
    return (
        select(
            s.object_id,
            s.version,
            s.fact_version,
            s.head_hash,
            s.salience.label("old_salience"),
            s.confidence.label("old_confidence"),
            begin.label("begin"),
            starts.label("segment_at"),
            (s.segment_age + func.greatest(literal(0, BigInteger), here - s.segment_at)).label("segment_age"),
            decimals9(SQL, decaying).label("decaying"),
            decimals9(SQL, boost).label("boost"),
            confidence(SQL, old.c, s, here).label("confidence_base"),
            func.greatest(starts, s.confidence_from, type_=BigInteger).label("confidence_from"),
            s.baseline,
            s.centrality,
            cast(stability, Double).label("stability"),
            s.difficulty,
            cast(profile, Text).label("decay_profile"),
            s.access_count,
            s.reinforce_count,
            s.pinned,
            s.warned,
            and_(s.lifecycle_state == LifecycleState.ACTIVE.value, s.stopped_at.is_(None)).label("running"),
            (s.restored_at + grace).label("keep_until"),
            cast(
                case(
                    (or_(s.pinned, s.held), None),
                    else_=facts.expiry(SQL, policy.params.retention, _Both(), begin),
                ),
                BigInteger,
            ).label("expires_at"),
        )
        .join_from(memory_state, memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .join(
            old,
            and_(
                s.namespace_id == old.c.namespace_id,
                s.policy_id == old.c.policy_id,
                s.policy_version == old.c.policy_version,
                s.decay_profile == old.c.decay_profile,
            ),
        )
        .where(which)
    )


class _Both:
    """The columns of an object and of its state under one name, as `MemoryState` has them."""

    def __getattr__(self, name: str) -> Any:
        return memory_state.c[name] if name in memory_state.c else memory_objects.c[name]


@dataclass
class Assignment:
    """Assigns a policy version on one connection, chunk by chunk; begun and killed, it goes on when asked again."""

    db: Database
    connection: Connection
    clock: Callable[[], int]
    entropy: Callable[[int], bytes]
    chunk_size: int = CHUNK

    def run(self, namespace: str, policy: Policy, actor: Actor) -> int:
        """Makes a policy the namespace's, and that of each of its objects that can still change; how many changed."""
        at, changed, after = self.clock(), 0, None
        while True:
            with self.connection.begin():
                head = lock_or_create(self.db, self.connection, namespace, self.entropy)
                scope = next_scope(
                    self.db,
                    self.connection,
                    namespace,
                    after,
                    under_another(policy),
                    {},
                    name=f"not under {policy.name}",
                    size=self.chunk_size,
                )
                changed += self._chunk(head, policy, scope, at, actor)
            if scope.last:
                return changed
            after = scope.to

    def _chunk(self, head: Head, policy: Policy, scope: Scope, at: int, actor: Actor) -> int:
        named = (head.policy_id, head.policy_version) == (policy.id, policy.version)
        if named and not scope.objects:
            return 0
        previous = None if head.policy_id is None else f"{head.policy_id}@{head.policy_version}"
        head = replace(head, policy_id=policy.id, policy_version=policy.version)
        chunk = Chunk(self.db, self.connection, head, now=self.clock(), actor=actor)
        shelf = Shelf(self.connection)
        for owner in (STORE_WIDE, head.namespace_id):
            shelf.put(owner, policy, chunk.recorded_at)
        document = {} if named else {"previous": previous, "document": policy.model_dump(mode="json", by_alias=True)}
        chunk.note(OpType.POLICY_ASSIGNED, {**document, **scope.bounds()}, effective_at=at)
        changed = reassign(self.db, self.connection, chunk, scope, policy, at)
        chunk.close()
        return changed


def reassign(db: Database, connection: Connection, chunk: Chunk, scope: Scope, policy: Policy, at: int) -> int:
    """Writes POLICY_ASSIGNED with a new segment to each object of a chunk; how many."""
    rows = _segments(policy, and_(IN_SCOPE, under_another(policy)), at)
    segments = temporary("pass_segments", rows.subquery())
    empty(connection, segments)
    connection.execute(insert(segments).from_select([c.name for c in segments.columns], rows), scope.parameters())
    kept = (
        "segment_at",
        "segment_age",
        "decaying",
        "boost",
        "confidence_base",
        "confidence_from",
        "stability",
    )
    due = ("due_at", "due_rule", "exit_at", "exit_rule", "expires_at", "warned")
    statements = staged(
        db,
        "pass_assigned",
        _decided(db, segments, policy, chunk.namespace),
        [_entry(db, policy)],
        lambda c: {
            **{name: c[name] for name in (*kept, *due, "decay_profile", "salience", "confidence")},
            "fact_version": c.fact_version + 1,
            "fact_at": c.begin,
            "policy_id": policy.id,
            "policy_version": policy.version,
        },
    )
    return chunk.write(statements, {})


def _decided(db: Database, segments: Any, policy: Policy, namespace: str) -> Select[Any]:
    new = policy_profiles.alias("new_terms")
    joined: FromClause = segments.join(
        new,
        and_(
            new.c.namespace_id == namespace,
            new.c.policy_id == policy.id,
            new.c.policy_version == policy.version,
            new.c.decay_profile == segments.c.decay_profile,
        ),
    )
    found = crossings(db, segments, joined, new.c).subquery()
    s = segments.c
    sunk = salience(SQL, new.c, s, s.decaying, s.boost)
    still_warned = case((and_(s.warned, sunk < new.c.warning), True), else_=False)
    # What stands still keeps its mark: it begins no segment of its own.
    warned = case((s.running, still_warned), else_=s.warned)
    group = due_group(s, new.c, found.c, running=s.running, warned=warned)
    scored = case((s.pinned, literal(1.0, Double)), else_=sunk)
    return select(
        *(c for c in s if c.name != "warned"),
        scored.label("salience"),
        s.confidence_base.label("confidence"),
        decimals9(SQL, scored - s.old_salience).label("salience_delta"),
        decimals9(SQL, s.confidence_base - s.old_confidence).label("confidence_delta"),
        *(value.label(name) for name, value in group.items() if name != "warned"),
        cast(group["warned"], Boolean).label("warned"),
    ).select_from(joined.outerjoin(found, found.c.object_id == s.object_id))


def _entry(db: Database, policy: Policy) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.POLICY_ASSIGNED.value,
            "fact_version": columns.fact_version + 1,
            "effective_at": columns.begin,
            "salience": columns.salience,
            "confidence": columns.confidence,
            "salience_delta": columns.salience_delta,
            "confidence_delta": columns.confidence_delta,
            "decay_profile": columns.decay_profile,
            "policy_id": literal(policy.id, Text),
            "policy_version": literal(policy.version, Text),
            "carries": literal(BITS["segment"] | BITS["due"], SmallInteger),
            "after": json_of(
                segment=json_of(
                    segment_at=whole(columns.segment_at),
                    segment_age=whole(columns.segment_age),
                    decaying=db.decimal(columns.decaying),
                    boost=db.decimal(columns.boost),
                    confidence_base=db.decimal(columns.confidence_base),
                    confidence_from=whole(columns.confidence_from),
                    baseline=db.decimal(columns.baseline),
                    centrality=db.decimal(columns.centrality),
                    stability=cast(columns.stability, Text),
                    difficulty=cast(columns.difficulty, Text),
                    decay_profile=quoted(columns.decay_profile),
                    policy_id=quoted(literal(policy.id, Text)),
                    policy_version=quoted(literal(policy.version, Text)),
                ),
                due=json_of(
                    due_at=whole(columns.due_at),
                    due_rule=quoted(columns.due_rule),
                    exit_at=whole(columns.exit_at),
                    exit_rule=quoted(columns.exit_rule),
                    expires_at=whole(columns.expires_at),
                    warned=case((columns.warned, "true"), else_="false"),
                ),
            ),
        }

    return entry
