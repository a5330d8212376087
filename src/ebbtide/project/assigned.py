"""What a policy version takes over when it is assigned: which objects, and the segments that they begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Double, Select, Text, and_, case, cast, func, literal, or_

from ebbtide.decay import facts
from ebbtide.model.words import Condition, Curve, EpistemicType, LifecycleState
from ebbtide.policy.document import Policy
from ebbtide.project.segments import standing
from ebbtide.store.database import SQL
from ebbtide.store.tables import memory_objects, memory_state


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


def segments_under(policy: Policy, which: Any, at: int, more: Mapping[str, Any] | None = None) -> Select[Any]:
    """The segments that objects begin when a policy is assigned: values as they stand under the old one, to go on.

    `more` are further columns of the rows.
    """
    s, o = memory_state.c, memory_objects.c
    begin = func.greatest(literal(at, BigInteger), s.fact_at, type_=BigInteger)
    profile = _profile(policy)
    stabilities = [
        (profile == name.value, func.coalesce(s.stability, terms.initial_stability_days))
        for name, terms in policy.params.profiles.items()
        if terms.curve == Curve.FSRS
    ]
    expires_at = case(
        (or_(s.pinned, s.held), None),
        else_=facts.expiry(SQL, policy.params.retention, _Both(), begin),
    )
    changes = {
        "stability": cast(case(*stabilities, else_=None) if stabilities else literal(None, Double), Double),
        "decay_profile": cast(profile, Text),
        "expires_at": cast(expires_at, BigInteger),
        **(more or {}),
    }
    return (
        standing(policy, begin, changes)
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .where(which)
    )


class _Both:
    """The columns of an object and of its state under one name, as `MemoryState` has them."""

    def __getattr__(self, name: str) -> Any:
        return memory_state.c[name] if name in memory_state.c else memory_objects.c[name]
