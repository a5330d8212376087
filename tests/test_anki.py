"""Half a year of a real person's flashcards, lived through on both databases, and what came of each card."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import pytest
from sizes import CARDS as EACH
from sqlalchemy import Table, select

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.store.tables import event_log, memory_objects, memory_state

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
SCRIPT = ROOT / "examples" / "anki.py"
NAMESPACE = "anki"
REVIEWS, CARDS, FORGOTTEN = 12_580, 1_205, 3_676
LAST_REVIEW = "2024-10-06T17:13:00.857000Z"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the review data is not at {DATA}")


def convert(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, check=False)


@pytest.fixture(scope="module")
def anki() -> bytes:
    """The reviews as JSON Lines, as the command of the example makes them."""
    done = convert(DATA / "anki-reviews.csv", "--namespace", NAMESPACE)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def rows_of(ebb: Ebbtide, table: Table, *leaving_out: str) -> Iterator[dict[str, Any]]:
    """A table's rows in the order of its key, a few thousand at a time."""
    columns = [column for column in table.columns if column.name not in leaving_out]
    with ebb.store.begin() as connection:
        query = select(*columns).order_by(*table.primary_key).execution_options(yield_per=5000)
        for row in connection.execute(query):
            yield {name: value.hex() if isinstance(value, bytes) else value for name, value in row._mapping.items()}


def ops_of(ebb: Ebbtide) -> Counter[str]:
    with ebb.store.begin() as connection:
        return Counter(connection.execute(select(event_log.c.op_type)).scalars())


def live(ebb: Ebbtide, clock: Any, lines: bytes) -> None:
    """Assigns the policy, takes all reviews with time passing between them, then lets 90 days go by."""
    clock.set("2024-03-29T00:00:00Z")
    ebb.assign_policy("archivist@1.0.0", namespace=NAMESPACE)
    clock.set(LAST_REVIEW)
    clock.forward(days=90)
    done = ebb.ingest(io.BytesIO(lines), "anki.jsonl", walk=True)
    assert [str(error) for error in done.refused] == []
    assert done.unchanged == 0
    ebb.walk(LAST_REVIEW, clock.iso, namespace=NAMESPACE)


def _number(line: dict[str, Any]) -> int:
    """The number of the card that a line is about."""
    return int((line.get("ref") or line["object"]).removeprefix("card-"))


@needs_data
@pytest.mark.slow
def test_both_databases_live_the_same_life(anki, make_url_for, clock):
    """12,580 reviews and 90 days more: entry by entry the same log, the same states and scores, bit for bit.

    Those of every tenth card, and of all with `make soak`. Under the archivist forgotten cards are archived and come
    back with their next review; none is deprecated, no line is refused, and the same file once more changes nothing.
    """
    chosen = [line for line in map(json.loads, anki.splitlines()) if _number(line) % EACH == 0]
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in chosen)
    said = Counter(line["op"] for line in chosen)
    with ExitStack() as stack:
        lived = []
        for kind in ("duckdb", "postgresql"):
            numbers = count(1)
            ebb = stack.enter_context(
                Ebbtide(make_url_for(kind), clock=clock, entropy=lambda size, n=numbers: next(n).to_bytes(size, "big"))
            )
            live(ebb, clock, lines)
            before = ops_of(ebb)
            again = ebb.ingest(io.BytesIO(lines), "anki.jsonl", walk=True)
            assert (again.appended, again.unchanged, again.refused) == (0, said.total(), [])
            assert ops_of(ebb) == before
            lived.append(ebb)

        ops = ops_of(lived[0])
        assert {op: ops[op] for op in said} == said
        assert ops["RESTORE"] > 0, "some card was archived and reviewed again"
        assert ops["ARCHIVE"] > ops["RESTORE"], "and some were not"
        assert ops["DEPRECATE"] == 0
        states = Counter(row["lifecycle_state"] for row in rows_of(lived[0], memory_state))
        assert states["ARCHIVED"] == ops["ARCHIVE"] - ops["RESTORE"]
        assert states["ARCHIVED"] + states["ACTIVE"] == states.total() == said["ASSERT"]

        for table in (event_log, memory_objects, memory_state):
            pairs = zip_longest(*(rows_of(ebb, table) for ebb in lived))
            different = next(((one, other) for one, other in pairs if one != other), None)
            assert different is None, table.name


@needs_data
def test_lines_stand_in_the_order_of_time_each_card_first_asserted(anki):
    lines = [json.loads(line) for line in anki.splitlines()]
    ops = Counter(line["op"] for line in lines)
    assert ops == {"ASSERT": CARDS, "REINFORCE": REVIEWS - FORGOTTEN, "PENALTY": FORGOTTEN}
    times = [line["effective_at"] for line in lines]
    assert times == sorted(times)
    assert {len(time) for time in times} == {len("2024-03-29T20:32:32.250000Z")}
    for line, following in zip(lines, [*lines[1:], {}], strict=True):
        if line["op"] == "ASSERT":
            assert following["object"] == line["ref"], "right behind it stands the card's first review"
            assert following["effective_at"] == line["effective_at"]
        else:
            assert line["restore"] is True
            assert line["session_id"] == line["effective_at"][:10]


HEADER = "card_id,review_rating,review_time,review_duration"
SMALL = f"""{HEADER}
7,4,2024-03-30T01:30:00+02:00,900
8,1,2024-03-29T20:00:00.5Z,1200
7,2,2024-04-02T10:00:00Z,800
"""


def test_a_small_file_is_sorted_and_told_in_utc(tmp_path, ebb, clock):
    """Rows of any order and zone; what comes out is taken as it is, on both databases."""
    file = tmp_path / "reviews.csv"
    file.write_text(SMALL, encoding="utf-8-sig")
    done = convert(file, "--namespace", "small")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = [(line["op"], line.get("ref") or line["object"], line["effective_at"]) for line in lines]
    assert told == [
        ("ASSERT", "card-8", "2024-03-29T20:00:00.500000Z"),
        ("PENALTY", "card-8", "2024-03-29T20:00:00.500000Z"),
        ("ASSERT", "card-7", "2024-03-29T23:30:00.000000Z"),
        ("REINFORCE", "card-7", "2024-03-29T23:30:00.000000Z"),
        ("REINFORCE", "card-7", "2024-04-02T10:00:00.000000Z"),
    ]
    assert [line.get("signal") for line in lines] == [
        None,
        "CONTRADICTED_BY_OBSERVATION",
        None,
        "CONFIRMED",
        "REFERENCED",
    ]
    clock.set("2024-04-03T00:00:00Z")
    assert ebb.ingest(io.BytesIO(done.stdout)).refused == []
    memory = ebb.memory("card-7", namespace="small")
    assert memory.value == "Card 7"
    assert memory.reinforced_at == instant.to_datetime(instant.parse("2024-04-02T10:00:00Z"))


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "card_id"),
        ("card_id,review_rating\n7,3\n", 1, "review_time"),
        ("card_id,card_id,review_rating,review_time\n", 1, "card_id"),
        (f"{HEADER}\n7,3,2024-03-29T20:00:00Z\n", 2, "3 fields"),
        (f"{HEADER}\n7,3,2024-03-29T20:00:00Z,1\n\n7,5,2024-03-29T20:00:00Z,1\n", 4, "review_rating"),
        (f"{HEADER}\n7,3.0,2024-03-29T20:00:00Z,1\n", 2, "review_rating"),
        (f"{HEADER}\n ,3,2024-03-29T20:00:00Z,1\n", 2, "card_id"),
        (f"{HEADER}\na\x07b,3,2024-03-29T20:00:00Z,1\n", 2, "card_id"),
        (f"{HEADER}\n7,3,2024-03-29T20:00:00,1\n", 2, "review_time"),
        (f"{HEADER}\n7,3,2024-02-30T20:00:00Z,1\n", 2, "review_time"),
        (f"{HEADER}\n7,3,yesterday,1\n", 2, "review_time"),
        (f'{HEADER}\n7,3,"2024-03-29T20:00:00Z,1\n', 2, ""),
    ],
)
def test_a_bad_csv_is_refused_in_one_line(tmp_path, text, line, what):
    """Exit code 2; file, line and column on standard error, and nothing on standard output."""
    file = tmp_path / "reviews.csv"
    file.write_text(text, encoding="utf-8", newline="")
    assert_refused(convert(file), f"{file}:{line}: ", what)


def test_what_is_no_csv_at_all_is_refused_in_one_line(tmp_path):
    latin = tmp_path / "latin.csv"
    latin.write_bytes(HEADER.encode() + b"\n\xe9,3,2024-03-29T20:00:00Z,1\n")
    assert_refused(convert(latin), f"{latin}:", "utf-8")
    assert_refused(convert(tmp_path / "nowhere.csv"), f"{tmp_path / 'nowhere.csv'}: ", "No such file")
    assert_refused(convert(tmp_path), f"{tmp_path}: ", "directory")


def assert_refused(done: subprocess.CompletedProcess[bytes], begin: str, what: str) -> None:
    assert (done.returncode, done.stdout) == (2, b"")
    message = done.stderr.decode()
    assert message.endswith("\n")
    assert len(message.splitlines()) == 1
    assert message.startswith(begin)
    assert what in message
