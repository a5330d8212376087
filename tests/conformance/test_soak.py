"""A daemon with writers beside it, for as long as there is time: nothing fails, and in the end all agrees.

A few seconds in every test run; `make soak` takes ten minutes, or EBB_SOAK_SECONDS.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from busy import BELIEF, COMMON
from ledger import check
from shift import ask, started
from sizes import SECONDS
from tests.cli.processes import EBB, child, line_with

from ebbtide import Ebbtide
from ebbtide.api import system_clock
from ebbtide.model import instant
from ebbtide.model.words import Task

EVERY_MINUTE = "\n".join(
    ['id = "hasty"', 'version = "1.0.0"', "[params.guard]", "max_fraction = 1.0", "[params.schedule]"]
    + [f"{task} = {1 / 60}" for task in Task]
)
"""A policy under which each task has a slot every minute, and nothing is held."""
NAMES = ("default", "other")


def test_a_daemon_and_writers_live_together(url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hasty.toml").write_text(EVERY_MINUTE)
    for name in [name for name in os.environ if name.startswith("EBB_") and not name.startswith("EBB_SOAK")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EBB_URL", url)
    with Ebbtide(url, policies=tmp_path) as ebb:
        ebb.init()
        for name in NAMES:
            ebb.assign_policy("hasty@1.0.0", namespace=name)
        ebb.ask(*(BELIEF | {"ref": ref, "value": ref, "decay_profile": "PERMANENT"} for ref in COMMON))
    with child(EBB, "daemon", "--every", "1", "--metrics-port", "0", seconds=SECONDS + 240) as daemon:
        logged = [json.loads(line_with(daemon, '"started"'))]
        writers = [started(ask, url, name, SECONDS) for name in ("maya", "tom")]
        assert all(writer.answer(SECONDS + 240) > 0 for writer in writers)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.stdout is not None
        logged += [json.loads(line) for line in daemon.stdout]
        assert daemon.wait(60) == 0
    assert logged[-1]["event"] == "stopped"
    runs = [line for line in logged if line["event"] == "run"]
    assert runs
    assert {run["status"] for run in runs} <= {"done", "nothing_due"}
    assert Counter(run["run_id"] for run in runs).most_common(1)[0][1] == 1, "no slot twice"

    with Ebbtide(url) as ebb:
        late = max(ebb.standing().lag.values())
    with Ebbtide(url, clock=lambda: system_clock() + instant.MINUTE) as ebb, ebb.store.session():
        ebb.organise()
        ledgers = [check(ebb, name) for name in NAMES]
        assert ebb.verify().ok
        rebuilt = ebb.rebuild()
    assert rebuilt.equal
    assert late < 2 * instant.MINUTE
    ended = {str(run["run_id"]) for ledger in ledgers for run in ledger.runs}
    assert {run["run_id"] for run in runs} <= ended
    [_, other] = ledgers
    gone = [state for state in other.live.values() if state.lifecycle_state != "ACTIVE"]
    assert len(gone) == len(other.live) > 0, "what sank long ago has left"
    entries = sum(len(ledger.entries) for ledger in ledgers)
    print(f"\n{SECONDS:g} s: {entries} entries, {len(ended)} slots, at most {late / instant.SECOND:.0f} s behind")
