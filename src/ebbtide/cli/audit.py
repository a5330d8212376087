"""`ebb audit`: the named audit queries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import AsOf, KnownAt, OneNamespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format
from ebbtide.cli.sql import printed, written
from ebbtide.model.errors import BadInput

app = typer.Typer(
    help="Named audit queries.\n\nExample: ebb audit list",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A query, as `ebb audit list` names it")]


@app.command("list")
def list_(url: Url = None, format: Output = Format.TABLE) -> None:
    """The queries, and the question that each answers.

    Example: ebb audit list
    """
    with opened(url) as ebb:
        found = ebb.audit_queries()
    if format == Format.JSON:
        output.document({"queries": [query.document() for query in found]})
    else:
        output.table("Queries", ("name", "question"), ((query.name, query.question) for query in found))


@app.command()
def show(name: Name, url: Url = None, format: Output = Format.TABLE) -> None:
    """A query's SQL, with its parameters and columns: to read, or to begin one of your own from.

    Example: ebb audit show decay_by_policy
    """
    with opened(url) as ebb:
        found = ebb.audit_query(name)
    if format == Format.JSON:
        output.document({**found.document(), "sql": found.sql})
    else:
        sys.stdout.write(found.text)


@app.command()
def run(
    name: Name,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter, as `ebb audit show` names it", show_default=False),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as CSV", show_default=False)] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows as Parquet", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Print at most so many rows")] = 1000,
    timeout: Annotated[float, typer.Option(help="Stop after so many seconds")] = 60.0,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    namespace: OneNamespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Run a named query.

    Example: ebb audit run decay_by_policy --param days=90 --csv decay.csv
    """
    if csv is not None and parquet is not None:
        raise BadInput("--csv and --parquet are two forms of the same: name one", field="csv")
    asked = {"as_of": as_of, "known_at": known_at, "namespace": namespace}
    given = {key: value for key, value in asked.items() if value is not None} | _parameters(param or [])
    with opened(url) as ebb:
        if csv is not None:
            written(ebb.audit_to_csv(name, csv, given, seconds=timeout), csv)
        elif parquet is not None:
            written(ebb.audit_to_parquet(name, parquet, given, seconds=timeout), parquet)
        else:
            printed(ebb.audit(name, given, limit=limit, seconds=timeout), format)


def _parameters(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise BadInput(f"{one!r} is no NAME=VALUE", field="param")
        if name in found:
            raise BadInput(f"{name} is given twice", field="param")
        found[name] = value
    return found
