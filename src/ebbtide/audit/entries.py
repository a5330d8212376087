"""The rules that every entry must meet by itself, for `log.verify`: what its hash alone cannot tell.

Payloads are read as texts, not as JSON: our own writers made them in a fixed order, and reading a text cannot fail,
whatever somebody wrote into it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, and_, case, cast, func, not_, or_

from ebbtide.decay.maths import decimals9
from ebbtide.log.canonical import SEPARATOR
from ebbtide.log.links import Rule
from ebbtide.model.state import BITS
from ebbtide.model.words import Expiry, OpType, StreamType
from ebbtide.store.database import SQL, Database

Columns = Any


def _part(whole: Any, mark: str, number: int) -> ColumnElement[str]:
    return func.split_part(whole, mark, number, type_=Text)


def _between(whole: Any, before: str, after: str) -> ColumnElement[str]:
    """What stands in a text after one mark and before another."""
    return _part(_part(whole, before, 2), after, 1)


def is_erasing(c: Columns) -> ColumnElement[bool]:
    """Whether a TOMBSTONE took the content, or left it."""
    ended = _between(_between(c.payload, '"after":{', "}"), '"erased_at":', ",")
    of_event = _between(c.payload, '"action":"', '"') == Expiry.ERASE.value
    return case((c.stream_type == StreamType.EVENTS.value, of_event), else_=ended.notin_(["null", ""]))


def _decided(c: Columns) -> ColumnElement[str]:
    """What a tombstone's id is derived from, read back from its payload."""
    return func.concat_ws(
        SEPARATOR,
        c.namespace_id,
        "tombstone",
        cast(c.stream_id, Text),
        case((is_erasing(c), Expiry.ERASE.value), else_=Expiry.ARCHIVE.value),
        _between(c.payload, '"reason":"', '"'),
        _between(c.payload, '"policy_ref":"', '"'),
        _between(c.payload, '"expired_at":', ","),
        type_=Text,
    )


def _wrong_id(db: Database, c: Columns) -> ColumnElement[bool]:
    """Whether `Database.uuid8` gives another id. Compared as texts, so that the digest is computed once."""
    placed = func.concat_ws(SEPARATOR, c.namespace_id, cast(c.seq, Text), type_=Text)
    digest = db.digest(db.utf8(case((c.op_type == OpType.TOMBSTONE.value, _decided(c)), else_=placed)))
    named = cast(c.id, Text)

    def piece(first: int, length: int) -> ColumnElement[str]:
        return func.substr(named, first, length, type_=Text)

    pattern = func.concat(
        piece(1, 8), piece(10, 4), "_", piece(16, 3), "_", piece(21, 3), piece(25, 12), "%", type_=Text
    )
    return not_(and_(digest.like(pattern), piece(15, 1) == "8", piece(20, 1) == "8"))


def _wrong_record(db: Database, c: Columns) -> ColumnElement[bool]:
    record = _part(c.payload, '"record":', 2)
    summed = func.concat(_part(record, ',"checksum":"', 1), "}", type_=Text)
    wrong = or_(
        _between(record, ',"checksum":"', '"') != db.digest(db.utf8(summed)),
        _between(c.payload, '"target_id":"', '"') != cast(c.stream_id, Text),
    )
    return case((c.op_type == OpType.TOMBSTONE.value, wrong), else_=False)


def _wrong_groups(db: Database, c: Columns) -> ColumnElement[bool]:
    del db
    bits = [case((func.strpos(c.after, f'"{group}":{{') > 0, bit), else_=0) for group, bit in BITS.items()]
    total: Any = bits[0]
    for bit in bits[1:]:
        total = total + bit
    return case((c.after.is_(None), c.carries != 0), else_=or_(c.carries == 0, c.carries != total))


def _wrong_scores(db: Database, c: Columns) -> ColumnElement[bool]:
    del db
    wrong = [
        case((score.is_(None), False), (score.between(-1.0, 1.0), score != decimals9(SQL, score)), else_=True)
        for score in (c.salience, c.confidence, c.salience_delta, c.confidence_delta)
    ]
    return or_(*wrong)


RULES = (
    Rule("score", "a score is out of range, or has more than nine decimals", _wrong_scores),
    Rule("id", "its id is not derived from its place, or as a tombstone's from what it decides", _wrong_id),
    Rule("record", "the tombstone's record does not have its checksum, or names another target", _wrong_record),
    Rule("carries", "carries does not name the groups that after has", _wrong_groups),
)
