"""`ebb policy plot`: its numbers, the file, what it refuses; and the pictures of the docs show what it draws."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ebbtide.charts.curves import chart_of, lines_of
from ebbtide.draw.svg import svg
from ebbtide.policy.files import library

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
BUILT_IN = {path.stem: policy for policy, path in library().values()}


def test_one_policy(run) -> None:
    """0.9·exp(−λ·a); half of it after ln 2/λ, 0.3 after ln 3/λ, 0.1 after ln 9/λ."""
    found = run("policy", "plot", "default@1.0.0", "--days", "240", "--svg", "out.svg", "--format", "json")
    assert (found.code, found.err) == (0, "")
    assert {"days", "begin", "thresholds", "lines"} == set(found.json)
    rates = {"SLOW": 0.005, "MEDIUM": 0.02, "FAST": 0.07, "RAPID": 0.2}
    assert [line["profiles"] for line in found.json["lines"]] == [[name] for name in rates]
    for line, rate in zip(found.json["lines"], rates.values(), strict=True):
        assert line["age_days"] == [float(day) for day in range(241)]
        assert line["salience"] == pytest.approx([0.9 * math.exp(-rate * day) for day in range(241)])
        ends = [line[f"{name}_days"] for name in ("half_life", "warning", "archive")]
        assert ends == pytest.approx([math.log(2) / rate, math.log(3) / rate, math.log(9) / rate])
    assert Path("out.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert not Path("ebbtide.duckdb").exists(), "no store is opened for a policy at hand"


def test_several_policies_and_profiles(run) -> None:
    names = ("default@1.0.0", "permastore@1.0.0", "recency@1.0.0")
    asserted = run("policy", "plot", *names, "--format", "json", "--salience", "0.5").json["lines"]
    assert [(line["policy"], *line["profiles"]) for line in asserted] == [
        ("default@1.0.0", "MEDIUM"),
        ("permastore@1.0.0", "MEDIUM"),
        ("recency@1.0.0", "PERMANENT"),
    ]
    # 0.5·(1 + a)^(−1/4): half after 2⁴ − 1 days, 0.1 after 5⁴ − 1.
    assert asserted[1]["half_life_days"] == pytest.approx(15)
    assert asserted[1]["archive_days"] == pytest.approx(624)
    assert asserted[1]["salience"][-1] == pytest.approx(0.5 * 181**-0.25)
    assert [asserted[2][f"{end}_days"] for end in ("half_life", "warning", "archive")] == [None] * 3
    chosen = run("policy", "plot", "spaced@1.0.0", "--profile", "FAST", "--profile", "SLOW", "--format", "json")
    assert [line["profiles"] for line in chosen.json["lines"]] == [["FAST", "SLOW"]], "lines that are the same"


def test_a_file_with_a_floor_in_the_terminal(run) -> None:
    profile = "{ lambda = 0.1, salience_floor = 0.4 }"
    Path("mine.toml").write_text(f'id = "mine"\nversion = "1.0.0"\n[params.profiles]\nMEDIUM = {profile}\n')
    found = run("policy", "plot", "mine.toml", "--profile", "MEDIUM")
    assert found.code == 0
    for word in ("half-life", "warning 0.3", "archive 0.1", "force_archive 0.05"):
        assert word in found.out
    # Half of 0.9 is above the floor of 0.4, the thresholds are below it.
    assert re.search(r"mine@1\.0\.0 +MEDIUM +6\.9 +never +never", found.out)


def test_of_the_store(run) -> None:
    Path("mine.json").write_text('{"id": "mine", "version": "2.0.0", "params": {}}')
    assert run("init").code == 0
    assert run("policy", "register", "mine.json").code == 0
    assert run("policy", "plot", "mine@2.0.0", "--format", "json").json["lines"][0]["policy"] == "mine@2.0.0"


@pytest.mark.parametrize(
    ("given", "field"),
    [(("--profile", "SLOWLY"), "profile"), (("--days", "0"), "days"), (("--salience", "1.1"), "sal")],
)
def test_what_is_refused(run, given: tuple[str, str], field: str) -> None:
    found = run("policy", "plot", "default@1.0.0", *given)
    assert found.code == 2
    assert len(found.err.splitlines()) == 1
    assert field in found.err


def test_every_built_in_policy_has_its_picture() -> None:
    assert {path.stem for path in PICTURES.glob("*.svg")} == set(BUILT_IN)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_picture_shows_what_the_command_draws(name: str) -> None:
    """Point by point: bytes differ from version to version of what draws them. `make pictures` makes them anew."""
    policy = BUILT_IN[name]
    lines = lines_of([policy])
    drawn = svg(chart_of([policy], lines))
    kept = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    for line in lines:
        gid = " ".join(line.profiles)
        assert _points(kept, gid) == pytest.approx(_points(drawn, gid), abs=0.5)
        assert len(_points(kept, gid)) == 2 * len(line.salience)


def _points(document: str, gid: str) -> list[float]:
    root = ElementTree.fromstring(document.encode())
    (line,) = [element for element in root.iter() if element.get("id") == gid]
    (path,) = [element for element in line.iter() if element.tag.endswith("}path")]
    return [float(number) for number in re.findall(r"[-\d.]+", path.get("d") or "")]
