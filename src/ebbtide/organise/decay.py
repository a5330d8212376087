"""The decay pass: DECAY_APPLIED for every ACTIVE, unpinned object of some profiles whose rounded scores have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, func, literal, select

from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import evaluate
from ebbtide.model.words import DecayProfile, LifecycleState, OpType, Task
from ebbtide.project.scope import Scope, with_policy
from ebbtide.project.passes import Chunk, Columns
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_state, policy_profiles

PROFILES: dict[Task, tuple[DecayProfile, ...]] = {
    Task.DECAY_RAPID_FAST: (DecayProfile.RAPID, DecayProfile.FAST),
    Task.DECAY_MEDIUM: (DecayProfile.MEDIUM,),
    Task.DECAY_SLOW: (DecayProfile.SLOW,),
}


def subject_to(task: Task, as_of: int) -> Any:
    """Which objects a decay task evaluates: PERMANENT never decays, and what stands still does not either."""
    return and_(
        memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
        memory_state.c.stopped_at.is_(None),
        memory_state.c.decay_profile.in_([profile.value for profile in PROFILES[task]]),
        memory_state.c.segment_at <= literal(as_of, BigInteger),
    )


def _entry(columns: Columns) -> Mapping[str, Any]:
    return {
        "op_type": OpType.DECAY_APPLIED.value,
        "effective_at": columns.as_of,
        "salience": columns.salience,
        "confidence": columns.confidence,
        "salience_delta": columns.salience_delta,
        "confidence_delta": columns.confidence_delta,
        "decay_profile": columns.decay_profile,
        "policy_id": columns.policy_id,
        "policy_version": columns.policy_version,
    }


def decay(db: Database, connection: Connection, chunk: Chunk, scope: Scope, task: Task, as_of: int) -> dict[str, int]:
    """Evaluates the objects of a chunk as of a slot's start and writes those that changed; the counts."""
    within = and_(scope.covers(memory_state), subject_to(task, as_of))
    examined = connection.execute(select(func.count()).select_from(memory_state).where(within)).scalar_one()
    if not examined:
        return {"examined": 0}
    state = memory_state.c
    at = literal(as_of, BigInteger)
    scores = evaluate(SQL, policy_profiles.c, state, at)
    evaluated = db.fence(
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
        ).where(within)
    )
    found = evaluated.c
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
        at.label("as_of"),
    ).where((found.salience != found.old_salience) | (found.confidence != found.old_confidence))
    stage = chunk.stage("pass_decay", changed, [_entry])
    if stage.rows:
        chunk.append(stage)
        staged = stage.table.c
        chunk.update(
            stage, {"salience": staged.salience, "confidence": staged.confidence, "decayed_at": staged.as_of}
        )
    return {"examined": examined, "decayed": stage.rows}
