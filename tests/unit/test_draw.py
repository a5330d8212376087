"""Charts: what is drawn fits, shows every line and mark, and is no more than it says."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ebbtide.draw import svg as drawing
from ebbtide.draw.chart import Axis, Chart, Line, Mark, Threshold
from ebbtide.draw.svg import svg
from ebbtide.draw.terminal import drawn, letters
from ebbtide.model import instant
from ebbtide.model.errors import NotInstalled

BEGIN = instant.parse("2026-03-02T00:00:00Z")
X = [BEGIN + day * instant.DAY for day in range(101)]
CHART = Chart(
    title="$home$ <b> & 家",
    axis=Axis.INSTANTS,
    lines=[Line("salience", X, [0.97**day for day in range(101)]), Line("confidence", X, [0.9] * 101)],
    thresholds=[Threshold("warning", 0.3), Threshold("archive", 0.1)],
    marks=[Mark(X[30], 0.97**30, "REINFORCE"), Mark(X[40], 0.3, "RESTORE"), Mark(X[100], 0.05, "archive")],
    now=X[50],
)
DAYS = Chart("days", Axis.DAYS, [Line("R", [0.0, 1.0, 2.0], [1.0, 0.5, 0.25])])


def lines(chart: Chart, **options: object) -> list[str]:
    return [str(line) for line in drawn(chart, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_drawing_fits_its_width(width: int, ascii_only: bool) -> None:
    for chart in (CHART, DAYS):
        assert max(len(line) for line in lines(chart, width=width, ascii_only=ascii_only)) <= width


def test_a_line_is_where_its_points_are() -> None:
    """Of 14 rows over 1.04 each is 0.074 high: 1 is in the first row, 0.97^100 = 0.048 in the last."""
    rows = [line[7:].ljust(73) for line in lines(CHART, width=80)[:14]]
    braille = re.compile("[⠁-⣿]")
    assert braille.match(rows[0])
    assert rows[13].rstrip()[-1] == "A", "the mark at the end stands above the line"
    middle = next(number for number, row in enumerate(rows) if braille.match(row[43]) and number > 2)
    assert middle == int((1.04 - 0.97**60) / 1.04 * 14), "column 43 of 73 is day 60"


@pytest.mark.parametrize(
    ("top", "said"),
    [
        (1.0, ["1.00", "0.75", "0.50", "0.25", "0.00"]),
        (10, ["10.0", "7.5", "5.0", "2.5", "0.0"]),
        (4320, ["4320", "3240", "2160", "1080", "0"]),
        (250_000, ["250k", "188k", "125k", "62.5k", "0k"]),
        (10_000_000, ["10M", "7.5M", "5M", "2.5M", "0M"]),
    ],
)
def test_a_chart_may_go_up_to_any_number(top: float, said: list[str]) -> None:
    shown = lines(Chart("growth", Axis.MONTHS, [Line("kept", [0, 24], [0, top])], top=top), width=80)
    assert [line[:5].strip() for line in shown[:14] if line[:5].strip()] == said
    assert re.match("[⠁-⣿]", shown[0][79]), "its end is at the top, on the right"
    assert "month 0" in shown[15]


def test_ascii_is_ascii() -> None:
    text = "\n".join(lines(CHART, width=80, ascii_only=True))
    assert text.isascii()
    assert "*" in text
    assert "R REINFORCE" in text
    assert "2026-03-02" in text


def test_words_have_letters_of_their_own() -> None:
    assert letters(["REINFORCE", "RESTORE", "REINFORCE", "archive"]) == {
        "REINFORCE": "R",
        "RESTORE": "E",
        "archive": "A",
    }
    assert len(set(letters([f"A{'B' * n}" for n in range(9)]).values())) == 9


def test_svg_has_the_points_and_nothing_that_runs_or_is_fetched() -> None:
    document = svg(CHART)
    root = ElementTree.fromstring(document.encode())
    tags = {element.tag.partition("}")[2] for element in root.iter()}
    assert "script" not in tags
    assert "image" not in tags
    assert "<!DOCTYPE" not in document
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            if name.endswith("href"):
                assert value.startswith("#")
    assert set(re.findall(r"https?://[^\"\s]+", document)) == {
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
    }
    said = "".join(element.text or "" for element in root.iter() if element.tag.endswith("}text"))
    assert CHART.title in said, "text is text, as it was given"
    (line,) = [element for element in root.iter() if element.get("id") == "salience"]
    (path,) = [element for element in line.iter() if element.tag.endswith("}path")]
    assert len(re.findall("[ML]", path.get("d") or "")) == 101


def test_svg_is_the_same_bytes_again() -> None:
    assert svg(CHART) == svg(CHART)
    assert "days" in svg(DAYS)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"pip install 'ebbtide\[plot\]'"):
        svg(CHART)
