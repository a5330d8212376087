"""What memories keep under one policy or several, by their age."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.decay.course import Course, courses, profiles_in_use
from ebbtide.draw.chart import Axis, Chart, Line, Mark, Threshold
from ebbtide.model.words import DecayProfile, EpistemicType
from ebbtide.policy.document import Policy

POINTS = 240
"""Steps of a line."""
DAYS, SALIENCE = 180, 0.9
TIERS = ("warning", "archive", "force_archive")


def lines_of(
    policies: Sequence[Policy], profiles: Sequence[DecayProfile] = (), *, days: int = DAYS, salience: float = SALIENCE
) -> list[Course]:
    """The lines: of the profiles named, else of those a single policy gives, else of that of what is asserted."""
    ages = [days * step / POINTS for step in range(POINTS + 1)]
    found = []
    for policy in policies:
        asserted = [policy.params.mapping[EpistemicType.ASSERTED]]
        chosen = profiles or (profiles_in_use(policy) if len(policies) == 1 else asserted)
        found += courses(policy, chosen, salience, ages)
    return found


def chart_of(policies: Sequence[Policy], lines: Sequence[Course]) -> Chart:
    """The picture: lines, half-lives as marks, thresholds across; a threshold that policies share stands once."""
    alone = len(policies) == 1
    return Chart(
        title=f"Salience by age, unused: {', '.join(policy.name for policy in policies)}",
        axis=Axis.DAYS,
        lines=[Line(" ".join(one.profiles) if alone else one.name, one.age_days, one.salience) for one in lines],
        thresholds=list(_thresholds(policies)),
        marks=[
            Mark(one.half_life_days, one.salience[0] / 2, "half-life")
            for one in lines
            if one.half_life_days is not None and one.half_life_days <= one.age_days[-1]
        ],
    )


def _thresholds(policies: Sequence[Policy]) -> Iterator[Threshold]:
    for tier in TIERS:
        by_value: dict[float, list[str]] = {}
        for policy in policies:
            by_value.setdefault(getattr(policy.params.tier_thresholds, tier), []).append(policy.id)
        for value, ids in by_value.items():
            if value > 0:
                yield Threshold(tier if len(by_value) == 1 else f"{tier} ({', '.join(ids)})", value)
