"""What every request passes before any route: size, headers, and names that are percent-encoded in a path."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ebbtide.service.http import problems
from ebbtide.service.http.server import LOOPBACK

LARGEST_BODY = 16 << 20
"""Bytes that a request's body has at most."""
API = "/v1/"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""Set where a route has not said otherwise."""


class _Name(Convertor[str]):
    """A name in a path of the API: percent-encoded, so that it may hold a slash."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        # What is no UTF-8 becomes what no identifier may hold.
        return unquote(value, errors="surrogateescape")

    def to_string(self, value: str) -> str:
        raise NotImplementedError("paths are only read")


register_url_convertor("name", _Name())


class Edge:
    """The outermost layer of the service. `insecure` is for one that asks for no token: it hears loopback only."""

    def __init__(self, app: ASGIApp, *, insecure: bool) -> None:
        self._app = app
        self._insecure = insecure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["path"].startswith(API):
            # As it was sent: a slash in a name is no end of it.
            scope["path"] = scope["raw_path"].decode("latin-1")
        length = headers.get("content-length", "0")
        refused = None
        if self._insecure and not _from_here(headers):
            refused = problems.response(403, "without tokens, only this machine is answered", "forbidden")
        elif length.isdecimal() and int(length) > LARGEST_BODY:
            refused = problems.response(413, _TOO_LARGE, "too_large")
        await (refused or self._app)(scope, _bounded(receive), _with_headers(send))


_TOO_LARGE = f"the body has more than {LARGEST_BODY} bytes: send less at a time"


def _from_here(headers: Headers) -> bool:
    """Whether a request is from a program of this machine, or from a page that came from this service.

    Any page in a browser can have it ask 127.0.0.1, under a name of its own that leads there.
    """
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name.strip("[]") in LOOPBACK and headers.get("origin", f"http://{host}") == f"http://{host}"


def _bounded(receive: Receive) -> Receive:
    """A body that does not say how long it is may be no longer either."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
