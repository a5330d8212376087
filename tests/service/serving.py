"""A service for tests: a store in which something happened, a token of each role, and a client for each token."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi.testclient import TestClient

from ebbtide import Ebbtide
from ebbtide.access.rights import Role
from ebbtide.service.http.app import application
from ebbtide.service.http.server import Server, listening

NS = "maya"
HERE = f"/v1/namespaces/{NS}"
BELIEF = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


@dataclass
class Serving:
    """The store, the application over it, and clients by role: of namespace `maya`, of `tom`, and of every one."""

    ebb: Ebbtide
    app: Any
    mine: dict[str, TestClient]
    theirs: dict[str, TestClient]
    every: dict[str, TestClient]

    @property
    def operator(self) -> TestClient:
        return self.every["operator"]

    def client(self, token: str | None = None) -> TestClient:
        """Somebody with a token, or with none; an error of the service is a 500, as over a network."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)


def serving(url: str, happened: Sequence[str] = (NS, "tom"), **options: Any) -> Iterator[Serving]:
    """A service over a store, in some of whose namespaces something happened."""
    with Ebbtide.open(url, **options) as ebb:
        for name in happened:
            ebb.event("I moved.", namespace=name, ref="m1", at="2026-03-02T09:00:00Z")
            ebb.assert_memory(f"{name} lives in London.", namespace=name, ref="home-1", subject=name, **BELIEF)
        found = Serving(ebb, application(ebb), {}, {}, {})
        for role in Role:
            found.mine[role] = found.client(ebb.create_token(role, namespace=NS, actor=f"a-{role}").token)
            found.theirs[role] = found.client(ebb.create_token(role, namespace="tom").token)
            found.every[role] = found.client(ebb.create_token(role, every_namespace=True).token)
        yield found


@contextmanager
def listener(ebb: Ebbtide) -> Iterator[str]:
    """A real server in a thread; its address."""
    server, socket = Server(application(ebb)), listening("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.stop()
        thread.join()


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """A response that has to be a problem document of this status and code."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert (found["type"], found["status"], found["code"]) == ("about:blank", status, code)
    assert found["title"]
    assert found["detail"]
    return found
