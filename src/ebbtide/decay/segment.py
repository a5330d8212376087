"""Segments: the closed formula that an object's scores follow between two facts.

With a in days, R the profile's curve, and τ = max(0, t − segment_at):

    decaying(t)   = d0 · R(a0 + τ) / R(a0)         boost(t) = b0 · exp(−ρ·τ)
    salience(t)   = min(1, max(floor, decaying(t) + boost(t)))
    confidence(t) = c0 · exp(−μ · max(0, t − g))   μ = mu_multiplier · λ

Sources: RFC-0007 (exponential, μ, ρ), Spector's forgetting curve (power law, shifted by one scale so that it is
finite at 0), FSRS-6 (R(S) = 0.9). All three curves are exp(−(linear·a + shape·ln(1 + k·a))): one line, no branches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ebbtide.decay.fsrs import Learning, learning
from ebbtide.decay.maths import SMALLEST_EXPONENT, Maths, decimals9
from ebbtide.model.words import Curve, DecayProfile, RateByUse
from ebbtide.policy.document import Params, Policy, Profile


@dataclass(frozen=True, slots=True)
class Parameters:
    """What one profile of one policy version puts into the formulas; the columns of `policy_profiles`.

    `linear` and `shape` are the exponential and the logarithmic part of −ln R; `scale` is k, or 0 where
    `stretch`/stability gives it. The rate is divided by min(`use_cap`, 1 + `use_alpha`·ln(n + 1) + `use_beta`·n).
    """

    linear: float
    shape: float
    scale: float
    stretch: float
    use_alpha: float
    use_beta: float
    use_cap: float
    counts_accesses: bool
    floor: float
    floor_after: int
    mu: float
    rho: float
    warning: float
    archive: float
    force_archive: float
    deprecate_by_confidence: float
    archive_min_confidence: float


UNCAPPED = 1e300


def parameters(params: Params, name: DecayProfile) -> Parameters:
    """The numbers of one profile under a policy."""
    profile: Profile = params.profiles[name]
    curve, use, tiers = profile.curve, profile.by_use, params.tier_thresholds
    bend = profile.weights[-1] if profile.weights else 0.0
    return Parameters(
        linear=profile.rate if curve == Curve.EXPONENTIAL else 0.0,
        shape={Curve.EXPONENTIAL: 0.0, Curve.POWER_LAW: profile.rate, Curve.FSRS: bend}[curve],
        scale=1 / profile.scale_days if curve == Curve.POWER_LAW else 0.0,
        stretch=0.9 ** (-1 / bend) - 1 if bend else 0.0,
        use_alpha=use.alpha,
        use_beta=use.beta,
        use_cap=use.cap if use.kind == RateByUse.LINEAR_CAPPED else UNCAPPED,
        counts_accesses=use.counts == "accesses",
        floor=profile.salience_floor,
        floor_after=profile.floor_after,
        mu=params.mu_multiplier * profile.rate,
        rho=params.rho,
        warning=tiers.warning,
        archive=tiers.archive,
        force_archive=tiers.force_archive,
        deprecate_by_confidence=tiers.deprecate_by_confidence,
        archive_min_confidence=tiers.archive_min_confidence,
    )


SEGMENT = (
    "segment_at",
    "segment_age",
    "decaying",
    "boost",
    "confidence_base",
    "confidence_from",
    "stability",
    "access_count",
    "reinforce_count",
)
"""What the formulas read of an object's state."""


@dataclass(frozen=True, slots=True)
class Scores:
    """An evaluation: the decaying part and the boost as they are, salience and confidence rounded as stored."""

    decaying: Any
    boost: Any
    salience: Any
    confidence: Any


def divisor(m: Maths, p: Any, uses: Any) -> Any:
    """What use divides the rate by: 1 where it does not slow the curve."""
    return m.least(p.use_cap, 1.0 + p.use_alpha * m.ln(uses + 1.0) + p.use_beta * uses)


def fading(m: Maths, p: Any, stability: Any, uses: Any, age: Any) -> Any:
    """−ln R at an age in days, for an object used `uses` times; 0 at age 0, never falling."""
    curve = p.linear * age + p.shape * m.ln(1.0 + (p.scale + p.stretch / stability) * age)
    return curve / divisor(m, p, uses)


def age_when_faded(m: Maths, p: Any, stability: Any, uses: Any, by: Any, never: Any = math.inf) -> Any:
    """The age in days at which −ln R reaches `by`: the inverse of `fading`; `never` where it does not."""
    wanted = by * divisor(m, p, uses)
    straight = wanted / m.greatest(p.linear, _TINY)
    power = m.least(300.0, wanted / m.greatest(p.shape, _TINY))
    bent = (m.exp(power) - 1) / m.greatest(p.scale + p.stretch / stability, _TINY)
    return m.where(p.linear > 0, straight, m.where(p.shape > 0, bent, never))


_TINY = 1e-12
"""Stands for zero where its inverse is not used."""


def half_life(m: Maths, p: Any) -> Any:
    """The age in days at which what was never used is down to half: null where it never is, and where each memory's
    stability says (curve `fsrs`)."""
    return m.where(p.stretch > 0, m.null, age_when_faded(m, p, 1.0, 0.0, math.log(2), never=m.null))


def uses_of(m: Maths, p: Any, s: Any) -> Any:
    """How often an object was used, as its profile counts."""
    return m.real(m.where(p.counts_accesses, s.access_count, s.reinforce_count))


def confidence(m: Maths, p: Any, s: Any, at: Any) -> Any:
    """c0 · exp(−μ · max(0, t − g)), rounded as it is stored."""
    unused = m.days(m.greatest(0, at - s.confidence_from))
    return decimals9(m, s.confidence_base * m.exp(m.greatest(SMALLEST_EXPONENT, -p.mu * unused)))


def parts(m: Maths, p: Any, s: Any, at: Any) -> tuple[Any, Any]:
    """The decaying part and the boost, unrounded."""
    stability = m.known(s.stability, 1.0)
    uses = uses_of(m, p, s)
    elapsed = m.greatest(0, at - s.segment_at)
    before = fading(m, p, stability, uses, m.days(s.segment_age))
    after = fading(m, p, stability, uses, m.days(s.segment_age + elapsed))
    decaying = s.decaying * m.exp(m.greatest(SMALLEST_EXPONENT, before - after))
    boost = s.boost * m.exp(m.greatest(SMALLEST_EXPONENT, -p.rho * m.days(elapsed)))
    return decaying, boost


def salience(m: Maths, p: Any, s: Any, decaying: Any, boost: Any) -> Any:
    """min(1, max(floor, decaying + boost)), rounded as it is stored; the floor counts from `floor_after` uses on."""
    floor = m.where(uses_of(m, p, s) >= p.floor_after, p.floor, 0.0)
    return decimals9(m, m.least(1.0, m.greatest(floor, decaying + boost)))


def evaluate(m: Maths, p: Any, s: Any, at: Any) -> Scores:
    """The scores of a segment at an instant (µs).

    `p` has the fields of `Parameters`; `s` the segment's (`segment_at`, `segment_age`, `decaying`, `boost`,
    `confidence_base`, `confidence_from`, and `stability` where the curve has one) and the counts.
    Before `segment_at` time stands still, so the scores are those it begins with.
    """
    decaying, boost = parts(m, p, s, at)
    return Scores(decaying, boost, salience(m, p, s, decaying, boost), confidence(m, p, s, at))


def retention(m: Maths, p: Any, stability: Any, uses: Any, age: Any) -> Any:
    """R at an age in days: the curve by itself, as plots and fits use it."""
    return m.exp(m.greatest(SMALLEST_EXPONENT, -fading(m, p, stability, uses, age)))


@dataclass(frozen=True, slots=True)
class Terms:
    """A policy with its parameters by profile, worked out once; `learning` is empty where no curve is `fsrs`."""

    policy: Policy
    by_profile: dict[str, Parameters]
    learning: dict[str, Learning]

    @classmethod
    def of(cls, policy: Policy) -> Terms:
        profiles = policy.params.profiles
        learns = any(profile.weights for profile in profiles.values())
        return cls(
            policy,
            {name.value: parameters(policy.params, name) for name in DecayProfile},
            {name.value: learning(profiles[name]) for name in DecayProfile} if learns else {},
        )
