"""`ebb explain`: the document's keys, the drawing, the file, and what is not there."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from ebbtide.audit.explanation import Explanation

LINES = [
    {
        "op": "ASSERT",
        "ref": "home",
        "object_type": "FACT",
        "epistemic_type": "ASSERTED",
        "source_type": "USER_STATED",
        "value": "Maya lives in London.",
        "salience": 0.6,
        "effective_at": "2026-01-01T00:00:00Z",
    },
    {"op": "REINFORCE", "object": "home", "signal": "CONFIRMED", "effective_at": "2026-01-11T00:00:00Z"},
]
KEYS = {"memory", "segment", "policy", "last_rule", "forecast", "summary", "clocks", "flags", "curve", "erasure"}


def test_explain(run, tmp_path: Path) -> None:
    assert run("init").code == 0
    assert run("ingest", "-", stdin="".join(json.dumps(line) + "\n" for line in LINES).encode()).code == 0

    found = run("explain", "home", "--as-of", "2026-01-21T00:00:00Z", "--format", "json", "--svg", "home.svg")
    assert (found.code, found.err) == (0, "")
    told = found.json
    assert set(told) >= KEYS
    assert set(told) == set(Explanation.model_fields)
    assert told["memory"]["value"] == "Maya lives in London."
    assert told["policy"]["source"] == "policies/default-1.0.0.toml"
    assert told["last_rule"] is None
    # Baseline 0.6 + 0.15·0.5·0.4 = 0.63, boost 0.15: d = 0.63·e^(−0.2) + 0.15·e^(−1) ten days later.
    assert told["memory"]["salience"] == 0.570982291
    assert told["segment"]["salience_formula"] == "0.63 · exp(−0.02 · 10) + 0.15 · exp(−0.1 · 10) = 0.570982291"
    # Half the rate: 0.8·e^(−0.1) = 0.723869934, and 0.15 of what that lacks of 1.
    assert told["segment"]["confidence_formula"] == "0.765289444 · exp(−0.01 · 10) = 0.692462525"
    assert [(step["rule"], step["to_state"]) for step in told["forecast"]] == [
        ("warning", "ACTIVE"),
        ("archive", "DEPRECATED"),
    ]
    assert set(told["forecast"][0]) == {"at", "rule", "to_state", "salience", "confidence", "action", "overdue"}
    # The boost is e^(−9) of its start by then: 0.63·e^(−0.02·τ) = 0.1 at τ = 50·ln 6.3 = 92.03 days.
    assert told["forecast"][1]["at"].startswith("2026-04-13T")
    ElementTree.parse(tmp_path / "home.svg")

    shown = run("explain", "home", "--as-of", "2026-01-21T00:00:00Z")
    assert shown.code == 0
    assert shown.out.startswith("Memory home is ACTIVE, with salience 0.571 and confidence 0.692")
    drawing = [line for line in shown.out.splitlines() if "│" in line or "└" in line]
    assert len(drawing) > 14
    assert max(map(len, drawing)) <= 80
    assert "R REINFORCE" in shown.out

    # Before it was reinforced, as if asked then; before it was told of, nothing.
    before = run("explain", "home", "--as-of", "2026-01-05T00:00:00Z", "--format", "json").json
    assert before["segment"]["salience_formula"] == "0.6 · exp(−0.02 · 4) = 0.553869808"
    missing = run("explain", "home", "--as-of", "2025-01-01T00:00:00Z", "--format", "json")
    assert (missing.code, missing.error["code"]) == (2, "not_found")
    assert run("explain", "nobody").code == 2
    unwritable = run("explain", "home", "--svg", "nowhere/home.svg")
    assert (unwritable.code, unwritable.err.count("\n")) == (2, 1)
    assert "nowhere/home.svg" in unwritable.err


def test_what_was_erased_is_told_without_what_it_said(run) -> None:
    run("init")
    run("ingest", "-", stdin=json.dumps(LINES[0]).encode())
    receipt = run("erase", "home", "--yes", "--actor", "ops").json
    told = run("explain", "home", "--format", "json")
    assert "London" not in told.out
    assert told.json["erasure"]["head"] == receipt["head"]
    assert told.json["erasure"]["tombstone"] == receipt["tombstones"][0]
    assert told.json["erasure"]["actor_id"] == "ops"
    assert told.json["forecast"] == []
    shown = run("explain", "home").out
    assert shown.startswith("Memory home was erased on ")
    assert receipt["head"]["hash"] in shown
