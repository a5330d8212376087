"""Whatever a caller may ask for can be asked for in Python, on the command line and as JSON Lines, and is shown so in
docs/requests.md; the three leave the same entries.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from sqlalchemy import select

from ebbtide import Ebbtide
from ebbtide.memory.requests import AnyRequest, Line
from ebbtide.model.words import OpType
from ebbtide.store.tables import event_log
from tests.test_docs import COMMANDS, blocks, folder, play, section, session
from tests.test_docs import REQUESTS as PAGE

__all__ = ["folder"]

DECIDED = {
    *("DEDUP_RESOLVED", "SUMMARY_CREATED", "DECAY_APPLIED", "DECAY_WARNING", "CENTRALITY_BOOST", "TOMBSTONE"),
    *("POLICY_ASSIGNED", "POLICY_CORRECTED", "CORRECTED", "ORGANISER_RUN", "INTEGRITY_CHECK"),
}
"""What the organiser or an operator writes; everything else a caller may ask for."""
SURFACE = {
    "EVENT": ("event", "event"),
    "ASSERT": ("assert_memory", "assert"),
    "SUPERSEDE": ("supersede", "supersede"),
    "ACCESS": ("access", "access"),
    "REINFORCE": ("reinforce", "reinforce"),
    "PENALTY": ("penalise", "penalise"),
    "PIN": ("pin", "pin"),
    "UNPIN": ("unpin", "unpin"),
    "HOLD": ("hold", "hold"),
    "RELEASE": ("release", "release"),
    "SUPPRESS": ("suppress", "suppress"),
    "UNSUPPRESS": ("unsuppress", "unsuppress"),
    "ARCHIVE": ("archive", "archive"),
    "RESTORE": ("restore", "restore"),
    "DEPRECATE": ("deprecate", "deprecate"),
    "CONDITION_SET": ("set_condition", "condition"),
    "EPISTEMIC_TRANSITION": ("transition", "transition"),
    "ENTITY_CREATE": ("create_entity", "entity create"),
    "ENTITY_MERGE": ("merge_entities", "entity merge"),
    "RELATE": ("relate", "relate"),
    "CONTRADICTION_NOTED": ("contradict", "contradict"),
}
"""Of each operation its method and its command."""
REQUESTS: dict[str, type[Line]] = {kind.model_fields["op"].default: kind for kind in get_args(AnyRequest)}
NAMED = {"actor_id": "actor", "effective_at": "at"}
"""Fields that a method takes by another name; those that it takes by position have the name of the place."""
PLACED = {"object": "obj", "object_a": "a", "object_b": "b"}
OPTIONS = {
    "object_type": "type",
    "source_type": "source",
    "decay_profile": "profile",
    "session_id": "session",
    "expires_at": "until",
    "entity_type": "type",
    "aliases": "alias",
    "conflict_description": "description",
    "trigger_type": "trigger",
    "effective_at": "at",
    "actor_id": "actor",
    "expected_version": "expected",
}
"""Fields that the command line knows by another name."""
NO_OPTION = {"metadata", "embedding", "embedding_model"}
"""What only Python and JSON Lines take."""


def test_every_operation_is_decided_or_can_be_asked_for():
    assert set(REQUESTS) == set(OpType) - DECIDED
    assert set(SURFACE) == set(REQUESTS)


@pytest.mark.parametrize("op", REQUESTS)
def test_python_takes_every_field_and_has_a_docstring(op):
    method = getattr(Ebbtide, SURFACE[op][0])
    assert inspect.getdoc(method)
    hints = get_type_hints(method)
    taken = set(inspect.signature(method).parameters)
    (more,) = (get_args(hint)[0] for name, hint in hints.items() if name == "given")
    taken |= set(get_type_hints(more))
    for name in REQUESTS[op].model_fields.keys() - {"op"}:
        shown = "content" if name == "content_" else NAMED.get(name, PLACED.get(name, name))
        assert shown in taken, name


@pytest.mark.parametrize("op", REQUESTS)
def test_the_command_line_takes_every_field(op):
    command = COMMANDS[f"ebb {SURFACE[op][1]}"]
    taken = {name.lstrip("-") for one in command.params for name in [*getattr(one, "opts", []), one.name]}
    for name in REQUESTS[op].model_fields.keys() - {"op"} - NO_OPTION:
        if name == "ref" and op not in MADE:
            continue
        shown = "content" if name == "content_" else OPTIONS.get(name, PLACED.get(name, name))
        assert {shown, shown.replace("_", "-"), shown.removeprefix("canonical_")} & taken, name


MADE = {"EVENT", "ASSERT", "SUPERSEDE", "ENTITY_CREATE"}
"""What makes something that can be named; elsewhere a ref is for programs, which have Python and JSON Lines."""


@pytest.mark.parametrize("op", REQUESTS)
def test_the_page_shows_each_in_three_ways(op):
    method, command = SURFACE[op]
    section(PAGE, op)
    ours = [block for block in blocks(PAGE) if heading_of(block.line) == op]
    python = "".join(block.text for block in ours if block.language == "python")
    assert re.search(rf"\bebb\.{method}\(", python)
    steps = [step.command for block in ours if block.language == "console" for step in session(block.text)]
    assert any(step.startswith(f"ebb {command} ") for step in steps)
    lines = [json.loads(line) for block in ours if block.language == "jsonl" for line in block.text.splitlines()]
    assert {line["op"] for line in lines} == {op}


def heading_of(line: int) -> str:
    """The heading that a line of the page stands under."""
    above = PAGE.read_text(encoding="utf-8").splitlines()[:line]
    return next((text.removeprefix("## ") for text in reversed(above) if text.startswith("## ")), "")


def entries(ebb: Ebbtide) -> list[Any]:
    query = select(event_log).order_by(event_log.c.namespace_id, event_log.c.seq)
    with ebb.store.begin() as connection:
        return list(connection.execute(query).mappings())


ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[58][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def test_the_three_ways_leave_the_same_entries(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """But for ids and for scores, since the ways are not gone at the same instants."""
    with Ebbtide.open("duckdb:///ebbtide.duckdb") as ebb:
        # A connection kept open spares DuckDB from opening the file for each of some hundred commands.
        with ebb.store.db.connect():
            play(PAGE, folder, monkeypatch)
        rows = entries(ebb)
    ways: dict[str, list[Any]] = {"default": [], "shell": [], "lines": []}
    for row in rows:
        payload = {name: value for name, value in json.loads(row["payload"]).items() if name not in ("late", "ref")}
        said = ID.sub("an id", json.dumps(payload))
        ways[row["namespace_id"]].append((row["op_type"], row["actor_id"], row["actor_type"], said))
    assert {op for op, *_ in ways["lines"]} == set(REQUESTS) | {"POLICY_ASSIGNED"}
    several = 3
    assert ways["default"][:-several] == ways["shell"] == ways["lines"]
