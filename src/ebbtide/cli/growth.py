"""`ebb policy simulate --growth`: how a store grows with merging and expiry, beside one that only ever adds."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from itertools import chain

from ebbtide.cli import drawing, output
from ebbtide.cli.output import Format
from ebbtide.decay.growth import Growth
from ebbtide.draw.chart import Axis, Chart, Line

KEPT_ALL, KEPT = "all kept", "merge and expire"
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be shown: of which growth, over how many months, and for which size to end at."""

    growth: Growth
    months: int
    size: float | None = None
    svg_file: str | None = None


def show(asked: Asked, format: Format) -> None:
    """Prints both lines, and draws them."""
    growth, months = asked.growth, asked.months
    if asked.svg_file is not None:
        drawing.write(asked.svg_file, chart_of(asked))
    needed = None if asked.size is None else growth.merge_rate_for(asked.size, months)
    if format == Format.JSON:
        lines = [{"month": n, "kept_all": growth.kept_all(n), "kept": growth.kept(n)} for n in range(1, months + 1)]
        found = {"months": lines, "saved": growth.saved(months), "merge_rate_for_size": needed}
        output.document(asdict(growth) | {"size": asked.size} | found)
        return
    drawing.show(chart_of(asked))
    every = -(-months // _ROWS)
    output.table(
        "Memories at the end of a month",
        ("month", KEPT_ALL, KEPT),
        (
            (n, f"{growth.kept_all(n):,.0f}", f"{growth.kept(n):,.0f}")
            for n in chain(range(every, months, every), [months])
        ),
        numbers=("month", KEPT_ALL, KEPT),
    )
    sys.stdout.write(f"{growth.saved(months):.0%} fewer after {months} months\n")
    if needed is not None:
        sys.stdout.write(f"To end at {asked.size:,g} it takes a merge rate of {needed:.1%}\n")


def chart_of(asked: Asked) -> Chart:
    """Both lines over the months."""
    growth, x = asked.growth, list(range(asked.months + 1))
    return Chart(
        title="How a store grows",
        axis=Axis.MONTHS,
        lines=[
            Line(KEPT, x, [growth.kept(n) for n in x]),
            Line(KEPT_ALL, x, [growth.kept_all(n) for n in x]),
        ],
        top=growth.kept_all(asked.months),
    )
