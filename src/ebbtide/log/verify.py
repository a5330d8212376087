"""Verifying a namespace's log: every entry's hash and link, every batch's root and link, its end.

Ranges of some 250,000 seq, each a few statements that return one row, so memory is bounded whatever the log's size. The
last version, count of facts and hash of each stream so far stand in a temporary table, by which ranges are tied
together. Nothing here knows what an entry means: who does hands in further `Rule`s, judged in the same scan.
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
    Connection,
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
    text,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.schema import CreateTable

from ebbtide.log.batches import BLOCK
from ebbtide.log.canonical import COLUMNS, NULL, SEPARATOR, sql_hash
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, contents, event_log, namespaces

RANGE = 250_000
"""How many entries, or batches, one statement looks at; a larger batch is looked at as a whole."""

Columns = Any
Progress = Callable[[int], None]
"""Told how many entries were looked at since it was told last."""

NAMESPACE: BindParameter[str] = bindparam("verify_namespace", type_=Text)
FIRST: BindParameter[int] = bindparam("verify_first", type_=BigInteger)
LAST: BindParameter[int] = bindparam("verify_last", type_=BigInteger)
_FIRST_BATCH: BindParameter[int] = bindparam("verify_first_batch", type_=BigInteger)
_LAST_BATCH: BindParameter[int] = bindparam("verify_last_batch", type_=BigInteger)
_RECORDED: BindParameter[int] = bindparam("verify_recorded", type_=BigInteger)
_HASH: BindParameter[bytes] = bindparam("verify_hash", type_=LargeBinary)

NONCE = 16
_ZEROS = literal(bytes(32), LargeBinary)
_SANE = 10**15


@dataclass(frozen=True, slots=True)
class Bad:
    """What is wrong first in a namespace: where, a stable code, and in words. `object` names what it is of, if any."""

    namespace_id: str
    seq: int
    code: str
    what: str
    object: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What every entry must meet: `broken` says by an entry's columns that it does not."""

    code: str
    what: str
    broken: Callable[[Database, Columns], ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at in a namespace, and what is wrong first."""

    namespace_id: str
    entries: int
    batches: int
    bad: Bad | None


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

_CHAIN = {
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
        "missing": c.seq != FIRST + c.place - 1,
        "stream_type": c.stream_type != func.coalesce(c.type_before, c.stream_type),
        "version": c.version != c.version_before + 1,
        "fact_version": case((c.fact_version.isnot(None), c.fact_version != c.facts), else_=False),
        "prev_hash": c.prev_hash != c.hash_before,
        "recorded_at": c.recorded_at < c.recorded_before,
    }


def _scan(db: Database, rules: Sequence[Rule]) -> Select[Any]:
    """The first broken entry of a range with what is broken about it, else the range's last entry."""
    log, heads = event_log.c, checked_heads.c
    rows = db.fence(
        select(
            *(log[name] for name in ("seq", "stream_type", "stream_id", "recorded_at", "prev_hash", "hash")),
            _sane(log.version).label("version"),
            case((log.fact_version.isnot(None), _sane(log.fact_version))).label("fact_version"),
            *(_broken(rule.broken(db, log)).label(f"rule_{rule.code}") for rule in rules),
        ).where(log.namespace_id == NAMESPACE, log.seq.between(FIRST, LAST))
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
        .where(or_(c.seq == LAST, *flags.values()))
        .order_by(c.seq)
        .limit(1)
    )


def _broken(condition: Any) -> ColumnElement[bool]:
    """A condition that cannot be judged counts as broken."""
    return func.coalesce(condition, literal(True, Boolean), type_=Boolean)


def _merge() -> Any:
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
        .where(log.namespace_id == NAMESPACE, log.seq.between(FIRST, LAST))
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


def _roots(db: Database) -> Select[Any]:
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
        .where(log.namespace_id == NAMESPACE, log.seq.between(FIRST, LAST))
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


_BATCH = {
    "batch_missing": "batch {batch} is missing",
    "batch_range": "batch {batch} does not begin where the batch before ends, or is empty",
    "batch_prev_hash": "the prev_hash of batch {batch} is not the hash of the batch before",
    "batch_hash": "the hash of batch {batch} is not that of its row: the row was changed",
}


def _batch_chain(db: Database) -> Select[Any]:
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
        func.coalesce(func.lag(r.next_seq).over(order_by=r.batch), FIRST, type_=BigInteger).label("expected"),
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


def _next_batches() -> Select[Any]:
    """The batches after one that begin in the next range of seq: the last one's number, and where it ends."""
    b = batches.c
    some = (
        select(b.batch, b.first_seq, (b.first_seq + b.entries - 1).label("end"))
        .where(b.namespace_id == NAMESPACE, b.batch.between(_FIRST_BATCH, _LAST_BATCH))
        .order_by(b.batch)
        .limit(RANGE)
        .subquery()
    )
    return select(func.max(some.c.batch), func.max(some.c.end)).where(some.c.first_seq < FIRST + RANGE)


def _content(db: Database) -> Select[Any]:
    """The first content of a range that is not what its entry's hash says, or belongs to no entry."""
    log, c = event_log.c, contents.c
    # A nonce of another length could have lent the content some of its bytes.
    same = and_(
        db.sha256(c.nonce.op("||")(db.utf8(c.content))) == log.content_hash, func.length(db.hex(c.nonce)) == 2 * NONCE
    )
    return (
        select(c.seq)
        .join_from(contents, event_log, and_(c.namespace_id == log.namespace_id, c.seq == log.seq), isouter=True)
        .where(c.namespace_id == NAMESPACE, c.seq.between(FIRST, LAST), ~func.coalesce(same, False, type_=Boolean))
        .order_by(c.seq)
        .limit(1)
    )


class LogCheck:
    """Checks the logs of namespaces on one connection, in the caller's transaction, which writes nothing lasting."""

    def __init__(
        self, db: Database, connection: Connection, rules: Sequence[Rule] = (), progress: Progress = lambda _: None
    ) -> None:
        self._db = db
        self._connection = connection
        self._rules = (*OWN_RULES, *rules)
        self._words = _CHAIN | {rule.code: rule.what for rule in self._rules}
        self._progress = progress
        connection.execute(CreateTable(checked_heads, if_not_exists=True))

    def run(self, namespace: str) -> Checked:
        """Looks at all of a namespace's log; the ends of its streams stay in `checked_heads` until the next one."""
        self._connection.execute(text(f"TRUNCATE {checked_heads.name}"))
        covered, end, bad_batch = self._batches(namespace)
        bad = self._outside(namespace) or self._entries(namespace, covered, end)
        if bad is None:
            bad = bad_batch or self._uncovered(namespace, end)
        if bad is None:
            bad = self._head(namespace, end) or self._contents(namespace, end)
        return Checked(namespace, end, covered, bad)

    def _first(self, name: str, build: Callable[[], Select[Any]], **given: Any) -> Any:
        """The one row of a statement that is built once."""
        statement = self._db.once(f"verify {name}", build)
        return self._connection.execute(statement, {f"verify_{key}": value for key, value in given.items()}).first()

    def _batches(self, namespace: str) -> tuple[int, int, Bad | None]:
        """Number and end of the last batch up to which their chain is whole, and the first broken one."""
        number, end, last_hash = 0, 0, bytes(32)
        first, last = self._connection.execute(
            select(func.min(batches.c.batch), func.max(batches.c.batch)).where(batches.c.namespace_id == namespace)
        ).one()
        if first is not None and first < 1:
            return 0, 0, Bad(namespace, 1, "batch_missing", f"there is a batch {first}, before the first one")
        while number < (last or 0):
            b = batches.c
            within = b.batch.between(number + 1, min(number + RANGE, last))
            to = self._connection.execute(select(func.max(b.batch)).where(b.namespace_id == namespace, within)).scalar()
            if to is None:
                return number, end, self._bad_batch(namespace, end, "batch_missing", number + 1)
            place = {"namespace": namespace, "first_batch": number + 1, "last_batch": to, "first": end + 1}
            row = self._first("batch chain", lambda: _batch_chain(self._db), hash=last_hash, **place)
            code = next((code for code in _BATCH if row._mapping[code]), None)
            if code is not None:
                good, end = number + row.place - 1, row.expected - 1
                wrong = good + 1 if code == "batch_missing" else row.batch
                return good, end, self._bad_batch(namespace, end, code, wrong)
            number, end, last_hash = row.batch, row.next_seq - 1, bytes(row.hash)
        return number, end, None

    @staticmethod
    def _bad_batch(namespace: str, end: int, code: str, batch: int) -> Bad:
        return Bad(namespace, end + 1, code, _BATCH[code].format(batch=batch))

    def _outside(self, namespace: str) -> Bad | None:
        first = self._connection.execute(
            select(func.min(event_log.c.seq)).where(event_log.c.namespace_id == namespace)
        ).scalar()
        if first is not None and first < 1:
            return Bad(namespace, first, "outside", "there is an entry before the first one")
        return None

    def _entries(self, namespace: str, last_batch: int, end: int) -> Bad | None:
        """The first broken entry, or batch by its root, in the part of the log that batches cover."""
        batch, first, recorded = 1, 1, 0
        while first <= end:
            within = {"namespace": namespace, "first_batch": batch, "last_batch": last_batch}
            to_batch, last = self._first("next batches", _next_batches, first=first, **within)
            place = {"namespace": namespace, "first": first, "last": last}
            scan = f"scan {' '.join(self._words)}"
            row = self._first(scan, lambda: _scan(self._db, self._rules), recorded=recorded, **place)
            bad = self._entry(namespace, first, last, row)
            bad = self._root(place, batch, to_batch, last if bad is None else bad.seq - 1) or bad
            if bad is not None:
                return bad
            self._connection.execute(
                self._db.once("verify merge", _merge), {f"verify_{key}": value for key, value in place.items()}
            )
            self._progress(last - first + 1)
            batch, first, recorded = to_batch + 1, last + 1, row.recorded_at
        return None

    def _entry(self, namespace: str, first: int, last: int, row: Any) -> Bad | None:
        if row is None:
            there = self._connection.execute(
                select(func.count()).where(event_log.c.namespace_id == namespace, event_log.c.seq.between(first, last))
            ).scalar_one()
            return Bad(namespace, first + there, "missing", _CHAIN["missing"])
        code = next((code for code in self._words if row._mapping[f"bad_{code}"]), None)
        if code is None:
            return None
        return Bad(namespace, first + row.place - 1 if code == "missing" else row.seq, code, self._words[code])

    def _root(self, place: dict[str, Any], batch: int, to_batch: int, well: int) -> Bad | None:
        """The first batch with another root, if it ends where the entries by themselves are well."""
        row = self._first("roots", lambda: _roots(self._db), first_batch=batch, last_batch=to_batch, **place)
        if row is None or row.end > well:
            return None
        what = "the root of the batch that begins here is not that of its entries' hashes"
        return Bad(place["namespace"], row.start, "batch_root", what)

    def _uncovered(self, namespace: str, end: int) -> Bad | None:
        last = self._connection.execute(
            select(func.max(event_log.c.seq)).where(event_log.c.namespace_id == namespace)
        ).scalar()
        if (last or 0) > end:
            return Bad(namespace, end + 1, "unbatched", "no batch covers the entry")
        return None

    def _contents(self, namespace: str, end: int) -> Bad | None:
        """The first content that is not what its entry's hash says, or of no entry."""
        low, high = self._connection.execute(
            select(func.min(contents.c.seq), func.max(contents.c.seq)).where(contents.c.namespace_id == namespace)
        ).one()
        if low is None:
            return None
        if low < 1 or high > end:
            seq = low if low < 1 else high
            return Bad(namespace, seq, "content", "there is content of an entry that does not exist")
        for first in range(low, high + 1, RANGE):
            given = {"namespace": namespace, "first": first, "last": min(first + RANGE - 1, high)}
            row = self._first("content", lambda: _content(self._db), **given)
            if row is not None:
                return Bad(namespace, row.seq, "content", "its content is not what its content_hash says")
        return None

    def _head(self, namespace: str, end: int) -> Bad | None:
        """Whether the log ends where the namespace's head says; the rest of the head is state."""
        said = self._connection.execute(
            select(namespaces.c.last_seq).where(namespaces.c.namespace_id == namespace)
        ).scalar()
        if said == end:
            return None
        if said is None:
            return Bad(namespace, end, "head", "the namespace has no row in namespaces")
        if said > end:
            return Bad(
                namespace, end + 1, "missing", f"the entry is missing: the head says that the log ends at {said}"
            )
        return Bad(namespace, said + 1, "head", f"namespaces.last_seq says {said}, but the log ends at {end}")
