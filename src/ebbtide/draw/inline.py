"""A chart as an `<svg>` element within a page: shapes with classes, which the page's own style gives colours and type.

Nothing in it has a style of its own, so that it follows light and dark and a strict Content-Security-Policy. Classes:
`line`, `area` and `mark` with `s0`, `s1` … by their place, `ahead` for what is to come, `threshold`, `now`, `grid`,
`name`. Needs matplotlib, which comes with `ebbtide[plot]`.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

from ebbtide.draw.chart import Axis, Chart, Line
from ebbtide.draw.svg import refuse_missing
from ebbtide.model.instant import DAY, to_datetime

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_drawing = threading.Lock()
"""matplotlib keeps its settings in a module: one thread at a time."""
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "ebbtide", "path.simplify": True}
_NO_METADATA: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height in px of the page, which the element keeps in proportion; `ticks` along x."""

    name: str
    width: int
    height: int
    ticks: int


WIDE = Size("wide", 1100, 300, 8)
MIDDLE = Size("wide", 780, 290, 6)
NARROW = Size("narrow", 358, 230, 4)
SMALL = Size("small", 320, 132, 3)
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 14, 26
"""Margins in px."""


def inline(chart: Chart, size: Size, ident: str, about: str) -> str:
    """The chart as an element. `ident` is its own in the page; `about` says in words what can be seen."""
    refuse_missing()
    # Heavy, and needed by few: imported where it is used.
    import matplotlib  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    out = io.StringIO()
    with _drawing, matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(size.width / 72, size.height / 72), dpi=72)
        figure.patch.set_visible(False)
        width, height = 1 - (_LEFT + _RIGHT) / size.width, 1 - (_TOP + _BOTTOM) / size.height
        axes = figure.add_axes((_LEFT / size.width, _BOTTOM / size.height, width, height))
        _draw(axes, chart, size)
        figure.savefig(out, format="svg", metadata=_NO_METADATA)
    document = out.getvalue()
    root = ElementTree.fromstring(document[document.index("<svg") :])
    return _plain(root, size, ident, chart.title, about)


def _draw(axes: Any, chart: Chart, size: Size) -> None:
    low, high = chart.span
    axes.set_frame_on(False)
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.02 * chart.top)
    for y in levels(chart.top):
        axes.axhline(y, gid="grid", clip_on=False)
        _text(axes, (-8, 0), (0, y), f"{y:g}", ("axes fraction", "data"), ha="right", va="center")
    for x, said in ticks(chart, size.ticks):
        _text(axes, (0, -12), (x, 0), said, "data", ha=_side(x, low, high), va="top")
    for threshold in chart.thresholds:
        axes.axhline(threshold.y, gid="threshold", clip_on=False)
        name = f"{threshold.name} {threshold.y:g}"
        _text(axes, (4, 3), (0, threshold.y), name, ("axes fraction", "data"), gid="threshold", ha="left", va="bottom")
    first = chart.lines[0]
    axes.fill_between(first.x, first.y, gid="area", clip_on=False)
    for place, line in reversed(list(enumerate(chart.lines))):
        for part, ahead in parts(line, chart.now):
            axes.plot(part.x, part.y, gid=f"line s{place}{' ahead' if ahead else ''}", clip_on=False)
    if chart.now is not None and low < chart.now < high:
        axes.axvline(chart.now, gid="now", clip_on=False)
        ends = chart.now > low + 0.9 * (high - low)
        where = {"ha": "right" if ends else "left", "va": "top"}
        _text(axes, (-4 if ends else 4, 4), (chart.now, 1), "now", ("data", "axes fraction"), gid="now", **where)
    for mark in chart.marks:
        later = " ahead" if chart.now is not None and mark.x > chart.now else ""
        gid = f"mark{later}|{mark.what}"
        axes.plot([mark.x], [mark.y], marker="o", linestyle="none", markersize=7, gid=gid, clip_on=False)
    axes.set_xticks([])
    axes.set_yticks([])


def _text(
    axes: Any, offset: tuple[float, float], at: Any, said: str, by: Any, *, gid: str = "name", **how: Any
) -> None:
    axes.annotate(
        said, at, xycoords=by, xytext=offset, textcoords="offset points", gid=gid, annotation_clip=False, **how
    )


def _side(x: float, low: float, high: float) -> str:
    """What is written at an end of the axis stays within the picture."""
    share = (x - low) / (high - low)
    return "left" if share < 0.04 else "right" if share > 0.96 else "center"


def levels(top: float) -> Sequence[float]:
    """Round numbers from 0 to the top, four or five of them."""
    if top <= 1:
        return [0, 0.25, 0.5, 0.75, 1]
    step = 10.0 ** len(str(int(top)))
    while top / step < 3:
        step /= 2 if str(step)[0] in "12" else 2.5
    step = max(1.0, step)
    return [step * place for place in range(int(top / step) + 1)]


def ticks(chart: Chart, number: int) -> Iterator[tuple[float, str]]:
    """Where x has a name, and which."""
    low, high = chart.span
    if chart.axis != Axis.INSTANTS:
        unit = chart.axis.value.removesuffix("s")
        for place in range(number):
            x = low + (high - low) * place / (number - 1)
            yield x, f"{unit} {x:.0f}" if high - low >= number else f"{x:.2f}"
        return
    every: float = DAY * max(1, round((high - low) / DAY / (number - 1)))
    short = timedelta(microseconds=high - low) < timedelta(days=2)
    far = timedelta(microseconds=high - low) > timedelta(days=300)
    if short:
        every = (high - low) / (number - 1)
    for place in range(number + 1):
        x = high - every * place if chart.now == high else low + every * place
        if low <= x <= high:
            at = to_datetime(round(x))
            yield x, f"{at:%H:%M}" if short else f"{at:%b %Y}" if far else f"{at.day} {at:%b}"


def parts(line: Line, now: float | None) -> Iterator[tuple[Line, bool]]:
    """A line up to now, and what of it is to come."""
    if now is None or line.x[-1] <= now:
        yield line, False
        return
    if line.x[0] >= now:
        yield line, True
        return
    points = list(zip(line.x, line.y, strict=True))
    (x0, y0), (x1, y1) = next((a, b) for a, b in pairwise(points) if a[0] <= now < b[0])
    here = (now, y0 + (y1 - y0) * (now - x0) / (x1 - x0))
    for found, ahead in (
        ([one for one in points if one[0] <= now] + [here], False),
        ([here] + [one for one in points if one[0] > now], True),
    ):
        yield Line(line.name, [x for x, _ in found], [y for _, y in found]), ahead


# What is left of what matplotlib wrote

_NUMBER = re.compile(r"-?\d+\.\d+")
_KEPT = ("d", "x", "y", "transform", "width", "height", "viewBox")


def _plain(root: Any, size: Size, ident: str, title: str, about: str) -> str:
    """Shapes with classes only: no style, no ids of matplotlib's."""
    out = ElementTree.Element(
        "svg",
        {
            "class": f"chart {size.name}",
            "viewBox": f"0 0 {size.width} {size.height}",
            "role": "img",
            "aria-labelledby": f"{ident}-t {ident}-d",
        },
    )
    ElementTree.SubElement(out, "title", {"id": f"{ident}-t"}).text = title
    ElementTree.SubElement(out, "desc", {"id": f"{ident}-d"}).text = about
    shapes = {one.get("id"): one for one in root.iter(f"{{{_SVG}}}path") if one.get("id")}
    for group, shape in _shapes(root, ""):
        _add(out, group, shape, shapes)
    return ElementTree.tostring(out, encoding="unicode")


def _shapes(element: Any, group: str) -> Iterator[tuple[str, Any]]:
    """Everything that is drawn, with the class of the group that it is in."""
    for child in element:
        kind = child.tag.removeprefix(f"{{{_SVG}}}")
        if kind == "g":
            name = child.get("id", "")
            ours = name.split(" ")[0].split("|")[0] in _CLASSES
            yield from _shapes(child, name if ours else group)
        elif kind in ("path", "text", "use") and group:
            yield group, child


_CLASSES = ("line", "area", "mark", "threshold", "now", "grid", "name")


def _add(out: Any, group: str, shape: Any, shapes: Any) -> None:
    css, _, said = group.partition("|")
    kind = shape.tag.removeprefix(f"{{{_SVG}}}")
    if kind == "use" and css.startswith("mark"):
        made = ElementTree.SubElement(
            out, "circle", {"class": css, "cx": shape.get("x"), "cy": shape.get("y"), "r": "4"}
        )
        ElementTree.SubElement(made, "title").text = said
        return
    if kind == "use":
        x, y = shape.get("x"), shape.get("y")
        d = shapes[shape.get(_LINK, "#").removeprefix("#")].get("d")
        ElementTree.SubElement(out, "path", {"class": css, "d": d, "transform": f"translate({x} {y})"})
        return
    kept = {name: shape.get(name) for name in _KEPT if shape.get(name) is not None}
    if kind == "path":
        kept["d"] = _NUMBER.sub(lambda found: f"{float(found[0]):.1f}", " ".join(kept["d"].split()))
        ElementTree.SubElement(out, "path", {"class": css, **kept})
        return
    anchor = next((a for a in ("middle", "end") if f"text-anchor: {a}" in shape.get("style", "")), "start")
    kept.pop("transform", None)
    # Anchored at its own middle, since the page has another font than matplotlib.
    ElementTree.SubElement(out, "text", {"class": css, "text-anchor": anchor, **kept}).text = shape.text
