"""`ebb bench` measures what it says, in stores of its own, and leaves the store it is given alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from ebbtide import Ebbtide
from ebbtide.bench import filling, measures, suite
from ebbtide.bench.scratch import scratch
from ebbtide.cli import main
from ebbtide.model import instant

OBJECTS = 200


def stores_beside(url: str) -> set[str]:
    """What stands beside a store: files, or those databases of its server that this process measures in."""
    parsed = make_url(url)
    if parsed.drivername.startswith("duckdb"):
        return {path.name for path in Path(str(parsed.database)).parent.iterdir()}
    engine = create_engine(parsed)
    with engine.connect() as connection:
        found = set(connection.execute(text("SELECT datname FROM pg_database")).scalars())
    engine.dispose()
    return {name for name in found if name.startswith(f"ebb_bench_{os.getpid()}_")}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A week in place of a year, two cycles in place of many, and no processes: their memory is not what is tested."""
    monkeypatch.setattr(suite, "YEAR", 4)
    monkeypatch.setattr(measures, "DAYS", 7)
    monkeypatch.setattr(measures, "CYCLES", 2)
    monkeypatch.setattr(measures, "ENOUGH", 1)
    monkeypatch.setattr(measures, "SINGLES", 2)
    monkeypatch.setattr(measures, "BATCHES", 2)
    monkeypatch.setattr(suite, "alone", suite.watched)


def test_the_suite(url: str, quick: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = stores_beside(url)
    monkeypatch.setattr("sys.argv", ["ebb", "bench", "--objects", str(OBJECTS), "--url", url, "--format", "json"])
    assert main._run(main.app) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found} == {"machine", "versions", "commit", "results"}
    assert {"cpu", "cores", "memory_bytes", "system", "load"} == {*found["machine"]}
    by_name = {result["name"]: result for result in found["results"]}
    assert [*by_name] == [
        "fill",
        "decay_cycle",
        *(f"lifecycle_{percent}_percent_due" for percent in (0, 1, 50)),
        "ingest_single",
        "ingest_batch",
        "rebuild",
        "verify",
        "replay_plan",
        "decay_cycles",
        "year",
    ]
    for result in found["results"]:
        assert result["database"] == url.partition("+")[0].partition(":")[0]
        assert result["seconds"] > 0
        assert result["peak_rss_bytes"] > 10_000_000
        if result["floor_seconds"] is None:
            assert result["ratio"] is None
        else:
            assert result["ratio"] == pytest.approx(result["seconds"] / result["floor_seconds"])
    bare = {name for name, result in by_name.items() if result["floor_seconds"] is not None}
    assert bare == {*by_name} - {"fill", "decay_cycles", "year"}
    assert by_name["year"]["figures"]["entries_per_object"] > 1
    if "postgresql" in url:  # DuckDB's file grows by blocks of 256 KB.
        assert all(by_name[name]["bytes_per_entry"] > 0 for name in ("fill", "decay_cycle", "year"))
        # Of 100 memories: whoever holds a snapshot meanwhile keeps rows from being reused.
        assert by_name["decay_cycles"]["figures"]["hot_ratio"] > 0.5
    assert stores_beside(url) == before


def test_what_is_measured_is_a_store(url: str) -> None:
    """What was multiplied in SQL is a log as callers write it: it verifies, and so much is due as is said."""
    with scratch(url) as place:
        store = place.new()
        measures.fill(store, 2 * OBJECTS, 2)
        at = [filling.BEGIN + instant.DAY // 2]
        with Ebbtide(store, clock=lambda: at[0]) as ebb:
            assert ebb.verify().first_bad is None
            assert ebb.rebuild().equal
            for name in filling.names(2):
                assert len(ebb.memories(namespace=name, everything=True, limit=None)) == OBJECTS
            at[0] = measures.MONDAY
            assert [run.entries for run in ebb.organise(tasks=["lifecycle"])] == [0, 0]
            assert {run.decayed for run in ebb.organise(tasks=["decay_slow", "decay_medium"])} == {OBJECTS // 4}
            at[0] = filling.BEGIN + 5 * instant.DAY
            assert [run.warned for run in ebb.organise(tasks=["lifecycle"])] == [2, 2]
            at[0] = filling.BEGIN + 11 * instant.DAY
            assert [run.examined for run in ebb.organise(tasks=["lifecycle"])] == [OBJECTS // 2, OBJECTS // 2]
            assert ebb.verify().first_bad is None
