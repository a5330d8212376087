"""Is what a receipt says was erased still so? For whoever kept one, at any later time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection, Row, and_, select

from ebbtide.log.digest import Document, Hash, Head, Number, departures
from ebbtide.log.links import RANGE
from ebbtide.log.verify import Bad
from ebbtide.model.words import OpType
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, contents, event_log, event_state


class End(Document):
    """Where the log stood after the erasure."""

    seq: Number
    batch: Number
    hash: Hash


class Item(Document):
    """One content that was erased. A holder who knows the text puts it in as `content`."""

    target_id: UUID
    target_type: Literal["memory_object", "event", "namespace"]
    seq: Number
    content_hash: Hash
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    content: str | None = None


class Receipt(Document):
    """What of a receipt can be checked: see `memory.erase.Receipt`, which makes them."""

    namespace_id: str
    tombstones: Annotated[list[UUID], Field(min_length=1)]
    items: list[Item]
    head: End


def flaws(db: Database, connection: Connection, receipt: Receipt) -> Iterator[Bad]:
    """What is otherwise than a receipt says. The chain of the log is to be verified besides."""
    name, end = receipt.namespace_id, receipt.head
    yield from departures(connection, [Head(namespace_id=name, seq=end.seq, batch=end.batch, hash=end.hash)])
    yield from _tombstones(connection, receipt)
    for first in range(0, len(receipt.items), RANGE):
        items = receipt.items[first : first + RANGE]
        log, c, e = event_log.c, contents.c, event_state.c
        query = (
            select(log.seq, log.stream_id, log.content_hash, c.seq.label("kept"), e.event_id)
            .outerjoin(contents, and_(c.namespace_id == log.namespace_id, c.seq == log.seq))
            .outerjoin(event_state, and_(e.namespace_id == log.namespace_id, e.seq == log.seq))
            .where(log.namespace_id == name, db.among(log.seq, [item.seq for item in items]))
        )
        found = {row.seq: row for row in connection.execute(query)}
        for item in items:
            what = _wrong(item, found.get(item.seq))
            if what is not None:
                yield Bad(name, item.seq, "receipt", what, str(item.target_id))


def _wrong(item: Item, row: Row[tuple[object, ...]] | None) -> str | None:
    if row is None or row.content_hash is None or bytes(row.content_hash).hex() != item.content_hash:
        return "the log has another content_hash here than the receipt"
    if item.target_id != (row.event_id or row.stream_id):
        return f"the receipt says that this is of {item.target_id}, but the log says otherwise"
    if row.kept is not None:
        return "the content that the receipt says was erased is still there"
    if item.content is None:
        return None
    if hashlib.sha256(bytes.fromhex(item.nonce) + item.content.encode()).hexdigest() != item.content_hash:
        return "the content shown in the receipt is not what was erased: another text, or another nonce"
    return None


def _tombstones(connection: Connection, receipt: Receipt) -> Iterator[Bad]:
    """The batch that the receipt names holds its tombstones and no others."""
    log, b, name = event_log.c, batches.c, receipt.namespace_id
    begin = select(b.first_seq).where(b.namespace_id == name, b.batch == receipt.head.batch).scalar_subquery()
    query = select(log.seq, log.id).where(
        log.namespace_id == name, log.seq.between(begin, receipt.head.seq), log.op_type == OpType.TOMBSTONE.value
    )
    found = {row.id: row.seq for row in connection.execute(query.order_by(log.seq))}
    for wanted in receipt.tombstones:
        if wanted not in found:
            yield Bad(name, receipt.head.seq, "receipt", f"tombstone {wanted} of the receipt is not in the log")
            return
    others = sorted(set(found.values()) - {found[wanted] for wanted in receipt.tombstones})
    if others:
        yield Bad(name, others[0], "receipt", "the log has a tombstone here that the receipt leaves out")
