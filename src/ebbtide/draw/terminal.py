"""A chart in the terminal, of braille dots, or of ASCII where the terminal has no others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import plotille
from rich.text import Text

from ebbtide.draw.chart import Axis, Chart, Line
from ebbtide.model.instant import to_datetime

GUTTER = 7
"""Columns left of the canvas, for the numbers of y."""
STYLES = ("cyan", "magenta", "green", "yellow", "blue", "red")
_HEADROOM = 1.04
_BLANK = "\N{BRAILLE PATTERN BLANK}"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters beside the lines' own."""

    axis: str
    corner: str
    floor: str
    tick: str
    threshold: str
    now: str
    dots: Sequence[str]

    def of(self, place: int) -> str | None:
        """What a line is made of by its place; None for braille, which says itself where its points are."""
        return self.dots[place % len(self.dots)] if self.dots else None


_UNICODE = _Signs("│", "└", "─", "┬", "┄", "│", ())
_ASCII = _Signs("|", "+", "-", "+", "-", ":", ("*", ".", "o", "x", "=", "~"))

Cell = tuple[str, str]
"""A character and its style."""


def drawn(chart: Chart, *, width: int, height: int = 14, ascii_only: bool = False) -> Iterator[Text]:
    """The lines of a drawing, none wider than `width`."""
    signs = _ASCII if ascii_only else _UNICODE
    grid = _Grid(chart, max(20, width - GUTTER), height)
    cells = grid.cells(signs)
    labels = grid.labels()
    for row in range(height):
        text = Text(f"{labels.get(row, ''):>{GUTTER - 2}} {signs.axis}")
        for character, style in cells[row]:
            text.append(character, style)
        text.rstrip()
        yield text
    yield from grid.axis(signs)
    yield from _legend(chart, grid.letters, signs, width)


class _Grid:
    """The canvas: which cell a point is in, and what stands there."""

    def __init__(self, chart: Chart, width: int, height: int) -> None:
        self._chart, self._width, self._height = chart, width, height
        self._ceiling = _HEADROOM * chart.top
        self._low, high = chart.span
        self._high = self._low + (high - self._low) * (1 + 0.5 / width)
        self.letters = letters([mark.what for mark in chart.marks])

    def _row(self, y: float) -> int:
        return min(self._height - 1, max(0, math.floor((self._ceiling - y) / self._ceiling * self._height)))

    def _column(self, x: float) -> int:
        share = (x - self._low) / (self._high - self._low)
        return min(self._width - 1, max(0, math.floor(share * self._width)))

    def cells(self, signs: _Signs) -> list[list[Cell]]:
        """What stands where: what is drawn later stands above."""
        found: list[list[Cell]] = [[(" ", "")] * self._width for _ in range(self._height)]
        for threshold in self._chart.thresholds:
            found[self._row(threshold.y)] = [(signs.threshold, "dim")] * self._width
        if self._chart.now is not None:
            column = self._column(self._chart.now)
            for row in found:
                row[column] = (signs.now, "dim")
        for place, line in reversed(list(enumerate(self._chart.lines))):
            style = STYLES[place % len(STYLES)]
            for cells, text in zip(found, self._dots(line, solid=place == 0), strict=True):
                for column, dots in enumerate(text):
                    if dots != _BLANK:
                        cells[column] = (signs.of(place) or dots, style)
        for mark in self._chart.marks:
            found[self._row(mark.y)][self._column(mark.x)] = (self.letters[mark.what], "bold")
        return found

    def _dots(self, line: Line, *, solid: bool) -> list[str]:
        """A line as rows of braille; one that is not solid is dotted."""
        canvas = plotille.Canvas(self._width, self._height, self._low, 0.0, self._high, self._ceiling)
        points = list(zip(map(float, line.x), map(float, line.y), strict=True))
        if solid:
            for (x0, y0), (x1, y1) in pairwise(points):
                canvas.line(x0, y0, x1, y1)
        else:
            seen = set()
            for x, y in points:
                if self._column(x) not in seen:
                    seen.add(self._column(x))
                    canvas.point(x, y)
        rows: list[str] = canvas.plot(linesep="\n").split("\n")
        return rows

    def labels(self) -> dict[int, str]:
        """The numbers of y, by row: those of thresholds go before others."""
        top = self._chart.top
        found = {self._row(share * top): _number(share * top, top) for share in (1.0, 0.75, 0.5, 0.25, 0.0)}
        return found | {self._row(one.y): _number(one.y, top) for one in reversed(self._chart.thresholds)}

    def axis(self, signs: _Signs) -> Iterator[Text]:
        """The axis of x with its ticks, and what they say."""
        every = 20
        places = range(0, self._width - 9, every)
        line = [signs.tick if column in places else signs.floor for column in range(self._width)]
        yield Text(" " * (GUTTER - 1) + signs.corner + "".join(line))
        said = ""
        for column in places:
            at = self._low + (self._high - self._low) * column / self._width
            said += self._said(at).ljust(every)
        yield Text(" " * GUTTER + said.rstrip())

    def _said(self, x: float) -> str:
        if self._chart.axis != Axis.INSTANTS:
            unit = self._chart.axis.value.removesuffix("s")
            return f"{unit} {x:.0f}" if self._high - self._low > self._width / 10 else f"{unit} {x:.2f}"
        short = timedelta(microseconds=self._high - self._low) < timedelta(days=8)
        return f"{to_datetime(round(x)):{'%m-%d %H:%M' if short else '%Y-%m-%d'}}"


def _number(y: float, top: float) -> str:
    """A number of y, in the five columns there are for it."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if top >= max(unit, 1e5):
            return f"{y / unit:.3g}{letter}"
    return f"{y:.{2 if top <= 1 else 1 if top < 100 else 0}f}"


def letters(words: Sequence[str]) -> dict[str, str]:
    """A letter for each word: its first one that no word before it has, else a digit."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(words):
        own = [one.upper() for one in word if one.isalpha() and one.upper() not in found.values()]
        found[word] = (own or [str(len(found) % 10)])[0]
    return found


def _legend(chart: Chart, marks: dict[str, str], signs: _Signs, width: int) -> Iterator[Text]:
    parts = []
    for place, line in enumerate(chart.lines):
        dots = signs.of(place) or ("⠤" if place == 0 else "⠄")
        parts.append(Text(f"{dots * 2} {line.name}", STYLES[place % len(STYLES)]))
    if chart.now is not None:
        parts.append(Text(f"{signs.now} now", "dim"))
    parts += [Text(f"{letter} {word}") for word, letter in marks.items()]
    parts += [Text(f"{signs.threshold * 2} {one.name} {one.y:g}", "dim") for one in chart.thresholds]
    row = Text(" " * GUTTER)
    for part in parts:
        if len(row) > GUTTER and len(row) + 2 + len(part) > width:
            yield row
            row = Text(" " * GUTTER)
        row = Text.assemble(row, "  " if len(row) > GUTTER else "", part)
    yield row
