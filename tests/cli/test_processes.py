"""Several processes on one store: who waits, who is told to wait, and how the daemon comes to its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Engine, event
from tests.cli.processes import EBB, child, line_with

HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
connection.close()
"""


def fact(number: int, namespace: str) -> bytes:
    kind = {"object_type": "FACT", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}
    when = {"namespace": namespace, "effective_at": "2026-01-05T09:00:00Z"}
    return json.dumps({"op": "ASSERT", "ref": f"f{number}", "value": number, **kind, **when}).encode()


@contextmanager
def held(url: str) -> Iterator[subprocess.Popen[str]]:
    with child(HOLDER, url.removeprefix("duckdb:///")) as holder:
        line_with(holder, "held")
        yield holder


COMMANDS = [["list"], ["status"], ["ingest", "-"], ["organise"], ["access", "f1", "-n", "maya"], ["policy", "list"]]


@pytest.fixture
def store(make_url_for, run, monkeypatch) -> str:
    url = make_url_for("duckdb")
    monkeypatch.setenv("EBB_URL", url)
    assert run("ingest", "-", stdin=fact(1, "maya")).code == 0
    return url


def test_a_store_held_by_another_process_is_exit_code_3(store, run, monkeypatch):
    """After the time given, and with its PID and what to do."""
    monkeypatch.setenv("EBB_WAIT", "0.5")
    with held(store) as holder:
        for command in COMMANDS:
            done = run(*command, stdin=fact(2, "maya"))
            assert (done.code, done.out) == (3, "")
            assert f"PID {holder.pid}" in done.err
            assert len(done.err.splitlines()) == 1
            assert Path(store).name in done.err
        assert run("list", "--format", "json").error["code"] == "store_unavailable"
    assert [run(*command, stdin=fact(2, "maya")).code for command in COMMANDS] == [0] * len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_held_store_is_waited_for(store, run, command):
    """The other process lets go when the command has tried to open the file three times."""
    tried = 0
    waiting = Event()

    def count(*_: object) -> None:
        nonlocal tried
        tried += 1
        if tried == 3:
            waiting.set()

    with held(store) as holder, ThreadPoolExecutor(1) as pool:
        event.listen(Engine, "do_connect", count)
        try:
            released = pool.submit(lambda: waiting.wait(20) and holder.communicate("\n", timeout=20) is not None)
            done = run(*command, stdin=fact(2, "maya"))
        finally:
            event.remove(Engine, "do_connect", count)
        assert released.result(20)
    assert (done.code, done.err) == (0, "")


def test_commands_and_a_daemon_share_a_store(url, run, monkeypatch):
    """The daemon runs what is due, commands meanwhile wait their turn and succeed, SIGTERM ends it with exit code 0."""
    monkeypatch.setenv("EBB_URL", url)
    assert run("ingest", "-", stdin=fact(1, "early")).code == 0
    with child(EBB, "daemon", "--every", "0.2") as daemon:
        line_with(daemon, "started")
        line_with(daemon, '"event": "run"', '"namespace": "early"', '"task": "lifecycle"', '"status": "done"')
        for number in range(5):
            for command in COMMANDS:
                done = run(*command, stdin=fact(number, "maya") if number else fact(1, "maya"))
                assert (done.code, done.err) == (0, ""), command
        assert run("ingest", "-", stdin=fact(1, "late")).code == 0
        line_with(daemon, '"event": "run"', '"namespace": "late"', '"task": "lifecycle"', '"status": "done"')
        daemon.send_signal(signal.SIGTERM)
        line_with(daemon, "stopped")
        assert daemon.wait(60) == 0
    for namespace in ("early", "late"):
        assert run("show", "f1", "-n", namespace, "--format", "json").json["lifecycle_state"] == "DEPRECATED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_with_nothing_to_do_ends_when_told_to(store, number):
    with child(EBB, "daemon", "--every", "3600") as daemon:
        line_with(daemon, '"event": "run"', '"task": "lifecycle"', '"status": "done"')
        daemon.send_signal(number)
        line_with(daemon, "stopped")
        assert daemon.wait(60) == 0


STOPPED_AT_ONCE = """
import os, signal
from apscheduler.schedulers.blocking import BlockingScheduler
start = BlockingScheduler.start
def start_when_told_to_stop(self):
    os.kill(os.getpid(), signal.SIGTERM)
    start(self)
BlockingScheduler.start = start_when_told_to_stop
from ebbtide.cli.main import run
run()
"""


def test_a_daemon_told_to_stop_while_it_starts_stops(store):
    """A signal between "started" and the first wake-up is not lost."""
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_ONCE, "daemon", "--every", "3600"],
        capture_output=True,
        check=False,
        timeout=20,
    )
    said = [json.loads(line)["event"] for line in ended.stderr.splitlines()]
    assert (ended.returncode, ended.stdout, said) == (0, b"", ["started", "stopped"])


def test_a_daemon_outlives_a_held_store(store, run, monkeypatch):
    """It says that it could not run, tries again at the next wake-up, and goes on once the file is free."""
    monkeypatch.setenv("EBB_WAIT", "0.1")
    with held(store) as holder, child(EBB, "daemon", "--every", "0.2") as daemon:
        assert f"PID {holder.pid}" in line_with(daemon, "store unavailable")
        holder.communicate("\n", timeout=20)
        line_with(daemon, '"event": "run"', '"task": "lifecycle"', '"status": "done"')
        daemon.send_signal(signal.SIGTERM)
        line_with(daemon, "stopped")
        assert daemon.wait(60) == 0


def test_a_daemon_that_would_never_sleep_is_refused(store):
    """--every 0 is bad usage, as EBB_EVERY=0 is."""
    for every in ("0", "-1"):
        ended = subprocess.run(
            [sys.executable, "-c", EBB, "daemon", "--every", every],
            capture_output=True,
            check=False,
            timeout=20,
        )
        assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, b"", 1)
