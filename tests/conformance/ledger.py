"""Reads a whole namespace and checks that its log, its batches and its state say the same thing.

The hashes are written down here a second time, from the documented form, so that a mistake in `ebbtide.log` cannot
vouch for itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select

from ebbtide import Ebbtide
from ebbtide.model.entry import Entry
from ebbtide.model.state import OBJECT_COLUMNS, MemoryState
from ebbtide.project.fold import fold
from ebbtide.project.refold import refold
from ebbtide.project.writer import entry_from, state_from
from ebbtide.store.tables import (
    aliases,
    batches,
    contents,
    event_log,
    evidence_links,
    memory_objects,
    memory_state,
    namespaces,
    organiser_runs,
    refusals,
    streams,
)

States = dict[UUID, MemoryState]
HASHED = [column.name for column in event_log.columns if column.name not in ("seq", "prev_hash", "hash")]
ALLOWED = {("ACTIVE", "ARCHIVED"), ("ACTIVE", "DEPRECATED"), ("ACTIVE", "SUPERSEDED"), ("ARCHIVED", "ACTIVE")}
SCORES = ("salience", "confidence", "salience_delta", "confidence_delta")


@dataclass(frozen=True)
class Ledger:
    """Everything a namespace holds, read in one transaction."""

    namespace: str
    entries: list[Entry]
    live: States
    refolded: States
    head: dict[str, Any] | None
    batches: list[dict[str, Any]]
    streams: dict[UUID, tuple[int, bytes]]
    refusals: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    aliases: list[dict[str, Any]]
    evidence: set[tuple[UUID, UUID]]
    contents: dict[int, dict[str, Any]]


def read(ebb: Ebbtide, namespace: str = "default") -> Ledger:
    """Reads a namespace: the log in order of seq, the state as it is, and the state that the log gives in SQL."""
    with ebb.store.begin() as connection:

        def rows(table: Any, *order: str) -> list[dict[str, Any]]:
            mine = select(table).where(table.c.namespace_id == namespace)
            found = connection.execute(mine.order_by(*(table.c[name] for name in order)))
            return [_plain(row) for row in found.mappings()]

        return Ledger(
            namespace=namespace,
            entries=[entry_from(row) for row in rows(event_log, "seq")],
            live=live_states(connection, namespace),
            refolded=_by_id(connection.execute(refold(ebb.store.db, [namespace])).mappings()),
            head=next(iter(rows(namespaces)), None),
            batches=rows(batches, "batch"),
            streams={row["stream_id"]: (row["version"], row["head_hash"]) for row in rows(streams)},
            refusals=rows(refusals, "recorded_at", "id"),
            runs=rows(organiser_runs, "slot", "task"),
            aliases=rows(aliases, "alias_id"),
            evidence={(row["object_id"], row["evidence_id"]) for row in rows(evidence_links)},
            contents={row["seq"]: row for row in rows(contents)},
        )


def entries_of(ebb: Ebbtide, namespace: str = "default") -> list[Entry]:
    """The log of a namespace in order of seq."""
    query = select(event_log).where(event_log.c.namespace_id == namespace).order_by(event_log.c.seq)
    with ebb.store.begin() as connection:
        return [entry_from(row) for row in connection.execute(query).mappings()]


def live_states(connection: Connection, namespace: str) -> States:
    """The state tables of a namespace, by object."""
    objects, state = memory_objects.c, memory_state.c
    query = (
        select(memory_state, *(objects[name] for name in OBJECT_COLUMNS[2:]))
        .join_from(
            memory_state,
            memory_objects,
            (state.namespace_id == objects.namespace_id) & (state.object_id == objects.object_id),
        )
        .where(state.namespace_id == namespace)
    )
    return _by_id(connection.execute(query).mappings())


def _by_id(rows: Iterable[Any]) -> States:
    return {state.object_id: state for state in map(state_from, rows)}


def _plain(row: Any) -> dict[str, Any]:
    return {k: bytes(v) if isinstance(v, memoryview | bytearray) else v for k, v in row.items()}


def check(ebb: Ebbtide, namespace: str = "default") -> Ledger:
    """Asserts everything that must hold of a namespace at any time; what was read comes back."""
    ledger = read(ebb, namespace)
    _check_order(ledger)
    _check_hashes(ledger)
    _check_batches(ledger)
    _check_heads(ledger)
    _check_state(ledger)
    _check_moves(ledger)
    _check_chains(ledger)
    _check_merges(ledger)
    _check_contents(ledger)
    return ledger


def _check_order(ledger: Ledger) -> None:
    """seq, version and fact_version are contiguous from 1; recorded_at never runs backwards."""
    assert [entry.seq for entry in ledger.entries] == list(range(1, len(ledger.entries) + 1))
    for entries in by_stream(ledger.entries).values():
        assert [entry.version for entry in entries] == list(range(1, len(entries) + 1))
        facts = [entry.fact_version for entry in entries if entry.fact_version is not None]
        assert facts == list(range(1, len(facts) + 1))
        assert len({entry.stream_type for entry in entries}) == 1
    recorded = [entry.recorded_at for entry in ledger.entries]
    assert recorded == sorted(recorded)
    assert len({entry.id for entry in ledger.entries}) == len(ledger.entries)
    keys = [entry.idempotency_key for entry in ledger.entries if entry.idempotency_key is not None]
    assert len(set(keys)) == len(keys)


def by_stream(entries: Iterable[Entry]) -> dict[UUID, list[Entry]]:
    """The entries of each stream, in order."""
    found = defaultdict(list)
    for entry in entries:
        found[entry.stream_id].append(entry)
    return dict(found)


def canonical(entry: Entry) -> bytes:
    """What an entry's hash is taken over: its columns in the order of the table, joined by U+001F."""

    def text(name: str) -> str:
        value = getattr(entry, name)
        if value is None:
            return "\x1e"
        if name in SCORES:
            return str(math.floor(value * 1e9 + 0.5))
        return value.hex() if isinstance(value, bytes) else str(value)

    return "\x1f".join(text(name) for name in HASHED).encode()


def _check_hashes(ledger: Ledger) -> None:
    """hash = SHA-256(previous hash of the stream ‖ canonical), for every entry."""
    for entries in by_stream(ledger.entries).values():
        previous = bytes(32)
        for entry in entries:
            assert entry.prev_hash == previous, f"seq {entry.seq}"
            assert entry.hash == hashlib.sha256(previous + canonical(entry)).digest(), f"seq {entry.seq}"
            previous = entry.hash


def root_of(hashes: list[bytes]) -> bytes:
    """SHA-256(0x01 ‖ block hashes), block = SHA-256(0x00 ‖ 256 entry hashes)."""
    blocks = [hashes[begin : begin + 256] for begin in range(0, len(hashes), 256)]
    hashed = [hashlib.sha256(b"\x00" + b"".join(block)).digest() for block in blocks]
    return hashlib.sha256(b"\x01" + b"".join(hashed)).digest()


def _check_batches(ledger: Ledger) -> None:
    """Batches are chained, and cover every seq exactly once with the root of its hashes."""
    previous, covered = bytes(32), 0
    for number, batch in enumerate(ledger.batches, 1):
        first, count = batch["first_seq"], batch["entries"]
        assert (batch["batch"], first, batch["prev_hash"]) == (number, covered + 1, previous)
        assert count > 0
        covered += count
        assert batch["root"] == root_of([entry.hash for entry in ledger.entries[first - 1 : covered]])
        said = "\x1f".join((ledger.namespace, str(number), str(first), str(covered), str(count)))
        assert batch["hash"] == hashlib.sha256(previous + said.encode() + batch["root"]).digest()
        previous = batch["hash"]
    assert covered == len(ledger.entries)


def _check_heads(ledger: Ledger) -> None:
    """The head row, the object heads and the stream heads are where the log ends."""
    head = ledger.head
    if head is None:
        assert not ledger.entries
        return
    ends = {stream: entries[-1] for stream, entries in by_stream(ledger.entries).items()}
    assert head["last_seq"] == len(ledger.entries)
    assert head["last_batch"] == len(ledger.batches)
    assert head["last_batch_hash"] == (ledger.batches[-1]["hash"] if ledger.batches else bytes(32))
    assert head["last_recorded_at"] == max((entry.recorded_at for entry in ledger.entries), default=0)
    assert head["began_at"] == min((entry.effective_at for entry in ledger.entries), default=None)
    heads = {stream: (state.version, state.head_hash) for stream, state in ledger.live.items()}
    heads |= ledger.streams
    own = [end for end in ends.values() if end.stream_type == "namespace"]
    assert [(end.version, end.hash) for end in own] == ([(head["version"], head["head_hash"])] if own else [])
    assert heads == {stream: (end.version, end.hash) for stream, end in ends.items() if end.stream_type != "namespace"}
    assigned = [e for e in ledger.entries if e.stream_type == "namespace" and e.op_type == "POLICY_ASSIGNED"]
    if assigned:
        current = (assigned[-1].policy_id, assigned[-1].policy_version)
        assert (head["policy_id"], head["policy_version"]) == current


def _check_state(ledger: Ledger) -> None:
    """The live state, the pure fold of the log and the fold in SQL are the same, column by column."""
    folded = fold(ledger.entries)
    assert ledger.live.keys() == folded.keys() == ledger.refolded.keys()
    for object_id, live in ledger.live.items():
        assert differences(live, folded[object_id]) == {}, f"state against the pure fold: {object_id}"
        assert differences(live, ledger.refolded[object_id]) == {}, f"state against SQL's fold: {object_id}"
        assert 0 <= live.salience <= 1
        assert 0 <= live.confidence <= 1
        if live.lifecycle_state != "ACTIVE":
            assert live.stopped_at is not None, f"time goes on for {object_id}, which left ACTIVE"
            assert live.due_rule in (None, "ttl")


def _check_moves(ledger: Ledger) -> None:
    """Objects begin ACTIVE and go on only where the rules let them go."""
    for entries in by_stream(ledger.entries).values():
        moves = [entry for entry in entries if entry.lifecycle_state is not None]
        assert [entry.lifecycle_state for entry in moves[:1]] in ([], ["ACTIVE"])
        for before, after in pairwise(moves):
            if after.op_type == "CORRECTED":
                continue
            if after.op_type == "TOMBSTONE":
                assert after.lifecycle_state == "ARCHIVED"
            else:
                assert (before.lifecycle_state, after.lifecycle_state) in ALLOWED
                assert before.op_type != "TOMBSTONE"


def unlike(found: Any, expected: Any, place: str = "") -> list[str]:
    """Where two documents differ, a line for each value: what a comparison of thousands of values has to say."""
    if found == expected:
        return []
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [line for key in found for line in unlike(found[key], expected[key], f"{place}.{key}")]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for number, (one, other) in pairs for line in unlike(one, other, f"{place}[{number}]")]
    if isinstance(found, list | dict) and isinstance(expected, list | dict):
        return [f"{place}: {len(found)} instead of {len(expected)}"]
    return [f"{place}: {found!r} instead of {expected!r}"]


def differences(one: MemoryState, other: MemoryState, but: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
    """The columns in which two states differ, with both values; bit for bit."""
    left, right = asdict(one), asdict(other)
    names = {field.name for field in fields(MemoryState)} - set(but)
    return {name: (left[name], right[name]) for name in sorted(names) if left[name] != right[name]}


def _check_chains(ledger: Ledger) -> None:
    """Supersession links point both ways but where two became one, and of each chain at most one object is ACTIVE."""
    joined = {entry.stream_id for entry in ledger.entries if entry.op_type == "DEDUP_RESOLVED"}
    active: dict[UUID, int] = defaultdict(int)
    for object_id, state in ledger.live.items():
        there = state.tombstoned_at is None
        assert (state.lifecycle_state == "SUPERSEDED") == (state.superseded_by is not None and there)
        if state.superseded_by is not None:
            assert ledger.live[state.superseded_by].supersedes == object_id or state.superseded_by in joined
            assert _ends(ledger, state), f"superseded by itself: {object_id}"
        oldest = state
        while oldest.supersedes is not None:
            assert ledger.live[oldest.supersedes].superseded_by == oldest.object_id
            oldest = ledger.live[oldest.supersedes]
        active[oldest.object_id] += state.lifecycle_state == "ACTIVE"
    assert all(count <= 1 for count in active.values())


def _ends(ledger: Ledger, state: MemoryState) -> bool:
    """Whether what takes a memory's place is, in the end, something else."""
    seen = {state.object_id}
    while state.superseded_by is not None:
        state = ledger.live[state.superseded_by]
        if state.object_id in seen:
            return False
        seen.add(state.object_id)
    return True


def _check_merges(ledger: Ledger) -> None:
    """Aliases are what the log says of them, evidence stands in its table, and what was merged has left ACTIVE."""
    expected = []
    for entry in ledger.entries:
        if entry.op_type != "DEDUP_RESOLVED":
            continue
        said = json.loads(entry.payload)
        assert said["primary_id"] == str(entry.stream_id)
        assert said["merged_ids"]
        if alias := said.get("alias_id"):
            assert said["merged_ids"] == [alias]
            expected.append((UUID(alias), entry.stream_id, said["ref"], entry.recorded_at))
        for merged in map(UUID, said["merged_ids"]):
            assert merged not in ledger.live or ledger.live[merged].superseded_by is not None
    rows = [(row["alias_id"], row["object_id"], row["ref"], row["recorded_at"]) for row in ledger.aliases]
    assert rows == sorted(expected, key=lambda row: str(row[0]))
    assert not {row[0] for row in rows} & ledger.live.keys()
    known = [(i, UUID(one)) for i, state in ledger.live.items() for one in json.loads(state.evidence)]
    assert ledger.evidence == set(known)


def _check_contents(ledger: Ledger) -> None:
    """Content is what its entry's hash was taken over, and an embedding what its content says."""
    for seq, row in ledger.contents.items():
        hashed = hashlib.sha256(row["nonce"] + row["content"].encode()).digest()
        assert ledger.entries[seq - 1].content_hash == hashed, f"seq {seq}"
        numbers = row["embedding"]
        digest = None if numbers is None else hashlib.sha256(struct.pack(f">{len(numbers)}d", *numbers)).hexdigest()
        said = json.loads(row["content"])
        assert digest == said.get("embedding")
        assert row["dimensions"] == (None if numbers is None else len(numbers))
        assert row["embedding_model"] == (None if numbers is None else said.get("embedding_model", ""))
