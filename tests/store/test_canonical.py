"""An entry has one hash, whoever computes it: Python at the time, SQL in a pass, either database later."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import replace
from itertools import pairwise, product
from uuid import RFC_4122, UUID

import pytest
from sqlalchemy import BigInteger, Double, LargeBinary, SmallInteger, Text, Uuid, literal, select

from ebbtide import Ebbtide
from ebbtide.log.canonical import canonical, hash_of, sql_hash
from ebbtide.model.entry import Entry
from ebbtide.model.identity import id_of_entry, uuid8
from ebbtide.project.writer import entry_from, entry_row
from ebbtide.store.tables import event_log

ID = UUID("00112233-4455-8677-8899-aabbccddeeff")
FULL = Entry(
    namespace_id="maya",
    seq=7,
    id=ID,
    stream_type="object",
    stream_id=UUID(int=5),
    version=3,
    fact_version=2,
    op_type="REINFORCE",
    schema_version=1,
    recorded_at=1_772_409_600_000_001,
    effective_at=-1,
    actor_id="Zoë",
    actor_type="HUMAN_USER",
    idempotency_key="r1",
    request_hash=b"\x00\xff",
    lifecycle_state="ACTIVE",
    salience=0.1,
    confidence=1.0,
    salience_delta=-0.25,
    confidence_delta=0.000000001,
    decay_profile="SLOW",
    policy_id="default",
    policy_version="1.0.0",
    content_hash=b"\xab" * 32,
    carries=6,
    payload='{"b":1,"a":100.0}',
    after='{"due":null}',
    prev_hash=b"\x01" * 32,
)
TEXTS = (
    '{"b":1,"a":100.0,"10":1e2,"9":{"z":[],"a":{}}}',
    '{ "spaced" :\t"out"\n}',
    '{"quotes":"\\"\'","back":"\\\\ \\\\N \\\\.","tab":"\\t"}',
    '{"emoji":"😀👩‍👩‍👧","combining":"e\u0301 é","rtl":"שלום","cjk":"記憶","last":"\U0010ffff"}',
    '{"a":1,"a":2}',
    "",
    "\u2028\\N\t'',\"\"\r\n",
)
NOT_HASHED = {"seq", "prev_hash", "hash"}
HASHED = [column for column in event_log.columns if column.name not in NOT_HASHED]


def sql_hashes(ebb: Ebbtide, **instead: object) -> list[tuple[Entry, bytes]]:
    """All entries of a store and their hashes as its database computes them, in one query."""
    values = {column.name: column for column in HASHED} | instead
    computed = sql_hash(ebb.store.db, event_log.c.prev_hash, values).label("computed")
    query = select(event_log, computed).order_by(event_log.c.namespace_id, event_log.c.seq)
    with ebb.store.begin() as connection:
        found = [dict(row._mapping) for row in connection.execute(query)]
    hashes = [bytes(row.pop("computed")) for row in found]
    return [(entry_from(row), computed) for row, computed in zip(found, hashes, strict=True)]


def write(ebb: Ebbtide, entries: list[Entry]) -> None:
    with ebb.store.begin() as connection:
        ebb.store.db.bulk_insert(connection, event_log, [entry_row(entry) for entry in entries])


def test_the_canonical_form_is_the_documented_one():
    """Every column but three in the table's order, joined by U+001F, null as U+001E; scores as integers."""
    expected = (
        "maya", "00112233-4455-8677-8899-aabbccddeeff", "object", "00000000-0000-0000-0000-000000000005", "3",
        "2", "REINFORCE", "1", "1772409600000001", "-1", "Zoë", "HUMAN_USER", "r1", "00ff", "ACTIVE",
        "100000000", "1000000000", "-250000000", "1", "SLOW", "default", "1.0.0", "ab" * 32, "6",
        '{"b":1,"a":100.0}', '{"due":null}',
    )  # fmt: skip
    assert canonical(FULL) == "\x1f".join(expected).encode()
    assert hash_of(FULL) == hashlib.sha256(b"\x01" * 32 + "\x1f".join(expected).encode()).digest()
    bare = replace(FULL, fact_version=None, salience=None, content_hash=None, after=None)
    absent = {5, 15, 22, 25}
    texts = ["\x1e" if place in absent else value for place, value in enumerate(expected)]
    assert canonical(bare) == "\x1f".join(texts).encode()


def test_every_entry_of_a_mixed_log_has_the_same_hash_in_python_and_in_sql(lived):
    """Requests hash in Python, passes in SQL; what is stored is what both compute from the stored row."""
    found = sql_hashes(lived)
    assert {entry.op_type for entry, _ in found} >= {
        "EVENT", "ASSERT", "ACCESS", "REINFORCE", "PENALTY", "PIN", "UNPIN", "SUPERSEDE", "RESTORE",
        "ARCHIVE", "DEPRECATE", "DECAY_APPLIED", "DECAY_WARNING", "POLICY_ASSIGNED", "ORGANISER_RUN",
    }  # fmt: skip
    assert [entry for entry, _ in found if hash_of(entry) != entry.hash] == []
    assert [entry for entry, computed in found if computed != entry.hash] == []


def test_each_stream_is_a_chain_of_its_own(lived, log_of):
    """Versions count from 1 without a gap; the first previous hash is zeros, each other the hash before."""
    streams: dict[tuple[str, UUID], list[Entry]] = {}
    for entry in log_of(lived):
        streams.setdefault((entry.namespace_id, entry.stream_id), []).append(entry)
    assert len(streams) > 8
    for stream in streams.values():
        assert [entry.version for entry in stream] == list(range(1, len(stream) + 1))
        assert stream[0].prev_hash == bytes(32)
        assert [b.prev_hash for _, b in pairwise(stream)] == [a.hash for a, _ in pairwise(stream)]


def test_fact_versions_count_facts_and_transitions_only(lived, log_of):
    """`fact_version` is contiguous from 1 over an object's facts; decay, warnings and events have none."""
    timely = {"DECAY_APPLIED", "DECAY_WARNING", "EVENT", "POLICY_ASSIGNED", "ORGANISER_RUN"}
    facts: dict[UUID, list[int | None]] = {}
    for entry in log_of(lived):
        if entry.op_type in timely:
            assert entry.fact_version is None
        else:
            facts.setdefault(entry.stream_id, []).append(entry.fact_version)
    for versions in facts.values():
        assert versions == list(range(1, len(versions) + 1))


def test_scores_become_the_same_integers_everywhere(ebb):
    """floor(x·10⁹ + 0.5), for halves, ends and some thousand others, below zero too, in SQL as in Python."""
    number = random.Random(7)
    chosen = [0.0, 1.0, 1e-9, 5e-10, 4.9e-10, 0.1, 0.3, 0.1 + 0.2, 0.999999999, 0.9999999995, 0.123456789]
    chosen += [number.random() for _ in range(1000)] + [round(number.random(), 9) for _ in range(1000)]
    entries = [
        replace(FULL, seq=place, stream_id=UUID(int=place), salience=x, confidence=1 - x, salience_delta=-x)
        for place, x in enumerate(chosen, start=1)
    ]
    write(ebb, [replace(entry, idempotency_key=None, hash=hash_of(entry)) for entry in entries])
    found = sql_hashes(ebb)
    assert [entry.salience for entry, _ in found] == chosen
    assert [entry for entry, computed in found if hash_of(entry) != computed] == []
    by_design = [str(math.floor(x * 1e9 + 0.5)).encode() for x in chosen]
    assert [canonical(entry).split(b"\x1f")[15] for entry, _ in found] == by_design


@pytest.mark.parametrize("column", [column.name for column in HASHED])
def test_every_column_counts_in_python(column):
    """Another value, or none, in any column gives another hash."""
    value = getattr(FULL, column)
    others = {str: "x", int: 99, float: 0.987654321, bytes: b"\x07", UUID: UUID(int=99)}
    changed, absent = (replace(FULL, **{column: other}) for other in (others[type(value)], None))
    assert len({hash_of(FULL), hash_of(changed), hash_of(absent)}) == 3
    if isinstance(value, str):
        assert hash_of(replace(FULL, **{column: ""})) != hash_of(absent)


def test_every_column_counts_in_sql(ebb):
    """The same over stored rows: each column in turn is exchanged, and Python agrees with each result."""
    write(ebb, [replace(FULL, hash=hash_of(FULL))])
    others = {Text: "x", BigInteger: 99, SmallInteger: 9, Double: 0.9, LargeBinary: b"x", Uuid: UUID(int=9)}
    seen = {hash_of(FULL)}
    for column in HASHED:
        other = others[type(column.type)]
        ((_, computed),) = sql_hashes(ebb, **{column.name: literal(other, column.type)})
        assert computed == hash_of(replace(FULL, **{column.name: other}))
        seen.add(computed)
    assert len(seen) == 1 + len(HASHED)


def test_the_previous_hash_counts_and_the_place_does_not():
    """An entry is bound to the one before it in its stream; its seq is bound by its id and its batch."""
    assert hash_of(replace(FULL, prev_hash=bytes(32))) != hash_of(FULL)
    assert hash_of(replace(FULL, seq=8, hash=b"anything")) == hash_of(FULL)


def test_texts_survive_to_the_letter(ebb):
    """Odd key order, numbers as written, quotes, escapes, emoji: it comes back verbatim and hashes alike."""
    pairs = list(product(TEXTS, repeat=2))
    entries = [
        replace(FULL, seq=n, stream_id=UUID(int=n), idempotency_key=None, payload=payload, after=after)
        for n, (payload, after) in enumerate(pairs, start=1)
    ]
    write(ebb, [replace(entry, hash=hash_of(entry)) for entry in entries])
    found = sql_hashes(ebb)
    assert [(entry.payload, entry.after) for entry, _ in found] == pairs
    assert [entry for entry, computed in found if not hash_of(entry) == entry.hash == computed] == []


def test_names_of_any_script_survive_in_requests(ebb, log_of):
    """Refs, actors, sessions and streams go into the log to the letter."""
    names = ['quo"te', "back\\slash", "emoji 😀", "é e\u0301", "שלום", "記憶", "'; DROP TABLE x; --", "$.a"]
    for name in names:
        ebb.ask({"op": "EVENT", "ref": name, "stream": name, "actor_id": name, "subject": name, "content": 1})
    found = sql_hashes(ebb)
    assert [entry.actor_id for entry, _ in found if entry.op_type == "EVENT"] == names
    assert [entry for entry, computed in found if not hash_of(entry) == entry.hash == computed] == []


def test_ids_of_entries_follow_from_their_place(lived, log_of):
    """UUIDv8 of namespace and seq, in requests and in passes alike; no id stands twice in the store."""
    log = log_of(lived)
    assert [entry.id for entry in log] == [id_of_entry(entry.namespace_id, entry.seq) for entry in log]
    assert len({entry.id for entry in log}) == len(log)
    assert {(entry.id.version, entry.id.variant) for entry in log} == {(8, RFC_4122)}


def test_a_uuid8_is_what_the_design_says(ebb):
    """SHA-256 of the parts joined by U+001F, kept but for version and variant; SQL makes the same."""
    digest = hashlib.sha256(b"maya\x1f7").hexdigest()
    expected = UUID(f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}")
    assert id_of_entry("maya", 7) == uuid8("maya", 7) == expected
    with ebb.store.begin() as connection:
        assert connection.execute(select(ebb.store.db.uuid8(literal("maya\x1f7", Text)))).scalar() == expected
