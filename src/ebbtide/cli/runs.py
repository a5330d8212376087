"""`ebb runs`: the run ledger."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import Actor, ActorType, OneNamespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.model.instant import to_datetime

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
    limit: Annotated[int, typer.Option(min=0, help="At most so much of what a held run would do")] = 50,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """One run; of a held one also what it would do, and what of that has changed since.

    Example: ebb runs show 57d22044-7b7b-892c-854e-caf7d6d47861
    """
    with opened(url) as ebb:
        found, held = ebb.run(run), ebb.held(run, limit=limit)
    if format == Format.JSON:
        output.document(output.run_document(found) | ({} if held is None else {"held": output.held_document(held)}))
        return
    fields = {**output.run_document(found), "guard": found.verdict}
    output.table("Run", ("field", "value"), ((k, v) for k, v in fields.items() if v is not None))
    if held is None:
        return
    output.table(
        f"{held.total} would go" + (f", the first {shown}" if (shown := len(held.leaving)) < held.total else ""),
        ("ref", "rule", "at", "to", "salience", "conf."),
        (
            (
                one.ref or one.id,
                one.rule,
                to_datetime(one.at),
                "erased" if one.erases else one.to_state,
                one.salience,
                one.confidence,
            )
            for one in held.leaving
        ),
        numbers=("salience", "conf."),
    )
    if held.changed:
        rows = ((one.name, one.op_type, to_datetime(one.recorded_at)) for one in held.changed[: max(limit, 1)])
        output.table(f"{len(held.changed)} changed since, so it cannot be approved", ("ref", "got", "at"), rows)


@app.command()
def retry(namespace: Annotated[str, typer.Argument(metavar="NAMESPACE")], url: Url = None) -> None:
    """Let a namespace that failed and is set aside be tried again by the next pass.

    Example: ebb runs retry maya
    """
    with opened(url) as ebb:
        ebb.retry(namespace)
    sys.stdout.write(f"the next pass tries {output.printable(namespace)} again\n")


@app.command()
def approve(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A held run's id")],
    actor: Actor = None,
    actor_type: ActorType = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Do what a held run lists; refused (exit 4) if any of it got a fact since, or the policy changed.

    Example: ebb runs approve 57d22044-7b7b-892c-854e-caf7d6d47861 --actor ops
    """
    settings = read()
    with opened(url) as ebb:
        found = ebb.approve(run, actor=actor or settings.actor, actor_type=actor_type or settings.actor_type)
    if format == Format.JSON:
        output.document(output.run_document(found))
    else:
        output.runs([found], "Done")
