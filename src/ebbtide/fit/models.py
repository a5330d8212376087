"""Models of recall: a decay profile as a prediction of each exposure, and the families of profiles that are fitted.

What is predicted is R, the curve at the age of the exposure, by the same formula that salience follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbtide.decay.columns import Columns
from ebbtide.decay.fsrs import learning, reviewed
from ebbtide.decay.segment import Parameters, fading, parameters
from ebbtide.fit.exposures import Exposures
from ebbtide.model.words import Clock, Curve, DecayProfile, EpistemicType, Grade, RateByUse
from ebbtide.policy.document import Params, Policy, Profile, policy_from
from ebbtide.policy.weights import FSRS_6, RANGES


class _Quick(Columns):
    """Whole columns by NumPy's own exp and ln: nothing here is stored or compared to the last bit."""

    @staticmethod
    def exp(x: Any) -> Any:
        return np.exp(x)

    @staticmethod
    def ln(x: Any) -> Any:
        return np.log(x)


_M = _Quick()


def faded(params: Params, name: DecayProfile, found: Exposures) -> Any:
    """−ln R of each exposure under a profile of a policy: of its curve, by its clock, slowed as it counts uses."""
    profile, numbers = params.profiles[name], parameters(params, name)
    age = found.age(profile.clock)
    uses = (found.accesses if numbers.counts_accesses else found.reinforcements).astype(np.float64)
    if profile.curve != Curve.FSRS:
        return fading(_M, numbers, 1.0, uses, age)
    since = np.minimum(found.since_review, age) if profile.clock == Clock.LAST_ACCESSED else found.since_review
    return fading(_M, numbers, _stabilities(profile, numbers, found, since), uses, since)


def under(policy: Policy, found: Exposures) -> Any:
    """−ln R of each exposure under a policy, of the profile that it would give the object."""
    made = np.empty(len(found))
    for kind in np.unique(found.kind.astype(str)):
        epistemic, condition, override = kind.split("/")
        rows = np.flatnonzero(found.kind == kind)
        name = policy.profile_for(EpistemicType(epistemic), condition or None, override or None)
        made[rows] = faded(policy.params, name, found.at(rows))
    return made


def _stabilities(profile: Profile, numbers: Parameters, found: Exposures, since: Any) -> Any:
    """The stability that each exposure met: the first of every object, then the second …, as they follow."""
    w = learning(profile)
    objects = np.unique(found.object, return_inverse=True)[1]
    first = np.searchsorted(objects, objects, side="left")
    number = np.arange(len(objects)) - first
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number))
    stability = np.full(len(objects), w.stability)
    difficulty = np.full(len(objects), w.difficulty)
    met = np.empty(len(objects))
    begin = 0
    for end in ends:
        rows = order[begin:end]
        mine, age, begin = objects[rows], since[rows], end
        s, d = stability[mine], difficulty[mine]
        met[rows] = s
        recalled = np.exp(-fading(_M, numbers, s, 0.0, age))
        good = reviewed(_M, w, s, d, age, recalled, Grade.GOOD)
        again = reviewed(_M, w, s, d, age, recalled, Grade.AGAIN)
        for kept, new, otherwise in ((stability, good[0], again[0]), (difficulty, good[1], again[1])):
            moved = np.where(found.recalled[rows], new, otherwise)
            kept[mine] = np.where(found.reviews[rows], moved, kept[mine])
    return met


@dataclass(frozen=True, slots=True)
class Free:
    """A number that is fitted, on a logarithmic scale between two ends."""

    name: str
    low: float
    high: float
    start: float


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of curve with its free numbers; `profile` says what a policy file would of it."""

    name: str
    free: tuple[Free, ...]
    profile: Callable[[Profile, Mapping[str, float]], dict[str, Any]]

    def params(self, base: Params, name: DecayProfile, values: Mapping[str, float]) -> Params:
        """The base's parameters with one profile of this family; its clock and floor stay."""
        old = base.profiles[name]
        kept = {"clock": old.clock, "salience_floor": old.salience_floor, "floor_after": old.floor_after}
        made = Profile.model_validate(kept | self.profile(old, values))
        return base.model_copy(update={"profiles": {**base.profiles, name: made}})


_RATE = Free("lambda", 1e-5, 100, 0.05)
_SCALE = Free("scale_days", 0.001, 36_525, 1.0)
_ALPHA = Free("alpha", 0.001, 100, 0.5)


def _by_use(old: Profile, values: Mapping[str, float]) -> dict[str, Any]:
    return {"kind": RateByUse.LOGARITHMIC, "alpha": values["alpha"], "counts": old.by_use.counts}


def _weights(old: Profile, values: Mapping[str, float]) -> dict[str, Any]:
    """FSRS-6's weights, but for those fitted: the stability that a memory begins with, its growth, and the bend."""
    weights = list(FSRS_6)
    weights[2], weights[8], weights[20] = values["w2"], values["w8"], values["w20"]
    clock = Clock.LAST_REINFORCED if old.clock == Clock.CREATED else old.clock
    return {"lambda": old.rate, "curve": Curve.FSRS, "weights": weights, "initial_grade": Grade.GOOD, "clock": clock}


def _weight(place: int, low: float = 0.0) -> Free:
    least, most = RANGES[place]
    return Free(f"w{place}", max(low, least), most, FSRS_6[place])


FAMILIES = (
    Family("exponential", (_RATE,), lambda old, v: {"lambda": v["lambda"]}),
    Family(
        "exponential by use",
        (_RATE, _ALPHA),
        lambda old, v: {"lambda": v["lambda"], "by_use": _by_use(old, v)},
    ),
    Family(
        "power_law",
        (_RATE, _SCALE),
        lambda old, v: {"lambda": v["lambda"], "curve": Curve.POWER_LAW, "scale_days": v["scale_days"]},
    ),
    Family(
        "power_law by use",
        (_RATE, _SCALE, _ALPHA),
        lambda old, v: {
            "lambda": v["lambda"],
            "curve": Curve.POWER_LAW,
            "scale_days": v["scale_days"],
            "by_use": _by_use(old, v),
        },
    ),
    Family("fsrs", (_weight(2), _weight(8, 0.01), _weight(20)), _weights),
)
"""What is fitted, from the plainest to the richest."""


FSRS_DEFAULTS = policy_from(
    {
        "id": "fsrs-6",
        "version": "0.0.0",
        "params": {
            "profiles": {name: {"lambda": 0.1, "curve": "fsrs"} for name in DecayProfile if name != "PERMANENT"}
        },
    }
).params
"""FSRS-6 as it is, what is asserted learnt with good."""
