"""`verify` finds and names whatever was changed behind Ebbtide's back; on both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Text, delete, insert, text, update
from sqlalchemy.exc import DataError
from tests.conformance import lived
from tests.conformance.tampering import (
    NS,
    Rows,
    another,
    behind,
    change,
    drop,
    first_bad_by_hand,
    put,
    restored,
    rows_of,
    written_anew,
)
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import BadInput, Ebbtide, NotFound, Refused
from ebbtide.log import links
from ebbtide.model.entry import Draft
from ebbtide.model.words import OpType, StreamType
from ebbtide.project.writer import Writer
from ebbtide.store.tables import (
    batches,
    consumers,
    contents,
    edges,
    entities,
    event_log,
    event_state,
    evidence_links,
    leases,
    memory_objects,
    memory_state,
    namespaces,
    organiser_runs,
    policies,
    policy_profiles,
    refusals,
    streams,
    suppressions,
    tokens,
)


@dataclass
class Lived:
    """A store with a rich history, which tests leave as they found it, and all its rows."""

    ebb: Ebbtide
    clock: Clock
    rows: dict[str, Rows]

    def some(self, table: Any, **values: Any) -> dict[str, Any]:
        """The first row of the namespace with these values, by key."""
        mine = sorted((k, r) for k, r in self.rows[table.name].items() if k[0] == NS)
        return next(row for _, row in mine if all(row[name] == value for name, value in values.items()))


@pytest.fixture(scope="module", params=DATABASES)
def store(request: pytest.FixtureRequest, make_url_for_module) -> Iterator[Lived]:
    clock = Clock()
    ebb = Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy())
    # While a connection is open, DuckDB neither opens the file anew nor writes a checkpoint at every change.
    with ebb, ebb.store.db.connect():
        lived.live(ebb, clock)
        with pytest.raises(Refused):
            ebb.restore("home", namespace=NS)
        tables = event_log.metadata.sorted_tables
        yield Lived(ebb, clock, {table.name: rows_of(ebb, table) for table in tables})


def found(ebb: Ebbtide, **options: Any) -> tuple[str, int, str] | None:
    """What `verify` finds first: namespace, seq and code."""
    told = ebb.verify(**options)
    assert told.ok == (told.first_bad is None)
    bad = told.first_bad
    return None if bad is None else (bad.namespace_id, bad.seq, bad.code)


def test_a_whole_store_is_well(store):
    rows = store.rows
    known = [table for table in event_log.metadata.sorted_tables if table not in (consumers, leases, tokens)]
    assert all(rows[table.name] for table in known), "an empty table proves nothing"
    told = store.ebb.verify()
    assert (told.ok, told.first_bad) == (True, None)
    assert (told.entries, told.batches) == (len(rows["event_log"]), len(rows["batches"]))
    ops = {row["op_type"] for row in rows["event_log"].values()}
    assert len(ops) > 22
    assert first_bad_by_hand(store.ebb) is None


def test_seen_in_small_ranges_it_is_the_same(store, monkeypatch):
    """Ranges of some twenty entries: what ties them together is the ends of streams and batches before."""
    monkeypatch.setattr(links, "RANGE", 20)
    seen: list[tuple[int, int]] = []
    with Ebbtide(store.ebb.store.url) as ebb:
        told = ebb.verify(namespace=NS, progress=lambda done, of: seen.append((done, of)))
        assert (told.ok, told.entries) == (True, store.some(namespaces)["last_seq"])
        assert len(seen) > 9
        assert seen[-1] == (told.entries, told.entries)
        for seq in (1, 21, told.entries):
            with restored(ebb, event_log):
                change(ebb, event_log, (NS, seq), actor_id="mallory")
                assert found(ebb, namespace=NS) == (NS, seq, "hash")
        with restored(ebb, batches):
            drop(ebb, batches, (NS, 6))
            assert found(ebb, namespace=NS)[2] == "batch_missing"


# The log


def entry_with(store: Lived, column: str) -> dict[str, Any]:
    """An entry in the middle of the log that has a value in a column."""
    mine = sorted((key, row) for key, row in store.rows["event_log"].items() if key[0] == NS)
    half = [row for _, row in mine[len(mine) // 3 :] if row[column] is not None]
    return half[0] if half else mine[0][1]


@pytest.mark.parametrize("column", [column.name for column in event_log.columns])
def test_any_value_of_any_column_of_an_entry(store, column):
    row = entry_with(store, column)
    other = another(event_log.c[column], row[column])
    if column in ("seq", "version"):  # which PostgreSQL's unique indexes would not let be the next one's
        other = row[column] + 5000
    with restored(store.ebb, event_log):
        change(store.ebb, event_log, (NS, row["seq"]), **{column: other})
        assert first_bad_by_hand(store.ebb) == row["seq"]
        assert found(store.ebb, namespace=NS)[:2] == (NS, row["seq"])


@pytest.mark.parametrize("column", [column.name for column in event_log.columns if column.nullable])
def test_a_null_of_an_entry_is_neither_something_nor_the_mark_that_stands_for_it(store, column):
    mine = sorted(row["seq"] for row in store.rows["event_log"].values() if row["namespace_id"] == NS)
    rows = [store.rows["event_log"][NS, seq] for seq in mine[20:]]
    empty = next(row for row in rows if row[column] is None)
    full = next((row for row in rows if row[column] is not None), None)
    value = "\x1e" if isinstance(event_log.c[column].type, Text) else another(event_log.c[column], None)
    with restored(store.ebb, event_log):
        change(store.ebb, event_log, (NS, empty["seq"]), **{column: value})
        assert found(store.ebb, namespace=NS)[:2] == (NS, empty["seq"])
    if full is not None:
        with restored(store.ebb, event_log):
            change(store.ebb, event_log, (NS, full["seq"]), **{column: None})
            assert found(store.ebb, namespace=NS)[:2] == (NS, full["seq"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -5.0])
def test_what_is_no_score_is_found_and_breaks_nothing(store, value):
    row = entry_with(store, "salience")
    with restored(store.ebb, event_log):
        change(store.ebb, event_log, (NS, row["seq"]), salience=value)
        assert found(store.ebb, namespace=NS)[:2] == (NS, row["seq"])


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    ("table", "column"),
    [(event_log, "version"), (event_log, "fact_version"), (event_log, "effective_at"), (batches, "entries")],
    ids=str,
)
def test_the_largest_numbers_break_nothing(store, table, column, value):
    key = (NS, 30)
    if column == "effective_at" and store.ebb.store.db.name == "postgresql":
        # It is indexed by its day, and no day is that far away.
        with pytest.raises(DataError):
            change(store.ebb, table, key, **{column: value})
        return
    with restored(store.ebb, table):
        change(store.ebb, table, key, **{column: value})
        seq = 30 if table is event_log else store.rows["batches"][key]["first_seq"]
        assert found(store.ebb, namespace=NS)[:2] == (NS, seq)


def last_seq(store: Lived) -> int:
    return store.some(namespaces)["last_seq"]


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_an_entry_taken_away(store, which):
    seq = {"first": 1, "middle": 101, "last": last_seq(store)}[which]
    with restored(store.ebb, event_log):
        drop(store.ebb, event_log, (NS, seq))
        assert first_bad_by_hand(store.ebb) == seq
        assert found(store.ebb, namespace=NS) == (NS, seq, "missing")


def test_all_entries_taken_away(store):
    with restored(store.ebb, event_log):
        with behind(store.ebb) as connection:
            connection.execute(delete(event_log).where(event_log.c.namespace_id == NS))
        assert found(store.ebb, namespace=NS) == (NS, 1, "missing")


def test_two_entries_exchanged(store):
    """The hash leaves seq out; the id has it, and the batch's root."""
    with restored(store.ebb, event_log) as before:
        rows = before["event_log"]
        one, two = rows[NS, 40], rows[NS, 41]
        put(store.ebb, event_log, rows | {(NS, 40): two | {"seq": 40}, (NS, 41): one | {"seq": 41}})
        assert found(store.ebb, namespace=NS) == (NS, 40, "id")


def test_an_entry_put_in(store):
    end = last_seq(store)
    with restored(store.ebb, event_log) as before:
        row = before["event_log"][NS, end] | {"seq": end + 1, "id": UUID(int=1), "idempotency_key": None}
        put(store.ebb, event_log, before["event_log"] | {(NS, end + 1): row | {"version": row["version"] + 1}})
        assert first_bad_by_hand(store.ebb) == end + 1
        assert found(store.ebb, namespace=NS) == (NS, end + 1, "unbatched")
        change(store.ebb, event_log, (NS, end + 1), seq=0)
        assert found(store.ebb, namespace=NS) == (NS, 0, "outside")


@pytest.mark.parametrize("column", [column.name for column in batches.columns])
def test_any_value_of_any_column_of_a_batch(store, column):
    row = store.rows["batches"][NS, 12]
    other = 5000 if column == "batch" else another(batches.c[column], row[column])
    with restored(store.ebb, batches):
        change(store.ebb, batches, (NS, 12), **{column: other})
        assert first_bad_by_hand(store.ebb) == row["first_seq"]
        told = store.ebb.verify(namespace=NS).first_bad
        assert told.seq == row["first_seq"]
        assert "batch 12" in told.what


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_batch_taken_away(store, which):
    last = store.some(namespaces)["last_batch"]
    number = {"first": 1, "middle": 9, "last": last}[which]
    with restored(store.ebb, batches) as before:
        drop(store.ebb, batches, (NS, number))
        first = before["batches"][NS, number]["first_seq"]
        assert first_bad_by_hand(store.ebb) == first
        assert found(store.ebb, namespace=NS) == (NS, first, "unbatched" if which == "last" else "batch_missing")


def test_two_batches_exchanged_and_one_put_in(store):
    with restored(store.ebb, batches) as before:
        rows = before["batches"]
        one, two = rows[NS, 5], rows[NS, 6]
        put(store.ebb, batches, rows | {(NS, 5): two | {"batch": 5}, (NS, 6): one | {"batch": 6}})
        assert found(store.ebb, namespace=NS)[1] == one["first_seq"]
        put(store.ebb, batches, rows | {(NS, 0): rows[NS, 1] | {"batch": 0}})
        assert found(store.ebb, namespace=NS) == (NS, 1, "batch_missing")


# What only its meaning tells: the log is written anew around each change, and every hash is right


def assigned(row: dict[str, Any]) -> bool:
    return row["op_type"] == "POLICY_ASSIGNED" and row["stream_type"] == "object"


MEANINGLESS = {
    "id": (lambda row: row["op_type"] == "PIN", lambda row: row.update(id=UUID(int=5)), "id"),
    "carries": (assigned, lambda row: row.update(carries=row["carries"] ^ 8), "carries"),
    "after": (assigned, lambda row: row.update(after=None), "carries"),
    "version": (lambda row: row["op_type"] == "UNPIN", lambda row: row.update(version=row["version"] + 99), "version"),
    "fact_version": (
        lambda row: row["op_type"] == "UNPIN",
        lambda row: row.update(fact_version=row["fact_version"] + 1),
        "fact_version",
    ),
    "recorded_at": (lambda row: row["op_type"] == "UNPIN", lambda row: row.update(recorded_at=5), "recorded_at"),
    "stream_type": (lambda row: row["op_type"] == "UNPIN", lambda row: row.update(stream_type="events"), "stream_type"),
    "tombstone's reason": (
        lambda row: '"reason":"user_request"' in row["payload"],
        lambda row: row.update(payload=row["payload"].replace("user_request", "compliance")),
        "id",
    ),
    "tombstone's action": (
        lambda row: row["op_type"] == "TOMBSTONE" and '"action":"erase"' in row["payload"],
        lambda row: row.update(payload=row["payload"].replace('"action":"erase"', '"action":"archive"')),
        "id",
    ),
    "tombstone's record": (
        lambda row: row["op_type"] == "TOMBSTONE" and row["stream_type"] == "object",
        lambda row: row.update(payload=row["payload"].replace('"version":', '"version":1', 1)),
        "record",
    ),
    "tombstone's target": (
        lambda row: row["op_type"] == "TOMBSTONE",
        lambda row: row.update(payload=row["payload"].replace('"target_id":"', '"target_id":"0', 1)),
        "record",
    ),
    "score": (
        lambda row: row["op_type"] == "ASSERT" and row["seq"] > 20,
        lambda row: row.update(salience=row["salience"] + 2e-10),
        "score",
    ),
    "payload": (lambda row: row["op_type"] == "EVENT", lambda row: row.update(payload="{"), "unreadable"),
    "state": (
        lambda row: row["op_type"] == "ARCHIVE" and row["seq"] > 200,
        lambda row: row.update(lifecycle_state="DEPRECATED"),
        "state",
    ),
}


@pytest.mark.parametrize("kind", MEANINGLESS)
def test_an_entry_that_cannot_be_though_every_hash_is_right(store, kind):
    which, alter, code = MEANINGLESS[kind]
    seqs = sorted(row["seq"] for row in store.rows["event_log"].values() if row["namespace_id"] == NS and which(row))
    with restored(store.ebb, event_log, batches, namespaces, streams, memory_state):
        written_anew(store.ebb, lambda row: alter(row) if row["seq"] == seqs[0] else None)
        namespace, seq, told = found(store.ebb, namespace=NS)
        assert (namespace, told) == (NS, code)
        assert seq == seqs[0] or code in ("state", "unreadable")


def test_a_key_used_twice(make_url_for, clock):
    """DuckDB has no unique index on keys, so only this tells."""
    with Ebbtide.open(make_url_for("duckdb"), clock=clock, entropy=counted_entropy()) as ebb:
        ebb.ask(*(lived.belief(ref) for ref in "abc"))
        written_anew(ebb, lambda row: row.update(idempotency_key="a") if row["seq"] == 4 else None)
        assert found(ebb) == (NS, 4, "key")


@pytest.mark.parametrize(
    ("ref", "op"),
    [("secret", OpType.ACCESS), ("secret", OpType.TOMBSTONE), ("todo", OpType.PIN), ("todo", OpType.RESTORE)],
)
def test_an_entry_after_a_tombstone(store, ref, op):
    """What was erased gets CORRECTED at most, what expired and was kept a little more."""
    target = store.some(memory_objects, ref=ref)["object_id"]
    with restored(store.ebb):
        append(store, target, OpType.CORRECTED)
        assert found(store.ebb, namespace=NS) is None
        append(store, target, op)
        bad = found(store.ebb, namespace=NS)
        assert bad[:2] == (NS, last_seq(store) + 2)
        assert bad[2] == ("id" if op == OpType.TOMBSTONE else "afterlife")


def append(store: Lived, target: UUID, op: OpType) -> None:
    """An entry that no request was asked about."""
    with store.ebb.store.begin() as connection:
        writer = Writer(store.ebb.store.db, connection, NS, now=store.clock.now, entropy=counted_entropy())
        writer.append(Draft(StreamType.OBJECT, target, op, store.clock.now, "mallory", "SYSTEM_PROCESS"))
        writer.flush()


# Contents


def test_any_value_of_any_column_of_a_content(store):
    row = store.some(contents, seq=store.some(memory_objects, ref="home")["content_seq"])
    key = (NS, row["seq"])
    expected = {
        "namespace_id": "content_gone",
        "seq": "content",
        "nonce": "content",
        "content": "content",
        "digest": "content_digest",
        "embedding_model": "embedding",
        "dimensions": "embedding",
        "embedding": "embedding",
    }
    assert set(expected) == {column.name for column in contents.columns}
    for name, code in expected.items():
        other = 10**6 if name == "seq" else another(contents.c[name], row[name])
        with restored(store.ebb, contents):
            change(store.ebb, contents, key, **{name: other})
            assert found(store.ebb, namespace=NS) == (NS, 10**6 if name == "seq" else row["seq"], code)
    for name, value in (("nonce", row["nonce"][:15]), ("content", f"{row['content']} "), ("digest", None)):
        with restored(store.ebb, contents):
            change(store.ebb, contents, key, **{name: value})
            assert found(store.ebb, namespace=NS)[:2] == (NS, row["seq"])


def test_bytes_moved_from_the_nonce_to_the_content(store):
    """SHA-256(nonce ‖ content) stays the same: the nonce's length is what tells."""
    row = next(row for row in store.rows["contents"].values() if row["nonce"][-1] in range(32, 127))
    with restored(store.ebb, contents):
        moved = {"nonce": row["nonce"][:-1], "content": row["nonce"][-1:].decode() + row["content"]}
        change(store.ebb, contents, (row["namespace_id"], row["seq"]), **moved)
        assert found(store.ebb) == (row["namespace_id"], row["seq"], "content")


def test_contents_taken_away_exchanged_and_put_in(store):
    rows = store.rows["contents"]
    seqs = {
        "object": store.some(memory_objects, ref="n1")["content_seq"],
        "event": store.some(event_state, ref="m0")["seq"],
        "entity": store.some(entities, ref="maya")["content_seq"],
        "reason": store.some(event_log, op_type="ARCHIVE", actor_id="caller")["seq"],
    }
    for seq in seqs.values():
        with restored(store.ebb, contents):
            drop(store.ebb, contents, (NS, seq))
            assert found(store.ebb, namespace=NS) == (NS, seq, "content_gone")
    one, two = rows[NS, seqs["object"]], rows[NS, seqs["reason"]]
    with restored(store.ebb, contents):
        exchanged = {(NS, one["seq"]): two | {"seq": one["seq"]}, (NS, two["seq"]): one | {"seq": two["seq"]}}
        put(store.ebb, contents, rows | exchanged)
        assert found(store.ebb, namespace=NS) == (NS, min(one["seq"], two["seq"]), "content")
    silent = store.some(event_log, op_type="UNPIN")["seq"]
    with restored(store.ebb, contents):
        put(store.ebb, contents, rows | {(NS, silent): one | {"seq": silent}})
        assert found(store.ebb, namespace=NS) == (NS, silent, "content")


def test_digests_of_values_of_every_kind(store):
    """Those with members, whose order does not count, are not told by their text."""
    quoted = 'quoted "so", and ,"metadata": within'
    values = ["plain", quoted, "\n\t\u0001é", 7, 1.5, True, [1, "two", None], {"b": 1, "a": [2, 3]}]
    with restored(store.ebb):
        for place, value in enumerate(values):
            for kind, more in (("v", {}), ("w", {"metadata": {"value": "v"}})):
                store.ebb.ask(lived.belief(f"{kind}{place}") | {"value": value} | more)
        assert found(store.ebb, namespace=NS) is None
        for row in list(rows_of(store.ebb, contents).values()):
            if row["namespace_id"] == NS and row["seq"] in (last_seq(store) + 2, last_seq(store) + len(values) * 2):
                flipped = another(contents.c.digest, row["digest"])
                change(store.ebb, contents, (NS, row["seq"]), digest=flipped)
                assert found(store.ebb, namespace=NS) == (NS, row["seq"], "content_digest")
                change(store.ebb, contents, (NS, row["seq"]), digest=row["digest"])
        event = store.some(event_state, ref="m0")["seq"]
        change(store.ebb, contents, (NS, event), digest=bytes(32))
        assert found(store.ebb, namespace=NS) == (NS, event, "content_digest")


def test_what_was_erased_and_comes_back_is_found(store):
    with restored(store.ebb) as before:
        store.ebb.erase("n1", namespace=NS, scrub=False)
        assert found(store.ebb, namespace=NS) is None
        seq = store.some(memory_objects, ref="n1")["content_seq"]
        put(store.ebb, contents, rows_of(store.ebb, contents) | {(NS, seq): before["contents"][NS, seq]})
        assert found(store.ebb, namespace=NS) == (NS, seq, "content_left")


def test_what_was_written_of_a_subject_or_a_namespace_goes_with_it(store):
    """Such contents stand in the namespace's own stream, and only an erasure of that subject, or of all, takes them."""
    with restored(store.ebb):
        store.ebb.suppress(subject="maya", reason="away", namespace=NS)
        store.ebb.suppress(subject="zoe", reason="gone already", namespace=NS)
        seq = last_seq(store) + 1
        kept = rows_of(store.ebb, contents)
        drop(store.ebb, contents, (NS, seq))
        assert found(store.ebb, namespace=NS) == (NS, seq, "content_gone")
        drop(store.ebb, contents, (NS, seq + 1))
        store.ebb.erase(subject="maya", namespace=NS, scrub=False)
        assert found(store.ebb, namespace=NS) == (NS, seq + 1, "content_gone")
        put(store.ebb, contents, rows_of(store.ebb, contents) | {(NS, seq + 1): kept[NS, seq + 1]})
        assert found(store.ebb, namespace=NS) is None
        store.ebb.erase(everything=True, namespace=NS, scrub=False)
        assert not [key for key in rows_of(store.ebb, contents) if key[0] == NS]
        assert found(store.ebb, namespace=NS) is None


# The state; that every column of it is compared is shown where it is rebuilt


STATE = (
    memory_objects,
    memory_state,
    event_state,
    evidence_links,
    suppressions,
    entities,
    edges,
    streams,
    organiser_runs,
    policies,
    policy_profiles,
)


@pytest.mark.parametrize("table", STATE, ids=str)
def test_a_row_of_the_state_changed_or_taken_away(store, table):
    keys = [column.name for column in table.primary_key]
    column = next((c for c in reversed(table.columns) if c.name not in keys), None)
    row = store.some(table)
    key = tuple(row[name] for name in keys)
    with restored(store.ebb, table):
        if column is not None:
            change(store.ebb, table, key, **{column.name: another(column, row[column.name])})
            bad = store.ebb.verify(namespace=NS).first_bad
            assert (bad.code, bad.namespace_id, bad.object) == ("state", NS, str(key[1]))
            assert table.name in bad.what
            assert column.name in bad.what
        if column is not None and table is not memory_state:
            return
        drop(store.ebb, table, key)
        bad = store.ebb.verify(namespace=NS).first_bad
        assert bad.code == "state"
        assert f"{table.name} ({', '.join(map(str, key[1:]))}) is missing" in bad.what


def test_a_difference_of_state_is_placed_at_the_last_entry_of_its_object(store):
    target = store.some(memory_objects, ref="n2")["object_id"]
    mine = [row["seq"] for row in store.rows["event_log"].values() if row["stream_id"] == target]
    with restored(store.ebb, memory_state):
        change(store.ebb, memory_state, (NS, target), boost=0.125)
        assert found(store.ebb, namespace=NS) == (NS, max(mine), "state")


@pytest.mark.parametrize("column", [c.name for c in namespaces.columns if c.name not in ("fence", "secret")])
def test_any_value_of_a_head(store, column):
    row = store.some(namespaces)
    end = row["last_seq"]
    with restored(store.ebb, namespaces):
        change(store.ebb, namespaces, (NS,), **{column: another(namespaces.c[column], row[column])})
        expected = {"namespace_id": (NS, end, "head"), "last_seq": (NS, end + 1, "missing")}
        assert found(store.ebb, namespace=NS) == expected.get(column, (NS, end, "state"))


def test_rows_of_a_namespace_that_never_was(store):
    ghost = store.some(memory_state) | {"namespace_id": "ghost"}
    with restored(store.ebb, memory_state) as before:
        put(store.ebb, memory_state, before["memory_state"] | {("ghost", ghost["object_id"]): ghost})
        assert found(store.ebb) == ("ghost", 0, "head")
    with pytest.raises(NotFound, match="ghost"):
        store.ebb.verify(namespace="ghost")


def test_policies_registered_for_all(store):
    """They stand in no log: their form, the numbers derived from them, and those that were assigned can be checked."""
    key = ("", "archivist", "1.0.0")
    document = json.loads(store.rows["policies"][key]["document"])
    document["params"]["rho"] = 0.2
    changed = json.dumps(document, sort_keys=True, separators=(",", ":"))
    with restored(store.ebb, policies):
        change(store.ebb, policies, key, document=changed)
        assert "archivist@1.0.0" in store.ebb.verify().first_bad.what
        change(store.ebb, policies, key, document="no policy")
        assert found(store.ebb) == ("", 0, "policy")
    with restored(store.ebb, policy_profiles):
        change(store.ebb, policy_profiles, (*key, "FAST"), rho=0.2)
        assert "archivist@1.0.0" in store.ebb.verify().first_bad.what


def test_what_nothing_can_tell(store):
    """Refusals, fences and secrets stand in no log; PostgreSQL refuses to change the first."""
    with restored(store.ebb, refusals, namespaces):
        with behind(store.ebb) as connection:
            connection.execute(update(refusals).values(rule="other"))
        change(store.ebb, namespaces, (NS,), secret=bytes(16), fence=7)
        assert found(store.ebb) is None


def test_an_index_that_does_not_find_a_row(make_url_for, clock):
    """PostgreSQL: a row is written while an index is not kept up."""
    with Ebbtide.open(make_url_for("postgresql"), clock=clock, entropy=counted_entropy()) as ebb:
        ebb.ask(*(lived.belief(f"b{n}") for n in range(5)))
        assert found(ebb) is None
        for index, table in (("memory_state_due", memory_state), ("event_log_stream", event_log)):
            row = next(iter(rows_of(ebb, table).values()))
            ready = text("UPDATE pg_index SET indisready = :on WHERE indexrelid = CAST(:name AS regclass)")
            with behind(ebb) as connection:
                connection.execute(ready, {"on": False, "name": index})
            with behind(ebb) as connection:
                connection.execute(delete(table).where(*(column == row[column.name] for column in table.primary_key)))
                connection.execute(insert(table), row)
            with behind(ebb) as connection:
                connection.execute(ready, {"on": True, "name": index})
            bad = ebb.verify().first_bad
            assert bad.code == "index"
            assert index in bad.what
            with ebb.store.db.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text(f"REINDEX INDEX {index}"))
            assert found(ebb) is None


# Digests


def test_a_log_written_anew_fits_together_and_only_a_kept_digest_tells(store):
    kept = store.ebb.digest()
    with restored(store.ebb, event_log, batches, namespaces, streams, memory_state):
        written_anew(store.ebb, lambda row: row.update(actor_id="mallory") if row["seq"] == 77 else None)
        assert first_bad_by_hand(store.ebb) is None
        assert found(store.ebb) is None
        namespace, seq, code = found(store.ebb, digest=kept)
        assert (namespace, code) == (NS, "digest_changed")
        assert seq == store.rows["batches"][NS, store.some(namespaces)["last_batch"]]["first_seq"]


def test_a_log_cut_off_and_its_state_rebuilt_is_found_by_a_kept_digest(store):
    kept = store.ebb.digest()
    with restored(store.ebb):
        last = store.some(namespaces)["last_batch"]
        begin = store.rows["batches"][NS, last]["first_seq"]
        with behind(store.ebb) as connection:
            for table in (event_log, contents):
                connection.execute(delete(table).where(table.c.namespace_id == NS, table.c.seq >= begin))
            connection.execute(delete(batches).where(batches.c.namespace_id == NS, batches.c.batch == last))
        assert found(store.ebb, namespace=NS) == (NS, begin, "missing")
        change(store.ebb, namespaces, (NS,), last_seq=begin - 1)
        store.ebb.rebuild(namespace=NS)
        assert found(store.ebb) is None
        assert found(store.ebb, digest=kept) == (NS, begin, "digest_missing")
        assert found(store.ebb, digest=kept, namespace="other") is None


def test_an_older_backup_restored_is_found_even_when_life_went_on(make_url_for, clock):
    """Two stores that are the same at first stand for a store and its backup."""
    for kind in DATABASES:
        ends = []
        for values in (["a", "b", "c"], ["a"], ["a", "x", "y", "z"]):
            clock.set("2026-03-02T00:00:00Z")
            with Ebbtide.open(make_url_for(kind), clock=clock, entropy=counted_entropy()) as ebb:
                for value in values:
                    ebb.ask(lived.belief(value))
                ends.append((ebb.digest(), [found(ebb, digest=digest) for digest, _ in ends]))
        assert ends[1][1] == [(NS, 3, "digest_missing")], kind
        assert ends[2][1] == [(NS, 4, "digest_changed"), None], kind


def test_a_digest_is_where_each_log_ends_and_holds_ever_after(store):
    kept = store.ebb.digest()
    rows = store.rows["namespaces"]
    assert [head.model_dump() for head in kept.heads] == [
        {
            "namespace_id": name,
            "seq": rows[name,]["last_seq"],
            "batch": rows[name,]["last_batch"],
            "hash": rows[name,]["last_batch_hash"].hex(),
        }
        for name in (NS, "other")
    ]
    assert store.ebb.digest(namespace="other").heads == kept.heads[1:]
    with restored(store.ebb):
        store.ebb.ask({"op": "ACCESS", "object": "home"})
        assert found(store.ebb, digest=kept) is None
    with pytest.raises(NotFound, match="nobody"):
        store.ebb.digest(namespace="nobody")


def test_a_namespace_of_a_digest_that_is_gone(store):
    kept = store.ebb.digest()
    with restored(store.ebb):
        with behind(store.ebb) as connection:
            for table in event_log.metadata.sorted_tables:
                connection.execute(delete(table).where(table.c.namespace_id == "other"))
        assert found(store.ebb) is None
        assert found(store.ebb, digest=kept) == ("other", 1, "digest_missing")


# Records


def test_the_result_is_recorded_in_each_log(store):
    with restored(store.ebb):
        told = store.ebb.verify(record=True)
        assert told.recorded == [NS, "other"]
        row = rows_of(store.ebb, event_log)[NS, last_seq(store) + 1]
        assert (row["op_type"], row["stream_type"]) == ("INTEGRITY_CHECK", "namespace")
        batches_of = store.some(namespaces)["last_batch"]
        assert json.loads(row["payload"]) == {"entries": last_seq(store), "batches": batches_of, "ok": True}
        assert found(store.ebb) is None
        assert store.ebb.rebuild().equal


def test_a_bad_result_is_recorded_where_the_log_can_be_appended_to(store):
    target = store.some(memory_objects, ref="n2")["object_id"]
    with restored(store.ebb):
        change(store.ebb, memory_state, (NS, target), boost=0.125)
        told = store.ebb.verify(namespace=NS, record=True)
        assert told.recorded == [NS]
        payload = json.loads(rows_of(store.ebb, event_log)[NS, last_seq(store) + 1]["payload"])
        assert payload | {"ok": False, "code": "state", "seq": told.first_bad.seq} == payload
    with restored(store.ebb):
        change(store.ebb, namespaces, (NS,), head_hash=bytes(32))
        told = store.ebb.verify(record=True)
        assert (told.first_bad.namespace_id, told.recorded) == (NS, ["other"])
        assert last_seq(store) == store.some(namespaces)["last_seq"]


# Receipts


@pytest.fixture
def erased(store) -> Iterator[dict[str, Any]]:
    """A receipt as JSON; the store has gone on since."""
    with restored(store.ebb):
        store.ebb.suppress(subject="maya", reason="away", namespace=NS)
        receipt = store.ebb.erase(subject="maya", namespace=NS, scrub=False)
        store.ebb.ask({"op": "ACCESS", "object": "n1"})
        yield receipt.model_dump(mode="json")


def checked(store: Lived, tmp_path, receipt: dict[str, Any]) -> tuple[str, int, str] | None:
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    return found(store.ebb, namespace=NS, receipt=file)


def test_a_receipt_holds_later_and_shows_what_was_erased(store, erased, tmp_path):
    assert checked(store, tmp_path, erased) is None
    kinds = {item["target_type"] for item in erased["items"]}
    assert kinds == {"memory_object", "event", "namespace"}
    assert len(erased["items"]) == erased["erased"]["contents"]
    home = store.some(memory_objects, ref="home")
    item = next(item for item in erased["items"] if item["seq"] == home["content_seq"])
    item["content"] = store.rows["contents"][NS, home["content_seq"]]["content"]
    assert checked(store, tmp_path, erased) is None
    item["content"] += " "
    assert checked(store, tmp_path, erased) == (NS, home["content_seq"], "receipt")


def test_a_receipt_that_says_something_else(store, erased, tmp_path):
    item = erased["items"][0]
    changed = [
        erased | {"tombstones": [*erased["tombstones"][1:], str(UUID(int=1))]},
        erased | {"tombstones": erased["tombstones"][1:]},
        erased | {"head": erased["head"] | {"hash": "0" * 64}},
        erased | {"head": erased["head"] | {"seq": erased["head"]["seq"] + 1}},
        erased | {"head": erased["head"] | {"batch": erased["head"]["batch"] + 50}},
        erased | {"items": [item | {"content_hash": "0" * 64}]},
        erased | {"items": [item | {"seq": item["seq"] + 1}]},
        erased | {"items": [item | {"seq": 10**9}]},
        erased | {"items": [item | {"target_id": str(UUID(int=1))}]},
        erased | {"namespace_id": "other"},
    ]
    assert [place for place, receipt in enumerate(changed) if checked(store, tmp_path, receipt) is None] == []
    with pytest.raises(BadInput, match=r"items.0.nonce"):
        checked(store, tmp_path, erased | {"items": [item | {"nonce": "zz"}]})


def test_a_receipt_whose_content_is_back(store, erased, tmp_path):
    seq = erased["items"][0]["seq"]
    put(store.ebb, contents, rows_of(store.ebb, contents) | {(NS, seq): store.rows["contents"][NS, seq]})
    assert checked(store, tmp_path, erased)[1] == seq
