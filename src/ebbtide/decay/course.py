"""What a memory keeps that nobody uses: the course of its salience under a policy, for pictures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ebbtide.decay.columns import COLUMNS
from ebbtide.decay.compare import days_to
from ebbtide.decay.fsrs import learning
from ebbtide.decay.segment import parameters, retention
from ebbtide.model.words import DecayProfile, EpistemicType
from ebbtide.policy.document import Policy


@dataclass(frozen=True, slots=True)
class Course:
    """A line of `points`: salience by age in days, of a memory that begins at some salience and is never used.

    `profiles` are those that have one and the same line. The ages at which half of it is left, and at which it is
    down at the thresholds, are in days; null is never, or beyond a hundred years. A floor under everything counts, one
    that use earns does not.
    """

    policy: str
    profiles: list[str]
    age_days: list[float]
    salience: list[float]
    half_life_days: float | None
    warning_days: float | None
    archive_days: float | None

    @property
    def name(self) -> str:
        return f"{self.policy} {' '.join(self.profiles)}"


def profiles_in_use(policy: Policy) -> list[DecayProfile]:
    """The profiles that a policy gives to memories by how they are known, slowest first."""
    mapping = policy.params.mapping
    used = {mapping[kind] for kind in EpistemicType if kind in mapping}
    return [profile for profile in DecayProfile if profile in used]


def courses(policy: Policy, profiles: Sequence[DecayProfile], begin: float, ages: Sequence[float]) -> list[Course]:
    """The lines of some profiles from a salience on; profiles that have the same line share one."""
    found: list[Course] = []
    for profile in profiles:
        course = _course(policy, profile, begin, ages)
        same = next((one for one in found if replace(one, profiles=course.profiles) == course), None)
        if same is None:
            found.append(course)
        else:
            same.profiles.append(profile.value)
    return found


def _course(policy: Policy, profile: DecayProfile, begin: float, ages: Sequence[float]) -> Course:
    p, stability = parameters(policy.params, profile), learning(policy.params.profiles[profile]).stability
    floor = p.floor if p.floor_after == 0 else 0.0
    kept = np.maximum(floor, begin * retention(COLUMNS, p, stability, 0.0, np.asarray(ages, dtype=np.float64)))
    return Course(
        policy=policy.name,
        profiles=[profile.value],
        age_days=[float(age) for age in ages],
        salience=[float(one) for one in kept],
        half_life_days=days_to(p, stability, begin, begin / 2),
        warning_days=days_to(p, stability, begin, p.warning),
        archive_days=days_to(p, stability, begin, p.archive),
    )
