"""`ebb log` and `ebb evictions`: reading along."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import Namespace, Output, Url, namespace_of, opened
from ebbtide.cli.output import Format
from ebbtide.memory.read import LogEntry

EVERY = 1.0
"""Seconds between two looks at a log that is followed."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("log")(log)
    app.command()(evictions)


def log(
    after: Annotated[int, typer.Option(min=0, help="Begin behind this seq")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log grows, until stopped")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, unless it is followed")] = 50,
    namespace: Namespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """The entries of a namespace in order; with --follow and json a document a line.

    Example: ebb log --after 1200 --follow --format json -n maya
    """
    name = namespace_of(namespace)
    with opened(url) as ebb:
        if follow:
            for entry in ebb.follow(name, after, wait=EVERY):
                sys.stdout.write(_line(entry, format) + "\n")
                sys.stdout.flush()
            return
        found = list(islice(ebb.follow(name, after), limit))
    if format == Format.JSON:
        output.document({"entries": found})
        return
    output.table(
        f"{len(found)} entries",
        ("seq", "recorded at", "op", "actor", "stream", "state"),
        ((e.seq, e.recorded_at, e.op_type, e.actor_id, str(e.stream_id)[:8], e.lifecycle_state) for e in found),
        numbers=("seq",),
    )


def _line(entry: LogEntry, format: Format) -> str:
    if format == Format.JSON:
        return json.dumps(entry.model_dump(mode="json"), ensure_ascii=False)
    told = f"{entry.seq} {entry.recorded_at:%Y-%m-%d %H:%M:%S} {entry.op_type} {entry.actor_id} {entry.stream_id}"
    return output.printable(told)


def evictions(
    consumer: Annotated[str, typer.Argument(metavar="CONSUMER", help="Your name for who keeps copies")],
    ack: Annotated[
        str | None, typer.Option(help="Acknowledge a position instead of reading", show_default=False)
    ] = None,
    namespace: Namespace = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """What left retrieval since a consumer's place: drop your copies, then acknowledge the position.

    Example: ebb evictions vectors -n maya --format json
    """
    name = namespace_of(namespace)
    with opened(url) as ebb:
        if ack is not None:
            ebb.acknowledge(consumer, ack, namespace=name)
            return
        found = ebb.evictions(consumer, namespace=name)
    if format == Format.JSON:
        output.document(found)
        return
    rows = ((one.ref or one.object_id, one.reason) for one in found.evictions)
    output.table(f"{len(found.evictions)} to drop", ("object", "why"), rows)
    sys.stdout.write(f"Then: ebb evictions {output.printable(consumer)} --ack {found.position}\n")
