"""Batches: every write transaction adds a row per namespace that seals its entries and the row before."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from uuid import UUID

import pytest
from sqlalchemy import select

from ebbtide import Ebbtide
from ebbtide.log.batches import hash_of_batch, root_in_store, root_of
from ebbtide.model.entry import Entry
from ebbtide.project.writer import entry_row
from ebbtide.store.tables import batches, event_log, namespaces

SIZES = (1, 255, 256, 257, 600)


def sha(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def made_up_log(size: int) -> list[Entry]:
    """Entries of which only the hashes matter."""
    return [
        Entry("maya", seq, UUID(int=seq), "object", UUID(int=seq), 1, "ACCESS", 0, 0, "a", "AI_AGENT", "{}",
              hash=sha(str(seq).encode()))
        for seq in range(1, size + 1)
    ]  # fmt: skip


def batches_of(ebb: Ebbtide, namespace: str) -> list:
    query = select(batches).where(batches.c.namespace_id == namespace).order_by(batches.c.batch)
    with ebb.store.begin() as connection:
        return list(connection.execute(query))


@pytest.mark.parametrize("size", SIZES)
def test_a_root_is_flat_over_blocks_of_256(size):
    """root = SHA-256(0x01 ‖ block hashes), block = SHA-256(0x00 ‖ up to 256 entry hashes)."""
    hashes = [entry.hash for entry in made_up_log(size)]
    blocks = [sha(b"\x00" + b"".join(hashes[at : at + 256])) for at in range(0, size, 256)]
    assert len(blocks) == -(-size // 256)
    assert root_of(hashes) == sha(b"\x01" + b"".join(blocks))


@pytest.mark.parametrize("before", [0, 1, 300])
def test_the_database_computes_the_same_root(ebb, before):
    """Blocks count from the batch's first entry, wherever that is; other namespaces have no part in it."""
    log = made_up_log(before + max(SIZES) + 10)
    stranger = Entry("otto", 1, UUID(int=1), "object", UUID(int=1), 1, "ACCESS", 0, 0, "a", "AI_AGENT", "{}")
    with ebb.store.begin() as connection:
        ebb.store.db.bulk_insert(connection, event_log, [entry_row(entry) for entry in (stranger, *log)])
        for size in SIZES:
            hashes = [entry.hash for entry in log[before : before + size]]
            assert root_in_store(ebb.store.db, connection, "maya", before + 1, size) == root_of(hashes)


def test_the_hash_of_a_batch_is_the_documented_one():
    """SHA-256(previous batch hash ‖ namespace, batch, range, count joined by U+001F ‖ root)."""
    expected = sha(b"\x02" * 32 + "ōsaka\x1f3\x1f11\x1f15\x1f5".encode() + b"\x03" * 32)
    assert hash_of_batch(b"\x02" * 32, "ōsaka", 3, 11, 5, b"\x03" * 32) == expected


@pytest.mark.parametrize("namespace", ["maya", "otto"])
def test_batches_seal_the_whole_log_and_chain(lived, log_of, namespace):
    """Requests' and passes' batches alike: ranges meet, roots and hashes recompute, the head is the last."""
    log, found = log_of(lived, namespace), batches_of(lived, namespace)
    assert [row.batch for row in found] == list(range(1, len(found) + 1))
    assert found[0].first_seq == 1
    assert found[0].prev_hash == bytes(32)
    assert [b.first_seq for _, b in pairwise(found)] == [a.first_seq + a.entries for a, _ in pairwise(found)]
    assert [b.prev_hash for _, b in pairwise(found)] == [a.hash for a, _ in pairwise(found)]
    assert found[-1].first_seq + found[-1].entries - 1 == len(log)
    for row in found:
        covered = log[row.first_seq - 1 : row.first_seq - 1 + row.entries]
        assert row.root == root_of([entry.hash for entry in covered])
        digest = hash_of_batch(row.prev_hash, namespace, row.batch, row.first_seq, row.entries, row.root)
        assert row.hash == digest
    with lived.store.begin() as connection:
        head = connection.execute(select(namespaces).where(namespaces.c.namespace_id == namespace)).one()
    assert (head.last_seq, head.last_batch, bytes(head.last_batch_hash)) == (
        len(log), found[-1].batch, bytes(found[-1].hash)
    )  # fmt: skip
    assert head.last_recorded_at == max(entry.recorded_at for entry in log)


def test_one_transaction_is_one_batch_per_namespace(ebb, log_of):
    """600 entries of one call are one batch of three blocks; of two namespaces each gets its own."""
    ebb.ask(*({"op": "EVENT", "ref": f"e{n}", "content": n} for n in range(599)))
    ((row),) = batches_of(ebb, "default")
    assert (row.first_seq, row.entries) == (1, 600), "the policy's assignment and 599 events"
    assert row.root == root_of([entry.hash for entry in log_of(ebb, "default")])
    ebb.ask(*({"op": "EVENT", "namespace": name, "ref": "e", "content": 1} for name in ("default", "maya")))
    assert [(row.first_seq, row.entries) for row in batches_of(ebb, "default")] == [(1, 600), (601, 1)]
    assert [(row.first_seq, row.entries) for row in batches_of(ebb, "maya")] == [(1, 2)]


def test_a_call_that_changes_nothing_adds_no_batch(ebb):
    """A repeat writes no entry, so there is nothing to seal."""
    line = {"op": "EVENT", "ref": "e1", "content": "hello"}
    ebb.ask(line)
    before = batches_of(ebb, "default")
    assert [taken.unchanged for taken in ebb.ask(line)] == [True]
    assert batches_of(ebb, "default") == before
