"""`ebb policy fit`: what it prints, the file it writes, and its exit codes."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from ebbtide.policy.files import load

KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def lines(rate: float) -> bytes:
    """Forty memories asked about five times each, of which a share of e^(−rate·days) is known."""
    dice, begin, made = random.Random(2), datetime(2026, 1, 5, tzinfo=UTC), []
    for n in range(40):
        at = begin
        made.append(KNOWN | {"ref": f"m{n}", "value": n, "effective_at": at.isoformat()})
        age = 0
        for _ in range(5):
            days = dice.choice([1, 5, 20])
            at, age = at + timedelta(days=days), age + days
            known = dice.random() < 2.718281828 ** (-rate * age)
            op, signal = ("REINFORCE", "CONFIRMED") if known else ("PENALTY", "UNUSED")
            made.append({"op": op, "object": f"m{n}", "signal": signal, "effective_at": at.isoformat()})
            age = 0 if known else age
    return "".join(json.dumps(line) + "\n" for line in made).encode()


@pytest.fixture
def told(make_url_for, monkeypatch, run):
    monkeypatch.setenv("EBB_URL", make_url_for("duckdb"))

    def tell(rate: float) -> None:
        assert run("ingest", "-", stdin=lines(rate)).code == 0

    return tell


def test_a_fit_is_printed_and_written(told, run, tmp_path):
    told(0.1)
    fit = ("policy", "fit", "--curve", "exponential", "--resamples", 20)
    done = run(*fit)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("MEDIUM exponential: written to fitted-1.0.0.json as fitted@1.0.0\n")
    policy = load(tmp_path / "fitted-1.0.0.json")
    assert 0.05 < policy.params.profiles["MEDIUM"].rate < 0.2
    assert [one["policy"] for one in run("policy", "list", "--format", "json").json["policies"]].count(policy.name) == 0

    again = run(*fit, "--format", "json").json
    assert (again["policy"], again["file"], again["current"]) == (policy.name, "fitted-1.0.0.json", "default@1.0.0")
    (profile,) = again["profiles"]
    assert (profile["chosen"], profile["refused"]) == ("exponential", None)
    kinds = {score["model"]: score["kind"] for score in profile["scores"]}
    assert kinds["constant"] == "constant"
    assert kinds["exponential"] == "fitted"
    assert kinds["default@1.0.0"] == "current"
    assert kinds["spaced@1.0.0"] == kinds["FSRS-6's defaults"] == "built-in"

    other = run(*fit, "--seed", 1, "--min-days", 2)
    assert other.code == 2
    assert "fitted-1.0.0.json: is there with other content" in other.err
    assert run(*fit, "--min-days", 2, "--out", "mine.json", "--id", "mine", "--version", "2.0.0").code == 0
    assert load(tmp_path / "mine.json").name == "mine@2.0.0"


def test_where_nothing_is_better_nothing_is_written(told, run, tmp_path):
    """The memories fade as the policy says: no other rate is surely better."""
    told(0.02)
    done = run("policy", "fit", "--curve", "exponential", "--resamples", 20, "--format", "json")
    assert done.code == 1
    assert (done.json["policy"], done.json["file"]) == (None, None)
    assert done.error["code"] == "check_failed"
    assert not list(tmp_path.glob("*.json"))


def test_too_little_is_exit_code_1(told, run):
    told(0.1)
    done = run("policy", "fit", "--min-days", 30)
    assert done.code == 1
    assert "too little to fit: MEDIUM has 0 of 20 objects" in done.err
