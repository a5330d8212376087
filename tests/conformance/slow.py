"""The rules of forgetting once more, written down slowly: one memory, its formulas as they stand there, and a
search for instants that looks at every day and then halves it down to the second.

Nothing here comes from `ebbtide`. Instants are seconds since the beginning, days are 86,400 of them; a score is
what is shown of it: nine decimals, half up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

DAY = 86_400


@dataclass(frozen=True)
class Rules:
    """What a policy says, as far as its simulation needs it."""

    rates: dict[str, float]
    power_law: bool = False
    ages_by_access: bool = False
    mu_multiplier: float = 0.5
    deprecate_by_confidence: float = 0.15
    archive_min_confidence: float = 0.40
    floor_after: dict[str, int] = field(default_factory=dict)


RFC = {"PERMANENT": 0.0, "SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
RULES = {
    "default@1.0.0": Rules(RFC),
    "archivist@1.0.0": Rules(RFC, deprecate_by_confidence=0.0, archive_min_confidence=0.0),
    "permastore@1.0.0": Rules(
        {"PERMANENT": 0.0, "SLOW": 0.05, "MEDIUM": 0.25, "FAST": 0.50, "RAPID": 1.00},
        power_law=True,
        ages_by_access=True,
        mu_multiplier=0.0,
        deprecate_by_confidence=0.0,
        archive_min_confidence=0.0,
        floor_after={"SLOW": 5, "MEDIUM": 10, "FAST": 20},
    ),
}
PROFILE_OF = {
    "OBSERVED": "SLOW",
    "ASSERTED": "MEDIUM",
    "INFERRED": "FAST",
    "HYPOTHETICAL": "RAPID",
    "CONDITIONAL": "MEDIUM",
    "UNVERIFIED": "RAPID",
}
GAMMA = {"REFERENCED": 0.08, "CONFIRMED": 0.15, "TASK_COMPLETED_WITH": 0.12, "CORROBORATED_BY_EXTERNAL": 0.10}
DELTA = {"CORRECTED": 0.25, "CONTRADICTED_BY_OBSERVATION": 0.20, "TASK_FAILED_WITH": 0.10, "IGNORED_REPEATEDLY": 0.05}
CEILING = {
    "OBSERVED": 0.97,
    "ASSERTED": 0.92,
    "INFERRED": 0.85,
    "HYPOTHETICAL": 0.65,
    "CONDITIONAL": 0.85,
    "UNVERIFIED": 0.50,
}
GRACE_OF_OBSERVED, GRACE_OF_RESTORED = 180 * DAY, 7 * DAY


def nine(x: float) -> float:
    return math.floor(x * 1e9 + 0.5) / 1e9


@dataclass
class Slow:
    """One memory: `d`, `b`, `c` are the parts at `since`, `age` (days) what lies behind it, `trusted` is g."""

    rules: Rules
    epistemic: str
    profile: str
    since: float
    d: float
    c: float
    baseline: float = 0.0
    b: float = 0.0
    age: float = 0.0
    trusted: float = 0.0
    accesses: int = 0
    state: str = "ACTIVE"
    pinned: bool = False
    stopped: float | None = None
    restored: float | None = None
    kappa: float = 0.0
    warned: bool = False
    decided: list[tuple[str, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.baseline = self.d
        self.trusted = self.since + (GRACE_OF_OBSERVED if self.epistemic == "OBSERVED" else 0)

    # The formulas

    def curve(self, age: float) -> float:
        rate = self.rules.rates[self.profile]
        if self.rules.power_law and self.profile != "PERMANENT":
            return (1 + age) ** (-rate / (1 + 0.5 * math.log(self.accesses + 1)))
        return math.exp(-rate * age)

    def parts(self, at: float) -> tuple[float, float]:
        days = max(0.0, (at if self.stopped is None else self.stopped) - self.since) / DAY
        return self.d * self.curve(self.age + days) / self.curve(self.age), self.b * math.exp(-0.10 * days)

    def salience(self, at: float) -> float:
        floored = self.accesses >= self.rules.floor_after.get(self.profile, 1_000_000)
        return nine(min(1.0, max(0.40 if floored else 0.0, sum(self.parts(at)))))

    def confidence(self, at: float) -> float:
        days = max(0.0, (at if self.stopped is None else self.stopped) - self.trusted) / DAY
        return nine(self.c * math.exp(-self.rules.mu_multiplier * self.rules.rates[self.profile] * days))

    def shown(self, at: float) -> tuple[float, float]:
        return (1.0 if self.pinned else self.salience(at)), self.confidence(at)

    # Facts

    def begin(self, at: float, *, restarts: bool = False) -> tuple[float, float]:
        """A segment begins: the parts as they stand, which it keeps rounded; unrounded they come back."""
        here = at if self.stopped is None else self.stopped
        confidence = self.confidence(at)
        decaying, boost = self.parts(at)
        self.age = 0.0 if restarts else self.age + max(0.0, here - self.since) / DAY
        self.d, self.b, self.c = nine(decaying), nine(boost), confidence
        self.since, self.trusted = here, max(here, self.trusted)
        return decaying, boost

    def rises(self, at: float) -> None:
        """At or above the threshold where a segment begins, it may be warned of again."""
        self.warned = self.warned and self.salience(at) < 0.30

    def reinforce(self, at: float, signal: str) -> None:
        gamma = GAMMA[signal]
        _, boost = self.begin(at, restarts=True)
        self.c = nine(max(self.c, min(CEILING[self.epistemic], self.c + gamma * (1 - self.c))))
        self.b = nine(max(boost, min(0.40, boost + gamma)))
        self.baseline = nine(self.baseline + gamma * 0.5 * (1 - self.baseline))
        self.d = max(self.d, nine(min(1.0, self.baseline + self.kappa)))
        self.rises(at)

    def penalise(self, at: float, signal: str) -> None:
        delta = DELTA[signal]
        decaying, _ = self.begin(at)
        lowered = self.c * (1 - delta)
        self.c = nine(min(self.c, max(0.05, lowered)) if signal == "CORRECTED" else lowered)
        self.baseline, self.d = nine(self.baseline * (1 - 0.3 * delta)), nine(decaying * (1 - 0.3 * delta))
        self.rises(at)

    def access(self, at: float) -> None:
        """Shown. Where accesses count a segment begins; what is not ACTIVE keeps the scores it left with, uncounted."""
        if self.state != "ACTIVE":
            return
        counts = self.rules.ages_by_access and self.profile != "PERMANENT"
        if counts:
            self.begin(at, restarts=True)
        self.accesses += 1
        if counts:
            self.d = max(self.d, nine(min(1.0, self.baseline + self.kappa)))
            self.rises(at)
        if self.epistemic == "OBSERVED":
            self.c = self.confidence(at)
            self.trusted = (at if self.stopped is None else self.stopped) + GRACE_OF_OBSERVED

    def recentre(self, at: float, kappa: float) -> None:
        """Another centrality: the old term goes, the new one comes. What is not ACTIVE, or pinned, keeps its own."""
        if self.state != "ACTIVE" or self.pinned or kappa == self.kappa:
            return
        decaying, _ = self.begin(at)
        self.d = nine(min(1.0, max(0.0, decaying - self.kappa + kappa)))
        self.kappa = kappa
        self.rises(at)

    def pin(self, at: float) -> None:
        self.pinned, self.stopped = True, at

    def unpin(self, at: float) -> None:
        left = max(0.0, self.trusted - (self.stopped or 0.0))
        self.begin(at)
        self.pinned, self.stopped = False, None
        self.since, self.trusted = at, at + left
        self.rises(at)

    def restore(self, at: float) -> None:
        self.begin(at, restarts=True)
        self.state, self.stopped, self.since, self.restored = "ACTIVE", None, at, at
        self.trusted = max(at, self.trusted)
        self.d = self.baseline = max(self.baseline, 0.30)
        self.b, self.warned = 0.0, False

    # Rules

    def first_second(self, holds: Callable[[float], bool], until: float) -> float | None:
        """The first whole second, up to a midnight, at which a condition holds; looked for day by day."""
        low = math.ceil(self.since)
        if holds(low):
            return low
        high = low + DAY
        while high <= until and not holds(high):
            low, high = high, high + DAY
        high = min(high, until)
        if high <= low or not holds(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        assert holds(high)
        assert not holds(high - 1)
        return high

    def run(self, midnight: float) -> None:
        """The lifecycle task: what is due by a midnight, each at its instant; the deeper first at one and the same."""
        if self.state != "ACTIVE" or self.pinned:
            return
        doubt = self.rules.deprecate_by_confidence
        found = [
            (self.first_second(lambda at: self.confidence(at) < doubt, midnight), 0, "deprecate_by_confidence"),
            (self.first_second(lambda at: self.salience(at) < 0.05, midnight), 1, "force_archive"),
            (self.first_second(lambda at: self.salience(at) < 0.10, midnight), 2, "archive"),
        ]
        kept = 0.0 if self.restored is None else math.ceil(self.restored + GRACE_OF_RESTORED)
        exits = sorted((max(at, kept), order, rule) for at, order, rule in found if at is not None)
        exits = [one for one in exits if one[0] <= midnight]
        sinks = None if self.warned else self.first_second(lambda at: self.salience(at) < 0.30, midnight)
        if sinks is not None and not (exits and exits[0][0] <= sinks):
            self.warned = True
            self.decided.append(("DECAY_WARNING", sinks, self.salience(sinks), self.confidence(sinks)))
        if exits:
            at, _, rule = exits[0]
            hardly = self.confidence(at) < self.rules.archive_min_confidence
            deprecates = rule == "deprecate_by_confidence" or (rule == "archive" and hardly)
            self.state, self.stopped = ("DEPRECATED" if deprecates else "ARCHIVED"), at
            self.decided.append((rule, at, self.salience(at), self.confidence(at)))
