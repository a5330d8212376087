"""`ebb runs show`, `approve` and `retry`, and `ebb organise --dry-run --show`: what waits for an operator, on both
databases. The store has 25 guesses under the default policy, which all sink below the archive at one instant.
"""

from __future__ import annotations

import math
import re

import pytest
import sqlalchemy as sa
from ledger import check

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.store.tables import policies

SAID = "2026-01-05T09:00:00Z"
GUESS = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "INFERRED", "source_type": "SYSTEM_INFERRED"}
MANY = 25


def crossing(threshold: float) -> str:
    """The first whole second at which 0.5 · exp(-0.07 · days) is below a threshold."""
    exact = instant.parse(SAID) + math.log(0.5 / threshold) / 0.07 * instant.DAY
    return instant.iso(math.ceil(exact / instant.SECOND) * instant.SECOND)


@pytest.fixture
def store(url, monkeypatch, run) -> str:
    """The URL, also as EBB_URL."""
    monkeypatch.setenv("EBB_URL", url)
    with Ebbtide(url) as ebb:
        said = GUESS | {"namespace": "a", "effective_at": SAID}
        ebb.ask(*(said | {"ref": f"g{n:02}", "value": f"guess {n}"} for n in range(MANY)))
    return url


def organise(run, as_of, *options):
    return run("organise", "--task", "lifecycle", "--as-of", as_of, *options)


def held_run(run, as_of) -> str:
    (found,) = organise(run, as_of, "--format", "json").json["runs"]
    assert found["status"] == "held"
    return found["run_id"]


def entries(run) -> list:
    return run("log", "-n", "a", "--limit", 1000, "--format", "json").json["entries"]


def test_a_held_run_is_shown_and_approved(run, store):
    told = organise(run, "2026-02-01T00:00:00Z")
    assert told.code == 0
    (command,) = re.findall(r"`ebb (runs show \S+)`", told.out)
    name = command.split()[-1]

    shown = run(*command.split(), "--format", "json").json
    held = shown["held"]
    assert (shown["status"], shown["deprecated"], held["total"], held["changed"]) == ("held", 0, MANY, [])
    assert {one["ref"] for one in held["leaving"]} == {f"g{n:02}" for n in range(MANY)}
    assert {(one["rule"], one["to_state"], one["at"]) for one in held["leaving"]} == {
        ("archive", "DEPRECATED", crossing(0.1))
    }
    days = (instant.parse(crossing(0.1)) - instant.parse(SAID)) / instant.DAY
    scores = [0.5 * math.exp(-0.07 * days), 0.55 * math.exp(-0.035 * days)]
    assert all([one["salience"], one["confidence"]] == pytest.approx(scores, abs=2e-9) for one in held["leaving"])
    text = run("runs", "show", name, "--limit", 3).out
    assert f"{MANY} would go, the first 3" in text
    assert len(re.findall(r"^g\d\d +archive ", text, re.MULTILINE)) == 3

    done = run("runs", "approve", name, "--actor", "ann", "--actor-type", "HUMAN_USER", "--format", "json").json
    assert (done["run_id"], done["status"], done["deprecated"]) == (name, "done", MANY)
    again = run("runs", "approve", name, "--format", "json")
    assert (again.code, again.out, again.error["code"]) == (4, "", "refused")
    assert "held" not in run("runs", "show", name, "--format", "json").json
    (listed,) = [one for one in run("runs", "list", "--format", "json").json["runs"] if one["run_id"] == name]
    assert listed["status"] == "done"
    with Ebbtide(store) as ebb:
        ledger = check(ebb, "a")
        assert "ann" in {entry.actor_id for entry in ledger.entries}
        assert {memory.lifecycle_state for memory in ebb.memories(namespace="a", everything=True)} == {"DEPRECATED"}


def test_what_got_a_fact_since_cannot_be_approved(run, store):
    name = held_run(run, "2026-02-01T00:00:00Z")
    assert run("reinforce", "g07", "--signal", "CONFIRMED", "-n", "a").code == 0
    before = entries(run)
    refused = run("runs", "approve", name)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (4, "", 1)
    assert "g07" in refused.err
    assert entries(run) == before
    shown = run("runs", "show", name)
    assert "1 changed since, so it cannot be approved" in " ".join(shown.out.split())
    assert re.search(r"^g07 +REINFORCE ", shown.out, re.MULTILINE)
    found = run("runs", "show", name, "--format", "json").json["held"]
    assert [(one["name"], one["op_type"]) for one in found["changed"]] == [("g07", "REINFORCE")]


@pytest.mark.parametrize("command", ["show", "approve"])
def test_a_run_that_is_none_is_bad_input(run, store, command):
    for name, code in (("nothing", "bad_input"), ("57d22044-7b7b-892c-854e-caf7d6d47861", "not_found")):
        found = run("runs", command, name, "--format", "json")
        assert (found.code, found.out, found.error["code"]) == (2, "", code)


def test_a_namespace_that_failed_is_tried_again(run, store):
    """What is broken is mended by hand; until `retry`, no pass looks at it again."""
    with Ebbtide(store) as ebb, ebb.store.begin() as connection:
        mine = policies.c.namespace_id == "a"
        whole = connection.execute(sa.select(policies.c.document).where(mine)).scalar_one()
        connection.execute(sa.update(policies).where(mine).values(document='{"id":'))
    failed = organise(run, "2026-02-01T00:00:00Z")
    assert "ebb runs retry a" in failed.out
    assert run("runs", "list", "--format", "json").json["runs"][0]["status"] == "quarantined"
    with Ebbtide(store) as ebb, ebb.store.begin() as connection:
        connection.execute(sa.update(policies).where(mine).values(document=whole))
    assert organise(run, "2026-02-01T00:00:00Z", "--format", "json").json["runs"][0]["status"] == "quarantined"

    assert run("runs", "retry", "a").out == "the next pass tries a again\n"
    assert held_run(run, "2026-02-01T00:00:00Z")
    unknown = run("runs", "retry", "nobody")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == "ebb: namespace: there is no namespace 'nobody'\n"


def test_a_dry_run_shows_what_the_run_then_writes(run, store):
    """Warnings, which the guard does not hold: each at its instant, with the scores it has there."""
    when = "2026-01-20T00:00:00Z"
    before = entries(run)
    shown = organise(run, when, "--dry-run", "--show", MANY + 5, "--format", "json").json
    assert entries(run) == before
    assert (shown["total"], len(shown["decisions"])) == (MANY, MANY)
    assert {(one["op_type"], one["rule"], one["effective_at"]) for one in shown["decisions"]} == {
        ("DECAY_WARNING", "warning", crossing(0.3))
    }
    text = organise(run, when, "--dry-run", "--show", 2).out
    assert f"{MANY} entries, the first 2" in text
    assert len(re.findall(r"^a .* DECAY_WARNING ", text, re.MULTILINE)) == 2
    assert "Would be done" in text
    none = organise(run, when, "--dry-run", "--show", 0, "--format", "json").json
    assert (none["total"], none["decisions"]) == (MANY, [])

    assert organise(run, when).code == 0
    kept = ("seq", "op_type", "effective_at", "lifecycle_state", "salience", "confidence")
    written = [one for one in entries(run)[len(before) :] if one["op_type"] == "DECAY_WARNING"]
    assert [{name: one[name] for name in kept} for one in written] == [
        {name: one[name] for name in kept} for one in shown["decisions"]
    ]


@pytest.mark.parametrize("options", [(), ("--dry-run", "--from", SAID), ("--from", SAID)])
def test_only_a_dry_run_of_what_is_due_is_shown(run, store, options):
    found = run("organise", "--show", 3, *options)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("ebb: show: ")
