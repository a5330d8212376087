"""`ebb bench`: how long things take here, beside what the database alone takes."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.bench.suite import Size
from ebbtide.bench.suite import bench as run
from ebbtide.cli import output
from ebbtide.cli.options import Output, Url
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.model.errors import BadInput


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(bench)


def bench(
    objects: Annotated[
        list[int] | None, typer.Option(min=1, help="So many memories; may be given again [default: 10000]")
    ] = None,
    namespaces: Annotated[int, typer.Option(min=1, help="Spread over so many namespaces")] = 1,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Measure in stores of its own: files beside the store's, or databases of its server; the store is left alone.

    Example: ebb bench --objects 10000 --objects 100000 --format json
    """
    sizes = [Size(number, namespaces) for number in objects or [10_000]]
    if any(size.objects < namespaces for size in sizes):
        raise BadInput("is less than the number of namespaces", field="objects")
    with output.progress("Measuring") as progress:
        report = run(url or read().url, sizes, progress)
    if format == Format.JSON:
        output.document(report)
        return
    output.table(
        f"{report.machine['cpu']}, {report.machine['cores']} cores, load {report.machine['load']}; {report.commit}",
        ("measure", "n", "seconds", "floor", "ratio", "peak MB", "bytes/entry"),
        (
            (
                result.name,
                result.n,
                result.seconds,
                result.floor_seconds,
                result.ratio,
                result.peak_rss_bytes // 1_000_000,
                None if result.bytes_per_entry is None else round(result.bytes_per_entry),
            )
            for result in report.results
        ),
        numbers=("n", "seconds", "floor", "ratio", "peak MB", "bytes/entry"),
    )
