"""Named queries: files of SQL over the audit views, each with the question it answers, its parameters and columns.

A file begins with a header of comments, which this module reads; what follows is one SELECT that both databases take:

    -- question: Which policy version decayed what, and how much?
    -- parameter days (integer, default 30): how far back from as_of;
    --   a line set in goes on with the one before
    -- parameter namespace (text, optional): only this namespace
    -- uses: other_query
    -- column day: the UTC day it took effect
    SELECT …

A query that uses others reads their rows by their names. Its parameters are theirs too, and have the same types.

A parameter's type is text, integer, number or instant. One without `default` or `optional` must be given; an optional
one is null where it is not. The default of an instant may be `now`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.policy.files import shipped

Given = str | int | float | datetime | None
"""A parameter's value: as its type has it, or as text."""

NOW = "now"
_TYPES = {
    "text": "TEXT",
    "integer": "BIGINT",
    "number": "DOUBLE PRECISION",
    "instant": "TIMESTAMP WITH TIME ZONE",
}
_PARAMETER = re.compile(rf"(\w+) \(({'|'.join(_TYPES)})(?:, (optional|default (.+)))?\)")
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Parameter:
    """What a query asks for; `default` as text."""

    name: str
    type: str
    about: str
    optional: bool = False
    default: str | None = None

    def told(self) -> str:
        """Its type, and whether it has to be given, as its header says it."""
        how = "optional" if self.optional else f"default {self.default}" if self.default is not None else None
        return self.type if how is None else f"{self.type}, {how}"


@dataclass(frozen=True)
class Column:
    """What a query answers, in the order of its rows."""

    name: str
    about: str


@dataclass(frozen=True)
class Query:
    """A named query: `text` is its file, `sql` what is run: the file without the header, and with what it uses."""

    name: str
    question: str
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    sql: str
    text: str
    uses: tuple[str, ...] = ()

    def typed(self) -> str:
        """The SELECT with the type of each parameter beside it, so that its value may be text, or null."""
        found = self.sql
        for one in self.parameters:
            found = re.sub(rf"(?<![:\w]):{one.name}\b", f"CAST(:{one.name} AS {_TYPES[one.type]})", found)
        return found

    def values(self, given: Mapping[str, Given], now: int) -> dict[str, str | int | float | None]:
        """The values of all parameters, instants as ISO 8601.

        `now` is the instant of that word, unless `known_at` is given: then that is as far as anything is known.

        An unknown parameter, a missing one, or one of the wrong type is refused.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = f"takes {', '.join(known)}" if known else "takes no parameters"
                raise BadInput(f"{self.name} {takes}", field=name)
        if "known_at" in known and given.get("known_at") is not None:
            now = instant.parse(str(_value(known["known_at"], given["known_at"], now)))
        return {name: _value(parameter, given.get(name), now) for name, parameter in known.items()}

    def document(self) -> dict[str, Any]:
        """The query as a JSON document, but for its SQL."""
        return {
            "name": self.name,
            "question": self.question,
            "parameters": [asdict(one) for one in self.parameters],
            "columns": [asdict(one) for one in self.columns],
        }


def _value(parameter: Parameter, given: Given, now: int) -> Any:
    value = parameter.default if given is None else given
    if value is None and not parameter.optional:
        raise BadInput(f"is missing: {parameter.about}", field=parameter.name)
    if value is None:
        return None
    try:
        return _READ[parameter.type](value, now)
    except (BadInput, ValueError, OverflowError) as error:
        why = error.message if isinstance(error, BadInput) else f"{value!r} is no {parameter.type}"
        raise BadInput(why, field=parameter.name) from error


def _text(value: Given, now: int) -> str:
    del now
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _integer(value: Given, now: int) -> int:
    del now
    if not isinstance(value, int | str) or isinstance(value, bool) or not -_LARGEST <= int(value) <= _LARGEST:
        raise ValueError
    return int(value)


def _number(value: Given, now: int) -> float:
    del now
    if not isinstance(value, int | float | str) or isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _instant(value: Given, now: int) -> str:
    if isinstance(value, datetime):
        return instant.iso(instant.to_micros(value))
    if not isinstance(value, str):
        raise ValueError
    return instant.iso(now if value == NOW else instant.parse(value))


_READ = {"text": _text, "integer": _integer, "number": _number, "instant": _instant}


def parse(name: str, source: str, file: str | None = None) -> Query:
    """Reads a query's file; a header that does not hold is refused with what is wrong."""
    try:
        return _parsed(name, source)
    except BadInput as error:
        raise BadInput(error.message, file=file) from error


def _parsed(name: str, source: str) -> Query:
    lines = source.splitlines()
    length = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
    items: list[str] = []
    for line in lines[:length]:
        if line.startswith("--   ") and items:
            items[-1] += f" {line[2:].strip()}"
        else:
            items.append(line[2:].strip())
    question = ""
    parameters: list[Parameter] = []
    columns: list[Column] = []
    uses: list[str] = []
    for item in items:
        head, colon, about = item.partition(": ")
        kind, _, what = head.partition(" ")
        if kind == "question" and colon and not what:
            question = about
        elif kind == "uses" and colon and not what:
            uses += about.split(", ")
        elif kind == "parameter" and (match := _PARAMETER.fullmatch(what)) and colon:
            parameters.append(Parameter(match[1], match[2], about, match[3] == "optional", match[4]))
        elif kind == "column" and re.fullmatch(r"\w+", what) and colon:
            columns.append(Column(what, about))
        else:
            raise BadInput(
                f"{item!r} in the header is no question, parameter NAME (TYPE), column NAME or uses, with a colon"
            )
    sql = "\n".join(lines[length:]).strip()
    if not question or not columns or not sql:
        raise BadInput("has no question, no columns or no SELECT: write them as the built-in queries do")
    for parameter in parameters:
        if parameter.default is not None:
            _value(parameter, None, 0)
    return Query(name, question, tuple(parameters), tuple(columns), sql, source, tuple(uses))


def library(folder: Path | None = None) -> dict[str, Query]:
    """All named queries by name: those that come along, and those of `folder`, which may not bear the same name."""
    if folder is not None and not folder.is_dir():
        raise BadInput("is no folder", file=str(folder))
    found: dict[str, Query] = {}
    files: dict[str, str] = {}
    for place in (shipped("queries"), *([folder] if folder else [])):
        for path in sorted(place.glob("*.sql")):
            if path.stem in found:
                raise BadInput(f"{path.stem} is the name of a built-in query: give it another", file=str(path))
            try:
                source = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput(f"cannot be read: {error}", file=str(path)) from error
            found[path.stem] = parse(path.stem, source, str(path))
            files[path.stem] = str(path)
    return {name: _with_used(query, found, files[name]) for name, query in found.items()}


def _with_used(query: Query, found: Mapping[str, Query], file: str) -> Query:
    """The query with those it uses as its common table expressions."""
    if not query.uses:
        return query
    types = {parameter.name: parameter.type for parameter in query.parameters}
    tables: list[str] = []
    for name in query.uses:
        used = found.get(name)
        if used is None or used.uses:
            raise BadInput(f"uses {name}, which is no query that uses no other", file=file)
        for parameter in used.parameters:
            if types.get(parameter.name) != parameter.type:
                raise BadInput(f"uses {name}: give it parameter {parameter.name} ({parameter.type}) too", file=file)
        tables.append(f"{name} AS (\n{used.sql}\n)")
    return replace(query, sql="WITH " + ",\n".join(tables) + "\n" + query.sql)


def pick(name: str, at_hand: Mapping[str, Query]) -> Query:
    """A query by name, with hyphens or underscores."""
    found = at_hand.get(name) or at_hand.get(name.replace("-", "_"))
    if found is None:
        raise NotFound(f"there is no query {name}: `ebb audit list` names those at hand")
    return found
