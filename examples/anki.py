"""Turns a flashcard review CSV into JSON Lines for `ebb ingest`: what a learner keeps, and what fades.

The CSV has a header with at least `card_id`, `review_rating` (1 again, 2 hard, 3 good, 4 easy) and `review_time`
(ISO 8601 with a zone); other columns are passed over. A card is a memory, asserted at its first review. Every review,
the first included, says something of it: recalled with effort it was REFERENCED, recalled well it was CONFIRMED, and
forgotten it was CONTRADICTED_BY_OBSERVATION. Each may bring back a card that had been archived meanwhile.

Example:

    python examples/anki.py reviews.csv --namespace anki > anki.jsonl
    ebb policy assign archivist@1.0.0 --namespace anki
    ebb ingest --walk anki.jsonl
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

COLUMNS = ("card_id", "review_rating", "review_time")
SIGNALS = {
    "1": ("PENALTY", "CONTRADICTED_BY_OBSERVATION"),
    "2": ("REINFORCE", "REFERENCED"),
    "3": ("REINFORCE", "CONFIRMED"),
    "4": ("REINFORCE", "CONFIRMED"),
}
CARD_ID = re.compile(r"[^\x00-\x1f]{1,200}")


class BadCsv(Exception):
    """What is wrong with the file, in one line that says where."""


@dataclass(frozen=True, slots=True)
class Review:
    """One row: a card was shown, and recalled or not."""

    card: str
    rating: str
    at: datetime


def reviews(path: Path) -> Iterator[Review]:
    """The rows of a CSV file in their order; the first bad one raises `BadCsv`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            try:
                yield from _reviews(rows, next(rows, []))
            except (ValueError, csv.Error) as error:
                raise BadCsv(f"{path}:{max(rows.line_num, 1)}: {error}") from error
    except OSError as error:
        raise BadCsv(f"{path}: cannot be read: {error.strerror}") from error


def _reviews(rows: Iterable[list[str]], header: list[str]) -> Iterator[Review]:
    for name in COLUMNS:
        if header.count(name) != 1:
            raise ValueError(f"{name}: the header must name this column once")
    places = [header.index(name) for name in COLUMNS]
    for row in rows:
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"has {len(row)} fields, the header has {len(header)}")
        card, rating, time = (row[place].strip() for place in places)
        if not CARD_ID.fullmatch(card):
            raise ValueError(f"card_id: {card[:40]!r} is no id of 1 to 200 printable characters")
        if rating not in SIGNALS:
            raise ValueError(f"review_rating: {rating[:40]!r} is none of 1, 2, 3, 4")
        yield Review(card, rating, _instant(time))


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"review_time: {text[:40]!r} is no time with a zone: write it as 2024-03-29T20:32:32Z")


def lines(found: Iterable[Review], namespace: str) -> Iterator[dict[str, object]]:
    """The lines to ingest, sorted by time; a card's ASSERT stands just before its first review."""
    seen: set[str] = set()
    for review in sorted(found, key=lambda review: review.at):
        ref = f"card-{review.card}"
        common: dict[str, object] = {
            "namespace": namespace,
            "actor_id": "learner",
            "actor_type": "HUMAN_USER",
            "effective_at": review.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        if review.card not in seen:
            seen.add(review.card)
            yield {
                "op": "ASSERT",
                "ref": ref,
                "object_type": "FACT",
                "epistemic_type": "ASSERTED",
                "source_type": "USER_DEMONSTRATED",
                "subject": "learner",
                "value": f"Card {review.card}",
                **common,
            }
        op, signal = SIGNALS[review.rating]
        session = review.at.date().isoformat()
        yield {"op": op, "object": ref, "signal": signal, "session_id": session, "restore": True, **common}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes JSON Lines to standard output; 2 and one line on standard error where the CSV is bad."""
    parser = argparse.ArgumentParser(
        description="Turns a flashcard review CSV into JSON Lines for `ebb ingest`.",
        epilog="Example: python examples/anki.py reviews.csv --namespace anki > anki.jsonl",
    )
    parser.add_argument("file", type=Path, metavar="CSV", help="columns card_id, review_rating, review_time")
    parser.add_argument("--namespace", default="anki", help="whose memory [default: anki]")
    given = parser.parse_args(arguments)
    try:
        found = list(reviews(given.file))
    except BadCsv as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for line in lines(found, given.namespace):
        sys.stdout.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
