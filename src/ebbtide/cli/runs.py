"""`ebb runs`: the run ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import OneNamespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format

app = typer.Typer(
    help="The run ledger: every slot, once.\n\nExample: ebb runs list",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first")] = 50,
    namespace: OneNamespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """The newest runs.

    Example: ebb runs list --limit 10
    """
    with opened(url) as ebb:
        found = ebb.runs(namespace=namespace, limit=limit)
    if format == Format.JSON:
        output.document({"runs": [output.run_document(run) for run in found]})
    else:
        output.runs(found, "Runs")


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id")],
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """One run.

    Example: ebb runs show 57d22044-7b7b-892c-854e-caf7d6d47861
    """
    with opened(url) as ebb:
        found = output.run_document(ebb.run(run))
    if format == Format.JSON:
        output.document(found)
    else:
        output.table("Run", ("field", "value"), found.items())
