"""Memory objects as an ASSERT begins them, for tests that need no store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.model import instant
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import LifecycleState
from ebbtide.policy.document import policy_from
from ebbtide.policy.files import pick

T0 = instant.parse("2026-03-02T00:00:00Z")


def after(days: float) -> int:
    """The instant so many days after `T0`."""
    return T0 + round(days * DAY)


def shipped(name: str) -> Terms:
    """The terms of a built-in policy."""
    return Terms.of(pick(f"{name}@1.0.0"))


def own(**params: Any) -> Terms:
    """The terms of a policy that differs from the default in the parameters given."""
    return Terms.of(policy_from({"id": "own", "version": "1.0.0", "params": params}))


DEFAULT = shipped("default")


def belief(terms: Terms = DEFAULT, *, salience: float = 0.5, confidence: float = 0.8, **given: Any) -> MemoryState:
    """An object asserted at `T0`: ASSERTED unless told, so MEDIUM under the default policy."""
    at = given.pop("at", T0)
    fields = {
        "namespace_id": "tests",
        "object_id": UUID(int=1),
        "version": 0,
        "fact_version": 0,
        "fact_at": at,
        "head_hash": b"",
        "lifecycle_state": LifecycleState.ACTIVE,
        "salience": salience,
        "confidence": confidence,
        "object_type": "FACT",
        "epistemic_type": "ASSERTED",
        "source_type": "USER_STATED",
        "evidence": "[]",
        "created_at": at,
        "modified_at": at,
        "content_seq": 1,
        "segment_at": at,
        "segment_age": 0,
        "decaying": salience,
        "boost": 0.0,
        "baseline": salience,
        "centrality": 0.0,
        "confidence_base": confidence,
        "confidence_from": at,
        "decay_profile": "",
        "policy_id": "",
        "policy_version": "",
        "access_count": 0,
        "reinforce_count": 0,
        "pinned": False,
        "held": False,
        "frozen": False,
        "warned": False,
    } | given
    absent = dict.fromkeys(name for name in MemoryState.__dataclass_fields__ if name not in fields)
    return facts.asserted(MemoryState(**fields, **absent), terms, at)


def nine(x: float) -> float:
    """Nine decimals, half up: floor(x·10⁹ + 0.5)/10⁹."""
    return math.floor(x * 1e9 + 0.5) / 1e9


@dataclass
class Plain:
    """What the rules say of a segment, written down a second time and slowly, one formula after the other.

    `curve` is R(a), a in days; `d`, `b`, `c` the parts at `since`, `age` the days behind it, `trusted` the g
    from which confidence falls by `mu` per day.
    """

    curve: Callable[[float], float]
    mu: float
    d: float
    b: float
    c: float
    since: int = T0
    trusted: int = T0
    age: float = 0.0
    floor: float = 0.0
    rho: float = 0.10

    def decaying(self, at: int) -> float:
        elapsed = max(0, at - self.since) / 86_400_000_000
        return self.d * self.curve(self.age + elapsed) / self.curve(self.age)

    def boost(self, at: int) -> float:
        return self.b * math.exp(-self.rho * max(0, at - self.since) / 86_400_000_000)

    def salience(self, at: int) -> float:
        return nine(min(1.0, max(self.floor, self.decaying(at) + self.boost(at))))

    def confidence(self, at: int) -> float:
        return nine(self.c * math.exp(-self.mu * max(0, at - self.trusted) / 86_400_000_000))


def exponential(rate: float) -> Callable[[float], float]:
    return lambda age: math.exp(-rate * age)


def power_law(rate: float, scale: float) -> Callable[[float], float]:
    return lambda age: (1 + age / scale) ** -rate


def fsrs(stability: float, w: float = 0.1542) -> Callable[[float], float]:
    return lambda age: (1 + (0.9 ** (-1 / w) - 1) * age / stability) ** -w
