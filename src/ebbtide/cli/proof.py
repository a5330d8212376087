"""`ebb verify` and `ebb digest`: is the log whole, and what to keep of it elsewhere."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ebbtide.api import Ebbtide
from ebbtide.cli import output
from ebbtide.cli.options import OneNamespace, Output, Url, opened
from ebbtide.cli.output import Format
from ebbtide.log.verify import Bad
from ebbtide.model.errors import BadInput

KeptDigest = Annotated[str | None, typer.Option(help="A digest that was kept elsewhere", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(digest)
    app.command()(verify)


def digest(
    prove: Annotated[
        str | None,
        typer.Option(metavar="ENTRY", help="Prove this entry instead: its id, or its seq", show_default=False),
    ] = None,
    namespace: OneNamespace = None,
    url: Url = None,
    format: Output = Format.JSON,
) -> None:
    """Print where each log ends, to keep elsewhere: by it `ebb verify` can tell a log written anew, or cut off.

    Example: ebb digest > digest-2026-03.json
    """
    del format  # What is to be kept is a document.
    with opened(url) as ebb:
        output.document(ebb.digest(namespace=namespace) if prove is None else ebb.prove(prove, namespace=namespace))


def verify(
    digest: KeptDigest = None,
    receipt: Annotated[str | None, typer.Option(help="A receipt of an erasure", show_default=False)] = None,
    proof: Annotated[str | None, typer.Option(help="Only this proof, and without a store", show_default=False)] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the result into each log")] = False,
    namespace: OneNamespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Recompute every hash and link of the log, and compare all else with it; exit code 1 if anything is wrong.

    Example: ebb verify --digest digest-2026-03.json
    """
    if proof is not None:
        if receipt is not None or record or namespace is not None:
            raise BadInput("a proof is checked by itself, or with --digest: leave out the rest", field="proof")
        _say(Ebbtide.check_proof(proof, digest), "The proof holds.", format, {"entries": 1, "batches": 1})
        return
    with opened(url) as ebb, output.progress("Verifying") as progress:
        found = ebb.verify(namespace=namespace, digest=digest, receipt=receipt, record=record, progress=progress)
    counts = {"entries": found.entries, "batches": found.batches}
    says = f"All is well: {found.entries} entries in {found.batches} batches."
    missed = [one.namespace_id for one in found.namespaces if record and one.namespace_id not in found.recorded]
    if missed:
        sys.stderr.write(f"not recorded in {', '.join(missed)}: the log there cannot be appended to\n")
    _say(found.first_bad, says, format, counts)


def _say(bad: Bad | None, well: str, format: Format, counts: dict[str, int]) -> None:
    if format == Format.JSON:
        output.document({"ok": bad is None, **counts, "first_bad": bad})
    elif bad is None:
        sys.stdout.write(f"{well}\n")
    else:
        where = f"{bad.namespace_id} {bad.seq}" if bad.namespace_id else "the store"
        sys.stdout.write(output.printable(f"{where}: {bad.what}") + "\n")
    if bad is not None:
        raise typer.Exit(1)
