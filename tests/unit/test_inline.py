"""Charts within a page: shapes with classes, in the right places, and nothing that a strict policy forbids."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ebbtide.draw.chart import Axis, Chart, Line, Mark, Threshold
from ebbtide.draw.inline import NARROW, SMALL, WIDE, inline, levels, parts
from ebbtide.model.instant import DAY, parse

BEGIN = parse("2026-03-02T00:00:00Z")
CHART = Chart(
    'Salience <of> & "one"',
    Axis.INSTANTS,
    [
        Line("salience", [BEGIN, BEGIN + 10 * DAY], [1.0, 0.0]),
        Line("confidence", [BEGIN, BEGIN + 10 * DAY], [0.5, 0.5]),
    ],
    [Threshold("warning", 0.3)],
    [Mark(BEGIN + 5 * DAY, 0.5, "REINFORCE </svg>")],
    BEGIN + 4 * DAY,
)


def shapes(size=WIDE):
    root = ElementTree.fromstring(inline(CHART, size, "c1", "It falls."))
    return root, {
        kind: [one for one in root.iter() if one.get("class") == kind] for kind in {o.get("class") for o in root.iter()}
    }


def points(path):
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path.get("d"))]


@pytest.mark.parametrize("size", [WIDE, NARROW, SMALL])
def test_nothing_in_it_has_a_style_or_runs(size):
    text = inline(CHART, size, "c1", "It falls.")
    root = ElementTree.fromstring(text)
    assert {one.tag for one in root.iter()} <= {"svg", "title", "desc", "path", "text", "circle"}
    names = {name for one in root.iter() for name in one.attrib}
    assert not names & {"style", "href"}
    assert not [name for name in names if name.startswith("on") or "link" in name]
    assert "http" not in text
    assert [one.get("id") for one in root.iter() if one.get("id")] == ["c1-t", "c1-d"]


def test_it_says_what_it_is():
    root, _ = shapes()
    assert root.get("aria-labelledby") == "c1-t c1-d"
    assert [root.find("title").text, root.find("desc").text] == ['Salience <of> & "one"', "It falls."]


def test_lines_are_where_their_numbers_are():
    """By hand: 1100 × 300 less margins of 40, 14, 14 and 26 is 1046 × 260; 1.02 is at the top."""
    _, found = shapes()
    (past,), (ahead,) = found["line s0"], found["line s0 ahead"]
    assert points(past)[0] == pytest.approx((40, 14 + 260 * 0.02 / 1.02), abs=0.2)
    assert points(past)[-1] == points(ahead)[0] == pytest.approx((40 + 1046 * 0.4, 274 - 260 * 0.6 / 1.02), abs=0.2)
    assert points(ahead)[-1] == pytest.approx((1086, 274), abs=0.2)
    (mark,) = found["mark ahead"]
    assert (float(mark.get("cx")), float(mark.get("cy"))) == pytest.approx((563, 274 - 260 * 0.5 / 1.02), abs=0.2)
    assert mark.find("title").text == "REINFORCE </svg>"
    (line,) = [one for one in found["threshold"] if one.tag == "path"]
    assert points(line)[0] == pytest.approx((40, 274 - 260 * 0.3 / 1.02), abs=0.2)
    assert [one.text for one in found["threshold"] if one.tag == "text"] == ["warning 0.3"]


def test_the_axes_have_round_names():
    _, found = shapes()
    said = [one.text for one in found["name"]]
    assert said[:5] == ["0", "0.25", "0.5", "0.75", "1"]
    assert said[5] == "2 Mar"
    for top in (2, 7, 18, 99, 150, 4_321, 10_000, 987_654):
        steps = levels(top)
        assert 4 <= len(steps) <= 8 or top < 4, top
        assert steps[-1] <= top
        assert steps[1] - steps[0] in {m * 10**e for m in (1, 2, 2.5, 5) for e in range(7)}


def test_a_line_is_parted_at_now():
    line = Line("a", [0, 10], [0.0, 1.0])
    (past, before), (ahead, after) = parts(line, 4)
    assert (list(past.x), list(past.y), before) == ([0, 4], [0.0, 0.4], False)
    assert (list(ahead.x), list(ahead.y), after) == ([4, 10], [0.4, 1.0], True)
    assert [later for _, later in parts(line, 10)] == [False]
    assert [later for _, later in parts(line, 0)] == [True]
