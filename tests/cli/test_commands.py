"""Every command: that it runs, the keys of its JSON, its help, and its exit code where it cannot do what is asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from typer.main import get_command

from ebbtide import Ebbtide
from ebbtide.cli.main import app
from ebbtide.store.tables import policies


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MEMORY = words(
    "id ref namespace_id type epistemic_type subject value lifecycle_state pinned held suppressed "
    "eligible salience confidence stored_salience stored_confidence decay_profile policy created_at "
    "modified_at accessed_at reinforced_at restored_at decayed_at due_at due_rule expires_at "
    "erased_at version fact_version "
)
ENTRY = words(
    "seq id op_type recorded_at effective_at actor_id actor_type version lifecycle_state salience "
    "confidence salience_delta confidence_delta policy payload hash "
)
RUN = words("run_id task namespace_id as_of status examined decayed warned archived deprecated expired entries ")
ERROR = words("code message file line field object")
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3,6})?Z")
NOW = datetime.now(UTC).replace(microsecond=0)


def commands(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands that there is."""
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *path, name)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat().replace("+00:00", "Z")


def fact(ref: str, **more: Any) -> dict[str, Any]:
    kind = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
    return {"op": "ASSERT", "ref": ref, "value": f"It is {ref}.", **kind, "effective_at": ago(30), **more}


LINES = [
    {"op": "EVENT", "ref": "m1", "content": "I moved.", "effective_at": ago(31)},
    fact("home", evidence=["m1"], subject="maya"),
    fact("job"),
    fact("gone", decay_profile="RAPID", confidence=1.0),
    fact("tags", value="[/b] \\[/i] [red]red[/red] :smile:"),
]
POLICY = 'id = "mine"\nversion = "1.0.0"\nnote = "mine"\n[params.tier_thresholds]\nwarning = {}\n'


@pytest.fixture
def lived(url, run, monkeypatch) -> None:
    """A store under namespace maya, on both databases, in which `gone` has been archived."""
    monkeypatch.setenv("EBB_URL", url)
    monkeypatch.setenv("EBB_NAMESPACE", "maya")
    text = "\n".join(json.dumps(line | {"namespace": "maya"}) for line in LINES)
    assert run("ingest", "-", stdin=text.encode()).err == ""
    assert run("organise").code == 0


@pytest.fixture
def empty(make_url_for, monkeypatch, run) -> None:
    monkeypatch.setenv("EBB_URL", make_url_for("duckdb"))


def test_a_policy_that_this_version_cannot_read_is_said_in_one_line(lived, run, url):
    """It may have been written by another version."""
    with Ebbtide(url) as ebb, ebb.store.begin() as connection:
        misspelt = sa.func.replace(policies.c.document, '"rho"', '"rhoo"')
        connection.execute(sa.update(policies).values(document=misspelt))
    done = run("list", "--all", "--format", "json")
    assert done.code == 0  # What is read needs the numbers alone.
    done = run("explain", "gone", "--format", "json")
    assert (done.code, done.out, done.error["code"]) == (3, "", "store_unavailable")
    assert done.error["field"] == "params.rhoo"


# What commands print


def test_reading_commands_have_their_keys(lived, run):
    """And every instant in them is ISO 8601 in UTC."""
    memories = run("list", "--format", "json").json["memories"]
    everything = run("list", "--all", "--format=json").json["memories"]
    assert len(memories) == len(everything) - 1 == 3
    assert {memory["ref"] for memory in everything} == {line["ref"] for line in LINES[1:]}
    assert [memory["eligible"] for memory in memories] == [True] * 3
    assert len(run("list", "--limit", 1, "--format", "json").json["memories"]) == 1
    entries = run("history", "gone", "--format", "json").json["entries"]
    assert [entry["op_type"] for entry in entries] == ["ASSERT", "DECAY_WARNING", "DECAY_APPLIED", "ARCHIVE"]
    shown = [run("show", memory["ref"], "--format", "json").json for memory in everything]
    assert [memory["id"] for memory in shown] == [memory["id"] for memory in everything]
    for documents, keys in ((everything, MEMORY), (shown, MEMORY), (entries, ENTRY)):
        for document in documents:
            assert set(document) >= keys
            times = [value for key, value in document.items() if key.endswith("_at") and value is not None]
            assert [time for time in times if not ISO.fullmatch(time)] == []


@pytest.mark.parametrize("command", [["list"], ["show", "tags"]], ids=["list", "show"])
def test_tables_show_a_value_as_it_is(lived, run, command):
    """Be it full of what looks like mark-up."""
    done = run(*command)
    assert (done.code, done.err) == (0, "")
    assert next(line["value"] for line in LINES if line.get("ref") == "tags") in done.out


def test_as_of_and_known_at_reach_into_the_past(lived, run):
    young = run("show", "gone", "--as-of", ago(29), "--format", "json").json
    assert young["lifecycle_state"] == "ACTIVE"
    assert young["salience"] > 0.3
    assert run("list", "--as-of", ago(40), "--format", "json").json == {"memories": []}
    assert run("list", "--known-at", ago(1), "--format", "json").json == {"memories": []}
    assert run("history", "gone", "--known-at", ago(1)).code == 2


def test_organise_and_runs_have_their_keys(lived, run):
    runs = run("runs", "list", "--format", "json").json["runs"]
    assert {one["task"] for one in runs} >= {"lifecycle", "decay_rapid_fast", "decay_medium", "decay_slow"}
    for one in runs:
        assert set(one) >= RUN
        assert ISO.fullmatch(one["as_of"])
        assert one["status"] in ("done", "held", "quarantined", "nothing_due")
        assert run("runs", "show", one["run_id"], "--format", "json").json == one
    assert sum(one["archived"] for one in runs) == 1
    assert len(run("runs", "list", "--limit", 2, "-n", "maya", "--format", "json").json["runs"]) == 2
    assert run("organise", "--format", "json").json == {"runs": []}
    assert run("organise").code == 0


def test_a_dry_run_tells_and_writes_nothing(url, run, monkeypatch, rows):
    monkeypatch.setenv("EBB_URL", url)
    run("ingest", "-", stdin="\n".join(map(json.dumps, LINES)).encode())
    before = rows(url)
    told = run("organise", "--dry-run", "--format", "json").json["runs"]
    assert sum(one["archived"] for one in told) == 1
    assert rows(url) == before
    walked = run("organise", "--from", ago(3), "--to", ago(1), "--task", "decay_medium", "--format", "json").json[
        "runs"
    ]
    assert [set(one) >= RUN for one in walked] == [True] * 2
    assert run("organise", "--task", "lifecycle", "-n", "default", "--format", "json").json["runs"][0]["archived"] == 1


@pytest.mark.parametrize(
    ("command", "obj", "changes"),
    [
        (["access"], "home", {"lifecycle_state": "ACTIVE", "reinforced_at": None}),
        (["reinforce", "--signal", "CONFIRMED", "--session", "s", "--evidence", "m1"], "home", {"pinned": False}),
        (["reinforce", "--signal", "REFERENCED", "--restore"], "gone", {"lifecycle_state": "ACTIVE"}),
        (["penalise", "--signal", "CORRECTED", "--reason", "no"], "home", {"reinforced_at": None}),
        (["pin", "--reason", "[/b]"], "home", {"pinned": True, "salience": 1.0, "due_at": None}),
        (["unpin"], "home", {"pinned": False}),
        (["hold", "--reason", "court"], "home", {"held": True}),
        (["release"], "home", {"held": False}),
        (["archive"], "home", {"lifecycle_state": "ARCHIVED", "eligible": False}),
        (["deprecate"], "home", {"lifecycle_state": "DEPRECATED", "eligible": False}),
        (["restore"], "gone", {"lifecycle_state": "ACTIVE"}),
        (["supersede", "--value", "[/b] Paris", "--ref", "new", "--salience", 0.9], "home", {"ref": "new"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_acting_commands_print_the_memory(lived, run, command, obj, changes):
    """By ref and by id; under the caller's name and at the time given."""
    before = run("show", obj, "--format", "json").json
    asked = ["--actor", "maya", "--actor-type", "HUMAN_USER", "--at", ago(0)]
    if command != ["access"]:
        asked += ["--expected", before["fact_version"]]
    done = run(*command, before["id"], *asked, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) >= MEMORY
    assert {key: done.json[key] for key in changes} == changes
    entry = run("history", obj, "--format", "json").json["entries"][-1]
    assert (entry["actor_id"], entry["actor_type"], entry["effective_at"]) == ("maya", "HUMAN_USER", ago(0))
    if "--expected" in asked:
        again = run(*command, obj, *asked, "--format", "json")
        assert (again.code, again.out, again.error["code"]) == (4, "", "conflict"), "it has another version now"
        assert set(again.error) >= ERROR
    assert run("access", obj).out.startswith(f"{obj}: ")


def test_telling_commands_print_what_they_made(lived, run):
    """An id that other commands take, under the name that was given, by who asked at the time given."""
    asked = ["--actor", "tom", "--actor-type", "HUMAN_USER", "--at", ago(1), "--format", "json"]
    made = {}
    for name, command in {
        "said": ["event", '["I moved", "again"]', "--json", "--ref", "said", "--role", "USER"],
        "paris": ["assert", "Paris", "--epistemic-type", "CONDITIONAL", "--source", "IMPORTED", "--confidence", 0.4,
                  "--evidence", "said", "--condition", "TRUE", "--ref", "paris"],
        "tom": ["entity", "create", "Tom", "--type", "PERSON", "--alias", "T.", "--ref", "tom"],
        "t": ["entity", "create", "T.", "--type", "PERSON", "--ref", "t"],
        "edge": ["relate", "paris", "ABOUT", "tom", "--confidence", 0.5],
        "other": ["contradict", "paris", "home", "--description", "two homes"],
        "merged": ["entity", "merge", "tom", "t"],
    }.items():  # fmt: skip
        done = run(*command, *asked)
        assert (done.code, done.err) == (0, ""), command
        assert done.json["namespace_id"] == "maya"
        made[name] = done.json["id"]
    assert made["merged"] == made["tom"]
    assert len(set(made.values())) == len(made) - 1
    paris = run("show", made["paris"], "--format", "json").json
    assert (paris["ref"], paris["stored_confidence"], paris["evidence"]) == ("paris", 0.4, [made["said"]])
    entry = run("history", "paris", "--format", "json").json["entries"][0]
    assert (entry["actor_id"], entry["actor_type"], entry["effective_at"]) == ("tom", "HUMAN_USER", ago(1))
    assert run("event", "[", "--json").code == run("assert", "x", "--json", *words("--source IMPORTED")).code == 2


def test_a_belief_is_told_its_condition_and_how_it_is_known(lived, run):
    made = ["--epistemic-type", "CONDITIONAL", "--source", "USER_STATED", "--ref", "if"]
    assert run("assert", "if so", *made).code == 0
    assert run("condition", "if", "TRUE", "--format", "json").json["eligible"] is True
    assert run("transition", "if", "ASSERTED", "--trigger", "policy", "--format", "json").json["condition"] is None
    done = run("condition", "if", "TRUE", "--format", "json")
    assert (done.code, done.error["object"]) == (4, "if")
    assert run("transition", "home", "OBSERVED", "--trigger", "policy", "--expected", 0).code == 4


def test_what_a_rule_refuses_is_exit_code_4(lived, run):
    for command in (["restore", "home"], ["pin", "gone"], ["reinforce", "gone", "--signal", "CONFIRMED"]):
        done = run(*command)
        assert (done.code, done.out, len(done.err.splitlines())) == (4, "", 1)
        assert run(*command, "--format", "json").error["object"] == command[1]


def test_suppression_hides_a_memory_until_it_is_ended(lived, run):
    def eligible() -> set[str]:
        return {memory["ref"] for memory in run("list", "--format", "json").json["memories"]}

    everything = eligible()
    for which, hidden in ((["home"], {"home"}), (["--subject", "maya"], {"home"}), (["--type", "FACT"], everything)):
        assert run("suppress", *which, "--reason", "[/b]").code == 0
        assert eligible() == everything - hidden
        assert run("show", "home", "--format", "json").json["suppressed"] is True
        assert run("unsuppress", *which).code == 0
        assert eligible() == everything


def test_rank_orders_what_is_eligible(lived, run):
    """Best first, by id or ref; what is not eligible comes before no limit."""
    job = run("show", "job", "--format", "json").json["id"]
    found = {"gone": 1.0, "home": 0.2, job: 0.9, "tags": 0.5}
    lines = [json.dumps({"object": name, "similarity": value}) for name, value in found.items()]
    text = "\n".join(lines).encode()
    ranked = run("rank", "-", "--format", "json", stdin=text).json["ranked"]
    assert [one["memory"]["ref"] for one in ranked] == ["job", "tags", "home"]
    assert all(set(one["memory"]) >= MEMORY for one in ranked)
    assert len(run("rank", "-", "--limit", 2, "--format", "json", stdin=text).json["ranked"]) == 2
    done = run("rank", "-", stdin="\n".join(lines[:3]).encode())
    assert (done.code, done.err) == (0, "")
    assert done.out.index("It is job.") < done.out.index("It is home.")


def test_status_doctor_init_and_migrate(lived, run):
    status = run("status", "--format", "json").json
    states = Counter()
    for count in status["counts"]:
        states[count["lifecycle_state"]] += count["objects"]
    assert states == {"ACTIVE": 3, "ARCHIVED": 1}
    assert {task["namespace_id"] for task in status["tasks"]} == {"maya"}
    assert run("status", "-n", "maya").code == run("status").code == 0
    for command in ("init", "migrate"):
        done = run(command, "--format", "json")
        assert done.json["before"] == done.json["after"]
        assert run(command).code == 0
    problems = run("doctor", "--format", "json").json["problems"]
    assert [problem for problem in problems if "superuser" not in problem] == []
    assert run("doctor").code == (1 if problems else 0)


def test_the_doctor_asks_for_pgvector_once_there_are_embeddings(make_url_for):
    with Ebbtide.open(make_url_for("postgresql")) as ebb:
        with ebb.store.begin() as connection:
            connection.execute(sa.text("DROP EXTENSION vector"))
        said = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
        ebb.ask(said | {"ref": "tea", "value": "Maya takes tea."})
        assert [problem for problem in ebb.problems() if "vector" in problem] == []
        ebb.ask(said | {"ref": "milk", "value": "No milk.", "embedding": [0.6, 0.8], "embedding_model": "two"})
        (asked,) = [problem for problem in ebb.problems() if "vector" in problem]
        assert "as a superuser, run CREATE EXTENSION vector in the database " in asked
        with ebb.store.begin() as connection:
            connection.execute(sa.text("CREATE EXTENSION vector"))
        assert [problem for problem in ebb.problems() if "vector" in problem] == []


# Help


@pytest.mark.parametrize("command", list(commands(get_command(app))), ids=lambda path: " ".join(path) or "ebb")
def test_help_fits_a_screen_and_shows_an_example(run, command):
    done = run(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) < 64
    assert max(map(len, done.out.splitlines())) <= 100
    assert re.search(r"(Example: |`).*ebb ", done.out)
    if "Commands:" in done.out:
        assert run(*command).out == done.out, "a group of commands by itself shows its help"
    else:
        assert "--url" in done.out


def test_there_is_a_version(run):
    assert re.fullmatch(r"ebb \d+\.\d+\.\d+\n", run("--version").out)


# Policies


def test_policies_are_listed_shown_and_checked(empty, run, tmp_path):
    names = {policy["policy"] for policy in run("policy", "list", "--format", "json").json["policies"]}
    assert names >= {"default@1.0.0", "archivist@1.0.0", "fsrs@1.0.0", "permastore@1.0.0"}
    for name in names:
        shown = run("policy", "show", name, "--format", "json").json
        assert f"{shown['id']}@{shown['version']}" == name
        assert run("policy", "show", name).code == 0
    (good, bad) = (tmp_path / "good.toml", tmp_path / "bad.toml")
    good.write_text(POLICY.format(0.4))
    bad.write_text(POLICY.format(1.4))
    assert run("policy", "check", good, "--format", "json").json["policies"][0]["policy"] == "mine@1.0.0"
    assert run("policy", "check", good).code == 0
    assert run("policy", "check", tmp_path / "nowhere.toml").code == 2
    done = run("policy", "check", good, bad)
    assert str(bad) in done.out + done.err
    assert "warning" in done.out + done.err
    assert done.code == 1, "a check found something"


def test_a_registered_version_never_changes(empty, run, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(POLICY.format(0.4))
    assert run("policy", "register", file, "--format", "json").json == {"policy": "mine@1.0.0", "registered": True}
    file.write_text("# the same content\n" + POLICY.format(0.4))
    assert run("policy", "register", file, "--format", "json").json["registered"] is False
    for text in (POLICY.format(0.45), POLICY.format(0.45).replace("mine", "default")):
        file.write_text(text)
        done = run("policy", "register", file)
        assert "other content" in done.err
        assert (done.code, done.out, len(done.err.splitlines())) == (4, "", 1)
    assert run("policy", "show", "mine@1.0.0", "--format", "json").json["params"]["tier_thresholds"]["warning"] == 0.4


def test_a_policy_is_assigned_once(lived, run, rows):
    assign = ("policy", "assign", "archivist@1.0.0", "--format", "json")
    assert run(*assign).json["changed"] == len(LINES) - 1
    assert run("show", "home", "--format", "json").json["policy"] == "archivist@1.0.0"
    status = run("status", "--format", "json").json
    assert run(*assign).json["changed"] == 0
    assert run("status", "--format", "json").json["entries"] == status["entries"]
    assert run("policy", "assign", "nobody@1.0.0").code == 2
