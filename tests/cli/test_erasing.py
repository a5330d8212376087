"""`ebb erase` and `ebb scrub`: what would go is shown first, what went is on the receipt."""

from __future__ import annotations

import json

import pytest

KIND = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
WHEN = {"effective_at": "2026-01-05T09:00:00Z", "namespace": "maya"}
LINES = [
    {"op": "EVENT", "ref": "m1", "content": "I moved.", "subject": "maya", **WHEN},
    {"op": "ASSERT", "ref": "home", "value": "London", "subject": "maya", "evidence": ["m1"], **KIND, **WHEN},
    {"op": "ASSERT", "ref": "dog", "value": "has a dog", "subject": "otto", **KIND, **WHEN},
    {"op": "ASSERT", "ref": "kept", "value": "on trial", "subject": "otto", **KIND, **WHEN},
    {"op": "HOLD", "object": "kept", **WHEN},
]
TEXT = "\n".join(map(json.dumps, LINES)).encode()
READ = ["event_log", "contents", "memory_state", "memory_objects", "event_state"]


@pytest.fixture
def lived(url, run, monkeypatch) -> str:
    monkeypatch.setenv("EBB_URL", url)
    monkeypatch.setenv("EBB_NAMESPACE", "maya")
    assert run("ingest", "-", stdin=TEXT).err == ""
    return url


@pytest.mark.parametrize(
    ("which", "counts"),
    [
        (["home"], {"objects": 1, "events": 1, "contents": 2}),
        (["dog"], {"objects": 1, "events": 0, "contents": 1}),
        (["--subject", "maya"], {"objects": 1, "events": 1, "contents": 2}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_receipt_has_its_keys_and_nothing_comes_back(lived, run, rows, which, counts):
    done = run("erase", *which, "--yes", "--no-scrub", "--format", "json")
    assert done.code == 0
    assert set(done.json) >= {"erased", "tombstones", "head"}
    assert {"subject", "objects"} & set(done.json)
    assert done.json["erased"] == counts
    assert len(done.json["tombstones"]) == counts["objects"] + counts["events"]
    after = rows(lived, *READ)
    again = run("ingest", "-", "--format", "json", stdin=TEXT)
    assert (again.code, again.json["appended"], again.json["unchanged"]) == (0, 0, len(LINES))
    assert rows(lived, *READ) == after
    refs = {memory["ref"] for memory in run("list", "--format", "json").json["memories"]}
    assert refs == {"home", "dog", "kept"} - ({"home"} if "dog" not in which else {"dog"})
    assert run("scrub").code == 0


@pytest.mark.parametrize("answer", [b"", b"n\n", b"\n"])
def test_what_is_not_confirmed_is_not_erased(lived, run, rows, answer):
    """The question shows what would go; any answer but yes, and none, leaves all as it is."""
    before = rows(lived)
    done = run("erase", "--subject", "maya", stdin=answer)
    assert "1 memories" in done.out + done.err
    assert rows(lived) == before
    assert done.code in range(5)


def test_a_hold_refuses_an_erasure_and_is_named(lived, run, rows):
    before = rows(lived)
    for which in (["kept"], ["dog", "kept"], ["--subject", "otto"], ["--namespace", "maya"]):
        done = run("erase", *which, "--yes")
        assert (done.code, done.out) == (4, "")
        assert "kept" in done.err
        assert rows(lived) == before


@pytest.mark.parametrize("which", [["nobody"], ["--subject", "nobody"], ["-n", "nobody"], [], ["dog", "nobody"]])
def test_what_is_not_there_is_bad_input(lived, run, rows, which):
    before = rows(lived)
    done = run("erase", *which, "--yes")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert rows(lived) == before
