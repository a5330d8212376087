"""The lifecycle pass: warnings and transitions whose instant has come, each judged at that instant.

It is an index range on `due_at`: what it costs follows what is due, not what is stored. Warnings go first, which may
make a transition due; after one round of each nothing is due any more. Where the guard holds a slot, warnings go on
and transitions wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    SmallInteger,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from ebbtide.decay.maths import decimals9
from ebbtide.decay.rules import FAR, leaves_for, next_due
from ebbtide.decay.segment import evaluate, parts, salience
from ebbtide.model.state import BITS
from ebbtide.model.words import LifecycleState, OpType, Rule, Ruling
from ebbtide.organise.listed import JUDGED_AT, untouched
from ebbtide.project.passes import AS_OF, ORGANISER, SCORED, Chunk, Columns, Staged, json_of, quoted, staged, whole
from ebbtide.project.scope import IN_SCOPE, Scope, with_policy
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_state, policy_profiles

EXITS = (Rule.DEPRECATE_BY_CONFIDENCE.value, Rule.FORCE_ARCHIVE.value, Rule.ARCHIVE.value)


def _due(*rules: str) -> ColumnElement[bool]:
    return and_(
        memory_state.c.due_at <= AS_OF,
        memory_state.c.due_rule.in_(rules),
        memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    )


DUE = _due(Rule.WARNING.value, *EXITS)
"""Which objects have a rule of decay due."""

TO_WARN = _due(Rule.WARNING.value)
"""Which of them are warned only, or first."""

LISTED = and_(DUE, untouched(memory_state.c.object_id))
"""Which of them were due when the guard judged, and are as they were then."""

LEAVING = and_(
    memory_state.c.due_at <= AS_OF,
    memory_state.c.due_rule != Rule.TTL.value,
    memory_state.c.exit_at <= AS_OF,
    or_(memory_state.c.expires_at.is_(None), memory_state.c.expires_at > memory_state.c.exit_at),
    memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
)
"""Which objects would leave ACTIVE by an instant, at once or after the warning that is due as well."""


def lifecycle(
    db: Database,
    connection: Connection,
    chunk: Chunk,
    scope: Scope,
    as_of: int,
    ruling: Ruling | None = None,
    judged_at: int = 0,
) -> dict[str, int]:
    """Executes what is due in a chunk as of a slot's start; the counts.

    Of a held slot the warnings only; of an approved one what is as it was at the place of the log where it was judged.
    """
    if not scope.objects:
        return {"examined": 0}
    given = scope.parameters() | {AS_OF.key: as_of}
    listed = ruling == Ruling.APPROVED
    if listed:
        given |= {JUDGED_AT.key: judged_at}
    warnings: Staged = db.once(f"warnings {listed}", lambda: _warnings(db, listed=listed))
    transitions: Staged = db.once(f"transitions {listed}", lambda: _transitions(db, listed=listed))
    warned = chunk.write(warnings, given)
    moved = 0 if ruling == Ruling.HELD else chunk.write(transitions, given)
    deprecated = 0
    if moved:
        to_state = transitions.table.c.to_state
        deprecated = connection.execute(
            select(func.count()).select_from(transitions.table).where(to_state == LifecycleState.DEPRECATED.value)
        ).scalar_one()
    return {
        "examined": scope.objects,
        "warned": warned,
        "archived": moved - deprecated,
        "deprecated": deprecated,
    }


def _as_listed(*, listed: bool) -> ColumnElement[bool]:
    return untouched(memory_state.c.object_id) if listed else literal(True)


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
            ),
            "after": json_of(due=_due_group(columns, warned="true", exits=True)),
        }

    return entry


def _warnings(db: Database, *, listed: bool) -> Staged:
    """DECAY_WARNING at the instant salience sank below the threshold; only what comes next changes."""
    state, policy = memory_state.c, policy_profiles.c
    sunk = salience(SQL, policy, state, *parts(SQL, policy, state, state.due_at))
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
            sunk.label("salience"),
            policy.warning.label("threshold"),
            cast(next_at, BigInteger).label("next_at"),
            cast(next_rule, Text).label("next_rule"),
            state.exit_at,
            state.exit_rule,
            state.expires_at,
        )
    ).where(IN_SCOPE, TO_WARN, _as_listed(listed=listed))
    return staged(
        db,
        f"pass_warning{'_listed' if listed else ''}",
        rows,
        [_warning(db)],
        lambda c: {"due_at": c.next_at, "due_rule": c.next_rule, "warned": literal(True, Boolean)},
    )


# Transitions


def _applied(db: Database) -> Any:
    def entry(columns: Columns) -> Mapping[str, Any]:
        return {
            "op_type": OpType.DECAY_APPLIED.value,
            "effective_at": columns.due_at,
            **{name: columns[name] for name in SCORED},
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
                frozen=case((columns.frozen, "true"), else_="false"),
                thaws_at=whole(columns.thaws_at),
                stopped_at=whole(columns.due_at),
                tombstoned_at=literal("null", Text),
                erased_at=literal("null", Text),
            ),
        ),
    }


def _transitions(db: Database, *, listed: bool) -> Staged:
    """DECAY_APPLIED with the scores at the rule's instant, then ARCHIVE or DEPRECATE."""
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
                state.frozen,
                state.thaws_at,
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
        ).where(IN_SCOPE, _due(*EXITS), _as_listed(listed=listed))
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
    return staged(
        db,
        f"pass_transition{'_listed' if listed else ''}",
        rows,
        [_applied(db), _moved],
        lambda c: {
            "fact_version": c.fact_version + 1,
            "fact_at": c.due_at,
            "lifecycle_state": c.to_state,
            "salience": c.salience,
            "confidence": c.confidence,
            "decayed_at": c.due_at,
            "due_at": c.next_at,
            "due_rule": c.next_rule,
            "exit_at": None,
            "exit_rule": None,
            "stopped_at": c.due_at,
        },
    )
