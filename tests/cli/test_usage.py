"""What commands are told by options, environment and file, and what they say where that makes no sense."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ebbtide import Ebbtide

FACT = {"op": "ASSERT", "ref": "home", "object_type": "FACT", "epistemic_type": "ASSERTED", "value": "x"}
LINE = json.dumps(FACT | {"source_type": "USER_STATED"}).encode()
MINE = 'id = "mine"\nversion = "1.0.0"\nnote = "mine"\n'


def listed(run, *options: str) -> list[str]:
    return [memory["ref"] for memory in run("list", "--format", "json", *options).json["memories"]]


def assert_refused(done, code: int = 2) -> None:
    """One line on standard error, nothing on standard output."""
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("ebb: ")
    assert done.err.endswith("\n")
    assert len(done.err.splitlines()) == 1


# Settings


def test_the_store_is_a_file_here_unless_said_otherwise(run, tmp_path):
    assert run("init").code == 0
    assert (tmp_path / "ebbtide.duckdb").is_file()
    assert run("ingest", "-", stdin=LINE).code == 0
    assert listed(run) == ["home"]


def test_options_go_before_environment_before_file(run, tmp_path, make_url_for, monkeypatch):
    """Three stores and three namespaces, one for each way to name them."""
    ways = {way: make_url_for("duckdb") for way in ("file", "environment", "option")}
    for way, url in ways.items():
        line = LINE.replace(b'"home"', f'"{way}"'.encode()).replace(b"{", f'{{"namespace": "{way}", '.encode(), 1)
        assert run("ingest", "-", "--url", url, stdin=line).code == 0
    config = tmp_path / "ebb.toml"
    config.write_text(f'url = "{ways["file"]}"\nnamespace = "file"\nactor = "toml"\n')
    monkeypatch.setenv("EBB_CONFIG", str(config))
    assert listed(run) == ["file"]
    pinned = run("pin", "file", "--format", "json").json
    assert pinned["pinned"] is True
    assert run("history", "file", "--format", "json").json["entries"][-1]["actor_id"] == "toml"
    monkeypatch.setenv("EBB_URL", ways["environment"])
    monkeypatch.setenv("EBB_NAMESPACE", "environment")
    assert listed(run) == ["environment"]
    assert listed(run, "--url", ways["option"], "--namespace", "option") == ["option"]
    assert listed(run, "--namespace", "option") == []
    monkeypatch.setenv("EBB_ACTOR", "maya")
    monkeypatch.setenv("EBB_ACTOR_TYPE", "HUMAN_USER")
    run("pin", "environment")
    entry = run("history", "environment", "--format", "json").json["entries"][-1]
    assert (entry["actor_id"], entry["actor_type"]) == ("maya", "HUMAN_USER")


def test_a_folder_of_policies_stands_beside_the_built_in_ones(run, tmp_path, make_url_for, monkeypatch):
    monkeypatch.setenv("EBB_URL", make_url_for("duckdb"))
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "mine-1.0.0.toml").write_text(MINE)
    monkeypatch.setenv("EBB_POLICIES", str(folder))
    names = [policy["policy"] for policy in run("policy", "list", "--format", "json").json["policies"]]
    assert {"mine@1.0.0", "default@1.0.0"} <= set(names)
    assert run("policy", "assign", "mine@1.0.0").code == 0
    run("ingest", "-", stdin=LINE)
    monkeypatch.delenv("EBB_POLICIES")
    assert run("show", "home", "--format", "json").json["policy"] == "mine@1.0.0", "the store keeps what was assigned"
    monkeypatch.setenv("EBB_POLICIES", str(folder))
    (folder / "other.toml").write_text('id = "mine')
    done = run("policy", "list")
    assert_refused(done)
    assert "other.toml" in done.err
    monkeypatch.setenv("EBB_POLICIES", str(folder / "nowhere"))
    assert_refused(run("list"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EBB_WAIT", "soon"),
        ("EBB_WAIT", "-1"),
        ("EBB_EVERY", "0"),
        ("EBB_ACTOR_TYPE", "ROBOT"),
        ("EBB_URL", "nonsense"),
        ("EBB_URL", "sqlite:///x.db"),
        ("EBB_URL", "duckdb:///"),
        ("EBB_URL", "duckdb:///:memory:"),
        ("EBB_URL", "postgresql://a:b@127.0.0.1:port/x"),
        ("EBB_CONFIG", "nowhere.toml"),
    ],
)
def test_a_bad_setting_is_named(run, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    done = run("list")
    assert_refused(done)
    assert "None" not in done.err
    assert name.removeprefix("EBB_").lower() in done.err.lower()


@pytest.mark.parametrize("text", ["url = ", 'colour = "red"', "wait = true and false", "wait = -1", "\xff"])
def test_a_bad_file_of_settings_is_named(run, monkeypatch, text):
    Path("ebb.toml").write_text(text, encoding="latin-1")
    monkeypatch.setenv("EBB_CONFIG", "ebb.toml")
    done = run("list")
    assert_refused(done)
    assert "ebb.toml" in done.err


# Stores that are not there


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show", "home"],
        ["history", "home"],
        ["status"],
        ["organise"],
        ["ingest", "-"],
        ["pin", "home"],
        ["policy", "list"],
        ["policy", "assign", "default@1.0.0"],
        ["runs", "list"],
    ],
    ids=" ".join,
)
def test_a_store_that_is_not_set_up_is_exit_code_3(run, command):
    done = run(*command, "--url", "duckdb:///new.duckdb", stdin=LINE)
    assert_refused(done, 3)
    assert "ebb init" in done.err
    done = run(*command, "--url", "duckdb:///new.duckdb", "--format", "json", stdin=LINE)
    assert (done.code, done.out, done.error["code"]) == (3, "", "store_unavailable")


@pytest.mark.parametrize(
    "url",
    [
        "duckdb:////nowhere/at/all/x.duckdb",
        "duckdb:///folder",
        "duckdb:///text",
        "postgresql://ebb:secret@127.0.0.1:1/memory",
        "postgres://ebb:secret@127.0.0.1:1/memory",
    ],
)
def test_a_store_out_of_reach_is_exit_code_3(run, tmp_path, url):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no database\n" * 1000)
    for command in ("list", "init"):
        done = run(command, "--url", url)
        assert_refused(done, 3)
        assert "secret" not in done.err


# Bad usage


@pytest.fixture(scope="module")
def home(duckdb_template, tmp_path_factory) -> str:
    """A store with one memory, which the tests leave as it is."""
    url = f"duckdb:///{shutil.copy(duckdb_template, tmp_path_factory.mktemp('home') / 'store.duckdb')}"
    with Ebbtide(url) as ebb:
        ebb.ask(json.loads(LINE))
    return url


@pytest.mark.parametrize(
    "command",
    [
        ["nonsense"],
        ["list", "--nonsense"],
        ["list", "superfluous"],
        ["list", "--format", "xml"],
        ["list", "--limit", "0"],
        ["list", "--limit", "many"],
        ["list", "--as-of", "yesterday"],
        ["list", "--as-of", "2026-01-05T09:00:00"],
        ["list", "--known-at", "2026-02-30T09:00:00Z"],
        ["list", "-n", "\udcff"],
        ["show"],
        ["show", "nobody"],
        ["show", "\udcff"],
        ["history", "nobody"],
        ["ingest"],
        ["organise", "--as-of", "2999-01-05T09:00:00Z"],
        ["organise", "--to", "2026-01-05T09:00:00Z"],
        ["organise", "--from", "2026-01-05T09:00:00Z", "--to", "2026-01-04T09:00:00Z"],
        ["organise", "--from", "2026-01-05T09:00:00Z", "--dry-run"],
        ["organise", "--task", "dream"],
        ["organise", "-n", "nobody"],
        ["access", "nobody"],
        ["pin", "home", "--at", "2999-01-05T09:00:00Z"],
        ["pin", "home", "--at", "9999-12-31T23:59:59-14:00"],
        ["pin", "home", "--actor", "a\nb"],
        ["pin", "home", "--actor-type", "ROBOT"],
        ["pin", "home", "--expected", "one"],
        ["reinforce", "home"],
        ["reinforce", "home", "--signal", "CORRECTED"],
        ["reinforce", "home", "--signal", "CONFIRMED", "--evidence", "nobody"],
        ["supersede", "home", "--value", "y", "--salience", "1.5"],
        ["supersede", "home", "--value", "y", "--salience", "nan"],
        ["supersede", "home", "--value", "\udcff"],
        ["runs", "show", "one"],
        ["runs", "show", "57d22044-7b7b-892c-854e-caf7d6d47861"],
        ["policy", "show", "nobody@1.0.0"],
        ["policy", "show", "default"],
        ["policy", "register", "nowhere.toml"],
        ["policy", "assign", "nobody@1.0.0"],
        ["policy", "assign", "default@1.0.0", "--actor-type", "ROBOT"],
        ["policy", "assign", "default@1.0.0", "--actor", "a\nb"],
        ["policy", "assign", "default@1.0.0", "--namespace", "a\nb"],
    ],
    ids=lambda command: "_".join(command).encode("ascii", "backslashreplace").decode(),
)
def test_bad_usage_is_exit_code_2_and_writes_nothing(run, rows, home, monkeypatch, command):
    monkeypatch.setenv("EBB_URL", home)
    before = rows(home)
    assert_refused(run(*command))
    assert rows(home) == before
    if command[0] == "nonsense" or "xml" in command:
        return
    done = run(*command, "--format", "json")
    assert (done.code, done.out) == (2, "")
    assert set(done.error) >= {"code", "message", "file", "line", "field", "object"}


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{}", "object"),
        ('{"object": "home"}', "similarity"),
        ('{"object": "home", "similarity": NaN}', "similarity"),
        ('{"object": "home", "similarity": 1e999}', "similarity"),
        ('{"object": "home", "similarity": "0.5"}', "similarity"),
        ('{"object": "home", "similarity": true}', "similarity"),
        ('{"object": "home", "similarity": 0.5, "score": 1}', "score"),
        ('{"object": ["home"], "similarity": 0.5}', "object"),
        ('{"object": "home", "similarity": 0.5', ""),
        ("[]", ""),
        ("9" * 5000, ""),
        ("[" * 100_000, ""),
        ('{"object": "\\ud800", "similarity": 0.5}', ""),
    ],
)
def test_a_bad_candidate_is_refused_with_line_and_field(run, home, monkeypatch, line, field):
    monkeypatch.setenv("EBB_URL", home)
    Path("found.jsonl").write_text(f'{{"object": "home", "similarity": 0.5}}\n{line}\n')
    done = run("rank", "found.jsonl")
    assert_refused(done)
    assert done.err.startswith("ebb: found.jsonl:2: ")
    assert field in done.err.removeprefix("ebb: found.jsonl:2: ")
