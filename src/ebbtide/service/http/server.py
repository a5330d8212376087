"""Serving an application: a socket, uvicorn, and an end that finishes what is in hand."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ebbtide.model.errors import BadInput

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Where a service may listen that asks for no token, and the names under which it answers."""
PATIENCE = 30
"""Seconds that requests have to come to their end after the service is told to stop."""


def listening(host: str, port: int) -> socket.socket:
    """A socket of an address; port 0 lets the system choose one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise BadInput(f"cannot listen on {host} port {port}: {error.strerror}", field="port") from error


class Server(uvicorn.Server):
    """Serves one application until told to stop; `lifespan` is for one that has to be started and ended itself."""

    def __init__(self, app: ASGIApp, *, lifespan: bool = False) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on" if lifespan else "off",
                timeout_graceful_shutdown=PATIENCE,
            )
        )

    def stop(self) -> None:
        """Takes no more requests and ends when those in hand are answered; asked from any thread."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Left to `until_told`: uvicorn would end the process by the signal before anything else is closed.
        yield


@contextmanager
def until_told(stop: Callable[[], object]) -> Iterator[None]:
    """Has SIGTERM and SIGINT ask for an end."""

    def told(_signal: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
