"""`ebb serve` as a process: it says where it listens, runs the schedule beside, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from tests.service.serving import BELIEF, HERE, NS

from ebbtide import Ebbtide
from ebbtide.cli import main


@contextmanager
def process(*options: str, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and its address."""
    command = [sys.executable, "-c", "from ebbtide.cli.main import run; run()", "serve", "--port", "0", *options]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")} | {"EBB_URL": url}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            said = json.loads(next(line for line in running.stderr if '"serving"' in line))
            yield running, said["at"]
        finally:
            running.kill()


def test_it_serves_with_the_organiser_beside_it_and_ends_in_order(url):
    with Ebbtide.open(url) as ebb:
        ebb.assert_memory("Old.", namespace=NS, ref="old", at="2024-01-01T00:00:00Z", salience=0.5, **BELIEF)
        token = ebb.create_token("operator", every_namespace=True).token
    with process("--with-organiser", "--every", "0.2", url=url) as (running, at):
        with httpx.Client(base_url=at, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            while not client.get("/health").json()["ready"]:
                pass
            # The organiser has had its turn: what two years leave of salience 0.5 is in the archive, or deprecated.
            assert client.get(f"{HERE}/memories/old").json()["lifecycle_state"] in ("ARCHIVED", "DEPRECATED")
            assert client.get("/v1/runs").json()["runs"]
            assert "ebbtide_runs_total" in client.get("/metrics").text
            assert client.get("/health").json()["log"]["namespaces"] == 1
        assert httpx.get(f"{at}{HERE}/memories").status_code == 401
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    with Ebbtide.open(url) as ebb:
        assert ebb.verify().ok


def refused(options: list[str], monkeypatch, capsys) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["ebb", "serve", *options])
    code = main._run(main.app)
    return code, capsys.readouterr().err


def test_without_tokens_it_listens_to_this_machine_only(monkeypatch, capsys):
    for host in ("0.0.0.0", "192.0.2.1", "example.org", "::", "127.0.0.2"):
        code, said = refused(["--insecure-local", "--host", host], monkeypatch, capsys)
        assert (code, "with --insecure-local it is one of localhost, 127.0.0.1, ::1" in said) == (2, True)


def test_a_port_in_use_and_a_store_that_is_none_are_said_in_one_line(tmp_path, make_url_for, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = refused(["--port", port, "--url", make_url_for("duckdb")], monkeypatch, capsys)
        assert (code, f"cannot listen on 127.0.0.1 port {port}" in said) == (2, True)
    code, said = refused(["--port", "0", "--url", f"duckdb:///{tmp_path}/none.duckdb"], monkeypatch, capsys)
    assert (code, "run `ebb init`" in said) == (3, True)


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("ebbtide.cli.serve.find_spec", lambda name: None)
    code, said = refused([], monkeypatch, capsys)
    assert (code, "pip install 'ebbtide[serve]'" in said) == (2, True)


@pytest.mark.parametrize("expires", ["90d", "2099-01-01T00:00:00Z", "never"])
def test_the_command_makes_tokens_that_end(expires, make_url_for, monkeypatch, capsys):
    store = make_url_for("duckdb")
    monkeypatch.setattr(
        sys,
        "argv",
        ["ebb", "token", "create", "-n", NS, "--role", "reader", "--expires", expires, "--url", store, "--format=json"],
    )
    assert not main._run(main.app)
    made = json.loads(capsys.readouterr().out)
    assert (made["expires_at"] is None) == (expires == "never")
    with Ebbtide.open(store) as ebb:
        assert ebb.principal(made["token"]).namespace == NS
