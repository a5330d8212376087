"""Two policies side by side: which parameters differ, how long memories last under each, and where curves cross."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ebbtide.decay.fsrs import learning
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Parameters, age_when_faded, fading, parameters
from ebbtide.model.words import INITIAL_SALIENCE, DecayProfile
from ebbtide.policy.document import Policy

FARTHEST = 36_525.0
"""Days: nothing is looked for beyond a hundred years."""

_NEAREST, _POINTS = 1e-3, 2_000
_FADED = 9 * math.log(10)
"""−ln R where a score has no decimals left; what curves do further down is nothing to see."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its value under each policy; null is none, as of a rule that only the other one has."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Lasting:
    """How many days a memory of some profile that nobody uses lasts; null is more than a hundred years.

    From salience 1 to the half, and from a new memory's to the warning and to the archive.
    """

    half_life: float | None
    to_warning: float | None
    to_archive: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """One profile under two policies. `cross` are the ages (days) above 0 at which both retain as much."""

    profile: str
    a: Lasting
    b: Lasting
    cross: list[float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two policies: the parameters that differ, and every profile."""

    a: str
    b: str
    parameters: list[Parameter]
    profiles: list[Curves]


def compare(a: Policy, b: Policy) -> Comparison:
    """Compares two policies, for memories that nobody uses, under each profile."""
    flat_a, flat_b = dict(_flat(_document(a))), dict(_flat(_document(b)))
    differ = [
        Parameter(path, flat_a.get(path), flat_b.get(path))
        for path in dict.fromkeys([*flat_a, *flat_b])
        if flat_a.get(path) != flat_b.get(path)
    ]
    return Comparison(a.name, b.name, differ, [_curves(a, b, profile) for profile in DecayProfile])


def _document(policy: Policy) -> Any:
    return policy.params.model_dump(mode="json", by_alias=True)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and words of a document by their path; an empty table or list has none."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if members is None:
        yield path, value
        return
    for name, member in members:
        yield from _flat(member, f"{path}.{name}" if path else str(name))


def _curves(a: Policy, b: Policy, profile: DecayProfile) -> Curves:
    sides = [(parameters(policy.params, profile), _stability(policy, profile)) for policy in (a, b)]
    lasting = [_lasting(numbers, stability) for numbers, stability in sides]

    def apart(age: float) -> float:
        one, other = (fading(SCALAR, numbers, stability, 0.0, age) for numbers, stability in sides)
        if min(one, other) > _FADED or math.isclose(one, other, rel_tol=1e-12):
            return 0.0
        return float(one - other)

    return Curves(profile.value, lasting[0], lasting[1], crossings(apart))


def _stability(policy: Policy, profile: DecayProfile) -> float:
    return float(learning(policy.params.profiles[profile]).stability)


def days_to(p: Parameters, stability: float, begin: float, to: float) -> float | None:
    """The days in which a salience that nobody uses falls to another: none where its floor is no lower, or later than
    in a hundred years."""
    if begin < to:
        return 0.0
    if to <= (p.floor if p.floor_after == 0 else 0.0):
        return None
    found = age_when_faded(SCALAR, p, stability, 0.0, math.log(begin / to))
    return None if found > FARTHEST else float(found)


def _lasting(p: Parameters, stability: float) -> Lasting:
    half = age_when_faded(SCALAR, p, stability, 0.0, math.log(2))
    return Lasting(
        half_life=None if half > FARTHEST else float(half),
        to_warning=days_to(p, stability, INITIAL_SALIENCE, p.warning),
        to_archive=days_to(p, stability, INITIAL_SALIENCE, p.archive),
    )


def crossings(apart: Callable[[float], float]) -> list[float]:
    """The ages (days) at which a difference changes its sign, found on a logarithmic grid and by halving.

    Two curves that cross twice between neighbouring points, 0.9 % of the age apart, are not told apart.
    """
    found = []
    step = (FARTHEST / _NEAREST) ** (1 / _POINTS)
    before, sign = 0.0, 0.0
    for point in range(_POINTS + 1):
        age = _NEAREST * step**point
        here = apart(age)
        if here == 0:
            continue
        if sign and (here > 0) != (sign > 0):
            found.append(_root(apart, before, age, sign))
        before, sign = age, here
    return found


def _root(apart: Callable[[float], float], low: float, high: float, sign: float) -> float:
    """Where a difference that has a sign at `low` and the other one at `high` is nothing."""
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if (apart(middle) > 0) == (sign > 0):
            low = middle
        else:
            high = middle
    return (low + high) / 2
