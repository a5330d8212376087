"""What operators and auditors do over HTTP beside runs and policies: packs, SQL, fits, and keeping a store well."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import pyarrow.parquet as pq
import pytest
from sqlalchemy import update
from tests.conformance import ledger
from tests.service.serving import BELIEF, HERE, NS, problem, serving

from ebbtide.service.http import edge
from ebbtide.store.tables import memory_state

PARQUET = "application/vnd.apache.parquet"
METHODS = (ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA)


@pytest.fixture(params=["duckdb", "postgresql"])
def served(request, make_url_for):
    yield from serving(make_url_for(request.param))


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def damaged(method: int) -> bytes:
    """A zip whose directory is whole, and the bytes of its one file are not."""
    out = io.BytesIO()
    with ZipFile(out, "w", compression=method) as archive:
        archive.writestr("manifest.json", bytes(range(256)) * 40)
    raw = bytearray(out.getvalue())
    begin = 30 + len("manifest.json")
    raw[begin : begin + 60] = b"\xff" * 60
    return bytes(raw)


def unzipped(raw: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_pack_goes_to_another_service_and_nothing_is_taken_twice(served, make_url_for):
    pack = served.operator.get("/v1/packs")
    assert pack.headers["content-type"] == "application/zip"
    for kind in ("duckdb", "postgresql"):
        for other in serving(make_url_for(kind), happened=()):
            done = other.operator.post("/v1/packs", content=pack.content).json()
            assert sorted(done["namespaces"]) == [NS, "tom"]
            again = other.operator.post("/v1/packs", content=pack.content).json()
            assert (again["namespaces"], sorted(again["unchanged"])) == ([], [NS, "tom"])
            assert other.ebb.memory("home-1", namespace=NS).value == f"{NS} lives in London."
            ledger.check(other.ebb, NS)


def test_a_pack_of_one_namespace_has_no_other(served):
    mine, every = (unzipped(client.get("/v1/packs").content) for client in (served.mine["operator"], served.operator))
    assert json.loads(mine["manifest.json"])["namespaces"] == [NS]
    assert json.loads(every["manifest.json"])["namespaces"] == [NS, "tom"]
    assert unzipped(served.operator.get("/v1/packs", params={"namespace": NS}).content).keys() == mine.keys()
    problem(served.mine["operator"].get("/v1/packs", params={"namespace": "tom"}), 404, "not_found")


def test_what_is_no_pack_is_refused_and_nothing_is_written(served, monkeypatch):
    before = served.ebb.digest().heads
    whole = unzipped(served.operator.get("/v1/packs").content)
    tampered = {name: raw.replace(b"1", b"2") if name.endswith(".json") else raw for name, raw in whole.items()}
    outside = whole | {"../../ebbtide-was-outside": b"x", "../ebbtide-was-outside": b"x"}
    for body in (
        b"",
        b"PK",
        b"no zip",
        zipped({}),
        zipped({"manifest.json": b"{}"}),
        zipped(tampered),
        *map(damaged, METHODS),
    ):
        problem(served.operator.post("/v1/packs", content=body), 422, "bad_input")
    served.operator.post("/v1/packs", content=zipped(outside))
    folder = Path(tempfile.gettempdir())
    assert not [place for place in (folder, folder.parent) if (place / "ebbtide-was-outside").exists()]
    monkeypatch.setattr(edge, "LARGEST_BODY", 100)
    bomb = io.BytesIO()
    with ZipFile(bomb, "w", compression=8) as archive:
        archive.writestr("manifest.json", b"0" * 50_000_000)
    problem(served.operator.post("/v1/packs", content=bomb.getvalue()), 413, "too_large")
    monkeypatch.undo()
    told = problem(served.operator.post("/v1/packs", content=bomb.getvalue()), 422, "bad_input")
    assert "unpacked" in told["detail"]
    assert served.ebb.digest().heads == before


def test_a_person_is_given_what_is_kept_about_them_and_no_other(served):
    files = unzipped(served.mine["auditor"].get(f"{HERE}/subjects/{NS}").content)
    text = b"".join(files.values()).decode()
    assert f"{NS} lives in London." in text
    assert "tom lives" not in text
    problem(served.mine["auditor"].get(f"{HERE}/subjects/nobody"), 404, "not_found")


def test_sql_in_three_forms_and_nothing_but_the_views(served):
    auditor = served.every["auditor"]
    query = {"query": "SELECT namespace_id, ref FROM memories ORDER BY 1"}
    rows = auditor.post("/v1/sql", json=query).json()
    assert rows == {"columns": ["namespace_id", "ref"], "rows": [[NS, "home-1"], ["tom", "home-1"]], "more": False}
    assert auditor.post("/v1/sql", json=query | {"limit": 1}).json()["more"] is True
    csv = auditor.post("/v1/sql", json=query, headers={"Accept": "text/csv"}).text
    assert csv.splitlines() == ["namespace_id,ref", f"{NS},home-1", "tom,home-1"]
    parquet = auditor.post("/v1/sql", json=query, headers={"Accept": PARQUET}).content
    assert pq.read_table(io.BytesIO(parquet)).num_rows == 2
    problem(auditor.post("/v1/sql", json=query, headers={"Accept": "image/png"}), 406, "not_acceptable")
    for bad in ("SELECT * FROM tokens", "DELETE FROM event_log", "SELECT 1; SELECT 2", "", "no SQL"):
        problem(auditor.post("/v1/sql", json={"query": bad}), 422, "bad_input")
    for bad in ({"timeout": 0}, {"timeout": 61}, {"limit": -1}, {"file": "/etc/passwd"}):
        problem(auditor.post("/v1/sql", json=query | bad), 422, "bad_input")


def test_a_state_that_was_tampered_with_is_mended_from_the_log(served):
    operator = served.mine["operator"]
    assert operator.post("/v1/rebuild", json={}).json()["equal"] is True
    with served.ebb.store.begin() as connection:
        connection.execute(update(memory_state).where(memory_state.c.namespace_id == NS).values(salience=0.123))
    found = operator.post("/v1/rebuild", json={"namespace": NS}).json()
    assert found["equal"] is False
    assert [row["table"] for one in found["namespaces"] for row in one["wrong"]] == ["memory_state"]
    assert operator.post("/v1/rebuild", json={}).json()["equal"] is True
    ledger.check(served.ebb, NS)


def test_the_store_is_looked_over_and_scrubbed(served):
    problems = served.ebb.problems()
    assert served.operator.get("/v1/doctor").json() == {"ok": not problems, "problems": problems}
    assert served.operator.post("/v1/scrub").status_code == 204
    ledger.check(served.ebb, NS)


def test_a_policy_is_checked_drawn_and_fitted_without_being_registered(served):
    reader = served.mine["reader"]
    default = reader.get("/v1/policies/default@1.0.0").json()
    assert reader.post("/v1/policies/check", json=default).json()["policy"] == "default@1.0.0"
    problem(reader.post("/v1/policies/check", json=default | {"note": "another"}), 409, "check_failed")
    wrong = problem(
        reader.post("/v1/policies/check", json=default | {"params": {"mu_multiplier": -1}}), 422, "bad_input"
    )
    assert wrong["field"] == "params.mu_multiplier"
    lines = reader.get("/v1/policies/default@1.0.0/curves", params={"days": 10, "salience": 0.8}).json()["lines"]
    assert {(line["age_days"][-1], line["salience"][0]) for line in lines} == {(10.0, 0.8)}
    told = problem(served.mine["auditor"].post(f"{HERE}/fit", json={"resamples": 1}), 409, "check_failed")
    assert "nothing to fit" in told["detail"]
    problem(served.mine["auditor"].post(f"{HERE}/fit", json={"curves": ["spline"]}), 422, "bad_input")
    assert {one["policy"] for one in reader.get("/v1/policies").json()["policies"]} >= {"default@1.0.0"}


def test_a_pass_without_the_guard_says_so(served):
    operator = served.mine["operator"]
    operator.post(f"{HERE}/memories", json={"value": "x", "effective_at": "2020-01-01T00:00:00Z", **BELIEF})
    runs = operator.post("/v1/runs", json={"tasks": ["lifecycle"], "no_guard": True}).json()["runs"]
    assert [run["guard"]["verdict"] for run in runs] == ["off"]
