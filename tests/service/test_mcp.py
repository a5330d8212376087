"""The MCP server, spoken to by the SDK's own client: over standard input and over HTTP with tokens; on both databases.

One store for all tests of a database, and one server of each kind: tests speak of memories of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from ledger import check
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sqlalchemy import text
from tests.cli.processes import EBB, child, line_with

from ebbtide import Ebbtide
from ebbtide.access.rights import Right, Role
from ebbtide.access.tokens import Principal
from ebbtide.model.words import ActorType
from ebbtide.service.mcp.caller import Caller
from ebbtide.service.mcp.server import server

NS = "maya"
READS = {"memories", "explain", "forecast"}
WRITES = READS | {"remember", "reinforce", "correct", "pin", "suppress", "restore"}
TOOLS = {"reader": READS, "writer": WRITES, "operator": WRITES | {"forget"}, "auditor": READS}


@dataclass(frozen=True)
class Assistant:
    """A client of the server."""

    client: Client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """What a tool gives; the text says the same as the structure."""
        found = await self.client.call_tool(tool, arguments)
        assert not found.is_error, found.content
        (said,) = found.content
        assert json.loads(said.text) == found.structured_content
        return found.structured_content

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a tool that refuses."""
        found = await self.client.call_tool(tool, arguments)
        assert found.is_error, found.content
        error = found.structured_content["error"]
        (said,) = found.content
        assert said.text.startswith(f"{error['code']}: ")
        assert len(said.text.splitlines()) == 1
        return error

    async def tools(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def read(self, uri: str) -> Any:
        (found,) = (await self.client.read_resource(uri)).contents
        assert found.mime_type == "application/json"
        return json.loads(found.text)


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def store(request: pytest.FixtureRequest, make_url_for_module: Callable[..., str]) -> str:
    return make_url_for_module(request.param)


@pytest.fixture
def alone(make_url_for: Callable[..., str]) -> str:
    """A store for what is the same on every database."""
    return make_url_for("duckdb")


@asynccontextmanager
async def speaking(store: str, *options: str, mode: str = "auto") -> AsyncIterator[Assistant]:
    """A server of its own, over standard input."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    arguments = ["-c", EBB, "mcp", "--namespace", NS, "--url", store, *options]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=kept), mode=mode) as client:
        yield Assistant(client)


def test_an_assistant_lives_with_a_memory(store: str) -> None:
    """Every tool once, from remembering to forgetting, by an operator; the log has it all under the actor's name."""

    async def lives() -> None:
        async with speaking(store, "--role", "operator", "--actor", "helper") as ask:
            assert ask.client.server_info.name == "ebbtide"
            assert await ask.tools() == TOOLS["operator"]

            said = {"value": "Maya lives in London.", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
            home = await ask("remember", **said, ref="home", subject="maya")
            assert (home["ref"], home["value"], home["duplicate"]) == ("home", said["value"], False)
            assert (home["salience"], home["confidence"]) == (pytest.approx(0.5), pytest.approx(0.8))
            again = await ask("remember", **said, subject="maya")
            assert (again["id"], again["duplicate"]) == (home["id"], True)

            found = await ask("memories", text="LONDON")
            assert [one["id"] for one in found["memories"]] == [home["id"]]
            assert (await ask("memories", text="Paris"))["memories"] == []

            # 0.8 + 0.15 · (1 - 0.8), less what a moment takes
            firmer = await ask("reinforce", object="home", signal="CONFIRMED", session_id="s1", evidence=[home["id"]])
            assert firmer["confidence"] > home["confidence"]
            assert firmer["fact_version"] == again["fact_version"] + 1
            stale = await ask.refused("pin", object="home", expected_version=again["fact_version"])
            assert stale["code"] == "conflict"

            pinned = await ask("pin", object="home", reason="It matters.")
            assert (pinned["pinned"], pinned["salience"]) == (True, 1.0)
            assert not (await ask("pin", object="home", pinned=False))["pinned"]

            away = await ask("suppress", object="home", freeze=True)
            assert (away["suppressed"], away["withheld"]) == (True, "suppressed")
            assert (await ask("memories"))["memories"] == []
            assert [one["withheld"] for one in (await ask("memories", everything=True))["memories"]] == ["suppressed"]
            assert (await ask("suppress", object="home", suppressed=False))["eligible"]

            doubted = await ask("correct", object="home")
            assert doubted["id"] == home["id"]
            assert doubted["confidence"] < pinned["confidence"]
            moved = await ask("correct", object="home", value="Maya lives in Lisbon.", ref="home-2")
            assert (moved["supersedes"], moved["value"]) == (home["id"], "Maya lives in Lisbon.")
            old = await ask.read("ebbtide://memory/home")
            assert (old["lifecycle_state"], old["superseded_by"]) == ("SUPERSEDED", moved["id"])

            told = await ask("explain", object="home-2")
            assert "Memory home-2 is ACTIVE" in told["summary"]
            ahead = await ask("forecast", object="home-2")
            assert [one["rule"] for one in ahead["forecast"]][:1] == ["warning"]
            assert ahead["forecast"] == told["forecast"]
            assert ahead["forecast"][0]["at"] == told["memory"]["due_at"]

            state = await ask.read("ebbtide://state")
            assert {(one["lifecycle_state"], one["objects"]) for one in state["counts"]} == {
                ("ACTIVE", 1),
                ("SUPERSEDED", 1),
            }

            before = state["entries"]
            shown = await ask("forget", objects=["home", "home-2"])
            assert (shown["done"], shown["receipt"], shown["goes"]["objects"]) == (False, None, 2)
            assert (await ask.read("ebbtide://state"))["entries"] == before
            await ask("reinforce", object="home-2", signal="REFERENCED", reason="Asked again.")
            other = await ask.refused("forget", objects=["home", "home-2"], confirmation=shown["confirmation"])
            assert other["code"] == "conflict"
            assert (await ask.refused("forget", objects=["home-2"], confirmation=shown["confirmation"]))["code"] == (
                "conflict"
            )
            shown = await ask("forget", objects=["home", "home-2"])
            gone = await ask("forget", objects=["home", "home-2"], confirmation=shown["confirmation"])
            assert (gone["done"], gone["goes"], gone["confirmation"]) == (True, shown["goes"], None)
            assert len(gone["receipt"]["items"]) == gone["goes"]["contents"]
            assert (await ask.read("ebbtide://memory/home-2"))["value"] is None

    anyio.run(lives)
    with Ebbtide(store) as ebb:
        ledger = check(ebb, NS)
        mine = [entry for entry in ledger.entries if entry.op_type != "POLICY_ASSIGNED"]
        assert {(entry.actor_id, entry.actor_type) for entry in mine} == {("helper", "AI_AGENT")}
        assert {"ASSERT", "REINFORCE", "PIN", "UNPIN", "SUPPRESS", "PENALTY", "SUPERSEDE", "TOMBSTONE"} <= {
            entry.op_type for entry in mine
        }


def test_who_names_no_role_is_a_writer(alone: str) -> None:
    """Also for a client that speaks the protocol as it was before sessions were done away with."""

    async def asks() -> None:
        async with speaking(alone, mode="legacy") as ask:
            assert await ask.tools() == TOOLS["writer"]
            with pytest.raises(MCPError, match="there is no tool"):
                await ask("forget", objects=["home"])
            said = {"epistemic_type": "OBSERVED", "source_type": "TOOL_OUTPUT"}
            page: list[str] = []

            async def remembers(number: int) -> None:
                page.append((await ask("remember", value=f"Page {number}.", ref=f"page {number}/é", **said))["id"])

            async with anyio.create_task_group() as together:
                for number in range(3):
                    together.start_soon(remembers, number)
            assert (await ask.read(f"ebbtide://memory/{quote('page 1/é', safe='')}"))["value"] == "Page 1."
            first = await ask("memories", text="page ", limit=2)
            rest = await ask("memories", text="page ", limit=2, cursor=first["next"])
            assert {one["id"] for one in first["memories"] + rest["memories"]} == set(page)
            assert len(set(page)) == 3
            assert (len(first["memories"]), rest["next"]) == (2, None)

    anyio.run(asks)


# Over HTTP


@dataclass(frozen=True)
class Service:
    """A server over HTTP, and tokens of its store."""

    at: str
    ebb: Ebbtide
    process: subprocess.Popen[str]

    def token(self, role: str, namespace: str | None = NS, **more: Any) -> str:
        return self.ebb.create_token(role, namespace=namespace, every_namespace=namespace is None, **more).token

    @asynccontextmanager
    async def speaking(self, token: str, mode: str = "auto") -> AsyncIterator[Assistant]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(self.at, http_client=http), mode=mode) as client,
        ):
            yield Assistant(client)

    def post(self, token: str | None, **more: Any) -> httpx2.Response:
        """A call by hand: what a server answers to who has no good token."""
        sent = {"Accept": "application/json, text/event-stream"}
        if token is not None:
            sent["Authorization"] = token
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        return httpx2.post(self.at, headers=sent | more.pop("headers", {}), **({"json": body} | more))


@contextmanager
def serving(store: str, *options: str) -> Iterator[Service]:
    arguments = ("mcp", "--namespace", NS, "--url", store, "--http", "--port", "0", *options)
    with child(EBB, *arguments) as process, Ebbtide(store) as ebb:
        yield Service(json.loads(line_with(process, '"serving"'))["at"], ebb, process)


@pytest.fixture(scope="module")
def service(store: str) -> Iterator[Service]:
    with serving(store) as found:
        yield found


@pytest.mark.parametrize(("role", "mode"), [*((role, "auto") for role in TOOLS), ("writer", "legacy")])
def test_a_token_has_the_tools_of_its_role(service: Service, role: str, mode: str) -> None:
    async def asks() -> None:
        async with service.speaking(service.token(role, actor=f"{role}-{mode}"), mode) as ask:
            assert await ask.tools() == TOOLS[role]
            for tool in TOOLS["operator"] - TOOLS[role]:
                with pytest.raises(MCPError, match="there is no tool"):
                    await ask(tool, objects=["home"])
            if role == "writer":
                said = {"epistemic_type": "OBSERVED", "source_type": "TOOL_OUTPUT"}
                stored = await ask("remember", value=f"A {role} came by {mode}.", **said)
                (entry,) = service.ebb.history(stored["id"], namespace=NS)
                assert (entry.actor_id, entry.actor_type) == (f"{role}-{mode}", "AI_AGENT")

    anyio.run(asks)


def test_without_a_good_token_nothing_is_told(service: Service) -> None:
    """None, garbage, of another namespace, expired, revoked: one and the same answer."""
    foreign = service.token("operator", "tom")
    revoked = service.ebb.create_token("operator", namespace=NS)
    service.ebb.revoke_token(revoked.id)
    with Ebbtide(service.ebb.store.url, clock=lambda: 0) as long_ago:
        late = long_ago.create_token("operator", namespace=NS, expires_at="1970-01-02T00:00:00Z")
    good = service.token("reader")
    assert service.post(f"Bearer {good}").status_code == 200
    bad = [
        None,
        "",
        "Bearer",
        "Bearer ebb_",
        f"Bearer {good}x",
        f"Bearer {good[:-2]}AA",
        f"Basic {good}",
        good,
    ]
    bad += [f"Bearer {token}" for token in (foreign, revoked.token, late.token)]
    answers = {(found.status_code, found.headers["www-authenticate"], found.text) for found in map(service.post, bad)}
    assert len(answers) == 1
    ((status, scheme, said),) = answers
    assert (status, scheme, json.loads(said)["error"]["code"]) == (401, "Bearer", "unauthorised")
    assert service.post(None, content=b"x" * 100).status_code == 401
    every = service.token("reader", None)
    assert service.post(f"Bearer {every}").status_code == 200
    streaming = {"Authorization": f"Bearer {every}", "Accept": "text/event-stream"}
    assert [httpx2.get(service.at, headers=one).status_code for one in ({}, streaming)] == [401, 405]


def test_a_token_that_is_revoked_is_out_at_once(service: Service) -> None:
    token = service.ebb.create_token("writer", namespace=NS)

    async def asks() -> None:
        async with service.speaking(token.token) as ask:
            assert await ask("memories")
            service.ebb.revoke_token(token.id)
            with pytest.raises(MCPError):
                await ask("memories")

    anyio.run(asks)


def test_other_namespaces_are_not_there(service: Service) -> None:
    """By whatever name: id, ref or text; and an argument that would name one is refused."""
    secret = service.ebb.assert_memory(
        "Tom lives in Rome.", namespace="tom", ref="toms", epistemic_type="ASSERTED", source_type="USER_STATED"
    )
    before = service.ebb.status(namespace="tom")

    async def asks() -> None:
        async with service.speaking(service.token("operator")) as ask:
            for name, tools in ((str(secret.id), ("explain", "pin", "suppress")), ("toms", ("restore", "correct"))):
                for tool in tools:
                    assert (await ask.refused(tool, object=name))["code"] == "not_found"
                assert (await ask.refused("forget", objects=[name]))["code"] == "not_found"
                with pytest.raises(MCPError, match="there is no memory"):
                    await ask.read(f"ebbtide://memory/{name}")
            found = await ask("memories", everything=True, limit=200)
            assert "Tom lives in Rome." not in json.dumps(found)
            error = await ask.refused("memories", namespace="tom")
            assert (error["code"], error["field"]) == ("bad_input", "namespace")
            assert {one["namespace_id"] for one in (await ask.read("ebbtide://state"))["counts"]} <= {NS}

    anyio.run(asks)
    assert service.ebb.status(namespace="tom") == before


def test_bad_input_is_refused_in_one_line_and_writes_nothing(service: Service) -> None:
    said = {"value": "x", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
    bad: list[tuple[str, dict[str, Any], str]] = [
        ("remember", {}, "value"),
        ("remember", said | {"value": None}, "value"),
        ("remember", said | {"value": "a\x00b"}, "value"),
        ("remember", said | {"epistemic_type": "KNOWN"}, "epistemic_type"),
        ("remember", said | {"epistemic_type": "DEPRECATED"}, "epistemic_type"),
        ("remember", said | {"salience": 1.5}, "salience"),
        ("remember", said | {"ref": "a\nb"}, "ref"),
        ("memories", {"limit": 0}, "limit"),
        ("memories", {"limit": 201}, "limit"),
        ("memories", {"cursor": "behind"}, "cursor"),
        ("memories", {"as_of": "yesterday"}, "as-of"),
        ("reinforce", {"object": "home", "signal": "LIKED"}, "signal"),
        ("correct", {"object": "home", "source_type": "USER_STATED"}, "source_type"),
        ("suppress", {"object": "home", "suppressed": False, "freeze": True}, "freeze"),
        ("forget", {"objects": []}, "objects"),
        ("forget", {"objects": ["home"], "reason": "retention_policy_expiry"}, "reason"),
    ]
    before = service.ebb.status(namespace=NS).entries

    async def asks() -> None:
        async with service.speaking(service.token("operator")) as ask:
            for tool, arguments, field in bad:
                error = await ask.refused(tool, **arguments)
                assert (error["code"], error["field"]) == ("bad_input", field), (tool, arguments)
            with pytest.raises(MCPError, match="there is no resource"):
                await ask.read("ebbtide://memories")

    anyio.run(asks)
    assert service.ebb.status(namespace=NS).entries == before
    token = f"Bearer {service.token('writer')}"
    assert service.post(token, content=b'{"jsonrpc":').status_code == 400
    assert service.post(token, content=b" " * ((1 << 20) + 1)).status_code == 413


def test_a_role_of_the_server_caps_that_of_the_token() -> None:
    def rights(token: Role, server: Role | None) -> set[Right]:
        who = Principal(None, token, "ann", ActorType.HUMAN_USER)
        return set(Caller.of(who, NS, server).rights)

    assert rights(Role.OPERATOR, Role.WRITER) == {Right.READ, Right.WRITE}
    assert rights(Role.READER, Role.OPERATOR) == {Right.READ}
    assert rights(Role.AUDITOR, Role.WRITER) == {Right.READ}
    assert rights(Role.OPERATOR, None) == set(Right)


def test_without_tokens_only_this_machine_is_answered(alone: str) -> None:
    async def asks(service: Service) -> None:
        async with service.speaking("none") as ask:
            assert await ask.tools() == TOOLS["reader"]

    with serving(alone, "--insecure-local", "--role", "reader") as service:
        anyio.run(asks, service)
        assert service.post(None).status_code == 200
        assert service.post(None, headers={"Host": "rebound.example"}).status_code == 421
        assert service.post(None, headers={"Origin": "http://rebound.example"}).status_code == 403
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0


def test_an_error_that_nobody_foresaw_tells_a_caller_nothing(url: str) -> None:
    caller = Caller(NS, frozenset(Right), "helper", "AI_AGENT")

    async def asks(ebb: Ebbtide) -> None:
        async with Client(server(ebb, lambda _: caller), mode="legacy") as client:
            with pytest.raises(MCPError, match=r"^an error of the server itself: its log says more$") as found:
                await client.call_tool("explain", {"object": "CANARY"})
            assert found.value.data is None

    with Ebbtide(url) as ebb:
        with ebb.store.begin() as connection:
            connection.execute(text("DROP TABLE suppressions CASCADE"))
        anyio.run(asks, ebb)
