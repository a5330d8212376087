"""The statements by which a log is verified: what links entries, batches and contents, recomputed in SQL.

Each looks at a range and returns one row: the first that is broken, with what is broken about it. The ends of the
streams in the ranges before stand in a temporary table, by which ranges are tied together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Double,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update

from ebbtide.log.batches import BLOCK
from ebbtide.log.canonical import COLUMNS, NONCE, NULL, SEPARATOR, sql_hash
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, contents, event_log

RANGE = 250_000
"""How many entries, or batches, one statement looks at; a larger batch is looked at as a whole."""

Columns = Any
NAMESPACE: BindParameter[str] = bindparam("verify_namespace", type_=Text)
_FIRST: BindParameter[int] = bindparam("verify_first", type_=BigInteger)
_LAST: BindParameter[int] = bindparam("verify_last", type_=BigInteger)
_FIRST_BATCH: BindParameter[int] = bindparam("verify_first_batch", type_=BigInteger)
_LAST_BATCH: BindParameter[int] = bindparam("verify_last_batch", type_=BigInteger)
_RECORDED: BindParameter[int] = bindparam("verify_recorded", type_=BigInteger)
_HASH: BindParameter[bytes] = bindparam("verify_hash", type_=LargeBinary)

_ZEROS = literal(bytes(32), LargeBinary)
_SANE = 10**15


@dataclass(frozen=True, slots=True)
class Rule:
    """What every entry must meet: `broken` says by an entry's columns that it does not."""

    code: str
    what: str
    broken: Callable[[Database, Columns], ColumnElement[bool]]


checked_heads = Table(
    "checked_heads",
    MetaData(),
    Column("stream_id", Uuid, primary_key=True),
    Column("stream_type", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("facts", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    prefixes=["TEMPORARY"],
)
"""The end of every stream in the part of the log that was looked at."""


def _sane(column: Any) -> ColumnElement[int]:
    """A number with which sums cannot overflow, whatever somebody wrote into the table."""
    return func.least(func.greatest(column, -_SANE), _SANE, type_=BigInteger)


def _hashed(db: Database, columns: Columns) -> ColumnElement[bytes]:
    """What an entry's hash must be; what is no score becomes null, since not every number has a canonical form."""
    values = {
        name: case((columns[name].between(-1.0, 1.0), columns[name])) if isinstance(kind, Double) else columns[name]
        for name, kind in ((name, event_log.c[name].type) for name in COLUMNS)
    }
    return sql_hash(db, columns.prev_hash, values)


_NULLABLE_TEXTS = [c.name for c in event_log.columns if c.nullable and isinstance(c.type, Text)]

OWN_RULES = (
    Rule(
        "hash",
        "its hash is not that of its columns: a column was changed",
        lambda db, c: c.hash != _hashed(db, c),
    ),
    Rule(
        "null",
        "a column holds U+001E, which stands for null",
        lambda db, c: or_(*(func.coalesce(c[name] == NULL, False, type_=Boolean) for name in _NULLABLE_TEXTS)),
    ),
)

CHAIN = {
    "missing": "the entry is missing",
    "stream_type": "its stream was of another type before",
    "version": "its version does not follow the one before in its stream",
    "fact_version": "its fact_version does not follow the one before in its stream",
    "prev_hash": "its prev_hash is not the hash of the entry before in its stream",
    "recorded_at": "it was recorded before the entry before it",
}


def _chain(c: Columns) -> dict[str, ColumnElement[bool]]:
    """What is broken between an entry and those before it."""
    return {
        "missing": c.seq != _FIRST + c.place - 1,
        "stream_type": c.stream_type != func.coalesce(c.type_before, c.stream_type),
        "version": c.version != c.version_before + 1,
        "fact_version": case((c.fact_version.isnot(None), c.fact_version != c.facts), else_=False),
        "prev_hash": c.prev_hash != c.hash_before,
        "recorded_at": c.recorded_at < c.recorded_before,
    }


def scan(db: Database, rules: Sequence[Rule]) -> Select[Any]:
    """The first broken entry of a range with what is broken about it, else the range's last entry."""
    log, heads = event_log.c, checked_heads.c
    rows = db.fence(
        select(
            *(log[name] for name in ("seq", "stream_type", "stream_id", "recorded_at", "prev_hash", "hash")),
            _sane(log.version).label("version"),
            case((log.fact_version.isnot(None), _sane(log.fact_version))).label("fact_version"),
            *(_broken(rule.broken(db, log)).label(f"rule_{rule.code}") for rule in rules),
        ).where(log.namespace_id == NAMESPACE, log.seq.between(_FIRST, _LAST))
    )
    r = rows.c
    within = {"partition_by": r.stream_id, "order_by": r.seq}

    def before(column: Any, head: Any, start: Any) -> ColumnElement[Any]:
        return func.coalesce(func.lag(column, type_=column.type).over(**within), head, start, type_=column.type)

    linked = (
        select(
            *r,
            func.row_number(type_=BigInteger).over(order_by=r.seq).label("place"),
            before(r.version, heads.version, literal(0, BigInteger)).label("version_before"),
            before(r.hash, heads.hash, _ZEROS).label("hash_before"),
            before(r.stream_type, heads.stream_type, literal(None, Text)).label("type_before"),
            (
                func.coalesce(heads.facts, literal(0, BigInteger), type_=BigInteger)
                + func.count(r.fact_version, type_=BigInteger).over(**within, rows=(None, 0))
            ).label("facts"),
            func.coalesce(
                func.lag(r.recorded_at, type_=BigInteger).over(order_by=r.seq), _RECORDED, type_=BigInteger
            ).label("recorded_before"),
        )
        .join_from(rows, checked_heads, r.stream_id == heads.stream_id, isouter=True)
        .subquery()
    )
    c = linked.c
    flags = {
        **{code: _broken(condition) for code, condition in _chain(c).items()},
        **{rule.code: c[f"rule_{rule.code}"] for rule in rules},
    }
    return (
        select(c.seq, c.place, c.recorded_at, *(flag.label(f"bad_{code}") for code, flag in flags.items()))
        .where(or_(c.seq == _LAST, *flags.values()))
        .order_by(c.seq)
        .limit(1)
    )


def _broken(condition: Any) -> ColumnElement[bool]:
    """A condition that cannot be judged counts as broken."""
    return func.coalesce(condition, literal(True, Boolean), type_=Boolean)


def merge() -> Any:
    """Notes the ends of the streams in a range."""
    log = event_log.c
    latest = func.row_number(type_=BigInteger).over(partition_by=log.stream_id, order_by=log.seq.desc())
    rows = (
        select(
            log.stream_id,
            log.stream_type,
            log.seq,
            log.version,
            func.count(log.fact_version, type_=BigInteger).over(partition_by=log.stream_id).label("facts"),
            log.hash,
            latest.label("latest"),
        )
        .where(log.namespace_id == NAMESPACE, log.seq.between(_FIRST, _LAST))
        .subquery()
    )
    names = [column.name for column in checked_heads.columns]
    made = insert_or_update(checked_heads).from_select(
        names, select(*(rows.c[name] for name in names)).where(rows.c.latest == 1)
    )
    moved = {name: made.excluded[name] for name in ("seq", "version", "hash")}
    return made.on_conflict_do_update(
        index_elements=["stream_id"], set_={**moved, "facts": checked_heads.c.facts + made.excluded.facts}
    )


def roots(db: Database) -> Select[Any]:
    """The first batch of a range whose root is not that of its entries' hashes, by its first seq."""
    log = event_log.c
    mine = (
        select(batches.c.first_seq, (batches.c.first_seq + batches.c.entries - 1).label("end"), batches.c.root)
        .where(batches.c.namespace_id == NAMESPACE, batches.c.batch.between(_FIRST_BATCH, _LAST_BATCH))
        .subquery()
    )
    placed = (
        select(
            log.seq,
            log.hash,
            func.max(mine.c.first_seq, type_=BigInteger).over(order_by=log.seq, rows=(None, 0)).label("start"),
        )
        .join_from(event_log, mine, log.seq == mine.c.first_seq, isouter=True)
        .where(log.namespace_id == NAMESPACE, log.seq.between(_FIRST, _LAST))
        .subquery()
    )
    number = cast(func.floor((placed.c.seq - placed.c.start) / literal(float(BLOCK))), BigInteger)
    leaf = literal(b"\x00", LargeBinary).op("||")(db.join_bytes(placed.c.hash, placed.c.seq))
    blocks = (
        select(placed.c.start, number.label("block"), db.sha256(leaf).label("hash"))
        .group_by(placed.c.start, number)
        .subquery()
    )
    top = literal(b"\x01", LargeBinary).op("||")(db.join_bytes(blocks.c.hash, blocks.c.block))
    tops = select(blocks.c.start, db.sha256(top).label("root")).group_by(blocks.c.start).subquery()
    return (
        select(tops.c.start, mine.c.end)
        .join_from(tops, mine, tops.c.start == mine.c.first_seq)
        .where(_broken(tops.c.root != mine.c.root))
        .order_by(tops.c.start)
        .limit(1)
    )


BATCH = {
    "batch_missing": "batch {batch} is missing",
    "batch_range": "batch {batch} does not begin where the batch before ends, or is empty",
    "batch_prev_hash": "the prev_hash of batch {batch} is not the hash of the batch before",
    "batch_hash": "the hash of batch {batch} is not that of its row: the row was changed",
}


def batch_chain(db: Database) -> Select[Any]:
    """The first broken batch of a range of batches with what is broken about it, else the range's last batch."""
    b = batches.c
    number, first, entries = _sane(b.batch), _sane(b.first_seq), _sane(b.entries)
    said = func.concat_ws(
        SEPARATOR,
        b.namespace_id,
        *(cast(n, Text) for n in (number, first, first + entries - 1, entries)),
        type_=Text,
    )
    hashed = db.sha256(b.prev_hash.op("||")(db.utf8(said)).op("||")(b.root))
    rows = (
        select(
            number.label("batch"),
            first.label("first_seq"),
            (first + entries).label("next_seq"),
            entries.label("entries"),
            b.prev_hash,
            b.hash,
            (b.hash != hashed).label("changed"),
        )
        .where(b.namespace_id == NAMESPACE, b.batch.between(_FIRST_BATCH, _LAST_BATCH))
        .subquery()
    )
    r = rows.c
    linked = select(
        *r,
        func.row_number(type_=BigInteger).over(order_by=r.batch).label("place"),
        func.coalesce(func.lag(r.next_seq).over(order_by=r.batch), _FIRST, type_=BigInteger).label("expected"),
        func.coalesce(func.lag(r.hash).over(order_by=r.batch), _HASH, type_=LargeBinary).label("hash_before"),
    ).subquery()
    c = linked.c
    flags = {
        "batch_missing": _broken(c.batch != _FIRST_BATCH + c.place - 1),
        "batch_range": _broken(or_(c.first_seq != c.expected, c.entries < 1)),
        "batch_prev_hash": _broken(c.prev_hash != c.hash_before),
        "batch_hash": _broken(c.changed),
    }
    return (
        select(c.batch, c.place, c.expected, c.next_seq, c.hash, *(flag.label(code) for code, flag in flags.items()))
        .where(or_(c.batch == _LAST_BATCH, *flags.values()))
        .order_by(c.batch)
        .limit(1)
    )


def next_batches() -> Select[Any]:
    """The batches after one that begin in the next range of seq: the last one's number, and where it ends."""
    b = batches.c
    some = (
        select(b.batch, b.first_seq, (b.first_seq + b.entries - 1).label("end"))
        .where(b.namespace_id == NAMESPACE, b.batch.between(_FIRST_BATCH, _LAST_BATCH))
        .order_by(b.batch)
        .limit(RANGE)
        .subquery()
    )
    return select(func.max(some.c.batch), func.max(some.c.end)).where(some.c.first_seq < _FIRST + RANGE)


def content(db: Database) -> Select[Any]:
    """The first content of a range that is not what its entry's hash says, or belongs to no entry."""
    log, c = event_log.c, contents.c
    # A nonce of another length could have lent the content some of its bytes.
    same = and_(
        db.sha256(c.nonce.op("||")(db.utf8(c.content))) == log.content_hash, func.length(db.hex(c.nonce)) == 2 * NONCE
    )
    return (
        select(c.seq)
        .join_from(contents, event_log, and_(c.namespace_id == log.namespace_id, c.seq == log.seq), isouter=True)
        .where(c.namespace_id == NAMESPACE, c.seq.between(_FIRST, _LAST), ~func.coalesce(same, False, type_=Boolean))
        .order_by(c.seq)
        .limit(1)
    )
