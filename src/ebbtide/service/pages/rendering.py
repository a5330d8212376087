"""Templates, and how values are written in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from ebbtide.model import instant


@lru_cache(maxsize=1)
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("ebbtide.service.pages"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "when": when,
        "day": day,
        "away": away,
        "score": score,
        "value": value,
        "days": days,
        "number": number,
        "many": many,
        "iso": instant_text,
        "words": words,
        "cell": cell,
        "micros": instant.to_datetime,
    }
    return found


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A page from its template."""
    return _environment().get_template(template).render(**context)


def when(at: datetime) -> str:
    """An instant for reading, in UTC to the minute."""
    return f"{at.day} {at:%b %Y, %H:%M}"


def day(at: datetime | date) -> str:
    """A day for reading."""
    return f"{at.day} {at:%b %Y}"


def instant_text(at: datetime) -> str:
    """An instant for machines."""
    return instant.iso(instant.to_micros(at))


_UNITS = ((86_400 * 365.25, "year"), (86_400 * 30.44, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


def away(at: datetime, now: datetime) -> str:
    """How far an instant is from another, roughly."""
    seconds = (at - now).total_seconds()
    for length, unit in _UNITS:
        if abs(seconds) >= length:
            count = round(abs(seconds) / length)
            said = f"{count} {unit}{'' if count == 1 else 's'}"
            return f"in {said}" if seconds > 0 else f"{said} ago"
    return "now"


def score(one: float | None) -> str:
    """A score with as many decimals as matter."""
    return "–" if one is None else f"{one:.3f}"


def number(one: float) -> str:
    """A count, in groups of three."""
    return f"{one:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def many(count: int, one: str, several: str | None = None) -> str:
    """A count of something."""
    return f"{number(count)} {one if count == 1 else several or one + 's'}"


def days(one: float | None) -> str:
    """A span in days."""
    return "never" if one is None else f"{one:.1f}" if one >= 1 else f"{one:.3f}"


def value(one: Any) -> str:
    """What a memory says: its text, or its JSON."""
    return one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)


def words(name: object) -> str:
    """A code in words: `deprecate_by_confidence` as people would write it."""
    return str(name).replace("_", " ").lower()


def cell(one: Any) -> str:
    """A value in a table of an answer."""
    if one is None:
        return "–"
    if isinstance(one, bool):
        return "yes" if one else "no"
    if isinstance(one, datetime):
        return when(one)
    if isinstance(one, float):
        return f"{one:.4g}" if abs(one) < 1e6 else f"{one:.0f}"
    return json.dumps(one, ensure_ascii=False, default=str) if isinstance(one, list | dict) else str(one)
