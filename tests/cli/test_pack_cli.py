"""`ebb export` and `ebb import`: what they print, with which exit code, and what they leave."""

from __future__ import annotations

import json

import pytest

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
SAID = [
    {"op": "EVENT", "namespace": "home", "ref": "e1", "content": "I moved.", "actor_id": "maya"}
    | {"actor_type": "HUMAN_USER"},
    BELIEF
    | {"namespace": "home", "ref": "m1", "subject": "maya", "value": "Maya lives in London.", "evidence": ["e1"]},
    BELIEF | {"namespace": "work", "ref": "m1", "subject": "tom", "value": "Tom likes tea."},
]
LINES = "".join(json.dumps(line) + "\n" for line in SAID).encode()


@pytest.fixture
def filled(run, url):
    assert run("ingest", "-", "--url", url, stdin=LINES).code == 0
    return url


def test_there_and_back(run, filled, make_url_for, rows, tmp_path):
    there = make_url_for("duckdb")
    out = run("export", "pack", "--url", filled)
    assert (out.code, out.out, out.err) == (0, "pack: 1 events, 4 operations and 3 contents of home, work\n", "")
    out = run("import", "pack", "--url", there)
    assert (out.code, out.out) == (0, "pack: 1 events, 4 operations and 3 contents appended to home, work\n")
    out = run("import", "pack", "--url", there)
    expected = "pack: 0 events, 0 operations and 0 contents appended to no namespace; unchanged: home, work\n"
    assert (out.code, out.out) == (0, expected)
    names = ("event_log", "batches", "contents", "memory_state", "memory_objects", "event_state", "streams")
    assert rows(there, *names) == rows(filled, *names)


def test_the_keys_of_the_documents(run, filled, make_url_for):
    told = run("export", "pack", "--url", filled, "--format", "json").json
    assert told == {
        "path": "pack",
        "namespaces": ["home", "work"],
        "events": 1,
        "operations": 4,
        "contents": 3,
        "refusals": 0,
        "policies": told["policies"],
        "is_full_export": True,
    }
    told = run("import", "pack", "--url", make_url_for("duckdb"), "--format", "json").json
    assert told == {
        "path": "pack",
        "namespaces": ["home", "work"],
        "unchanged": [],
        "events": 1,
        "operations": 4,
        "contents": 3,
        "erased": 0,
        "refusals": 0,
        "policies": 0,
    }


def test_one_namespace_and_one_subject(run, filled, tmp_path):
    assert run("export", "one", "--url", filled, "-n", "home", "--format", "json").json["is_full_export"] is False
    told = run("export", "tom", "--url", filled, "--subject", "tom", "--format", "json").json
    assert told == {
        "path": "tom",
        "subject": "tom",
        "namespaces": ["work"],
        "memories": 1,
        "events": 0,
        "entries": 1,
        "is_full_export": False,
    }
    assert "London" not in (tmp_path / "tom" / "subject.json").read_text()
    assert run("export", "maya", "--url", filled, "--subject", "maya").out == (
        "maya: 1 memories, 1 events and 2 entries about maya\n"
    )
    refused = run("import", "tom", "--url", filled)
    assert (refused.code, refused.err) == (
        2,
        "ebb: tom/manifest.json: is what is kept about one person, no pack to import\n",
    )


REFUSED = {
    "a folder that is full": (("export", "full"), 2, "new or empty"),
    "a folder in no folder": (("export", "no/such/folder"), 2, "make it first"),
    "no such namespace": (("export", "new", "-n", "nobody"), 2, "nobody"),
    "no such subject": (("export", "new", "--subject", "nobody"), 2, "nothing is kept about 'nobody'"),
    "no such pack": (("import", "nothing"), 2, "there is no folder nothing"),
    "no pack at all": (("import", "full"), 2, "checksum.sha256"),
    "no folder named": (("import",), 2, "DIR"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_one_line(run, shared_url, tmp_path, what):
    arguments, code, said = REFUSED[what]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    out = run(*arguments, "--url", shared_url)
    assert (out.code, out.out) == (code, "")
    assert said in out.err
    assert out.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_damage_and_another_history(run, filled, make_url_for, rows, tmp_path):
    run("export", "pack", "--url", filled)
    there = make_url_for("duckdb")
    run("ingest", "-", "--url", there, stdin=LINES.replace(b"London", b"Paris"))
    before = rows(there)
    out = run("import", "pack", "--url", there, "--format", "json")
    assert (out.code, out.error["code"], out.error["object"]) == (4, "conflict", "home")
    assert "home here has another entry at seq " in out.error["message"]
    manifest = json.loads((tmp_path / "pack" / "manifest.json").read_text())
    (tmp_path / "pack" / "manifest.json").write_text(json.dumps(manifest | {"event_count": 2}))
    out = run("import", "pack", "--url", there, "--format", "json")
    assert (out.code, out.error["file"]) == (2, "pack/manifest.json")
    assert rows(there) == before
