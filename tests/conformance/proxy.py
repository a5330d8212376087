"""A proxy before PostgreSQL that cuts a connection at COMMIT, before the server hears of it or after it has done it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Literal

from sqlalchemy.engine import URL, make_url


class Proxy:
    """Hands on what either side says. `cut` says what becomes of the next COMMIT; then it is None again."""

    def __init__(self, server: URL, folder: Path) -> None:
        self.cut: Literal["before", "after"] | None = None
        self._server = server
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        Thread(target=self._accept, daemon=True).start()
        self.url = server.set(host=None, port=5432, query={"host": str(folder)})

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = self._connected()
                Thread(target=self._questions, args=(client, server), daemon=True).start()
                Thread(target=_hand_on, args=(server, client), daemon=True).start()

    def _connected(self) -> socket.socket:
        host = self._server.query.get("host") or self._server.host or "localhost"
        port = self._server.port or 5432
        if str(host).startswith("/"):
            found = socket.socket(socket.AF_UNIX)
            found.connect(f"{host}/.s.PGSQL.{port}")
            return found
        return socket.create_connection((str(host), port))

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while said := client.recv(1 << 16):
                if self.cut is not None and b"COMMIT" in said:
                    where, self.cut = self.cut, None
                    # No more answers reach the client, whatever the server makes of it.
                    client.shutdown(socket.SHUT_RDWR)
                    if where == "after":
                        server.sendall(said)
                    server.shutdown(socket.SHUT_WR)
                    while server.recv(1 << 16):
                        pass
                    return
                server.sendall(said)


def _hand_on(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while said := server.recv(1 << 16):
            client.sendall(said)
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str, folder: Path) -> Iterator[Proxy]:
    """A proxy before the server of a URL."""
    proxy = Proxy(make_url(url), folder)
    try:
        yield proxy
    finally:
        proxy.close()
