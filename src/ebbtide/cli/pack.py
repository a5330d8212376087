"""`ebb export` and `ebb import`: the portable pack, and a person's own data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import Output, Url, opened
from ebbtide.cli.output import Format


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command("export")(export)
    app.command("import")(import_)


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this one [default: all]", show_default=False)
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="What is kept about this person, to give to them", show_default=False)
    ] = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Write the log, contents and policies into a portable folder that `ebb import` takes on either database.

    With --subject: what is kept about one person, to read; that cannot be imported.

    Example: ebb export backup-2026-03 --namespace home
    """
    with opened(url) as ebb, output.progress(f"export {folder}") as report:
        if subject is not None:
            about = ebb.export_subject(folder, subject=subject, namespace=namespace, progress=report)
            what = f"{about.memories} memories, {about.events} events and {about.entries} entries"
            text = f"{folder}: {what} about {subject}"
            done = about.model_dump(mode="json")
        else:
            pack = ebb.export_pack(folder, namespace=namespace, progress=report)
            what = f"{pack.events} events, {pack.operations} operations and {pack.contents} contents"
            text = f"{folder}: {what} of {_listed(pack.namespaces)}"
            done = pack.model_dump(mode="json")
    _say(done, text, format)


def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `ebb export` wrote")],
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Take in a pack, all or nothing: every checksum and hash is checked first, then state is folded from the log.

    A pack that goes on from what is here is appended; one with another history is refused (exit 4).

    Example: ebb import backup-2026-03 --url postgresql://ebb@db/memory
    """
    with opened(url) as ebb, output.progress(f"import {folder}") as report:
        done = ebb.import_pack(folder, progress=report)
    gone = f", {done.erased} contents erased" if done.erased else ""
    new = f"{done.events} events, {done.operations} operations and {done.contents} contents"
    old = f"; unchanged: {_listed(done.unchanged)}" if done.unchanged else ""
    text = f"{folder}: {new} appended to {_listed(done.namespaces)}{gone}{old}"
    _say(done.model_dump(mode="json"), text, format)


def _say(document: dict[str, object], text: str, format: Format) -> None:
    if format == Format.JSON:
        output.document(document)
    else:
        sys.stdout.write(output.printable(text) + "\n")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5]) or "no namespace"
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
