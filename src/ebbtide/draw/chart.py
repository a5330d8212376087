"""A chart: named lines over time, thresholds across them, and marks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Axis(StrEnum):
    """What x counts: instants in µs, or days since the beginning."""

    INSTANTS = "instants"
    DAYS = "days"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, by its points in ascending order of x; y is in [0, 1]."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A horizontal line that something happens at."""

    name: str
    y: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, or will, at a point; marks of one word look alike."""

    x: float
    y: float
    what: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What is to be drawn. The first line is the one that matters most; what lies right of `now` is to come."""

    title: str
    axis: Axis
    lines: Sequence[Line]
    thresholds: Sequence[Threshold] = ()
    marks: Sequence[Mark] = ()
    now: float | None = None

    @property
    def span(self) -> tuple[float, float]:
        """From where to where the lines go; never empty."""
        low = min(line.x[0] for line in self.lines)
        high = max(line.x[-1] for line in self.lines)
        return float(low), float(max(high, low + 1))
