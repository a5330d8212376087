"""Ingest of JSON Lines: every line is read and checked before the first is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ebbtide.memory.requests import MAX_LINE, AnyRequest, request_from_json
from ebbtide.model.errors import BadInput, EbbtideError, Refused


@dataclass(frozen=True, slots=True)
class Placed:
    """A request with where it stands: file, line number from 1, and which of its equals in the file it is."""

    request: AnyRequest
    file: str
    line: int
    equal: int


@dataclass
class Ingested:
    """What an ingest did: entries appended, lines that changed nothing, lines refused with their errors."""

    appended: int = 0
    unchanged: int = 0
    refused: list[EbbtideError] = field(default_factory=list)


def read_lines(source: BinaryIO, file: str, refuse: Callable[[EbbtideError], None]) -> Iterator[Placed]:
    """Parses a file line by line; empty lines are passed over. What is bad goes to `refuse`, which may raise."""
    seen: Counter[str] = Counter()
    number = 0
    while raw := source.readline(MAX_LINE + 2):
        number += 1
        line = raw.rstrip(b"\r\n")
        if len(line) > MAX_LINE:
            while raw and not raw.endswith(b"\n"):
                raw = source.readline(MAX_LINE)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            request = request_from_json(line)
            if request.ref is None and request.effective_at is None:
                raise BadInput("has neither ref nor effective_at: with one of them a repeat can be known", field="ref")
        except BadInput as error:
            refuse(error.at(file, number))
            continue
        equal = 0
        if request.ref is None:
            text = request.canonical()
            seen[text] += 1
            equal = seen[text]
        yield Placed(request, file, number, equal)


def refuse_all(error: EbbtideError) -> None:
    """The rule without `--keep-going`: the first bad line refuses the file."""
    raise error


def is_of_rule(error: EbbtideError) -> bool:
    """Whether a rule, not the form, refused a line: those are kept in `refusals`."""
    return isinstance(error, Refused)
