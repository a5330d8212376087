"""A chart as SVG: text is text, nothing is fetched from anywhere and nothing runs; the same chart gives the same bytes.

Needs matplotlib, which comes with `ebbtide[plot]`.
"""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from typing import Any

from ebbtide.draw.chart import Axis, Chart
from ebbtide.draw.terminal import letters
from ebbtide.model.errors import NotInstalled
from ebbtide.model.instant import to_datetime

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ebbtide",
    "path.simplify": False,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_NO_METADATA: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_COLOURS = ("#0b7285", "#ae3ec9", "#2b8a3e", "#e67700", "#1864ab", "#c92a2a")
"""Dark enough to be read on white."""


def refuse_missing() -> None:
    """Raises `NotInstalled` where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise NotInstalled("SVG needs matplotlib: pip install 'ebbtide[plot]'", field="svg")


def svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    refuse_missing()
    # Heavy, and needed by few: imported where it is used.
    import matplotlib  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    out = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # A font at hand that lacks a glyph is no matter: the text is drawn where it is looked at.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(9, 4.5), layout="constrained")
        _draw(figure.add_subplot(), chart)
        figure.savefig(out, format="svg", metadata=_NO_METADATA)
    document = out.getvalue()
    # Without the declaration of a document type, which names a file elsewhere.
    return '<?xml version="1.0" encoding="utf-8"?>\n' + document[document.index("<svg") :]


def _draw(axes: Any, chart: Chart) -> None:
    for threshold in chart.thresholds:
        axes.axhline(threshold.y, color="#868e96", linewidth=0.8, linestyle=":")
        axes.annotate(
            f"{threshold.name} {threshold.y:g}",
            (0, threshold.y),
            xycoords=("axes fraction", "data"),
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=7,
            color="#495057",
        )
    for place, line in enumerate(chart.lines):
        colour = _COLOURS[place % len(_COLOURS)]
        style = "-" if place == 0 else (0, (4, 2))
        axes.plot(_x(chart, line.x), line.y, color=colour, linestyle=style, label=line.name, gid=line.name)
    if chart.now is not None:
        axes.axvline(_x(chart, [chart.now])[0], color="#868e96", linewidth=0.8, label="now", gid="now")
    for place, (what, letter) in enumerate(letters([mark.what for mark in chart.marks]).items()):
        mine = [mark for mark in chart.marks if mark.what == what]
        axes.scatter(
            _x(chart, [mark.x for mark in mine]),
            [mark.y for mark in mine],
            s=28,
            zorder=3,
            color=_COLOURS[(place + 2) % len(_COLOURS)],
            marker=_SHAPES[place % len(_SHAPES)],
            label=f"{letter} {what}",
            gid=f"mark-{what}",
        )
    axes.set_ylim(0, 1.04 * chart.top)
    axes.set_title(chart.title, fontsize=10, parse_math=False)
    if chart.axis != Axis.INSTANTS:
        axes.set_xlabel(chart.axis.value)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


_SHAPES = "os^vDP*Xd<>"


def _x(chart: Chart, values: Any) -> list[Any]:
    return [to_datetime(round(one)) for one in values] if chart.axis == Axis.INSTANTS else list(values)
