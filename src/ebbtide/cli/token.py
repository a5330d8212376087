"""`ebb token`: who may come over a network."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from ebbtide.cli import output
from ebbtide.cli.options import OneNamespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format

app = typer.Typer(
    help="Tokens for those who come over HTTP or MCP.\n\nExample: ebb token list",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)
NEVER = "never"
_DAYS = re.compile(r"(\d{1,5})d")


@app.command()
def create(
    role: Annotated[str, typer.Option(help="reader, writer, operator or auditor")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Whose memory it opens", show_default=False)
    ] = None,
    every_namespace: Annotated[bool, typer.Option("--every-namespace", help="It opens all, new ones too")] = False,
    expires: Annotated[str, typer.Option(help="When it ends: 90d, an instant, or never")] = "90d",
    actor: Annotated[
        str | None, typer.Option(help="Who writes with it [default: named after the token]", show_default=False)
    ] = None,
    actor_type: Annotated[str, typer.Option(help="HUMAN_USER, SYSTEM_PROCESS, AI_AGENT …")] = "AI_AGENT",
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Make a token and show it, this once.

    Example: ebb token create --namespace maya --role writer --actor assistant
    """
    with opened(url) as ebb:
        made = ebb.create_token(
            role,
            namespace=namespace,
            every_namespace=every_namespace,
            actor=actor,
            actor_type=actor_type,
            expires_at=_until(expires),
        )
    if format == Format.JSON:
        output.document(made)
        return
    sys.stdout.write(f"{made.token}\n")
    of = "every namespace" if made.namespace is None else made.namespace
    until = "without end" if made.expires_at is None else f"until {made.expires_at:%Y-%m-%d %H:%M} UTC"
    sys.stderr.write(output.printable(f"{made.role} of {of} as {made.actor}, {until}; it is not shown again") + "\n")


def _until(text: str) -> datetime | str | None:
    """When a token ends: so many days from now, or an instant."""
    if text == NEVER:
        return None
    days = _DAYS.fullmatch(text)
    return text if days is None else datetime.now(UTC) + timedelta(days=int(days[1]))


@app.command("list")
def list_(namespace: OneNamespace = None, url: Url = None, format: Output = Format.TABLE) -> None:
    """The tokens, without their secrets.

    Example: ebb token list --namespace maya
    """
    with opened(url) as ebb:
        found = ebb.tokens(namespace=namespace)
    if format == Format.JSON:
        output.document({"tokens": [one.model_dump(mode="json") for one in found]})
        return
    output.table(
        f"{len(found)} tokens",
        ("id", "namespace", "role", "actor", "expires", "revoked"),
        ((one.id, one.namespace or "every one", one.role, one.actor, one.expires_at, one.revoked_at) for one in found),
    )


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="A token's id, as `ebb token list` shows it")],
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """End a token for good; what comes with it is refused from now on.

    Example: ebb token revoke 0b9d2c5e-5d2c-4c1f-9a53-3c1f0c8f9f11
    """
    with opened(url) as ebb:
        ended = ebb.revoke_token(token)
    if format == Format.JSON:
        output.document(ended)
    else:
        sys.stdout.write(f"{ended.id}: revoked at {ended.revoked_at:%Y-%m-%d %H:%M} UTC\n")
