"""Whether a log is whole, set-based: every hash is computed anew, in the database, over tables given as arguments.

Each check is a query for the first place at which something is wrong; all of them together leave no byte of a log
unchecked, but for what somebody who computes all hashes anew can make. `docs/log.md` has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    Text,
    Uuid,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
)

from ebbtide.log.batches import BLOCK
from ebbtide.log.canonical import COLUMNS, SEPARATOR, sql_hash
from ebbtide.model.words import Expiry, OpType, StreamType
from ebbtide.store.database import Database

_ZEROS = literal(bytes(32), LargeBinary)

Query = Any
"""A select of namespace and place, of all that is wrong in one way."""


@dataclass(frozen=True, slots=True)
class Bad:
    """The first place at which a log is not whole: an entry's seq, or a batch's number, and what is wrong there."""

    namespace_id: str
    place: int
    what: str

    def __str__(self) -> str:
        return f"{self.namespace_id}, {self.what.format(self.place)}"


def first_bad(
    db: Database, connection: Connection, log: Table, batches: Table, contents: Table, heads: Table
) -> Bad | None:
    """What is wrong first, check after check; None where the log is whole."""
    for what, query in (*_of_log(db, log), *_of_batches(db, log, batches), *_of_contents(db, log, contents)):
        found = _first(connection, what, query)
        if found is not None:
            return found
    return _first(connection, "the log should end at seq {0}, with another batch", _of_heads(log, batches, heads))


def _first(connection: Connection, what: str, query: Query) -> Bad | None:
    wrong = query.subquery().c
    namespace, place = list(wrong)
    row = connection.execute(select(namespace, place).order_by(namespace, place).limit(1)).first()
    return None if row is None else Bad(row[0], row[1], what)


def _of_log(db: Database, log: Table) -> Iterator[tuple[str, Query]]:
    c = log.c
    in_order: dict[str, Any] = {"partition_by": c.namespace_id, "order_by": c.seq}
    of_stream: dict[str, Any] = {"partition_by": [c.namespace_id, c.stream_id], "order_by": [c.version, c.seq]}
    rows = (
        select(
            c.namespace_id,
            c.seq,
            c.version,
            c.stream_type,
            c.recorded_at,
            c.prev_hash,
            func.row_number().over(**in_order).label("place"),
            func.lag(c.recorded_at).over(**in_order).label("before"),
            func.row_number().over(**of_stream).label("nth"),
            func.lag(c.hash).over(**of_stream).label("last_hash"),
            func.lag(c.seq).over(**of_stream).label("last_seq"),
            func.lag(c.stream_type).over(**of_stream).label("last_type"),
        )
        .subquery()
        .c
    )
    here = select(rows.namespace_id, rows.seq)
    yield "seq {0} follows no other: entries are missing, or stand twice", here.where(rows.seq != rows.place)
    yield "seq {0} was recorded before the entry in front of it", here.where(rows.recorded_at < rows.before)
    computed = sql_hash(db, c.prev_hash, {name: c[name] for name in COLUMNS})
    yield "seq {0} is not what its hash says", select(c.namespace_id, c.seq).where(c.hash != computed)
    yield (
        "seq {0} does not follow its stream's entry before it",
        here.where(
            or_(
                rows.version != rows.nth,
                rows.prev_hash != func.coalesce(rows.last_hash, _ZEROS),
                rows.last_seq > rows.seq,
                rows.last_type != rows.stream_type,
            )
        ),
    )
    for name in ("id", "idempotency_key"):
        twice = func.row_number().over(partition_by=[c.namespace_id, c[name]], order_by=c.seq).label("nth")
        those = select(c.namespace_id, c.seq, twice).where(c[name].isnot(None)).subquery().c
        text = f"seq {{0}} has the {name} of another entry"
        yield text, select(those.namespace_id, those.seq).where(those.nth > 1)


def _of_batches(db: Database, log: Table, batches: Table) -> Iterator[tuple[str, Query]]:
    b = batches.c
    in_order: dict[str, Any] = {"partition_by": b.namespace_id, "order_by": b.batch}
    rows = (
        select(
            *b,
            func.row_number().over(**in_order).label("nth"),
            func.lag(b.hash).over(**in_order).label("last_hash"),
            func.lag(b.first_seq + b.entries).over(**in_order).label("next_seq"),
        )
        .subquery()
        .c
    )
    here = select(rows.namespace_id, rows.batch)
    said = func.concat_ws(
        SEPARATOR,
        b.namespace_id,
        *(cast(number, Text) for number in (b.batch, b.first_seq, b.first_seq + b.entries - 1, b.entries)),
        type_=Text,
    )
    computed = db.sha256(b.prev_hash.op("||")(db.utf8(said)).op("||")(b.root))
    yield "batch {0} is not what its hash says", select(b.namespace_id, b.batch).where(b.hash != computed)
    yield (
        "batch {0} does not follow the one before it",
        here.where(
            or_(
                rows.batch != rows.nth,
                rows.entries < 1,
                rows.first_seq != func.coalesce(rows.next_seq, 1),
                rows.prev_hash != func.coalesce(rows.last_hash, _ZEROS),
            )
        ),
    )
    roots = _roots(db, log, batches)
    yield (
        "the entries of batch {0} are not those of its root",
        select(b.namespace_id, b.batch)
        .select_from(batches.outerjoin(roots, and_(roots.c.namespace_id == b.namespace_id, roots.c.batch == b.batch)))
        .where(or_(roots.c.root.is_(None), roots.c.root != b.root, roots.c.entries != b.entries)),
    )


def _roots(db: Database, log: Table, batches: Table) -> Any:
    """The root over the entries of each batch. A running maximum places them, since a join by range would not end."""
    begins = (
        select(log.c.namespace_id, log.c.seq, log.c.hash, batches.c.batch, batches.c.first_seq)
        .outerjoin_from(
            log,
            batches,
            and_(batches.c.namespace_id == log.c.namespace_id, batches.c.first_seq == log.c.seq),
        )
        .subquery()
        .c
    )
    in_order: dict[str, Any] = {"partition_by": begins.namespace_id, "order_by": begins.seq}
    placed = select(
        begins.namespace_id,
        begins.seq,
        begins.hash,
        func.max(begins.batch).over(**in_order).label("batch"),
        func.max(begins.first_seq).over(**in_order).label("first_seq"),
    ).subquery()
    p = placed.c
    block = cast(func.floor((p.seq - p.first_seq) / literal(float(BLOCK))), BigInteger)
    leaf = literal(b"\x00", LargeBinary).op("||")(db.join_bytes(p.hash, p.seq))
    blocks = (
        select(
            p.namespace_id,
            p.batch,
            block.label("block"),
            db.sha256(leaf).label("hash"),
            func.count().label("entries"),
        )
        .group_by(p.namespace_id, p.batch, block)
        .subquery()
    )
    k = blocks.c
    top = literal(b"\x01", LargeBinary).op("||")(db.join_bytes(k.hash, k.block))
    return (
        select(k.namespace_id, k.batch, db.sha256(top).label("root"), func.sum(k.entries).label("entries"))
        .group_by(k.namespace_id, k.batch)
        .subquery()
    )


def target_of(db: Database, log: Table) -> ColumnElement[Any]:
    """What an entry's content is of, as a tombstone names it: the event, else the entry's stream."""
    event = cast(db.member(db.json(log.c.payload), "event_id"), Uuid)
    return case((log.c.op_type == OpType.EVENT.value, event), else_=log.c.stream_id)


def erased(db: Database, log: Table, namespace: Any, target: Any) -> ColumnElement[bool]:
    """Whether a log has an erasing tombstone for a target."""
    t = log.alias("tombstone").c
    of_object = db.member(db.json(t.after), "flags", "erased_at").isnot(None)
    of_event = db.member(db.json(t.payload), "record", "action") == Expiry.ERASE.value
    return exists().where(
        t.namespace_id == namespace,
        t.stream_id == target,
        t.op_type == OpType.TOMBSTONE.value,
        or_(of_object, of_event),
    )


def _of_contents(db: Database, log: Table, contents: Table) -> Iterator[tuple[str, Query]]:
    c, e = contents.c, log.c
    same = and_(c.namespace_id == e.namespace_id, c.seq == e.seq)
    computed = db.sha256(c.nonce.op("||")(db.utf8(c.content)))
    yield (
        "the content of seq {0} is not what its entry's hash says",
        select(c.namespace_id, c.seq)
        .select_from(contents.outerjoin(log, same))
        .where(or_(e.content_hash.is_(None), e.content_hash != computed)),
    )
    bare = (
        select(e.namespace_id, e.seq, target_of(db, log).label("target"))
        .select_from(log.outerjoin(contents, same))
        .where(e.content_hash.isnot(None), c.seq.is_(None), e.stream_type != StreamType.NAMESPACE.value)
        .subquery()
        .c
    )
    yield (
        "the content of seq {0} is missing, and no tombstone says that it was erased",
        select(bare.namespace_id, bare.seq).where(~erased(db, log, bare.namespace_id, bare.target)),
    )


def _of_heads(log: Table, batches: Table, heads: Table) -> Query:
    ends = select(log.c.namespace_id, func.max(log.c.seq).label("last_seq")).group_by(log.c.namespace_id).subquery()
    h, b = heads.c, batches.c
    last = and_(b.namespace_id == h.namespace_id, b.batch == h.last_batch)
    later = (
        select(b.namespace_id, func.max(b.batch).label("last_batch")).group_by(b.namespace_id).subquery("newest_batch")
    )
    return (
        select(h.namespace_id, h.last_seq)
        .select_from(
            heads.outerjoin(ends, ends.c.namespace_id == h.namespace_id)
            .outerjoin(batches, last)
            .outerjoin(later, later.c.namespace_id == h.namespace_id)
        )
        .where(
            or_(
                ends.c.last_seq.is_(None),
                ends.c.last_seq != h.last_seq,
                b.hash.is_(None),
                b.hash != h.last_batch_hash,
                b.first_seq + b.entries - 1 != h.last_seq,
                later.c.last_batch != h.last_batch,
            )
        )
    )
