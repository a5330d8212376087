"""Files of named queries: what a header says, what is refused, and how parameters are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ebbtide.audit.queries import library, parse, pick
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.instant import parse as at

FILE = """\
-- question: What is there?
-- parameter as_of (instant, default now): up to this
-- parameter known_at (instant, optional): as far as known by then
-- parameter days (integer, default 30): how far back;
--   at least one
-- parameter share (number, default 0.5): of all
-- parameter who (text): by whom
-- column there: what is there
SELECT :who AS there -- as_of: :as_of, ::days
WHERE :as_of > :known_at AND :days > :share
"""
QUERY = parse("mine", FILE)
NOW = at("2026-03-02T09:00:00Z")


def test_a_header_is_read():
    assert (QUERY.name, QUERY.question) == ("mine", "What is there?")
    assert [(one.name, one.told(), one.about) for one in QUERY.parameters] == [
        ("as_of", "instant, default now", "up to this"),
        ("known_at", "instant, optional", "as far as known by then"),
        ("days", "integer, default 30", "how far back; at least one"),
        ("share", "number, default 0.5", "of all"),
        ("who", "text", "by whom"),
    ]
    assert [(one.name, one.about) for one in QUERY.columns] == [("there", "what is there")]
    assert QUERY.sql.startswith("SELECT :who")
    assert QUERY.text == FILE


def test_each_parameter_has_its_type_in_the_statement():
    assert QUERY.typed() == (
        "SELECT CAST(:who AS TEXT) AS there -- as_of: CAST(:as_of AS TIMESTAMP WITH TIME ZONE), ::days\n"
        "WHERE CAST(:as_of AS TIMESTAMP WITH TIME ZONE) > CAST(:known_at AS TIMESTAMP WITH TIME ZONE) "
        "AND CAST(:days AS BIGINT) > CAST(:share AS DOUBLE PRECISION)"
    )


def test_values_are_read_by_type_with_their_defaults():
    assert QUERY.values({"who": "maya"}, NOW) == {
        "as_of": "2026-03-02T09:00:00Z",
        "known_at": None,
        "days": 30,
        "share": 0.5,
        "who": "maya",
    }
    given = {"who": "maya", "days": "7", "share": 1, "as_of": datetime(2026, 1, 1, tzinfo=UTC)}
    assert QUERY.values(given, NOW) | {"known_at": 0} == {
        "as_of": "2026-01-01T00:00:00Z",
        "known_at": 0,
        "days": 7,
        "share": 1.0,
        "who": "maya",
    }


def test_now_is_when_it_was_known():
    values = QUERY.values({"who": "maya", "known_at": "2026-01-05T01:00:00+01:00"}, NOW)
    assert (values["as_of"], values["known_at"]) == ("2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z")


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({}, "who", "is missing: by whom"),
        ({"who": "x", "whom": "y"}, "whom", "mine takes as_of, known_at, days, share, who"),
        ({"who": 3}, "who", "3 is no text"),
        ({"who": "a\0b"}, "who", "is no text"),
        ({"who": "x", "days": "many"}, "days", "'many' is no integer"),
        ({"who": "x", "days": 1.5}, "days", "1.5 is no integer"),
        ({"who": "x", "days": 1 << 63}, "days", "is no integer"),
        ({"who": "x", "days": True}, "days", "True is no integer"),
        ({"who": "x", "share": "nan"}, "share", "'nan' is no number"),
        ({"who": "x", "as_of": "yesterday"}, "as_of", "'yesterday' is not a time"),
        ({"who": "x", "as_of": datetime(2026, 1, 1)}, "as_of", "has no zone"),  # noqa: DTZ001
        ({"who": "x", "known_at": 5}, "known_at", "5 is no instant"),
    ],
)
def test_parameters_that_cannot_be_taken_are_refused(given, field, says):
    with pytest.raises(BadInput, match=says) as refused:
        QUERY.values(given, NOW)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT 1", "has no question"),
        ("-- question: What?\nSELECT 1", "no columns"),
        ("-- question: What?\n-- column a: one", "no SELECT"),
        ("-- question: What?\n-- column a: one\n-- author: me\nSELECT 1", "'author: me' in the header"),
        ("-- question: What?\n-- parameter a (date): one\n-- column a: one\nSELECT 1", "in the header"),
        (
            "-- question: What?\n-- parameter a (integer, default x): one\n-- column a: one\nSELECT 1",
            "'x' is no integer",
        ),
    ],
)
def test_headers_that_do_not_hold_are_refused_with_their_file(text, says):
    with pytest.raises(BadInput, match=says) as refused:
        parse("mine", text, "mine.sql")
    assert str(refused.value).startswith("mine.sql: ")


def test_a_folder_of_ones_own_adds_to_the_built_in_queries(tmp_path):
    (tmp_path / "mine.sql").write_text(FILE)
    found = library(tmp_path)
    assert found["mine"].question == "What is there?"
    assert set(found) == {"mine", *library()}
    (tmp_path / "slots.sql").write_text(FILE)
    with pytest.raises(BadInput, match="slots is the name of a built-in query"):
        library(tmp_path)
    with pytest.raises(BadInput, match="is no folder"):
        library(tmp_path / "nowhere")


def test_a_query_is_found_with_hyphens_too():
    built_in = library()
    assert pick("never-decayed", built_in) is pick("never_decayed", built_in)
    with pytest.raises(NotFound, match="there is no query none: `ebb audit list`"):
        pick("none", built_in)


def test_the_built_in_queries_ask_a_question_of_the_audit_views_only():
    found = library()
    assert len(found) > 12
    for query in found.values():
        assert query.question.endswith("?")
        assert all(f":{one.name}" in query.sql for one in query.parameters)


def test_a_query_reads_the_rows_of_those_it_uses(tmp_path):
    used = "-- question: Which?\n-- parameter days (integer, default 30): so many\n-- column a: it\nSELECT :days AS a\n"
    header = "-- question: How many?\n-- uses: one\n{}-- column n: how many\nSELECT count(*) AS n FROM one\n"
    (tmp_path / "one.sql").write_text(used)
    (tmp_path / "all.sql").write_text(header.format("-- parameter days (integer, default 30): so many\n"))
    assert library(tmp_path)["all"].sql == "WITH one AS (\nSELECT :days AS a\n)\nSELECT count(*) AS n FROM one"
    (tmp_path / "all.sql").write_text(header.format(""))
    with pytest.raises(BadInput, match=r"uses one: give it parameter days \(integer\) too"):
        library(tmp_path)
    (tmp_path / "one.sql").unlink()
    with pytest.raises(BadInput, match="uses one, which is no query that uses no other"):
        library(tmp_path)
