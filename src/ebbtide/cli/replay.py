"""`ebb rebuild` and `ebb replay`: the state from the log, and what a corrected policy would have done."""

from __future__ import annotations

import sys

import typer

from ebbtide.cli import output
from ebbtide.cli.options import OneNamespace, Output, Url, opened
from ebbtide.cli.output import Format


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(rebuild)


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
