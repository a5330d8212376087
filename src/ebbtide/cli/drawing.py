"""Charts as commands show them: in the terminal, or into a file."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from ebbtide.cli import output
from ebbtide.draw import terminal
from ebbtide.draw.chart import Chart
from ebbtide.draw.svg import svg
from ebbtide.model.errors import BadInput


def ascii_only() -> bool:
    """Whether standard output takes no braille; what it cannot take is replaced from then on, not refused."""
    plain = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    if plain and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return plain


def show(chart: Chart) -> None:
    """Prints a chart, as wide as the terminal up to 100 columns, or 80 where output goes elsewhere."""
    plain = ascii_only()
    console = output.console()
    width = min(console.width, 100) if sys.stdout.isatty() else 80
    for line in terminal.drawn(chart, width=width, ascii_only=plain):
        console.print(line, no_wrap=True, crop=True)


def write(file: str, chart: Chart) -> None:
    """Writes a chart into a file, as SVG."""
    text = svg(chart)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=file) from error
