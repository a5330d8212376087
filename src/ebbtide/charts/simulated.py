"""How many memories stay under two policies, day by day."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from itertools import pairwise

from ebbtide.draw.chart import Axis, Chart, Line
from ebbtide.model.instant import DAY, to_micros
from ebbtide.replay.simulate import Simulation


def names_of(found: Simulation) -> list[str]:
    """What the two lines are called."""
    return [side.policy or "as it is" for side in (found.under, found.against)]


def chart_of(found: Simulation) -> Chart:
    """How many are ACTIVE at the end of each day, under both."""
    lines = []
    for name, side in zip(names_of(found), (found.under, found.against), strict=True):
        points = {to_micros(found.as_of): found.active}
        points |= {min(_end(day.day), to_micros(found.until)): day.active for day in side.days}
        points.setdefault(to_micros(found.until), side.active)
        # Where nothing leaves the line is level: the last number stands until a day begins on which one does.
        steps = [(at, count) for at, count in sorted(points.items())]
        levels = [(later - DAY, count) for (_, count), (later, _) in pairwise(steps) if later - DAY > steps[0][0]]
        drawn = sorted({**dict(levels), **dict(steps)}.items())
        lines.append(Line(name, [at for at, _ in drawn], [count for _, count in drawn]))
    top = max((max(line.y) for line in lines), default=1)
    return Chart("ACTIVE memories", Axis.INSTANTS, lines, top=float(max(top, 1)))


def _end(day: date) -> int:
    return to_micros(datetime.combine(day, time(), UTC)) + DAY
