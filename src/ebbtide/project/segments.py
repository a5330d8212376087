"""Segments that begin in bulk: values as they stand are taken over, and the rules' instants found for whole columns.

First the new segments are staged (`standing` builds the rows, `stage` fills the table), then `begun` works out scores
and instants from there, and `after` and `folded` say what the entry carries and what the state becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Select,
    Table,
    Text,
    and_,
    case,
    cast,
    func,
    insert,
    literal,
    select,
)

from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import confidence, parts, salience
from ebbtide.model.instant import DAY
from ebbtide.model.state import BITS, GROUPS
from ebbtide.model.words import LifecycleState
from ebbtide.policy.document import Policy
from ebbtide.project.instants import crossings, due_group
from ebbtide.project.passes import NAMESPACE, Columns, empty, json_of, quoted, temporary, whole
from ebbtide.project.scope import with_policy
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_state, policy_profiles

CARRIES = BITS["segment"] | BITS["due"]
"""The groups that an entry which begins a segment carries."""


def standing(policy: Policy, begin: Any, changes: Mapping[str, Any]) -> Select[Any]:
    """Rows of segments that begin at an instant, under a policy, with the values as they stand under the old terms.

    `changes` are the columns that differ from what stands, and further ones for the entry. The caller adds joins and
    the condition.
    """
    s, old = memory_state.c, policy_profiles.c
    here = func.coalesce(s.stopped_at, begin, type_=BigInteger)
    # A segment that begins when a freeze ends still begins then.
    starts = func.coalesce(s.stopped_at, func.greatest(begin, s.segment_at), type_=BigInteger)
    decaying, boost = parts(SQL, old, s, here)
    columns: dict[str, Any] = {
        "segment_at": starts,
        "segment_age": s.segment_age + func.greatest(literal(0, BigInteger), here - s.segment_at),
        "decaying": decimals9(SQL, decaying),
        "boost": decimals9(SQL, boost),
        "confidence_base": confidence(SQL, old, s, here),
        "confidence_from": func.greatest(starts, s.confidence_from, type_=BigInteger),
        **{name: s[name] for name in ("baseline", "centrality", "stability", "difficulty", "decay_profile")},
        "policy_id": literal(policy.id, Text),
        "policy_version": literal(policy.version, Text),
        **{name: s[name] for name in ("access_count", "reinforce_count", "pinned", "warned", "expires_at")},
        "running": and_(s.lifecycle_state == LifecycleState.ACTIVE.value, s.stopped_at.is_(None)),
        "keep_until": s.restored_at + round(policy.params.restore_grace_days * DAY),
        **changes,
    }
    return with_policy(
        select(
            s.object_id,
            s.version,
            s.fact_version,
            s.head_hash,
            s.salience.label("old_salience"),
            s.confidence.label("old_confidence"),
            begin.label("begin"),
            *(value.label(name) for name, value in columns.items()),
        )
    )


def stage(connection: Connection, segments: Table, rows: Select[Any], parameters: Mapping[str, Any]) -> int:
    """Fills the temporary table of new segments from its rows; how many there are."""
    empty(connection, segments)
    statement = insert(segments).from_select([c.name for c in segments.columns], rows)
    return connection.execute(statement, parameters, execution_options={"preserve_rowcount": True}).rowcount


def table_for(name: str, rows: Select[Any]) -> Table:
    """The temporary table of new segments."""
    return temporary(name, rows.subquery())


def begun(db: Database, segments: Table) -> Select[Any]:
    """The rows of a pass over staged segments: with the scores they begin with and the rules' next instants."""
    new, s = policy_profiles.alias("new_terms"), segments.c
    joined: FromClause = segments.join(
        new,
        and_(
            new.c.namespace_id == NAMESPACE,
            *(new.c[name] == s[name] for name in ("policy_id", "policy_version", "decay_profile")),
        ),
    )
    found = crossings(db, segments, joined, new.c).subquery()
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


def folded(columns: Columns) -> dict[str, Any]:
    """What the state becomes: the groups `segment` and `due`, and the scores."""
    names = (*GROUPS["segment"], *GROUPS["due"], "salience", "confidence")
    return {name: columns[name] for name in names}


def after(db: Database, columns: Columns) -> ColumnElement[str]:
    """The groups `segment` and `due` as the entry carries them."""
    return json_of(
        segment=json_of(
            segment_at=whole(columns.segment_at),
            segment_age=whole(columns.segment_age),
            decaying=db.decimal(columns.decaying),
            boost=db.decimal(columns.boost),
            confidence_base=db.decimal(columns.confidence_base),
            confidence_from=whole(columns.confidence_from),
            baseline=db.decimal(columns.baseline),
            centrality=db.decimal(columns.centrality),
            stability=db.real(columns.stability),
            difficulty=db.real(columns.difficulty),
            decay_profile=quoted(columns.decay_profile),
            policy_id=quoted(columns.policy_id),
            policy_version=quoted(columns.policy_version),
        ),
        due=json_of(
            due_at=whole(columns.due_at),
            due_rule=quoted(columns.due_rule),
            exit_at=whole(columns.exit_at),
            exit_rule=quoted(columns.exit_rule),
            expires_at=whole(columns.expires_at),
            warned=case((columns.warned, "true"), else_="false"),
        ),
    )
