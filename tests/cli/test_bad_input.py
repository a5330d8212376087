"""Every kind of line that is not taken: exit code, one line that says where, and a store that is as it was."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from bad_lines import AGAINST_STORE, ASSERT, EVENT, LINES, MIB, Bad

from ebbtide import Ebbtide

FILE = "f.jsonl"
TIME = "2026-01-05T09:00:00Z"
LIFE: list[dict[str, Any]] = [
    EVENT | {"ref": "m1"},
    ASSERT | {"ref": "home", "value": "Leeds"},
    ASSERT | {"ref": "old", "value": "Bristol"},
    ASSERT | {"ref": "import", "source_type": "IMPORTED", "confidence": 0.7},
    {"op": "SUPERSEDE", "object": "old", "ref": "new", "value": "London"},
]


def good(number: int) -> bytes:
    return json.dumps(EVENT | {"ref": f"good-{number}", "effective_at": TIME}).encode()


@pytest.fixture
def empty(make_url_for, run, monkeypatch) -> str:
    """An empty store on DuckDB, which EBB_URL names."""
    monkeypatch.setenv("EBB_URL", make_url_for("duckdb"))
    return os.environ["EBB_URL"]


@pytest.fixture(scope="module")
def nothing_url(duckdb_template, tmp_path_factory) -> str:
    return f"duckdb:///{shutil.copy(duckdb_template, tmp_path_factory.mktemp('nothing') / 'store.duckdb')}"


@pytest.fixture
def nothing(nothing_url, run, monkeypatch) -> str:
    """An empty store on DuckDB for tests that leave it so: what is bad in itself is refused before all else."""
    monkeypatch.setenv("EBB_URL", nothing_url)
    return nothing_url


@pytest.fixture(scope="module")
def life(shared_url) -> str:
    with Ebbtide(shared_url) as ebb:
        ebb.ask(*LIFE)
    return shared_url


@pytest.fixture
def lived(life, run, monkeypatch) -> str:
    """A store with some life in it, on both databases; for tests that leave it as it is."""
    monkeypatch.setenv("EBB_URL", life)
    return life


def write(case: Bad) -> None:
    """The bad line between two good ones."""
    Path(FILE).write_bytes(b"\n".join([good(1), case.line, good(2)]) + b"\n")


def assert_says_where(message: str, case: Bad) -> None:
    """One line without control characters that begins with file and line, names the field and can be read."""
    assert message.startswith(f"ebb: {FILE}:2: ")
    assert message.endswith("\n")
    assert len(message.splitlines()) == 1
    assert [c for c in message[:-1] if unicodedata.category(c) == "Cc"] == []
    assert len(message) < 400
    assert case.field is None or case.field in message.removeprefix(f"ebb: {FILE}:2: ")


def assert_nothing_is_written(run, case: Bad) -> None:
    done = run("ingest", FILE)
    assert_says_where(done.err, case)
    assert (done.code, done.out) == (case.code, "")


def assert_json_says_where(run, case: Bad) -> None:
    done = run("ingest", FILE, "--format", "json")
    assert (done.code, done.out) == (case.code, "")
    error = done.error
    assert set(error) >= {"code", "message", "file", "line", "field", "object"}
    assert (error["file"], error["line"]) == (FILE, 2)
    if case.code == 4:
        assert error["object"] is not None
    if case.field is not None:
        field = str(error["field"])
        assert field == case.field or field.startswith(f"{case.field}.")


def parametrised(cases: dict[str, Bad]):
    return pytest.mark.parametrize("case", cases.values(), ids=[name.replace(" ", "-") for name in cases])


@parametrised(LINES)
def test_a_bad_line_is_refused(nothing, run, rows, case):
    """Exit code 2, file, line and field; of the file nothing is written."""
    tables = ("event_log", "contents", "memory_state", "namespaces", "refusals")
    write(case)
    before = rows(nothing, *tables)
    assert_nothing_is_written(run, case)
    assert rows(nothing, *tables) == before


@parametrised(LINES)
def test_a_bad_line_is_refused_in_json(nothing, run, case):
    write(case)
    assert_json_says_where(run, case)


@parametrised(AGAINST_STORE)
def test_what_the_store_contradicts_is_refused(lived, run, rows, case):
    """Exit code 2, or 4 where a rule says no, which `refusals` then keeps; all other tables are as they were."""
    write(case)
    before, refusals = rows(lived), rows(lived, "refusals")["refusals"]
    assert_nothing_is_written(run, case)
    assert_json_says_where(run, case)
    assert rows(lived) == before
    kept = [row for row in rows(lived, "refusals")["refusals"] if row not in refusals]
    assert [bool(row["rule"]) for row in kept] == ([True, True] if case.code == 4 else [])


def left_out(run, cases: dict[str, Bad], format: str) -> list[str]:
    """Ingests all cases, each behind a good line, and keeps going: what standard error says, line by line."""
    lines = []
    for place, case in enumerate(cases.values()):
        lines += [good(place), case.line]
    Path(FILE).write_bytes(b"\n".join(lines))
    done = run("ingest", FILE, "--keep-going", "--format", format)
    told = done.err.splitlines()
    assert done.code == 1
    assert len(told) == len(cases)
    if format == "json":
        assert done.json["refused"] == len(cases)
    again = run("ingest", "-", "--format", "json", stdin=b"\n".join(lines[::2]))
    assert again.json == {"appended": 0, "unchanged": len(cases), "refused": 0}
    return told


def test_bad_lines_are_left_out(empty, run):
    """With --keep-going: exit code 1, a line for each refused one, and every good line between them is in."""
    told = left_out(run, LINES, "table")
    places = [message.split(": ")[1] for message in told]
    assert places == [f"{FILE}:{2 * place}" for place in range(1, len(LINES) + 1)]
    for message, case in zip(told, LINES.values(), strict=True):
        assert case.field is None or case.field in message


def test_what_the_store_contradicts_is_left_out(url, run, rows, monkeypatch):
    """With --keep-going too, what a rule refused is kept in `refusals`; no memory has changed."""
    monkeypatch.setenv("EBB_URL", url)
    with Ebbtide(url) as ebb:
        ebb.ask(*LIFE)
    before = rows(url, "memory_state", "memory_objects")
    told = [json.loads(line)["error"] for line in left_out(run, AGAINST_STORE, "json")]
    assert rows(url, "memory_state", "memory_objects") == before
    assert sorted(error["line"] for error in told) == [2 * place for place in range(1, len(AGAINST_STORE) + 1)]
    refused = [case for case in AGAINST_STORE.values() if case.code == 4]
    assert len(rows(url, "refusals")["refusals"]) == len(refused)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", 0),
        (b"\n", 0),
        (b"\xef\xbb\xbf", 0),
        (b"\xef\xbb\xbf" + good(1), 1),
        (b"\r\n" + good(1) + b"\r\n  \t\r\n\r\n" + good(2) + b"\r\n", 2),
        (b" " + good(1) + b" \n\n\n", 1),
        (good(1).replace(b'"x"', '"\u2028\x85\U0001f9e0"'.encode()), 1),
        (good(1).replace(b'"x"', b'"' + b"x" * (MIB - len(good(1)) + 1) + b'"') + b"\r\n" + good(2), 2),
    ],
    ids=["empty", "a-blank-line", "a-BOM", "BOM", "CRLF", "spaces", "U+2028", "just-1-MiB"],
)
def test_what_is_odd_but_not_bad_is_taken(empty, run, content, lines):
    done = run("ingest", "-", "--format", "json", stdin=content)
    assert done.err == ""
    assert done.json["appended"] == lines + (1 if lines else 0), "a namespace's first entry is its policy"


def test_lines_are_counted_right_behind_blank_and_overlong_ones(empty, run):
    text = b"\r\n\n" + b"x" * (2 * MIB + 7) + b"\r\n" + good(1) + b"\n\n[]\n" + b" " * (MIB + 2) + good(2)
    done = run("ingest", "-", "--keep-going", "--format", "json", stdin=text)
    assert [json.loads(line)["error"]["line"] for line in done.err.splitlines()] == [3, 6, 7]
    assert done.json == {"appended": 2, "unchanged": 0, "refused": 3}


def test_garbage_at_the_end_of_a_first_line_with_a_BOM_is_not_cut_off(empty, run):
    """A BOM counts for nothing, be the line as long as it may."""
    line = good(1) + b" " * (MIB - 1 - len(good(1)))
    assert len(line) == MIB - 1
    done = run("ingest", "-", stdin=b"\xef\xbb\xbf" + line + b" garbage")
    assert (done.code, done.out) == (2, "")
