"""The chapter of docs/audit.md on the named queries, from their headers: `python tests/query_page.py` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ebbtide.audit.queries import Query, library

PAGE = Path(__file__).parent.parent / "docs" / "audit.md"
HEADING = "## The queries\n"


def chapter() -> str:
    """The chapter as it has to be."""
    queries = sorted(library().values(), key=lambda query: query.name)
    listed = [f"| [`{query.name}`](#{query.name}) | {query.question} |" for query in queries]
    sections = ["\n".join(section(query)) for query in queries]
    return "\n".join([HEADING, "| Query | Asks |", "|---|---|", *listed, "", "\n\n".join(sections), ""])


def section(query: Query) -> Iterator[str]:
    yield from (f"### `{query.name}`", "", query.question, "")
    if query.parameters:
        yield from ("| Parameter | Type | Is |", "|---|---|---|")
        yield from (f"| `{one.name}` | {one.told()} | {one.about} |" for one in query.parameters)
        yield ""
    yield from ("| Column | Is |", "|---|---|")
    yield from (f"| `{one.name}` | {one.about} |" for one in query.columns)


if __name__ == "__main__":
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    PAGE.write_text(before + chapter(), encoding="utf-8")
