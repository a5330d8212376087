"""Digests: the heads of the chains of batches, to be kept elsewhere; and proofs of one entry against them.

Whoever can write the database can write the whole chain anew. What was noted outside of it, they cannot: a log that
contains the noted batch with the noted hash contains everything up to there as it was then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, and_, select

from ebbtide.log.batches import BLOCK, hash_of_batch
from ebbtide.log.canonical import COLUMNS, NULL, SEPARATOR, canonical_text
from ebbtide.log.verify import Bad
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.store.tables import batches, event_log, namespaces

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Number = Annotated[int, Field(ge=1, lt=2**62)]


class Document(BaseModel):
    """A document that was kept as a file: unknown keys are somebody else's and left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Head(Document):
    """Where a namespace's log ended: its last entry, the batch that holds it, and that batch's hash."""

    namespace_id: str
    seq: Number
    batch: Number
    hash: Hash


class Digest(Document):
    """The heads of all namespaces at an instant."""

    heads: list[Head]
    created_at: datetime


class Batch(Document):
    """A row of `batches`, but for its prev_hash, which is the hash of the one before."""

    batch: Number
    first_seq: Number
    entries: Number
    root: Hash
    hash: Hash


class Proof(Document):
    """All that shows an entry to be in a log with a head, without the rest of the log.

    `entry` has every column, `block` the hashes of the entries in its block, `blocks` the hashes of its batch's
    blocks. `batches` goes from the entry's batch to the head's; `prev_hash` is the hash of the batch before the first.
    """

    entry: dict[str, Any]
    block: list[Hash]
    blocks: list[Hash]
    prev_hash: Hash
    batches: Annotated[list[Batch], Field(min_length=1)]
    head: Head


_Kind = TypeVar("_Kind", bound=Document)


def read_document(kind: type[_Kind], file: Path | str) -> _Kind:
    """Reads a file; one that holds no document of the kind is refused with the first field that is wrong."""
    try:
        return kind.model_validate_json(Path(file).read_bytes())
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(
            f"is no {kind.__name__.lower()}: {str(first['msg']).lower()}", file=str(file), field=place or None
        ) from error


def heads(connection: Connection, namespace: str | None) -> list[Head]:
    """The heads of all namespaces, or one, as their rows have them."""
    n = namespaces.c
    query = select(n.namespace_id, n.last_seq, n.last_batch, n.last_batch_hash).where(n.last_seq > 0)
    if namespace is not None:
        query = query.where(n.namespace_id == namespace)
    found = [
        Head(namespace_id=name, seq=seq, batch=batch, hash=bytes(digest).hex())
        for name, seq, batch, digest in connection.execute(query.order_by(n.namespace_id))
    ]
    if namespace is not None and not found:
        raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
    return found


def departures(connection: Connection, kept: Sequence[Head]) -> Iterator[Bad]:
    """What the log has otherwise than kept heads say. Its chain is to be verified besides."""
    b = batches.c
    for head in kept:
        row = connection.execute(
            select(b.first_seq, b.entries, b.hash).where(b.namespace_id == head.namespace_id, b.batch == head.batch)
        ).first()
        if row is None:
            end = connection.execute(
                select(namespaces.c.last_seq).where(namespaces.c.namespace_id == head.namespace_id)
            ).scalar()
            what = f"batch {head.batch} is not there: the log was cut off, or an older backup restored"
            yield Bad(head.namespace_id, (end or 0) + 1, "digest_missing", what)
        elif (row.first_seq + row.entries - 1, bytes(row.hash).hex()) != (head.seq, head.hash):
            what = f"batch {head.batch} had another hash: the log up to {head.seq} was written anew"
            yield Bad(head.namespace_id, row.first_seq, "digest_changed", what)


def prove(connection: Connection, namespace: str, seq: int) -> Proof:
    """The proof of the entry at a place of the log, against the namespace's head. The log is taken as it is."""
    (head,) = heads(connection, namespace)
    row = (
        connection.execute(select(event_log).where(event_log.c.namespace_id == namespace, event_log.c.seq == seq))
        .mappings()
        .first()
    )
    if row is None:
        raise NotFound(f"there is no entry {seq} in namespace {namespace!r}: its log ends at {head.seq}", field="prove")
    b = batches.c
    last = (
        select(b.batch)
        .where(b.namespace_id == namespace, b.first_seq <= seq)
        .order_by(b.first_seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    chain = connection.execute(
        select(batches).where(b.namespace_id == namespace, b.batch.between(last, head.batch)).order_by(b.batch)
    ).all()
    first = chain[0]
    place = (seq - first.first_seq) // BLOCK
    blocks = _blocks(connection, namespace, first.first_seq, first.entries)
    return Proof(
        entry={name: _plain(value) for name, value in row.items()},
        block=[one.hex() for one in blocks[place]],
        blocks=[_block(block).hex() for block in blocks],
        prev_hash=bytes(first.prev_hash).hex(),
        batches=[
            Batch(
                batch=one.batch,
                first_seq=one.first_seq,
                entries=one.entries,
                root=bytes(one.root).hex(),
                hash=bytes(one.hash).hex(),
            )
            for one in chain
        ],
        head=head,
    )


def _blocks(connection: Connection, namespace: str, first: int, entries: int) -> list[list[bytes]]:
    """The entry hashes of one batch, block by block."""
    query = (
        select(event_log.c.hash)
        .where(and_(event_log.c.namespace_id == namespace, event_log.c.seq.between(first, first + entries - 1)))
        .order_by(event_log.c.seq)
    )
    hashes = [bytes(one) for one in connection.execute(query).scalars()]
    return [hashes[begin : begin + BLOCK] for begin in range(0, len(hashes), BLOCK)]


def _block(hashes: Sequence[bytes]) -> bytes:
    return hashlib.sha256(b"\x00" + b"".join(hashes)).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def check_proof(proof: Proof, kept: Digest | None = None) -> Bad | None:
    """What is wrong with a proof, by itself and against a kept digest; None where it holds.

    Without a digest it shows only that its parts fit together.
    """
    namespace, seq = proof.head.namespace_id, proof.entry.get("seq")
    if not isinstance(seq, int):
        raise BadInput("is no proof: the entry has no seq", field="entry.seq")
    what = next(_flaws(proof, namespace, seq), None) or (None if kept is None else _strays(proof, namespace, kept))
    return None if what is None else Bad(namespace, seq, "proof", what)


def _flaws(proof: Proof, namespace: str, seq: int) -> Iterator[str]:
    entry, first = proof.entry, proof.batches[0]
    if missing := [name for name in (*COLUMNS, "prev_hash", "hash") if name not in entry]:
        yield f"the entry has no {missing[0]}"
        return
    if any(isinstance(value, str) and (NULL in value or SEPARATOR in value) for value in entry.values()):
        yield "a column holds U+001E or U+001F, which no entry does"
    if entry["namespace_id"] != namespace:
        yield "the entry is of another namespace than the head"
    try:
        hashed = hashlib.sha256(bytes.fromhex(entry["prev_hash"]) + canonical_text(entry)).hexdigest()
    except (TypeError, ValueError, OverflowError):
        hashed = None
    if entry["hash"] != hashed:
        yield "the entry's hash is not that of its columns"
    place = seq - first.first_seq
    if not 0 <= place < first.entries or len(proof.blocks) != -(-first.entries // BLOCK):
        yield "the entry is not in the proof's first batch"
        return
    if proof.block[place % BLOCK : place % BLOCK + 1] != [entry["hash"]]:
        yield "the entry's hash is not at its place in its block"
    if _block([bytes.fromhex(one) for one in proof.block]).hex() != proof.blocks[place // BLOCK]:
        yield "the block's hash is not that of its entries' hashes"
    if hashlib.sha256(b"\x01" + bytes.fromhex("".join(proof.blocks))).hexdigest() != first.root:
        yield "the batch's root is not that of its blocks"
    yield from _breaks(proof, namespace)


def _breaks(proof: Proof, namespace: str) -> Iterator[str]:
    """Where the chain from the entry's batch to the head is broken."""
    before, number, begin = bytes.fromhex(proof.prev_hash), proof.batches[0].batch, proof.batches[0].first_seq
    for batch in proof.batches:
        hashed = hash_of_batch(
            before, namespace, batch.batch, batch.first_seq, batch.entries, bytes.fromhex(batch.root)
        )
        if (batch.batch, batch.first_seq, batch.hash) != (number, begin, hashed.hex()):
            yield f"batch {batch.batch} does not follow from the batch before"
            return
        before, number, begin = hashed, number + 1, begin + batch.entries
    if (proof.head.batch, proof.head.seq, proof.head.hash) != (number - 1, begin - 1, before.hex()):
        yield "the head is not where the batches lead"


def _strays(proof: Proof, namespace: str, kept: Digest) -> str | None:
    head = next((head for head in kept.heads if head.namespace_id == namespace), None)
    if head is None:
        return "the digest has no head of the namespace"
    first = proof.batches[0].batch
    if head.batch < first:
        return f"the entry is newer than the digest, which ends at {head.seq}: take a newer digest"
    if head.batch > proof.head.batch:
        return f"the proof ends at {proof.head.seq}, before the digest's head: make it again"
    same = proof.batches[head.batch - first]
    if (same.first_seq + same.entries - 1, same.hash) != (head.seq, head.hash):
        return f"batch {head.batch} has another hash in the digest: this is not the log that was kept"
    return None
