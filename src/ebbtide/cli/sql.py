"""`ebb sql`: one SELECT over the audit views."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.audit.select import Answer
from ebbtide.cli import output
from ebbtide.cli.options import Output, Url, opened
from ebbtide.cli.output import Format
from ebbtide.model.errors import BadInput


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(sql)


def sql(
    query: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT; - reads it from standard input")],
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as CSV", show_default=False)] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows as Parquet", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Print at most so many rows")] = 1000,
    timeout: Annotated[float, typer.Option(help="Stop after so many seconds")] = 60.0,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Ask the audit views in SQL; read-only, one SELECT, nothing but the views.

    Example: ebb sql "SELECT ref, to_state, rule, policy FROM lifecycle_transitions ORDER BY seq"
    """
    if csv is not None and parquet is not None:
        raise BadInput("--csv and --parquet are two forms of the same: name one", field="csv")
    text = sys.stdin.read() if query == "-" else query
    with opened(url) as ebb:
        if csv is not None:
            written(ebb.sql_to_csv(text, csv, seconds=timeout), csv)
        elif parquet is not None:
            written(ebb.sql_to_parquet(text, parquet, seconds=timeout), parquet)
        else:
            printed(ebb.sql(text, limit=limit, seconds=timeout), format)


def written(count: int, file: Path) -> None:
    """Says how many rows a file has now."""
    sys.stdout.write(output.printable(f"{count} rows in {file}") + "\n")


def printed(found: Answer, format: Format) -> None:
    """Prints what a query gave."""
    if format == Format.JSON:
        output.document(found)
    else:
        output.answer(found.columns, found.rows)
    if found.more:
        sys.stderr.write(f"only the first {len(found.rows)} rows: --limit N for more, --csv or --parquet for all\n")
