"""`ebb policy simulate --growth`: how a store grows with merging and expiry, beside one that only ever adds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Annotated

import typer

from ebbtide.cli import drawing, output
from ebbtide.cli.output import Format
from ebbtide.decay.growth import Growth
from ebbtide.draw.chart import Axis, Chart, Line

Months = Annotated[int | None, typer.Option(min=1, max=1200, help="[default: 24]", show_default=False)]
Arrivals = Annotated[
    float | None, typer.Option(min=0.001, max=1e12, help="Memories a month [default: 180]", show_default=False)
]
MergeRate = Annotated[
    float | None, typer.Option(min=0, max=1, help="The share that merges [default: 0.45]", show_default=False)
]
Events = Annotated[
    float | None, typer.Option(min=0, max=1, help="The share of events in the rest [default: 0.4]", show_default=False)
]
TtlDays = Annotated[
    float | None, typer.Option(min=0, max=36_525, help="How long events last [default: 90]", show_default=False)
]
Size = Annotated[float | None, typer.Option(min=0, help="Also the merge rate to end at this size", show_default=False)]
SvgFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Also draw the two lines into it", show_default=False)
]

KEPT_ALL, KEPT = "all kept", "merge and expire"
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be shown: of which growth, over how many months, and for which size to end at."""

    growth: Growth
    months: int
    size: float | None = None
    svg_file: str | None = None


def asked(numbers: Mapping[str, float | None], months: int | None, size: float | None, svg: str | None) -> Asked:
    """What is to be shown, with the defaults of what was not given."""
    growth = Growth(**{name: value for name, value in numbers.items() if value is not None})
    return Asked(growth, months or 24, size, svg)


def show(asked: Asked, format: Format) -> None:
    """Prints both lines, and draws them."""
    growth, months = asked.growth, asked.months
    if asked.svg_file is not None:
        drawing.write(asked.svg_file, chart_of(asked))
    needed = None if asked.size is None else growth.merge_rate_for(asked.size, months)
    if format == Format.JSON:
        lines = [
            {"month": n, "kept_all": round(growth.kept_all(n), 3), "kept": round(growth.kept(n), 3)}
            for n in range(1, months + 1)
        ]
        found = {"months": lines, "saved": round(growth.saved(months), 6), "merge_rate_for_size": needed}
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
    sys.stdout.write(f"{growth.saved(months):.0%} fewer after month {months}\n")
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
