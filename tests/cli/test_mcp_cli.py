"""`ebb mcp` refuses in one line what it cannot serve, before it reads or listens."""

from __future__ import annotations

import pytest

from ebbtide.cli import mcp

REFUSED = [
    (["--role", "owner"], "role", "none of reader, writer, operator, auditor"),
    (["--namespace", "a\nb"], "namespace", "control character"),
    (["--actor-type", "ROBOT"], "actor_type", "none of"),
    (["--insecure-local"], "insecure-local", "--http"),
    (["--http", "--actor", "ann"], "actor", "token"),
    (["--http", "--insecure-local", "--host", "0.0.0.0"], "host", "127.0.0.1"),
]


@pytest.mark.parametrize(("options", "field", "why"), REFUSED)
def test_what_cannot_be_served_is_refused(run, options, field, why) -> None:
    found = run("mcp", *options)
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)
    assert found.err.startswith(f"ebb: {field}: ")
    assert why in found.err


def test_without_the_sdk_it_says_what_to_install(run, monkeypatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda name: None)
    found = run("mcp")
    assert (found.code, found.err) == (2, "ebb: mcp: this needs the MCP SDK: pip install 'ebbtide[mcp]'\n")


def test_a_store_that_is_not_set_up_is_said_before_it_listens(run) -> None:
    found = run("mcp", "--http", "--url", "duckdb:///none.duckdb")
    assert (found.code, found.err) == (3, "ebb: the store is not set up: run `ebb init`\n")
