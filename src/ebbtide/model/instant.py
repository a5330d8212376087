"""Instants are integer microseconds since 1970-01-01T00:00Z: exact, the same on both databases, cheap in SQL."""

import re
from datetime import UTC, datetime, timedelta

from ebbtide.model.errors import BadInput

MICROSECOND = 1
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
HORIZON = 36_525 * DAY
"""100 years: a rule whose condition does not hold by then has no instant."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The last instant that a datetime can say."""
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|z|[+-]\d{2}:?\d{2}(:\d{2})?)?")


def to_micros(instant: datetime) -> int:
    """Microseconds of an aware datetime; a naive one is refused, since its zone would be a guess."""
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise BadInput(f"the time {instant.isoformat()} has no zone: add Z or an offset such as +02:00")
    micros = (instant - _EPOCH) // timedelta(microseconds=1)
    if not _FIRST <= micros <= LAST:
        raise BadInput(f"the time {instant.isoformat()} is outside the years 1 to 9999 of UTC")
    return micros


def to_datetime(micros: int) -> datetime:
    """The aware UTC datetime of an instant."""
    return _EPOCH + timedelta(microseconds=micros)


def parse(text: str) -> int:
    """Reads an ISO 8601 date and time with a zone; anything else is refused."""
    if not _ISO.fullmatch(text):
        raise BadInput(f"{text!r} is not a time: write it as 2026-03-01T09:00:00Z")
    try:
        return to_micros(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text!r} is not a time: {error}") from error


def iso(micros: int) -> str:
    """ISO 8601 UTC, without the fraction where it is zero."""
    return to_datetime(micros).isoformat().replace("+00:00", "Z")


def first_whole_second(micros: int) -> int:
    """The first whole second at or after an instant."""
    return -(-micros // SECOND) * SECOND
