"""`ebb ingest`: all of a file or nothing, once however often it is given, and on with it after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAME = "maya"
FACT = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def at(day: int, line: dict[str, Any]) -> dict[str, Any]:
    return {"namespace": NAME, "effective_at": f"2026-01-{day:02}T09:00:00Z"} | line


EVENT = at(1, {"op": "EVENT", "ref": "m1", "content": "I moved to London."})
HOME = at(1, FACT | {"ref": "home", "value": "London", "evidence": ["m1"]})
SHOWN = at(2, {"op": "ACCESS", "object": "home"})
USED = at(3, {"op": "REINFORCE", "object": "home", "signal": "REFERENCED", "ref": "r1"})
STORY = [EVENT, HOME, SHOWN, USED]
UNKNOWN = at(4, {"op": "PIN", "object": "nobody"})


@pytest.fixture(autouse=True)
def store(url, run, monkeypatch) -> str:
    """An empty store that EBB_URL names, on both databases."""
    monkeypatch.setenv("EBB_URL", url)
    return url


@pytest.fixture
def ingest(run):
    """Ingests lines as a file; `ingest(*lines, "--walk", file="f.jsonl")`."""

    def call(*given: dict[str, Any] | str, file: str = "f.jsonl"):
        lines = [json.dumps(line) for line in given if isinstance(line, dict)]
        Path(file).write_text("\n".join([*lines, ""]), encoding="utf-8")
        return run("ingest", file, "--format", "json", *(word for word in given if isinstance(word, str)))

    return call


def counts(appended: int, unchanged: int = 0) -> dict[str, int]:
    return {"appended": appended, "unchanged": unchanged, "refused": 0}


walking = pytest.mark.parametrize("how", [(), ("--walk",)], ids=["at-once", "walk"])

# All or nothing


def test_a_file_is_taken_whole_or_not_at_all(ingest, rows, store):
    """What comes to light at the last line, or in the last of several namespaces, undoes all lines before it."""
    before = rows(store)
    for last in (UNKNOWN, UNKNOWN | {"namespace": "aaa"}, at(4, FACT | {"ref": "home", "value": "Paris"})):
        done = ingest(*STORY, last)
        assert done.code in (2, 4)
        assert (done.error["file"], done.error["line"]) == ("f.jsonl", 5)
        assert rows(store) == before


def test_files_stand_and_fall_each_by_itself(ingest, run, rows, store):
    """A good file before a bad one is in; the one behind it is not looked at."""
    for file, lines in {"a": STORY, "b": [HOME | {"ref": "flat"}, UNKNOWN], "c": [EVENT | {"ref": "m2"}]}.items():
        Path(file).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = run("ingest", "a", "b", "c")
    assert done.code == 2
    assert done.err.startswith("ebb: b:2: object: ")
    assert len(rows(store, "event_log")["event_log"]) == 1 + len(STORY)
    assert run("ingest", "a", "--format", "json").json == counts(0, 4)
    assert run("ingest", "c", "--format", "json").json == counts(1)


@pytest.mark.parametrize(
    ("file", "what"), [("nowhere.jsonl", "No such file"), ("folder", "directory"), ("folder/../nope/f", "No such")]
)
def test_what_cannot_be_read_is_named(run, rows, store, tmp_path, file, what):
    (tmp_path / "folder").mkdir()
    before = rows(store)
    done = run("ingest", file)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith(f"ebb: {file}: ")
    assert what in done.err
    assert run("ingest", file, "--format", "json").error["file"] == file
    assert rows(store) == before


# The same again


@walking
def test_the_same_file_again_changes_nothing(ingest, rows, store, how):
    """Lines with refs and without, in whatever file and namespace."""
    lines = [*STORY, SHOWN | {"actor_id": "other"}, EVENT | {"namespace": "otto"}]
    assert ingest(*lines, *how).json == counts(len(lines) + 2)
    before = rows(store)
    assert ingest(*lines, *how).json == counts(0, len(lines))
    assert ingest(*lines, *how, file="copy.jsonl").json == counts(0, len(lines))
    assert ingest(*reversed(lines)).json == counts(0, len(lines))
    assert rows(store) == before


@walking
def test_what_is_said_already_is_unchanged_and_its_ref_a_name(ingest, run, rows, store, how):
    """The policy, the event, the memory and that it was said again; SUPERSEDE says that it found what is there."""
    again = at(2, HOME | {"ref": "home-2"})
    used = at(3, {"op": "REINFORCE", "object": "home-2", "signal": "REFERENCED", "ref": "r1"})
    assert ingest(EVENT, HOME, again, used, *how).json == counts(5, 1)
    assert ingest(EVENT, HOME, again, used, *how).json == counts(0, 4)
    assert [row["ref"] for row in rows(store, "memory_objects")["memory_objects"]] == ["home"]
    assert run("show", "home-2", "--namespace", NAME, "--format", "json").json["ref"] == "home"
    ingest(at(4, FACT | {"ref": "paris", "value": "Paris"}))
    done = run("supersede", "paris", "--value", "London", "--namespace", NAME, "--at", "2026-01-05T09:00:00Z")
    assert done.out.startswith("home (was there already): ACTIVE")


def test_equal_lines_without_ref_are_told_apart_by_their_place_among_equals(ingest, rows, store):
    """Shown twice at one instant is twice; the file once more adds nothing, and a third equal line is one more."""
    ingest(*STORY[:2])
    assert ingest(SHOWN, USED, SHOWN).json == counts(3)
    assert ingest(SHOWN, USED, SHOWN).json == counts(0, 3)
    assert ingest(SHOWN).json == counts(0, 1)
    assert ingest(SHOWN, SHOWN, USED, SHOWN).json == counts(1, 3)
    ops = [row["op_type"] for row in rows(store, "event_log")["event_log"]]
    assert ops.count("ACCESS") == 3


def test_equal_lines_with_one_ref_are_one(ingest):
    assert ingest(EVENT, EVENT, HOME, HOME).json == counts(3, 2)


def test_a_line_is_the_same_however_it_is_spelled(ingest):
    """Order of keys, zone of the time and defaults spelled out make no other line."""
    ingest(*STORY)
    spelled = {
        "effective_at": "2026-01-02T10:00:00.000+01:00",
        "object": "home",
        "actor_id": "caller",
        "actor_type": "SYSTEM_PROCESS",
        "namespace": NAME,
        "op": "ACCESS",
    }
    assert ingest(spelled, HOME | {"salience": None, "metadata": None}).json == counts(0, 2)


def test_a_ref_without_time_holds_from_now_and_is_known_again(ingest, run):
    now = {"op": "EVENT", "ref": "now", "content": 1}
    assert ingest(now).json == counts(2)
    assert ingest(now).json == counts(0, 1)


@pytest.mark.parametrize(
    "other",
    [
        EVENT | {"content": "I moved to Leeds."},
        EVENT | {"effective_at": "2026-01-01T09:00:00.000001Z"},
        HOME | {"ref": "m1"},
        HOME | {"value": {"city": "London"}},
        HOME | {"salience": 0.5},
        HOME | {"evidence": []},
        USED | {"signal": "CONFIRMED"},
        USED | {"actor_id": "somebody else"},
        SHOWN | {"ref": "r1"},
    ],
)
def test_a_ref_with_other_content_is_refused(ingest, rows, store, other):
    """Exit code 4; what the ref stands for stays, and a good line beside the bad one is not written."""
    ingest(*STORY)
    before = rows(store)
    done = ingest(EVENT | {"ref": "m2"}, other)
    assert (done.code, done.out) == (4, "")
    error = done.error
    assert (error["code"], error["line"], error["object"]) == ("conflict", 2, other["ref"])
    assert rows(store) == before
    assert [row["rule"] for row in rows(store, "refusals")["refusals"]] == ["idempotency_key"]


# Names


@walking
def test_later_lines_name_refs_of_this_file_and_of_earlier_ones(ingest, run, how):
    assert ingest(*STORY, *how).code == 0
    moved = at(5, {"op": "SUPERSEDE", "object": "home", "ref": "home-2", "value": "Paris", "evidence": ["m1", "home"]})
    pinned = at(6, {"op": "PIN", "object": "home-2"})
    assert ingest(moved, pinned, *how).json == counts(3)
    memory = run("show", "home-2", "-n", NAME, "--format", "json").json
    assert (memory["value"], memory["pinned"], len(memory["evidence"])) == ("Paris", True, 2)
    by_id = run("show", memory["id"], "-n", NAME, "--format", "json").json
    assert by_id["ref"] == "home-2"
    named = at(7, {"op": "UNPIN", "object": memory["id"]})
    assert ingest(named).json == counts(1)


def test_a_ref_before_its_line_is_not_known_yet(ingest):
    done = ingest(EVENT, SHOWN, HOME)
    assert (done.code, done.error["line"], done.error["field"]) == (2, 2, "object")


@pytest.mark.parametrize("ref", ["6B7F3C1E-3B0E-4C57-9C43-6F2D9A1D7E55", "x" * 36, "x" * 255, "a/b ?&#%", "🧠", "-"])
def test_any_ref_can_be_named(ingest, run, ref):
    """A ref is the caller's own name, also where it looks like an id."""
    assert ingest(EVENT, HOME | {"ref": ref}, SHOWN | {"object": ref}).err == ""
    assert run("show", "--namespace", NAME, "--format", "json", "--", ref).json["ref"] == ref


def test_one_file_may_speak_of_several_namespaces(ingest, run):
    """The same refs stand for other objects there; evidence and objects of another namespace are not known."""
    lines = [line | {"namespace": name} for line in STORY for name in ("zoe", "adam", "maya")]
    assert ingest(*lines).json == counts(12 + 3)
    ids = {run("show", "home", "-n", name, "--format", "json").json["id"] for name in ("zoe", "adam", "maya")}
    assert len(ids) == 3
    nameless = {key: value for key, value in EVENT.items() if key != "namespace"}
    assert ingest(nameless | {"ref": "m2"}, HOME | {"namespace": "default", "evidence": ["m2"]}).json == counts(3)


# Streams and order


@walking
def test_standard_input_is_a_file_too(run, how):
    text = "\n".join(map(json.dumps, STORY)).encode()
    assert run("ingest", "-", "--format", "json", *how, stdin=text).json == counts(5)
    assert run("ingest", "-", "--format", "json", *how, stdin=text).json == counts(0, 4)
    done = run("ingest", "-", *how, stdin=text + b"\n{}")
    assert (done.code, done.err.startswith("ebb: -:5: op: ")) == (2, True)


def test_a_walk_checks_every_line_before_it_writes_the_first(ingest, rows, store):
    before = rows(store)
    done = ingest(*STORY, at(30, {"op": "EVENT", "ref": "m2", "content": None}), "--walk")
    assert (done.code, done.error["line"], done.error["field"]) == (2, 5, "content")
    assert rows(store) == before


def test_a_walk_takes_lines_in_their_order_even_where_time_goes_back(ingest, run):
    """A late line takes effect at its object's last fact; nothing is run twice."""
    late = at(2, {"op": "REINFORCE", "object": "home", "signal": "CONFIRMED"})
    assert ingest(EVENT, HOME, USED, at(20, SHOWN | {"effective_at": "2026-01-20T09:00:00Z"}), late, "--walk").code == 0
    entries = run("history", "home", "-n", NAME, "--format", "json").json["entries"]
    assert entries[-1]["op_type"] == "REINFORCE"
    assert entries[-1]["effective_at"] == "2026-01-20T09:00:00Z"
    assert [entry["version"] for entry in entries] == list(range(1, len(entries) + 1))


# Killed

KILLED = """
import os, signal, sys
from itertools import count
from sqlalchemy import Engine, event
from ebbtide.cli import main
kind, place = sys.argv.pop(1), int(sys.argv.pop(1))
seen = count(1)
@event.listens_for(Engine, kind)
def die(*_):
    if next(seen) == place:
        os.kill(os.getpid(), signal.SIGKILL)
main.run()
"""


PLACES = {"commit": [3, 9, 10, 12], "before_cursor_execute": [20, 111, 150]}
BY_CHANCE = {"recorded_at", "started_at", "finished_at", "nonce", "secret", "request_hash", "content_hash", "digest"}
HASHES = {"hash", "prev_hash", "head_hash", "last_batch_hash", "root", "last_recorded_at", "fence", "idempotency_key"}


def told(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The log and all that follows from it, without what depends on the clock and on chance."""
    left_out = BY_CHANCE | HASHES
    wanted = ("event_log", "contents", "memory_objects", "memory_state", "event_state", "streams", "organiser_runs")
    return {
        table: [{name: row[name] for name in row if name not in left_out} for row in tables[table]]
        for table in (*wanted, "namespaces")
    }


@pytest.mark.parametrize("kind", ["commit", "before_cursor_execute"])
def test_a_killed_walk_goes_on_where_it_stopped(ingest, rows, store, make_url_for, monkeypatch, kind):
    """Killed before a commit and in the middle of transactions, seven times over: what comes of it is the same."""
    rating = {"op": "REINFORCE", "signal": "CONFIRMED", "restore": True}
    lines = [EVENT, HOME, at(1, FACT | {"ref": "brief", "value": "x", "decay_profile": "RAPID", "confidence": 1.0})]
    lines += [at(day, SHOWN | {"effective_at": f"2026-01-{day:02}T12:00:00Z"}) for day in range(2, 20, 4)]
    lines += [at(25, rating | {"object": "brief"}), at(28, {"op": "ACCESS", "object": "brief"})]
    assert ingest(*lines, "--walk").code == 0
    whole = told(rows(store))
    assert {"ARCHIVE", "RESTORE", "DECAY_WARNING", "DECAY_APPLIED"} <= {
        entry["op_type"] for entry in whole["event_log"]
    }

    killed = make_url_for(store.partition(":")[0].partition("+")[0])
    command = [sys.executable, "-c", KILLED, kind]
    arguments = ["ingest", "--walk", "f.jsonl", "--url", killed]
    ends = [subprocess.run([*command, str(n), *arguments], check=False, capture_output=True) for n in PLACES[kind]]
    assert [(end.returncode, end.stderr) for end in ends] == [(-signal.SIGKILL, b"")] * len(ends)
    assert told(rows(killed)) != whole
    monkeypatch.setenv("EBB_URL", killed)
    assert ingest(*lines, "--walk").code == 0
    assert told(rows(killed)) == whole
    assert ingest(*lines, "--walk").json == counts(0, len(lines))
