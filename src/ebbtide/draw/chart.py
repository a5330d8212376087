"""A chart: named lines over time, thresholds across them, and marks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Axis(StrEnum):
    """What x counts: instants in µs, or days or months since the beginning."""

    INSTANTS = "instants"
    DAYS = "days"
    MONTHS = "months"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, by its points in ascending order of x; y is from 0 to the chart's `top`."""

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
    """What is to be drawn. The first line is the one that matters most; what lies right of `now` is to come.

    `top` is what y goes up to: 1 for scores.
    """

    title: str
    axis: Axis
    lines: Sequence[Line]
    thresholds: Sequence[Threshold] = ()
    marks: Sequence[Mark] = ()
    now: float | None = None
    top: float = 1.0

    @property
    def span(self) -> tuple[float, float]:
        """From where to where the lines go; never empty."""
        low = min(line.x[0] for line in self.lines)
        high = max(line.x[-1] for line in self.lines)
        return float(low), float(max(high, low + 1))
