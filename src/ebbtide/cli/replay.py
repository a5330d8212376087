"""`ebb rebuild` and `ebb replay`: the state from the log, and what a corrected policy would have done."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ebbtide.cli import output
from ebbtide.cli.options import Actor, ActorType, OneNamespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.replay import plan as plans

replaying = typer.Typer(
    help="What a corrected policy would have done.\n\n"
    "Example: ebb replay plan --replace default@1.0.0 --with default@1.0.1",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A file that `ebb replay plan` wrote")]
SHOWN = 20


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(rebuild)
    app.add_typer(replaying, name="replay")


def rebuild(namespace: OneNamespace = None, url: Url = None, format: Output = Format.TABLE) -> None:
    """Fold the log anew and mend the state where it differs; exit code 1 if it did.

    Example: ebb rebuild --namespace maya
    """
    with opened(url) as ebb, output.progress("Rebuilding") as progress:
        found = ebb.rebuild(namespace=namespace, progress=progress)
    if format == Format.JSON:
        output.document(found)
    else:
        says = "is what the log gives" if found.equal else "was mended"
        sys.stdout.write(f"The state {says}: {found.entries} entries, {found.seconds:.1f} s\n")
        sys.stdout.write(f"before {found.before}\nafter  {found.after}\n")
        wrong = [(one.namespace_id, row) for one in found.namespaces for row in one.wrong]
        if wrong:
            rows = ((name, row.table, " ".join(row.key), row.what) for name, row in wrong)
            output.table("Was wrong", ("namespace", "table", "key", "what"), rows)
    raise typer.Exit(0 if found.equal else 1)


@replaying.command()
def plan(
    replace: Annotated[str, typer.Option(help="The version that was wrong, such as default@1.0.0")],
    with_: Annotated[str, typer.Option("--with", help="The version that is right, such as default@1.0.1")],
    begins: Annotated[
        str | None, typer.Option("--from", help="Correct from this instant on [default: always]", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the plan")] = Path("replay.plan"),
    namespace: OneNamespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Show what a corrected policy would have done, and write it as a plan. Nothing else is written.

    Example: ebb replay plan --replace default@1.0.0 --with default@1.0.1 --namespace maya
    """
    with opened(url) as ebb, output.progress("Recomputing") as progress:
        found = ebb.plan_replay(replace, with_, namespace=namespace, begins=begins, progress=progress)
    plans.write(found, out)
    if format == Format.JSON:
        output.document(_document(found, out))
    else:
        _print(found, out)


def _document(found: plans.Plan, out: Path) -> dict[str, Any]:
    return {
        "plan_file": str(out),
        "objects": found.objects,
        "changed": found.changed,
        "by_transition": found.by_transition(),
        "largest_changes": [asdict(one) for one in found.largest()],
        "conflicts": [asdict(one) for one in found.conflicts],
        "irreversible": found.irreversible,
        "refused": [asdict(one) for one in found.refused],
    }


def _print(found: plans.Plan, out: Path) -> None:
    output.table(
        f"{found.changed} of {found.objects} objects change",
        ("from → to", "objects"),
        found.by_transition().items(),
        numbers=("objects",),
    )
    if found.changed:
        rows = (
            (
                one.object,
                one.from_state,
                one.to_state,
                one.salience,
                one.new_salience,
                one.confidence,
                one.new_confidence,
            )
            for one in found.largest()
        )
        numbers = ("salience", "then", "conf.", "then ")
        output.table("Largest changes", ("object", "is", "becomes", *numbers), rows, numbers=numbers)
    for title, listed in (("Conflicts", found.conflicts), ("Refused meanwhile", found.refused)):
        if listed:
            told = f"{title}: {len(listed)}" + (f", the first {SHOWN}" if len(listed) > SHOWN else "")
            output.table(told, ("object", "op", "what"), ((c.object, c.op_type, c.what) for c in listed[:SHOWN]))
    if found.irreversible:
        names = ", ".join(found.irreversible[:SHOWN])
        sys.stdout.write(f"Erased, which cannot be undone: {len(found.irreversible)}: {output.printable(names)}\n")
    sys.stdout.write(f"The plan is in {out}; write it with `ebb replay apply {out}`\n")


@replaying.command()
def apply(
    plan: PlanFile,
    actor: Actor = None,
    actor_type: ActorType = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Write a plan's corrections; killed, it goes on when run again.

    Example: ebb replay apply replay.plan
    """
    settings = read()
    with opened(url) as ebb, output.progress("Correcting") as progress:
        found = ebb.apply_replay(
            plans.load(plan),
            actor=actor or settings.actor,
            actor_type=actor_type or settings.actor_type,
            progress=progress,
        )
    if format == Format.JSON:
        output.document({"entries": found.entries, "changed": found.changed, "meanwhile": found.meanwhile})
        return
    sys.stdout.write(f"{found.changed} objects corrected, {found.entries} entries\n")
    if found.meanwhile:
        names = output.printable(", ".join(found.meanwhile[:SHOWN]))
        sys.stdout.write(f"{len(found.meanwhile)} got a fact meanwhile, make a new plan for them: {names}\n")
