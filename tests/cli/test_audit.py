"""`ebb audit`: named queries from the command line, to the terminal and to files."""

from __future__ import annotations

import csv
import json

import pyarrow.parquet as pq

from ebbtide.audit.queries import library

LINES = b"""\
{"op":"ASSERT","ref":"home","namespace":"maya","object_type":"FACT","epistemic_type":"ASSERTED",\
"source_type":"USER_STATED","value":"x","effective_at":"2026-01-05T09:00:00Z"}
{"op":"PIN","object":"home","namespace":"maya","actor_id":"maya","effective_at":"2026-01-06T09:00:00Z"}
{"op":"HOLD","object":"home","namespace":"maya","actor_id":"ops","effective_at":"2026-01-07T09:00:00Z"}
"""
MINE = "-- question: How many?\n-- column entries: how many\nSELECT count(*) AS entries FROM audit.entries\n"


def test_named_queries_are_listed_shown_and_run(run, url, tmp_path, monkeypatch):
    monkeypatch.setenv("EBB_URL", url)
    assert run("ingest", "-", stdin=LINES).code == 0

    listed = run("audit", "list", "--format", "json").json["queries"]
    assert [query["name"] for query in listed] == sorted(library())
    assert "marks" in run("audit", "list").out
    shown = run("audit", "show", "marks")
    assert shown.out == library()["marks"].text
    assert run("audit", "show", "marks", "--format", "json").json["sql"] == library()["marks"].sql

    asked = ("audit", "run", "marks", "--as-of", "2026-01-07T00:00:00Z")
    found = run(*asked, "--format", "json").json
    assert found["columns"] == [column.name for column in library()["marks"].columns]
    row = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert (row["action"], row["ref"], row["effective_at"]) == ("PIN", "home", "2026-01-06T09:00:00Z")
    assert len(found["rows"]) == 1
    assert run(*asked, "-n", "nobody", "--format", "json").json["rows"] == []
    assert run(*asked, "--param", "actor=ops", "--format", "json").json["rows"] == []
    later = ("audit", "run", "marks", "--param", "as_of=2026-01-08T00:00:00Z", "--limit", "1")
    assert "only the first 1 rows" in run(*later).err

    wide = ("audit", "run", "marks", "--param", "as_of=2026-01-08T00:00:00Z")
    assert run(*wide, "--csv", tmp_path / "marks.csv").code == 0
    with (tmp_path / "marks.csv").open(newline="") as file:
        assert [line["action"] for line in csv.DictReader(file)] == ["PIN", "HOLD"]
    assert run(*wide, "--parquet", tmp_path / "marks.parquet").code == 0
    assert pq.read_table(tmp_path / "marks.parquet").column("action").to_pylist() == ["PIN", "HOLD"]

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "how_many.sql").write_text(MINE)
    monkeypatch.setenv("EBB_QUERIES", str(tmp_path / "mine"))
    assert run("audit", "run", "how-many", "--format", "json").json["rows"] == [[4]]


def test_what_cannot_be_run_is_refused_in_one_line(run, url, monkeypatch, tmp_path):
    monkeypatch.setenv("EBB_URL", url)

    def refused(*arguments: object) -> str:
        done = run("audit", *arguments)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
        return done.err

    assert "there is no query none: `ebb audit list`" in refused("run", "none")
    assert "there is no query none" in refused("show", "none")
    assert "weeks: marks takes as_of" in refused("run", "marks", "--param", "weeks=2")
    assert "days: 'two' is no integer" in refused("run", "marks", "--param", "days=two")
    assert "as_of: 'noon' is not a time" in refused("run", "marks", "--as-of", "noon")
    assert "'days' is no NAME=VALUE" in refused("run", "marks", "--param", "days")
    assert "days is given twice" in refused("run", "marks", "--param", "days=1", "--param", "days=2")
    assert "actor: refusals takes" in refused("run", "refusals", "--param", "actor=maya")
    assert "name one" in refused("run", "marks", "--csv", "a", "--parquet", "b")
    writes = MINE.replace("SELECT count(*) AS entries FROM audit.entries", "DELETE FROM event_log")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bad.sql").write_text(writes)
    monkeypatch.setenv("EBB_QUERIES", str(tmp_path / "mine"))
    refused("run", "bad")
    (tmp_path / "mine" / "worse.sql").write_text("SELECT 1")
    assert "worse.sql: has no question" in refused("list")
    done = run("audit", "list", "--format", "json")
    assert json.loads(done.err)["error"]["file"].endswith("worse.sql")
