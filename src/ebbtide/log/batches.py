"""Batches: one row per write transaction and namespace, each chained to the one before.

root = SHA-256(0x01 ‖ block hashes), block = SHA-256(0x00 ‖ the entry hashes of 256 consecutive seq of the batch):
flat, so that it is computed set-based, and one entry is proved by its block and the list of blocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, LargeBinary, cast, func, literal, select

from ebbtide.store.database import Database
from ebbtide.store.tables import event_log

BLOCK = 256


def root_of(hashes: Sequence[bytes]) -> bytes:
    """The root over a batch's entry hashes, in order of seq."""
    blocks = [hashlib.sha256(b"\x00" + b"".join(hashes[i : i + BLOCK])).digest() for i in range(0, len(hashes), BLOCK)]
    return hashlib.sha256(b"\x01" + b"".join(blocks)).digest()


def root_in_store(db: Database, connection: Connection, namespace: str, first_seq: int, entries: int) -> bytes:
    """`root_of` a range of the log, computed where the log is."""
    number = func.floor((event_log.c.seq - first_seq) / literal(float(BLOCK)))
    leaf = literal(b"\x00", LargeBinary).op("||")(db.join_bytes(event_log.c.hash, event_log.c.seq))
    blocks = (
        select(cast(number, BigInteger).label("block"), db.sha256(leaf).label("hash"))
        .where(
            event_log.c.namespace_id == namespace,
            event_log.c.seq.between(first_seq, first_seq + entries - 1),
        )
        .group_by(cast(number, BigInteger))
        .subquery()
    )
    top = literal(b"\x01", LargeBinary).op("||")(db.join_bytes(blocks.c.hash, blocks.c.block))
    return bytes(connection.execute(select(db.sha256(top))).scalar_one())


def hash_of_batch(prev_hash: bytes, namespace: str, batch: int, first_seq: int, entries: int, root: bytes) -> bytes:
    """SHA-256(previous batch hash ‖ namespace, batch, first seq, last seq, count, joined by U+001F ‖ root)."""
    what = "\x1f".join((namespace, *(str(n) for n in (batch, first_seq, first_seq + entries - 1, entries))))
    return hashlib.sha256(prev_hash + what.encode() + root).digest()
