"""The numbers of policies as an audit view: what every version says, by profile."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, case, select

from ebbtide.audit.columns import policy
from ebbtide.decay.segment import half_life
from ebbtide.model.words import Curve
from ebbtide.policy.document import TierThresholds
from ebbtide.store.database import SQL
from ebbtide.store.tables import policy_profiles


def views() -> dict[str, Select[Any]]:
    """The views by name."""
    return {"policy_parameters": _policy_parameters()}


def _policy_parameters() -> Select[Any]:
    """A version says the same in every namespace, so it is here once."""
    p = policy_profiles.c
    curve = case((p.stretch > 0, Curve.FSRS.value), (p.shape > 0, Curve.POWER_LAW.value), else_=Curve.EXPONENTIAL.value)
    return select(
        p.policy_id,
        p.policy_version,
        policy(p),
        p.decay_profile,
        curve.label("curve"),
        case((p.stretch > 0, None), else_=p.linear + p.shape).label("rate"),
        half_life(SQL, p).label("half_life_days"),
        *(p[name] for name in ("mu", "rho", "counts_accesses", "floor", "floor_after")),
        *(p[name] for name in TierThresholds.model_fields),
    ).distinct()
