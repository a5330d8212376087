"""Options that many commands share, and the store they open."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.api import Ebbtide
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read

Url = Annotated[
    str | None,
    typer.Option(help="The store: duckdb:///file.duckdb or postgresql://… (EBB_URL)", show_default=False),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Whose memory (EBB_NAMESPACE, else default)", show_default=False),
]
OneNamespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace", show_default=False)]
AsOf = Annotated[
    str | None,
    typer.Option(help="The instant to speak of, such as 2026-03-01T09:00:00Z [default: now]", show_default=False),
]
KnownAt = Annotated[str | None, typer.Option(help="Only what was recorded by this instant", show_default=False)]
Output = Annotated[Format, typer.Option("--format", help="A table to read, or one JSON document")]
Actor = Annotated[str | None, typer.Option(help="Who asks (EBB_ACTOR)", show_default=False)]
ActorType = Annotated[str | None, typer.Option(help="HUMAN_USER, SYSTEM_PROCESS, AI_AGENT …", show_default=False)]
At = Annotated[
    str | None, typer.Option(help="When it took effect, at the latest now [default: now]", show_default=False)
]
Expected = Annotated[
    int | None,
    typer.Option(help="Refuse (exit 4) unless the memory is at this fact_version", show_default=False),
]
Reason = Annotated[str | None, typer.Option(help="Why, in words", show_default=False)]
Object = Annotated[str, typer.Argument(metavar="OBJ", help="A memory's id or ref")]


def opened(url: str | None) -> Ebbtide:
    """The store that options, environment and file name."""
    settings = read()
    return Ebbtide(url or settings.url, wait=settings.wait, policies=settings.policies, queries=settings.queries)


def namespace_of(given: str | None) -> str:
    """The namespace asked for, else that of the settings."""
    return given or read().namespace


def help_without_command(context: typer.Context) -> None:
    """Prints the help of a group of commands that was called without one."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
