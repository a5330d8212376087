"""`ebb policy diff` and `ebb policy simulate`: numbers by hand, tables, a drawing, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from scipy.optimize import brentq

from ebbtide import Ebbtide

MINE = """
id = "mine"
version = "{version}"

[params]
mu_multiplier = 0.25

[params.profiles]
MEDIUM = {{ lambda = 0.5, curve = "power_law", scale_days = 1.0 }}
FAST = {{ lambda = {fast} }}
"""
GUESS = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "INFERRED", "source_type": "SYSTEM_INFERRED"}
MANY = 30


def mine(folder, fast=0.001, version="1.0.0") -> str:
    file = folder / f"mine-{version}.toml"
    file.write_text(MINE.format(fast=fast, version=version))
    return str(file)


def test_what_differs_how_long_memories_last_and_where_curves_cross(run, tmp_path):
    """Without a store where both are files, and with one that `ebb init` made where one is not."""
    run("init")
    found = run("policy", "diff", "default@1.0.0", mine(tmp_path), "--format", "json").json
    assert (found["a"], found["b"]) == ("default@1.0.0", "mine@1.0.0")
    differ = {one["path"]: (one["a"], one["b"]) for one in found["parameters"]}
    assert differ["mu_multiplier"] == (0.5, 0.25)
    assert differ["profiles.FAST.lambda"] == (0.07, 0.001)
    assert {path.split(".")[1] for path in differ if path.startswith("profiles.")} == {"MEDIUM", "FAST"}
    profiles = {one["profile"]: one for one in found["profiles"]}
    fast = profiles["FAST"]
    for side, rate in (("a", 0.07), ("b", 0.001)):
        assert fast[side] == {
            "half_life": pytest.approx(math.log(2) / rate),
            "to_warning": pytest.approx(math.log(0.5 / 0.3) / rate),
            "to_archive": pytest.approx(math.log(0.5 / 0.1) / rate),
        }
    assert fast["cross"] == []
    # (1 + a) ^ -0.5 against exp(-0.02 a): below it at first, above it later.
    (cross,) = profiles["MEDIUM"]["cross"]
    assert cross == pytest.approx(brentq(lambda a: 0.5 * math.log1p(a) - 0.02 * a, 1, 1000), rel=1e-3)
    assert profiles["MEDIUM"]["b"]["half_life"] == pytest.approx(3.0)
    assert profiles["PERMANENT"]["a"] == {"half_life": None, "to_warning": None, "to_archive": None}

    text = run("policy", "diff", "default@1.0.0", mine(tmp_path)).out
    assert "9.9 | 693.1" in text
    assert f"{cross:.1f}" in text
    same = run("policy", "diff", mine(tmp_path), mine(tmp_path), "--url", "duckdb:///nowhere/at-all.duckdb")
    assert (same.code, same.out.splitlines()[0]) == (0, "No parameter differs.")


@pytest.mark.parametrize(
    ("names", "code", "says"),
    [
        (("default@1.0.0", "nothing@1.0.0"), 2, "nothing@1.0.0"),
        (("default@1.0.0", "none.toml"), 2, "none.toml"),
        (("default@1.0.0",), 2, "POLICY"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(run, names, code, says):
    run("init")
    found = run("policy", "diff", *names)
    assert (found.code, found.out, len(found.err.splitlines())) == (code, "", 1)
    assert says.lower() in found.err.lower()


@pytest.fixture
def begun() -> datetime:
    """A day ago, on a whole second."""
    return datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)


@pytest.fixture
def store(url, monkeypatch, run, begun) -> str:
    """30 guesses of a day ago under the default policy, where all are warned in 8 days and leave in 23."""
    monkeypatch.setenv("EBB_URL", url)
    said = GUESS | {"namespace": "a", "effective_at": begun.isoformat()}
    with Ebbtide(url) as ebb:
        ebb.ask(*(said | {"ref": f"g{n:02}", "value": f"guess {n}"} for n in range(MANY)))
    return url


def test_a_policy_over_the_store_against_what_is(run, store, rows, begun, tmp_path):
    before = rows(store)
    until = begun + timedelta(days=40)
    asked = ("policy", "simulate", mine(tmp_path), "--until", until.isoformat())
    found = run(*asked, "--limit", 4, "--format", "json").json
    assert rows(store) == before
    under, against = found["under"], found["against"]
    assert (found["memories"], found["active"], found["different"], len(found["differences"])) == (MANY, MANY, MANY, 4)
    nothing = {"warned": 0, "archived": 0, "deprecated": 0, "expired": 0, "erased": 0}
    assert (under["policy"], under["active"], under["total"], under["held"]) == ("mine@1.0.0", MANY, nothing, [])
    assert (against["policy"], against["active"]) == (None, 0)
    assert against["total"] == nothing | {"warned": MANY, "deprecated": MANY}
    days = Counter({day["day"]: day["deprecated"] for day in against["days"] if day["deprecated"]})
    gone = begun + timedelta(days=math.log(5) / 0.07)
    assert days == {gone.date().isoformat(): MANY}
    (held,) = [slot for slot in against["held"] if slot["namespace_id"] == "a"]
    assert (held["task"], held["due"], held["of"]) == ("lifecycle", MANY, MANY)
    (one, *_) = found["differences"]
    assert (one["under"]["lifecycle_state"], one["under"]["rule"]) == ("ACTIVE", None)
    assert one["under"]["salience"] == pytest.approx(0.5 * math.exp(-0.07 * 1 - 0.001 * 39), rel=1e-3)
    assert (one["against"]["lifecycle_state"], one["against"]["rule"]) == ("DEPRECATED", "archive")

    drawing = tmp_path / "lines.svg"
    text = run(*asked, "--daily", "--svg", drawing)
    assert (text.code, text.err) == (0, "")
    assert f"{MANY} memories end in another state" in text.out
    assert f"the guard would hold {MANY} of {MANY}" in " ".join(text.out.split())
    assert f"{gone:%Y-%m-%d}" in text.out
    assert {"mine@1.0.0", "as it is"} <= set(ElementTree.parse(drawing).getroot().itertext())
    assert rows(store) == before


def test_one_policy_against_another_and_in_one_namespace(run, store, tmp_path):
    quick, slow = mine(tmp_path, 0.7, "2.0.0"), mine(tmp_path)
    found = run("policy", "simulate", quick, "--against", slow, "--format", "json").json
    assert [found[side]["policy"] for side in ("under", "against")] == ["mine@2.0.0", "mine@1.0.0"]
    assert [found[side]["active"] for side in ("under", "against")] == [0, MANY]
    until = datetime.fromisoformat(found["until"])
    assert until - datetime.fromisoformat(found["as_of"]) == timedelta(days=90)
    none = run("policy", "simulate", quick, "-n", "nobody", "--format", "json")
    assert (none.code, none.out) == (2, "")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ((), "POLICY"),
        (("default@1.0.0", "--until", "2020-01-01T00:00:00Z"), "until"),
        (("default@1.0.0", "--until", "soon"), "until"),
        (("default@1.0.0", "--months", "3"), "months"),
        (("nothing@1.0.0",), None),
    ],
)
def test_what_cannot_be_simulated_is_bad_input(run, options, field):
    run("init")
    found = run("policy", "simulate", *options, "--format", "json")
    assert (found.code, found.out, found.error["field"]) == (2, "", field)
