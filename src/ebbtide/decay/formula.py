"""A segment's formulas as text with its numbers put in: what `evaluate` computes, for whoever wants to check it."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Parameters, Terms, divisor, uses_of
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import Curve, DecayProfile, RateByUse
from ebbtide.policy.document import Profile


@dataclass(frozen=True, slots=True)
class Formulas:
    """Salience, confidence and rate at an instant, each with its value behind `=`."""

    salience: str
    confidence: str
    rate: str


def formulas(state: MemoryState, terms: Terms, at: int) -> Formulas:
    """The formulas of an object at an instant; where time stands still, at the one it stopped at."""
    numbers = terms.by_profile[state.decay_profile]
    profile = terms.policy.params.profiles[DecayProfile(state.decay_profile)]
    here = at if state.stopped_at is None else state.stopped_at
    now = facts.standing(state, terms, at).scores
    sum_ = _decaying(state, numbers, profile, here)
    if state.boost:
        sum_ += f" + {_plain(state.boost)} · exp(−{_plain(numbers.rho)} · {_days(here - state.segment_at)})"
    if numbers.floor and uses_of(SCALAR, numbers, state) >= numbers.floor_after:
        sum_ = f"max({_plain(numbers.floor)}, {sum_})"
    if now.decaying + now.boost > 1:
        sum_ = f"min(1, {sum_})"
    unused = _days(here - state.confidence_from)
    return Formulas(
        salience=f"{sum_} = {_plain(now.salience)}",
        confidence=f"{_plain(state.confidence_base)} · exp(−{_plain(numbers.mu)} · {unused}) = "
        f"{_plain(now.confidence)}",
        rate=_rate(state, numbers, profile),
    )


def _decaying(state: MemoryState, numbers: Parameters, profile: Profile, here: int) -> str:
    begun, elapsed = state.segment_age, max(0, here - state.segment_at)
    start = _plain(state.decaying)
    slowed = divisor(SCALAR, numbers, uses_of(SCALAR, numbers, state))
    if profile.curve == Curve.EXPONENTIAL:
        return f"{start} · exp(−{_plain(numbers.linear / slowed)} · {_days(elapsed)})"
    scaled = f"/ {_plain(profile.scale_days)}"
    if profile.curve == Curve.FSRS:
        scaled = f"· {_plain(numbers.stretch)} / {_plain(state.stability or 1.0)}"
    ratio = f"(1 + {_days(begun + elapsed)} {scaled})"
    if begun:
        ratio = f"({ratio} / (1 + {_days(begun)} {scaled}))"
    return f"{start} · {ratio}^(−{_plain(numbers.shape / slowed)})"


def _rate(state: MemoryState, numbers: Parameters, profile: Profile) -> str:
    if profile.curve == Curve.FSRS:
        return f"R = 0.9 at an age of S = {_plain(state.stability or 1.0)} days, w = {_plain(numbers.shape)}"
    use, uses, rate = profile.by_use, uses_of(SCALAR, numbers, state), _plain(profile.rate)
    if use.kind == RateByUse.NONE:
        return f"λ = {rate}"
    slowed = (
        f"(1 + {_plain(use.alpha)} · ln({uses:g} + 1))"
        if use.kind == RateByUse.LOGARITHMIC
        else f"min({_plain(use.cap)}, 1 + {_plain(use.beta)} · {uses:g})"
    )
    value = _plain(profile.rate / divisor(SCALAR, numbers, uses))
    return f"λ = {rate} / {slowed} = {value}, by {uses:g} {use.counts}"


def _plain(number: float) -> str:
    return f"{number:.9g}"


def _days(micros: int) -> str:
    return f"{max(0, micros) / DAY:.8f}".rstrip("0").rstrip(".") or "0"
