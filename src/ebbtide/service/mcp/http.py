"""The MCP server over streamable HTTP: every request brings a token, and stands for itself.

No session is kept, so that a token that was revoked is out at once, and several servers may share one address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from anyio import to_thread
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ebbtide.api import Ebbtide
from ebbtide.memory.requests import MAX_LINE
from ebbtide.model.errors import StoreUnavailable
from ebbtide.service.http.server import LOOPBACK, Server, listening, until_told
from ebbtide.service.mcp.caller import Caller
from ebbtide.service.mcp.server import Context, server

PATH = "/mcp"

_NOBODY = {
    "error": {
        "code": "unauthorised",
        "message": "a good token of this namespace is needed: Authorization: Bearer ebb_…",
    }
}

Admit = Callable[[str], Caller | None]
"""Whom the text of a token makes a caller; None where it is good for nothing here."""


class Gate:
    """Lets through who brings a good token, and tells the server who it is."""

    def __init__(self, app: ASGIApp, admit: Admit) -> None:
        self.app = app
        self.admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        app = self.app if scope["type"] != "http" else await self._admitted(scope)
        await app(scope, receive, send)

    async def _admitted(self, scope: Scope) -> ASGIApp:
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            caller = await to_thread.run_sync(self.admit, token.strip() if scheme.lower() == "bearer" else "")
        except StoreUnavailable as error:
            return JSONResponse(error.document(), 503, {"Retry-After": "1"})
        if caller is None:
            return JSONResponse(_NOBODY, 401, {"WWW-Authenticate": "Bearer"})
        if scope["method"] != "POST":
            # A stream for messages that the server begins has nothing to tell, and would hold up its end.
            return Response(status_code=405, headers={"Allow": "POST"})
        scope.setdefault("state", {})["caller"] = caller
        return self.app


def application(ebb: Ebbtide, admit: Admit, *, tokens: bool = True) -> ASGIApp:
    """An ASGI application that serves `/mcp`.

    Without tokens only requests are taken that name this machine as their host, so that no page in a browser reaches
    it by a name of its own.
    """
    known = [f"{'[::1]' if host == '::1' else host}:*" for host in LOOPBACK]
    app = server(ebb, _caller).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_LINE,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=not tokens,
            allowed_hosts=known,
            allowed_origins=[f"http://{host}" for host in known],
        ),
    )
    return Gate(app, admit)


def _caller(context: Context) -> Caller:
    request: Any = context.request
    found: Caller = request.state.caller
    return found


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Serves until told to stop; where 0 is given as port the system chooses one, which the log says."""
    serving = Server(app, lifespan=True)
    with listening(host, port) as listener, until_told(serving.stop):
        name = f"[{host}]" if ":" in host else host
        structlog.get_logger().info("serving", at=f"http://{name}:{listener.getsockname()[1]}{PATH}")
        serving.run(sockets=[listener])
