"""One port for metrics and health. It reads what the last pass left, and opens no store."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app

from ebbtide.model.errors import BadInput
from ebbtide.service.watch import Watch

PATIENCE = 10.0
"""Seconds that a client has to send its request."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds would drown what matters."""


def application(watch: Watch) -> WSGIApplication:
    """`/metrics`; `/health/live`, always 200; `/health/ready` and `/health`, 200 or 503, with a JSON document."""
    metrics = make_wsgi_app(watch.metrics.registry)

    def live() -> tuple[bool, Any]:
        return True, {"live": True}

    def ready() -> tuple[bool, Any]:
        found = watch.health()
        return found["ready"], found

    pages: dict[str, Callable[[], tuple[bool, Any]]] = {"/health": ready, "/health/ready": ready, "/health/live": live}

    def serve(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(start, "405 Method Not Allowed", {"error": "only GET"})
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        if path not in pages:
            return _answer(start, "404 Not Found", {"error": f"there are /metrics and {', '.join(pages)}"})
        well, document = pages[path]()
        return _answer(start, "200 OK" if well else "503 Service Unavailable", document)

    return serve


def _answer(start: StartResponse, status: str, document: Any) -> list[bytes]:
    body = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    start(status, headers)
    return [body]


@contextmanager
def listening(watch: Watch, host: str, port: int) -> Iterator[int]:
    """Serves in a thread of its own; the port, which the system chooses where 0 is given."""
    kind = _Server6 if ":" in host else _Server
    try:
        server = make_server(host, port, application(watch), kind, _Handler)
    except OSError as error:
        raise BadInput(f"cannot listen on {host} port {port}: {error.strerror}", field="metrics-port") from error
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
