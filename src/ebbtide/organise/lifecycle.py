"""The lifecycle pass: warnings and transitions whose instant has come, each judged at that instant.

It is an index range on `due_at`: what it costs follows what is due, not what is stored. Warnings go first, which may
make a transition due; after one round of each nothing is due any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, Connection, SmallInteger, Text, and_, case, cast, func, literal, select

from ebbtide.decay.maths import decimals9
from ebbtide.decay.rules import FAR, leaves_for, next_due
from ebbtide.decay.segment import evaluate
from ebbtide.model.state import BITS
from ebbtide.model.words import LifecycleState, OpType, Rule
from ebbtide.project.scope import Scope, with_policy
from ebbtide.project.passes import ORGANISER, Chunk, Columns, json_of, quoted, whole
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_state, policy_profiles

EXITS = (Rule.DEPRECATE_BY_CONFIDENCE.value, Rule.FORCE_ARCHIVE.value, Rule.ARCHIVE.value)
RULES = (Rule.WARNING.value, *EXITS)


def due_by(as_of: int, rules: tuple[str, ...] = RULES) -> Any:
    """Which objects have a rule of decay due."""
    return and_(
        memory_state.c.due_at <= literal(as_of, BigInteger),
        memory_state.c.due_rule.in_(rules),
        memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    )


def lifecycle(db: Database, connection: Connection, chunk: Chunk, scope: Scope, as_of: int) -> dict[str, int]:
    """Executes what is due in a chunk as of a slot's start; the counts."""
    within = and_(scope.covers(memory_state), due_by(as_of))
    examined = connection.execute(select(func.count()).select_from(memory_state).where(within)).scalar_one()
    if not examined:
        return {"examined": 0}
    warned = _warn(db, chunk, and_(scope.covers(memory_state), due_by(as_of, (Rule.WARNING.value,))))
    archived, deprecated = _leave(db, connection, chunk, and_(scope.covers(memory_state), due_by(as_of, EXITS)))
    return {"examined": examined, "warned": warned, "archived": archived, "deprecated": deprecated}


def _due_group(columns: Columns, *, warned: str, exits: bool) -> Any:
    return json_of(
        due_at=whole(columns.next_at),
        due_rule=quoted(columns.next_rule),
        exit_at=whole(columns.exit_at) if exits else literal("null", Text),
        exit_rule=quoted(columns.exit_rule) if exits else literal("null", Text),
        expires_at=whole(columns.expires_at),
        warned=literal(warned, Text) if warned else case((columns.warned, "true"), else_="false"),
    )


# Warnings


def _warning(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.DECAY_WARNING.value,
            "effective_at": columns.due_at,
            "decay_profile": columns.decay_profile,
            "policy_id": columns.policy_id,
            "policy_version": columns.policy_version,
            "carries": literal(BITS["due"], SmallInteger),
            "payload": json_of(
                thresholds_triggered=literal('["warning"]', Text),
                threshold=db.decimal(columns.threshold),
                salience=db.decimal(columns.salience),
                confidence=db.decimal(columns.confidence),
            ),
            "after": json_of(due=_due_group(columns, warned="true", exits=True)),
        }

    return entry


def _warn(db: Database, chunk: Chunk, which: Any) -> int:
    """DECAY_WARNING at the instant salience sank below the threshold; the state is unchanged but for what comes next."""
    state, policy = memory_state.c, policy_profiles.c
    scores = evaluate(SQL, policy, state, state.due_at)
    next_at, next_rule = next_due(
        SQL,
        warning_at=literal(FAR, BigInteger),
        exit_at=state.exit_at,
        exit_rule=state.exit_rule,
        expires_at=state.expires_at,
    )
    rows = with_policy(
        select(
            state.object_id,
            state.version,
            state.head_hash,
            state.due_at,
            state.decay_profile,
            state.policy_id,
            state.policy_version,
            scores.salience.label("salience"),
            scores.confidence.label("confidence"),
            policy.warning.label("threshold"),
            cast(next_at, BigInteger).label("next_at"),
            cast(next_rule, Text).label("next_rule"),
            state.exit_at,
            state.exit_rule,
            state.expires_at,
        )
    ).where(which)
    stage = chunk.stage("pass_warning", rows, [_warning(db)])
    if stage.rows:
        chunk.append(stage)
        staged = stage.table.c
        chunk.update(
            stage, {"due_at": staged.next_at, "due_rule": staged.next_rule, "warned": literal(True, Boolean)}
        )
    return stage.rows


# Transitions


def _applied(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.DECAY_APPLIED.value,
            "effective_at": columns.due_at,
            "salience": columns.salience,
            "confidence": columns.confidence,
            "salience_delta": columns.salience_delta,
            "confidence_delta": columns.confidence_delta,
            "decay_profile": columns.decay_profile,
            "policy_id": columns.policy_id,
            "policy_version": columns.policy_version,
            "payload": json_of(
                thresholds_triggered=literal("[", Text).concat(quoted(columns.due_rule)).concat("]"),
                threshold=db.decimal(columns.threshold),
                archive_min_confidence=db.decimal(columns.archive_min_confidence),
                salience=db.decimal(columns.salience),
                confidence=db.decimal(columns.confidence),
                to_state=quoted(columns.to_state),
            ),
        }

    return entry


def _moved(columns: Columns) -> Mapping[str, Any]:
    deprecated = columns.to_state == LifecycleState.DEPRECATED.value
    policy_ref = columns.policy_id.concat("@").concat(columns.policy_version)
    return {
        "op_type": case((deprecated, OpType.DEPRECATE.value), else_=OpType.ARCHIVE.value),
        "fact_version": columns.fact_version + 1,
        "effective_at": columns.due_at,
        "lifecycle_state": columns.to_state,
        "decay_profile": columns.decay_profile,
        "policy_id": columns.policy_id,
        "policy_version": columns.policy_version,
        "carries": literal(BITS["due"] | BITS["flags"], SmallInteger),
        "payload": case(
            (
                deprecated,
                json_of(
                    reason=quoted(columns.due_rule),
                    deprecated_by=literal(f'"{ORGANISER.id}"', Text),
                    policy_ref=quoted(policy_ref),
                ),
            ),
            else_=json_of(reason=quoted(columns.due_rule), policy_ref=quoted(policy_ref)),
        ),
        "after": json_of(
            due=_due_group(columns, warned="", exits=False),
            flags=json_of(
                pinned=literal("false", Text),
                held=case((columns.held, "true"), else_="false"),
                stopped_at=whole(columns.due_at),
            ),
        ),
    }


def _leave(db: Database, connection: Connection, chunk: Chunk, which: Any) -> tuple[int, int]:
    """DECAY_APPLIED with the scores at the rule's instant, then ARCHIVE or DEPRECATE; how many went where."""
    state, policy = memory_state.c, policy_profiles.c
    scores = evaluate(SQL, policy, state, state.due_at)
    threshold = case(
        (state.due_rule == Rule.DEPRECATE_BY_CONFIDENCE.value, policy.deprecate_by_confidence),
        (state.due_rule == Rule.FORCE_ARCHIVE.value, policy.force_archive),
        else_=policy.archive,
    )
    evaluated = db.fence(
        with_policy(
            select(
                state.object_id,
                state.version,
                state.fact_version,
                state.head_hash,
                state.due_at,
                state.due_rule,
                state.expires_at,
                state.warned,
                state.held,
                state.salience.label("old_salience"),
                state.confidence.label("old_confidence"),
                state.decay_profile,
                state.policy_id,
                state.policy_version,
                scores.salience.label("salience"),
                scores.confidence.label("confidence"),
                threshold.label("threshold"),
                policy.archive_min_confidence,
            )
        ).where(which)
    )
    found = evaluated.c
    next_at, next_rule = next_due(
        SQL,
        warning_at=literal(FAR, BigInteger),
        exit_at=literal(FAR, BigInteger),
        exit_rule=literal(None, Text),
        expires_at=found.expires_at,
    )
    rows = select(
        *found,
        decimals9(SQL, found.salience - found.old_salience).label("salience_delta"),
        decimals9(SQL, found.confidence - found.old_confidence).label("confidence_delta"),
        cast(leaves_for(SQL, found, found.due_rule, found.confidence), Text).label("to_state"),
        cast(next_at, BigInteger).label("next_at"),
        cast(next_rule, Text).label("next_rule"),
    )
    stage = chunk.stage("pass_transition", rows, [_applied(db), _moved])
    if not stage.rows:
        return 0, 0
    chunk.append(stage)
    staged = stage.table.c
    chunk.update(
        stage,
        {
            "fact_version": staged.fact_version + 1,
            "fact_at": staged.due_at,
            "lifecycle_state": staged.to_state,
            "salience": staged.salience,
            "confidence": staged.confidence,
            "decayed_at": staged.due_at,
            "due_at": staged.next_at,
            "due_rule": staged.next_rule,
            "exit_at": None,
            "exit_rule": None,
            "stopped_at": staged.due_at,
        },
    )
    deprecated = connection.execute(
        select(func.count()).select_from(stage.table).where(staged.to_state == LifecycleState.DEPRECATED.value)
    ).scalar_one()
    return stage.rows - deprecated, deprecated
