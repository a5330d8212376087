"""Four processes ask 4,000 things of one store at the same time, and afterwards the log holds exactly what each of
them was told: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from busy import BELIEF, COMMON, Record, at_once
from ledger import Ledger, check
from sizes import REQUESTS

from ebbtide import Ebbtide
from ebbtide.model.identity import id_of_ref

NAMES = ["maya", "tom", "leila", "iris"]


@pytest.mark.parametrize(("kind", "requests"), [("postgresql", REQUESTS), ("duckdb", 50)])
def test_nothing_is_lost_and_nothing_is_doubled(make_url_for, kind, requests) -> None:
    """On DuckDB one process at a time has the file, and the others wait for it: there are fewer of them."""
    url = make_url_for(kind)
    with Ebbtide(url) as ebb:
        ebb.ask(*(BELIEF | {"ref": ref, "value": ref, "decay_profile": "PERMANENT"} for ref in COMMON))
        began = len(check(ebb).entries)
    records = at_once(url, NAMES, requests)
    assert sum(record.requests for record in records) >= 4 * requests
    with Ebbtide(url) as ebb:
        ledger = check(ebb)
        told = every_entry_was_told_once(ledger, records, began)
        every_refusal_was_told_once(ledger, records)
        names_that_were_shared_were_written_once(ledger, records)
        versions_that_were_expected_are_those_before(ledger, records)
        counts_are_those_of_the_requests(ledger, told)
        values_are_what_was_said(ebb, records)


def every_entry_was_told_once(ledger: Ledger, records: list[Record], began: int) -> list[Any]:
    """What was told together is the log, tombstones apart, which their receipts tell of."""
    told = Counter(seq for record in records for seq in record.taken)
    assert set(told.values()) == {1}
    rest = [entry for entry in ledger.entries[began:] if entry.seq not in told]
    assert {entry.op_type for entry in rest} <= {"TOMBSTONE"}
    erased = {id_of_ref("default", ref) for record in records for ref in record.erased}
    assert Counter(entry.stream_id for entry in rest) == dict.fromkeys(erased, 1)
    for record in records:
        for seq, (op, entry_id, stream) in record.taken.items():
            entry = ledger.entries[seq - 1]
            assert (entry.op_type, str(entry.id), str(entry.stream_id)) == (op, entry_id, stream)
            assert entry.actor_id in (record.name, "anybody")
    return [ledger.entries[seq - 1] for seq in sorted(told)]


def every_refusal_was_told_once(ledger: Ledger, records: list[Record]) -> None:
    kept = Counter((row["actor_id"], row["rule"]) for row in ledger.refusals)
    assert kept == Counter(one for record in records for one in record.refused)


def names_that_were_shared_were_written_once(ledger: Ledger, records: list[Record]) -> None:
    shared = [entry.idempotency_key for entry in ledger.entries if (entry.idempotency_key or "").startswith("shared-")]
    assert len(shared) == len(set(shared))
    repeats = [ref for record in records for ref in record.unchanged]
    assert set(repeats) <= set(shared)
    assert repeats, "it did happen that two said the same"


def versions_that_were_expected_are_those_before(ledger: Ledger, records: list[Record]) -> None:
    for record in records:
        for seq, seen in record.expected.items():
            assert ledger.entries[seq - 1].fact_version == seen + 1
    assert sum(record.conflicts for record in records) > 0 or len(ledger.entries) < 1000, "there was a race"


def counts_are_those_of_the_requests(ledger: Ledger, told: list[Any]) -> None:
    """Each memory's counters, flags and versions, counted once more from what was told."""
    facts: dict[Any, Counter[str]] = defaultdict(Counter)
    last: dict[Any, dict[str, str]] = defaultdict(dict)
    for entry in told:
        facts[entry.stream_id][entry.op_type] += 1
        last[entry.stream_id][entry.op_type[-3:]] = entry.op_type
    for object_id, state in ledger.live.items():
        mine = facts[object_id]
        was_there, gone = int(state.ref in COMMON), int(state.erased_at is not None)
        assert state.access_count == mine["ACCESS"]
        assert state.fact_version == was_there + sum(mine.values()) + gone
        if not gone:
            assert state.pinned == (last[object_id].get("PIN") == "PIN")
        assert state.held == (mine["HOLD"] > 0)


def values_are_what_was_said(ebb: Ebbtide, records: list[Record]) -> None:
    shown = {memory.ref: memory.value for memory in ebb.memories(everything=True)}
    said = {ref: value for record in records for ref, value in record.values.items()}
    said |= {ref: None for record in records for ref in record.erased}
    mine = {ref: value for ref, value in shown.items() if ref not in COMMON and not ref.startswith("shared-")}
    assert mine == said
