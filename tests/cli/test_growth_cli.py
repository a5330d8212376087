"""`ebb policy simulate --growth`: the forgetting chapter's table, the drawing, and what is refused."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

GROWTH = ("policy", "simulate", "--growth")


def test_the_chapters_table_is_printed_and_drawn(run, tmp_path):
    file = tmp_path / "growth.svg"
    done = run(*GROWTH, "--size", "200", "--svg", str(file))
    assert (done.code, done.err) == (0, "")
    rows = re.findall(r"^ *(\d+) +([\d,]+) +([\d,]+)$", done.out, re.MULTILINE)
    assert rows == [
        ("3", "540", "297"),
        ("6", "1,080", "475"),
        ("9", "1,620", "653"),
        ("12", "2,160", "832"),
        ("15", "2,700", "1,010"),
        ("18", "3,240", "1,188"),
        ("21", "3,780", "1,366"),
        ("24", "4,320", "1,544"),
    ]
    assert "64% fewer" in done.out
    assert "merge rate of 92.9%" in done.out
    assert re.search("[⠁-⣿]", done.out), "the lines are drawn"
    assert max(len(line) for line in done.out.splitlines()) <= 80
    text = "".join(ElementTree.parse(file).getroot().itertext())
    assert "all kept" in text
    assert "merge and expire" in text


def test_the_json_has_every_month(run):
    found = run(*GROWTH, "--merge-rate", "0.5", "--arrivals", "100", "--months", "5", "--format", "json").json
    assert [row["kept"] for row in found["months"]] == [50, 100, 150, 180, 210]
    assert (found["saved"], found["merge_rate_for_size"]) == (0.58, None)
    nothing = run(*GROWTH, "--events", "1", "--ttl-days", "0", "--size", "10", "--format", "json").json
    assert (nothing["saved"], nothing["merge_rate_for_size"]) == (1.0, 0.0)


@pytest.mark.parametrize("months", [1, 7, 8, 9, 25, 1200])
def test_at_most_nine_rows_and_the_last_month_is_one(run, months):
    rows = re.findall(r"^ *(\d+) +[\d,]+ +[\d,]+$", run(*GROWTH, "--months", str(months)).out, re.MULTILINE)
    assert len(rows) <= 9
    assert rows[-1] == str(months)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*GROWTH, "default@1.0.0"), "POLICY: "),
        ((*GROWTH, "--until", "2027-01-01T00:00:00Z"), "until: "),
        ((*GROWTH, "--merge-rate", "1.1"), "--merge-rate"),
        ((*GROWTH, "--events", "nan"), "--events"),
        ((*GROWTH, "--months", "0"), "--months"),
        ((*GROWTH, "--svg", "no/such/folder/x.svg"), "cannot be written"),
        (("policy", "simulate", "--ttl-days", "3"), "ttl_days: is of --growth"),
        (("policy", "simulate"), "POLICY: is missing"),
    ],
)
def test_what_does_not_belong_is_refused_in_one_line(run, args, says):
    done = run(*args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.splitlines()) == 1
