"""The MCP server, spoken to by the SDK's own client: over standard input and over HTTP with tokens; on both databases.

One store for all tests of a database, and one server of each kind: tests speak of memories of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from ledger import check
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from tests.cli.processes import EBB

from ebbtide import Ebbtide

NS = "maya"
READS = {"memories", "explain", "forecast"}
WRITES = READS | {"remember", "reinforce", "correct", "pin", "suppress", "restore"}
TOOLS = {"reader": READS, "writer": WRITES, "operator": WRITES | {"forget"}, "auditor": READS}


@dataclass(frozen=True)
class Answer:
    """What a tool gave: its document, or the code of its error."""

    told: Any
    code: str | None


@dataclass(frozen=True)
class Assistant:
    """A client of the server."""

    client: Client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """What a tool gives; the text says the same as the structure."""
        found = await self.client.call_tool(tool, arguments)
        assert not found.is_error, found.content
        (text,) = found.content
        assert json.loads(text.text) == found.structured_content
        return found.structured_content

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a tool that refuses."""
        found = await self.client.call_tool(tool, arguments)
        assert found.is_error, found.content
        error = found.structured_content["error"]
        (text,) = found.content
        assert text.text.startswith(f"{error['code']}: ")
        assert len(text.text.splitlines()) == 1
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


@pytest.mark.parametrize("role", TOOLS)
def test_a_role_has_its_tools_and_no_others(store: str, role: str) -> None:
    """Also for a client that speaks the protocol as it was before sessions were done away with."""

    async def asks() -> None:
        async with speaking(store, "--role", role, mode="legacy") as ask:
            assert await ask.tools() == TOOLS[role]
            assert (await ask("memories"))["next"] is None
            for tool in TOOLS["operator"] - TOOLS[role]:
                with pytest.raises(MCPError, match="there is no tool"):
                    await ask(tool, objects=["home"])

    anyio.run(asks)
