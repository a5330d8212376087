"""`ebb verify` and `ebb digest`: exit codes, documents, files; a proof is checked without a store."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import text

from ebbtide import Ebbtide

KIND = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
WHEN = {"effective_at": "2026-01-05T09:00:00Z", "namespace": "maya"}
LINES = [
    {"op": "EVENT", "ref": "m1", "content": "I moved.", "subject": "maya", **WHEN},
    {"op": "ASSERT", "ref": "home", "value": "London", "subject": "maya", "evidence": ["m1"], **KIND, **WHEN},
    {"op": "ASSERT", "ref": "dog", "value": "has a dog", "subject": "otto", **KIND, **WHEN},
    {"op": "PIN", "object": "dog", **WHEN},
]
TEXT = "\n".join(map(json.dumps, LINES)).encode()
WELL = "All is well: 5 entries in 1 batches.\n"


@pytest.fixture
def lived(url, run, monkeypatch) -> str:
    monkeypatch.setenv("EBB_URL", url)
    assert run("ingest", "-", stdin=TEXT).err == ""
    return url


def meddle(url: str, statement: str) -> None:
    with Ebbtide(url) as ebb, ebb.store.begin() as connection:
        if ebb.store.db.name == "postgresql":
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(statement))


def test_a_whole_store(lived, run):
    assert (run("verify").code, run("verify").out) == (0, WELL)
    assert run("verify", "-n", "maya", "--format", "json").json == {
        "ok": True,
        "entries": 5,
        "batches": 1,
        "first_bad": None,
    }


def test_what_is_wrong_is_named_and_the_exit_code_is_1(lived, run):
    meddle(lived, "UPDATE event_log SET actor_id = 'mallory' WHERE seq = 3")
    done = run("verify")
    assert (done.code, done.err) == (1, "")
    assert done.out == "maya 3: its hash is not that of its columns: a column was changed\n"
    bad = run("verify", "--format", "json")
    assert (bad.code, bad.json["ok"]) == (1, False)
    assert {key: bad.json["first_bad"][key] for key in ("namespace_id", "seq")} == {"namespace_id": "maya", "seq": 3}
    assert bad.json["first_bad"]["what"] in done.out


def test_a_digest_is_kept_and_compared(lived, run, tmp_path):
    digest = run("digest")
    assert set(digest.json) == {"heads", "created_at"}
    (head,) = digest.json["heads"]
    assert set(head) == {"namespace_id", "seq", "batch", "hash"}
    assert digest.json["created_at"].endswith("Z")
    (tmp_path / "kept.json").write_text(digest.out)
    assert run("pin", "home", "-n", "maya").code == 0
    assert run("verify", "--digest", "kept.json").code == 0
    (tmp_path / "later.json").write_text(json.dumps({**digest.json, "heads": [head | {"batch": 3}]}))
    done = run("verify", "--digest", "later.json")
    assert (done.code, done.out.partition(":")[0]) == (1, "maya 7")


def test_a_proof_needs_no_store(lived, run, tmp_path, monkeypatch):
    (tmp_path / "kept.json").write_text(run("digest").out)
    proof = run("digest", "--prove", "4", "-n", "maya")
    assert (proof.code, proof.json["entry"]["seq"]) == (0, 4)
    by_id = run("digest", "--prove", proof.json["entry"]["id"])
    assert by_id.json == proof.json
    (tmp_path / "proof.json").write_text(proof.out)
    monkeypatch.setenv("EBB_URL", "duckdb:///nowhere/at.all")
    for options in ([], ["--digest", "kept.json"]):
        done = run("verify", "--proof", "proof.json", *options)
        assert (done.code, done.out) == (0, "The proof holds.\n")
    forged = proof.json | {"entry": proof.json["entry"] | {"actor_id": "mallory"}}
    (tmp_path / "proof.json").write_text(json.dumps(forged))
    done = run("verify", "--proof", "proof.json", "--format", "json")
    assert (done.code, done.json["ok"], done.json["first_bad"]["seq"]) == (1, False, 4)


def test_a_receipt_is_checked_later(lived, run, tmp_path):
    receipt = run("erase", "home", "-n", "maya", "--yes", "--no-scrub")
    (tmp_path / "receipt.json").write_text(receipt.out)
    assert run("unpin", "dog", "-n", "maya").code == 0
    assert run("verify", "--receipt", "receipt.json").code == 0
    wrong = receipt.json | {"tombstones": receipt.json["tombstones"][:1]}
    (tmp_path / "receipt.json").write_text(json.dumps(wrong))
    assert run("verify", "--receipt", "receipt.json").code == 1


def test_the_result_is_recorded(lived, run):
    assert run("verify", "--record").out == WELL
    assert run("verify").out == "All is well: 6 entries in 2 batches.\n"
    meddle(lived, "UPDATE namespaces SET version = 77")
    done = run("verify", "--record")
    assert (done.code, done.err) == (1, "not recorded in maya: the log there cannot be appended to\n")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["verify", "--digest", "no.json"], "no.json"),
        (["verify", "--digest", "bad.json"], "bad.json: heads: is no digest: field required"),
        (["verify", "--receipt", "bad.json"], "is no receipt"),
        (["verify", "--proof", "bad.json"], "is no proof"),
        (["verify", "--proof", "bad.json", "--record"], "leave out the rest"),
        (["verify", "-n", "nobody"], "nobody"),
        (["digest", "-n", "nobody"], "nobody"),
        (["digest", "--prove", "99", "-n", "maya"], "no entry 99"),
        (["digest", "--prove", "00000000-0000-8000-8000-000000000000"], "no entry"),
        (["digest", "--prove", "home", "-n", "maya"], "'home' is no entry"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_usage_is_one_line_and_exit_code_2(lived, run, tmp_path, command, says):
    (tmp_path / "bad.json").write_text("{}")
    done = run(*command)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert says in done.err
