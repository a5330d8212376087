"""The decay pass: DECAY_APPLIED for every ACTIVE, unpinned object of some profiles whose rounded scores changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Text, and_, bindparam, select

from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import evaluate
from ebbtide.model.words import DecayProfile, LifecycleState, OpType, Task
from ebbtide.project.passes import AS_OF, SCORED, Chunk, Columns, Staged, staged
from ebbtide.project.scope import IN_SCOPE, Scope, with_policy
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_state, policy_profiles

PROFILES: dict[Task, tuple[DecayProfile, ...]] = {
    Task.DECAY_RAPID_FAST: (DecayProfile.RAPID, DecayProfile.FAST),
    Task.DECAY_MEDIUM: (DecayProfile.MEDIUM,),
    Task.DECAY_SLOW: (DecayProfile.SLOW,),
}

_PROFILES: BindParameter[str] = bindparam("pass_profiles", type_=Text, expanding=True)

SUBJECT_TO_DECAY: ColumnElement[bool] = and_(
    memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    memory_state.c.stopped_at.is_(None),
    memory_state.c.decay_profile.in_(_PROFILES),
    memory_state.c.segment_at <= AS_OF,
)
"""Which objects a decay task evaluates: PERMANENT never decays, and what stands still does not either."""


def parameters(task: Task, as_of: int) -> dict[str, Any]:
    """What `SUBJECT_TO_DECAY` is run with."""
    return {AS_OF.key: as_of, _PROFILES.key: [profile.value for profile in PROFILES[task]]}


def decay(db: Database, chunk: Chunk, scope: Scope, task: Task, as_of: int) -> dict[str, int]:
    """Evaluates the objects of a chunk as of a slot's start and writes those that changed; the counts."""
    if not scope.objects:
        return {"examined": 0}
    statements: Staged = db.once("decay", lambda: _statements(db))
    return {
        "examined": scope.objects,
        "decayed": chunk.write(statements, scope.parameters() | parameters(task, as_of)),
    }


def _statements(db: Database) -> Staged:
    state = memory_state.c
    scores = evaluate(SQL, policy_profiles.c, state, AS_OF)
    found = db.fence(
        with_policy(
            select(
                state.object_id,
                state.version,
                state.head_hash,
                state.salience.label("old_salience"),
                state.confidence.label("old_confidence"),
                scores.salience.label("salience"),
                scores.confidence.label("confidence"),
                state.decay_profile,
                state.policy_id,
                state.policy_version,
            )
        ).where(IN_SCOPE, SUBJECT_TO_DECAY)
    ).c
    changed = select(
        found.object_id,
        found.version,
        found.head_hash,
        found.salience,
        found.confidence,
        decimals9(SQL, found.salience - found.old_salience).label("salience_delta"),
        decimals9(SQL, found.confidence - found.old_confidence).label("confidence_delta"),
        found.decay_profile,
        found.policy_id,
        found.policy_version,
    ).where((found.salience != found.old_salience) | (found.confidence != found.old_confidence))
    return staged(
        db,
        "pass_decay",
        changed,
        [_applied],
        lambda c: {"salience": c.salience, "confidence": c.confidence, "decayed_at": AS_OF},
    )


def _applied(columns: Columns) -> Mapping[str, Any]:
    return {
        "op_type": OpType.DECAY_APPLIED.value,
        "effective_at": AS_OF,
        **{name: columns[name] for name in SCORED},
    }
