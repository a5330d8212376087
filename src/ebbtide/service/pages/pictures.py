"""Pictures of the pages: a chart in the sizes that it is shown in, what its lines mean, and its numbers as a table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from ebbtide.audit.explanation import Explanation
from ebbtide.audit.over_time import CountsAt
from ebbtide.decay.course import Course
from ebbtide.draw.chart import Axis, Chart, Line, Mark, Threshold
from ebbtide.draw.inline import MIDDLE, NARROW, SMALL, WIDE, Size, inline
from ebbtide.model import instant
from ebbtide.policy.document import Policy
from ebbtide.service.pages.rendering import day, number, score, when

COUNTED = ("eligible", "warned", "archived", "deprecated")
ROWS = 32
"""Rows of a table of numbers; of a line with more points some are left out."""


@dataclass(frozen=True)
class Sign:
    """What a class of the drawing stands for, with a number where one says more than the line."""

    css: str
    name: str
    said: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawing, ready for a page."""

    title: str
    drawings: Sequence[Markup]
    signs: Sequence[Sign]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""
    compact: bool = False


_numbers = itertools.count(1)


@lru_cache(maxsize=256)
def _drawn(chart: tuple[Any, ...], sizes: tuple[Size, ...], about: str) -> list[Markup]:
    """The same chart is drawn once: its numbers are its name."""
    made = _thawed(chart)
    # The element comes from the library, which escapes what it writes.
    return [Markup(inline(made, size, f"c{next(_numbers)}", about)) for size in sizes]


def drawn(chart: Chart, sizes: Sequence[Size], about: str) -> list[Markup]:
    """The drawings of a chart, one a size."""
    return _drawn(_frozen(chart), tuple(sizes), about)


def _frozen(chart: Chart) -> tuple[Any, ...]:
    lines = tuple((line.name, tuple(line.x), tuple(line.y)) for line in chart.lines)
    return (chart.title, chart.axis, lines, tuple(chart.thresholds), tuple(chart.marks), chart.now, chart.top)


def _thawed(frozen: tuple[Any, ...]) -> Chart:
    title, axis, lines, thresholds, marks, now, top = frozen
    return Chart(title, axis, [Line(*line) for line in lines], thresholds, marks, now, top)


# A namespace over time


def over_time(found: Sequence[CountsAt], title: str, sizes: Sequence[Size], profile: str | None = None) -> Picture:
    """What was eligible, warned, archived and deprecated, day by day; of one profile, or together."""
    instants = sorted({one.at for one in found})
    summed = {at: dict.fromkeys(COUNTED, 0) for at in instants}
    for one in found:
        if profile in (None, one.decay_profile):
            for name in COUNTED:
                summed[one.at][name] += getattr(one, name)
    x = [_minute(at) for at in instants]
    lines = [Line(name, x, [summed[at][name] for at in instants]) for name in COUNTED]
    top = float(max(1, *(max(line.y) for line in lines)))
    chart = Chart(title, Axis.INSTANTS, lines, top=max(2.0, top))
    last, first = summed[instants[-1]], summed[instants[0]]
    about = f"From {day(instants[0])} to {day(instants[-1])}: " + ", ".join(
        f"{name} from {first[name]} to {last[name]}" for name in COUNTED
    )
    return Picture(
        title,
        drawn(chart, sizes, about),
        [Sign(f"s{place}", name, number(last[name])) for place, name in enumerate(COUNTED)],
        ["day", *COUNTED],
        [[day(at), *(number(summed[at][name]) for name in COUNTED)] for at in _some(instants)],
        compact=profile is not None,
    )


def _minute(at: datetime) -> int:
    """A whole minute: a page that is loaded again within one has the same drawing, and need not draw it."""
    return instant.to_micros(at) // instant.MINUTE * instant.MINUTE


def _some(items: Sequence[Any], most: int = ROWS) -> list[Any]:
    """Evenly spread ones, the last among them, newest first."""
    every = -(-len(items) // most)
    return list(items[::-1])[::every]


# One memory


def curve(found: Explanation) -> Picture:
    """A memory's scores from its first entry to its forecast."""
    told, policy = found.curve, found.policy
    x = [instant.to_micros(at) for at in told.at]
    now = min(max(_minute(told.now), x[0]), x[-1])
    chart = Chart(
        "Salience and confidence over time",
        Axis.INSTANTS,
        [Line("salience", x, told.salience), Line("confidence", x, told.confidence)],
        [Threshold("warning", policy.warning), Threshold("archive", policy.archive)],
        [Mark(instant.to_micros(mark.at), mark.salience, f"{mark.what}, {when(mark.at)}") for mark in told.marks],
        float(now),
    )
    memory = found.memory
    ahead = [f"{one.rule} on {day(one.at)}" for one in found.forecast]
    about = (
        f"Salience is {score(memory.salience)} and confidence {score(memory.confidence)} on {day(found.as_of)}. "
        f"{'Ahead: ' + ', '.join(ahead) if ahead else 'Nothing is due'}."
    )
    points = list(zip(told.at, told.salience, told.confidence, strict=True))
    return Picture(
        chart.title,
        drawn(chart, (MIDDLE, NARROW), about),
        [Sign("s0", "salience", score(memory.salience)), Sign("s1", "confidence", score(memory.confidence))],
        ["at", "salience", "confidence"],
        [[when(at), score(one), score(other)] for at, one, other in _some(points)],
        "Dots are what happened, or will; what is dashed is the forecast.",
    )


# Policies


def courses(lines: Sequence[Course], policies: Sequence[Policy], title: str) -> Picture:
    """What is left of a memory's salience that nobody uses, by its age."""
    alone = len(policies) == 1
    names = [" ".join(one.profiles) if alone else one.name for one in lines]
    tiers = policies[0].params.tier_thresholds
    chart = Chart(
        title,
        Axis.DAYS,
        [Line(name, one.age_days, one.salience) for name, one in zip(names, lines, strict=True)],
        [Threshold("warning", tiers.warning), Threshold("archive", tiers.archive)],
        [
            Mark(one.half_life_days, one.salience[0] / 2, f"half-life of {name}, {one.half_life_days:.1f} days")
            for name, one in zip(names, lines, strict=True)
            if one.half_life_days is not None and one.half_life_days <= one.age_days[-1]
        ],
    )
    about = "; ".join(
        f"{name}: half after {one.half_life_days:.0f} days" if one.half_life_days is not None else f"{name}: never half"
        for name, one in zip(names, lines, strict=True)
    )
    ages = _some(range(len(lines[0].age_days)), 13)[::-1]
    return Picture(
        title,
        drawn(chart, (WIDE, NARROW), about),
        [Sign(f"s{place}", name) for place, name in enumerate(names)],
        ["day", *names],
        [[f"{lines[0].age_days[at]:.0f}", *(score(one.salience[at]) for one in lines)] for at in ages],
        "Dots are half-lives." if len({tuple(one.salience) for one in lines}) == len(lines) else SAME,
    )


SAME = "Dots are half-lives. Lines that are the same lie upon each other."


def counts(chart: Chart) -> Picture:
    """Counts over time, one line a policy."""
    ends = [f"{line.name}: from {line.y[0]:.0f} to {line.y[-1]:.0f}" for line in chart.lines]
    points = sorted({x for line in chart.lines for x in line.x})
    return Picture(
        chart.title,
        drawn(chart, (WIDE, NARROW), "; ".join(ends)),
        [Sign(f"s{place}", line.name, number(round(line.y[-1]))) for place, line in enumerate(chart.lines)],
        ["at", *(line.name for line in chart.lines)],
        [
            [day(instant.to_datetime(round(x))), *(number(round(_level(line, x))) for line in chart.lines)]
            for x in _some(points)[::-1]
        ],
    )


def _level(line: Line, x: float) -> float:
    """Where a line stands at a point: what it was at its last one before."""
    return next((y for at, y in reversed(list(zip(line.x, line.y, strict=True))) if at <= x), line.y[0])


def warm() -> None:
    """Loads what drawing takes, so that the first page need not wait for it."""
    drawn(Chart("", Axis.DAYS, [Line("", [0, 1], [0, 1])]), SMALL_ONLY, "")


SMALL_ONLY = (SMALL,)
BIG = (WIDE, NARROW)
