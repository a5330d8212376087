"""Ingest of JSON Lines: every line is read and checked before the first is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import BinaryIO

from sqlalchemy import Connection

from ebbtide.memory.desk import Desk, Entropy, Refusal
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
    """What an ingest did: entries appended, lines by which nothing came to be, lines refused with their errors.

    Unchanged are those that were taken before, and those that an ACTIVE memory says already: a duplicate is unchanged
    though its first time leaves an entry.
    """

    appended: int = 0
    unchanged: int = 0
    refused: list[EbbtideError] = field(default_factory=list)


_LONGEST = MAX_LINE + len(b"\xef\xbb\xbf") + len(b"\r\n") + 1
"""More than the longest line that is taken has bytes, with a byte order mark and a line end."""

Refuse = Callable[[EbbtideError], None]
"""What becomes of a line that cannot be taken: raise and so refuse the file, or note it and go on."""


def read_lines(
    source: BinaryIO, file: str, refuse: Refuse, fixed: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Placed]:
    """Parses a file line by line; empty lines are passed over. What is bad goes to `refuse`, which may raise.

    `fixed` are members that every line has.
    """
    seen: Counter[str] = Counter()
    number = 0
    while raw := source.readline(_LONGEST):
        number += 1
        rest = raw
        while len(rest) == _LONGEST and not rest.endswith(b"\n"):
            rest = source.readline(_LONGEST)
        line = (raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw).rstrip(b"\r\n")
        if not line.strip():
            continue
        try:
            request = request_from_json(line, fixed)
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


def take_lines(
    connection: Connection, desk: Desk, lines: Sequence[Placed], refuse: Refuse, entropy: Entropy, clock: int
) -> Ingested:
    """Takes lines at a desk whose namespaces are open, in the caller's transaction, and writes them.

    A line that cannot be taken goes to `refuse`; if that does not raise and a rule said no, it is kept in `refusals`.
    """
    done = Ingested()
    keyed = [(place, place.request.ref or desk.key_of_equal(place.request, place.equal)) for place in lines]
    desk.prepare([(place.request, key) for place, key in keyed])
    for place, key in keyed:
        try:
            taken = desk.take(place.request, key)
        except EbbtideError as error:
            refuse(error.at(place.file, place.line))
            done.refused.append(error)
            if isinstance(error, Refused):
                Refusal.of(place.request, error).note(connection, clock=clock, entropy=entropy)
            continue
        done.unchanged += taken.unchanged
    done.appended = desk.close()
    return done
