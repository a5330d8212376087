"""`ebb mcp`: the store for assistants that speak MCP."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Annotated

import typer

from ebbtide.access.rights import Role
from ebbtide.access.tokens import Principal, role_of
from ebbtide.api.opened import actor_of
from ebbtide.cli.options import Namespace, Url, namespace_of, opened
from ebbtide.cli.settings import read
from ebbtide.model.errors import BadInput, NotInstalled
from ebbtide.model.identity import identifier
from ebbtide.model.words import ActorType
from ebbtide.service.mcp.caller import Caller

ASSISTANT = "assistant"
"""Who writes over standard input, where nobody is named."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(mcp)


def mcp(
    namespace: Namespace = None,
    role: Annotated[
        str | None,
        typer.Option(help="reader, writer, operator or auditor [default: writer; with --http that of the token]"),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="Who writes (EBB_ACTOR, else assistant)", show_default=False)
    ] = None,
    actor_type: Annotated[
        str | None, typer.Option(help="HUMAN_USER, AI_AGENT … (EBB_ACTOR_TYPE, else AI_AGENT)", show_default=False)
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Listen for streamable HTTP, instead of standard input")] = False,
    host: Annotated[str, typer.Option(help="… at this address")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="… and port")] = 8301,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="… without tokens, from this machine only")
    ] = False,
    no_scrub: Annotated[bool, typer.Option("--no-scrub", help="Leave the files to `ebb scrub`")] = False,
    url: Url = None,
) -> None:
    """Serve one namespace to an assistant that speaks MCP.

    Example: ebb mcp --namespace maya --role writer
    """
    _refuse(actor or actor_type, http=http, insecure_local=insecure_local)
    # Only here, since no other command needs them and they take half a second to load.
    from ebbtide.service import logs  # noqa: PLC0415
    from ebbtide.service.http.server import LOOPBACK  # noqa: PLC0415
    from ebbtide.service.mcp import http as over_http  # noqa: PLC0415
    from ebbtide.service.mcp import server  # noqa: PLC0415

    if insecure_local and host not in LOOPBACK:
        raise BadInput(f"with --insecure-local it is {' or '.join(LOOPBACK)}", field="host")
    where = identifier(namespace_of(namespace), "namespace")
    named = None if role is None else role_of(role)
    bind = partial(Caller.of, namespace=where, role=named, scrubs=not no_scrub)
    local = bind(_process(where, named or Role.WRITER, actor, actor_type))
    with opened(url) as ebb:
        if not http:
            logs.configure()
            server.stdio(ebb, local)
            return
        # A store that is not set up is said at once, not to whoever comes first.
        with ebb.store.begin():
            pass
        logs.configure()

        def admit(token: str) -> Caller | None:
            who = ebb.principal(token)
            return None if who is None or not who.reaches(where) else bind(who)

        app = over_http.application(ebb, (lambda _: local) if insecure_local else admit, tokens=not insecure_local)
        over_http.serve(app, host, port)


def _refuse(named: str | None, *, http: bool, insecure_local: bool) -> None:
    if find_spec("mcp") is None:
        raise NotInstalled("this needs the MCP SDK: pip install 'ebbtide[mcp]'", field="mcp")
    if insecure_local and not http:
        raise BadInput("is for --http: over standard input there are no tokens anyway", field="insecure-local")
    if named and http and not insecure_local:
        raise BadInput("is that of the token with --http: `ebb token create --actor` says it", field="actor")


def _process(namespace: str, role: Role, actor: str | None, actor_type: str | None) -> Principal:
    """Who asks without a token: whoever the options or the settings name, else an assistant."""
    settings = read()
    given = settings.model_fields_set
    name = actor or (settings.actor if "actor" in given else ASSISTANT)
    kind = actor_type or (settings.actor_type if "actor_type" in given else ActorType.AI_AGENT)
    who = actor_of(name, kind)
    return Principal(namespace, role, who.id, who.type)
