"""The dedup pass: of what says the same, the older stays; evidence is joined, names of entities are merged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from ledger import Ledger, by_stream, check
from sqlalchemy import delete, select

from ebbtide import Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.identity import id_of_ref
from ebbtide.organise.ledger import Run
from ebbtide.policy.document import policy_from
from ebbtide.store.tables import aliases, entities, evidence_links, memory_objects, memory_state

NS = "maya"
MONDAY = "2026-03-09T00:00:00Z"
"""A slot's start, seven days after the clock begins."""
HOME = {
    "op": "ASSERT",
    "namespace": NS,
    "object_type": "FACT",
    "epistemic_type": "ASSERTED",
    "source_type": "USER_STATED",
    "subject": "maya",
    "value": "Maya lives in London.",
}
STRICT = policy_from({"id": "strict", "version": "1.0.0", "params": {"dedup": {"cosine": 1}}})


@pytest.fixture(autouse=True)
def kept_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """A connection kept open spares DuckDB from opening the file for each step."""
    if "ebb" in request.fixturenames:
        with request.getfixturevalue("ebb").store.db.connect():
            yield
    else:
        yield


def twice(ebb: Ebbtide, clock: Any, *refs: str, line: dict[str, Any] = HOME, **more: dict[str, Any]) -> None:
    """The same content, ACTIVE under several names, a minute apart: each is archived while the next one is said."""
    for ref in refs:
        ebb.ask(line | {"ref": ref} | more.get(ref, {}))
        ebb.archive(ref, namespace=NS)
        clock.forward(seconds=60)
    for ref in refs:
        ebb.restore(ref, namespace=NS)


def turned(ebb: Ebbtide, clock: Any, **degrees: float) -> None:
    """Rewordings whose embeddings are turned by so many degrees, a minute apart, let in by a strict policy."""
    ebb.register_policy(STRICT)
    ebb.assign_policy("strict@1.0.0", namespace=NS)
    for ref, degree in degrees.items():
        embedding = [math.cos(math.radians(degree)), math.sin(math.radians(degree))]
        [taken] = ebb.ask(HOME | {"ref": ref, "value": f"{ref} says London", "embedding": embedding})
        assert not taken.duplicate
        clock.forward(seconds=60)
    ebb.assign_policy("default@1.0.0", namespace=NS)


def dedup(ebb: Ebbtide, clock: Any, when: str = MONDAY) -> Run:
    clock.set(when)
    [run] = ebb.organise(tasks=["dedup"], namespace=NS)
    return run


def places(ledger: Ledger) -> dict[str, str | None]:
    """What took each memory's place, by ref; None where it is ACTIVE."""
    refs = {object_id: state.ref for object_id, state in ledger.live.items()}
    return {state.ref: refs.get(state.superseded_by) for state in ledger.live.values()}


def written(ledger: Ledger) -> list[tuple[str, str, dict[str, Any]]]:
    """What the pass wrote about memories: operation, ref, payload."""
    mine = [entry for entry in ledger.entries if entry.actor_id == "ebbtide" and entry.stream_type == "object"]
    return [(entry.op_type, ledger.live[entry.stream_id].ref, json.loads(entry.payload)) for entry in mine]


def ids(*refs: str) -> list[str]:
    return sorted(str(id_of_ref(NS, ref)) for ref in refs)


def test_of_the_same_content_the_oldest_stays(ebb, clock) -> None:
    for event in ("m1", "m2", "m3"):
        ebb.event(event, ref=event, namespace=NS)
    evidence = {"one": {"evidence": ["m2"]}, "two": {"evidence": ["m2", "m1"]}, "three": {"evidence": ["m3", "one"]}}
    twice(ebb, clock, "one", "two", "three", **evidence)
    run = dedup(ebb, clock)
    assert (run.status, run.examined, run.entries) == ("done", 3, 3)
    ledger = check(ebb, NS)
    assert places(ledger) == {"one": None, "two": "one", "three": "one"}
    [primary] = ids("one")
    assert sorted(written(ledger), key=lambda one: (one[0], one[1])) == [
        (
            "DEDUP_RESOLVED",
            "one",
            {
                "primary_id": primary,
                "merged_ids": ids("two", "three"),
                "resolution_strategy": "same_content",
                "evidence_ids": ids("m1", "m3"),
            },
        ),
        ("SUPERSEDE", "three", {"new_object_id": primary, "reason": "same_content"}),
        ("SUPERSEDE", "two", {"new_object_id": primary, "reason": "same_content"}),
    ]
    assert ebb.memory("one", namespace=NS).evidence == [UUID(one) for one in [*ids("m2"), *ids("m1", "m3")]]
    assert (run.entries, dedup(ebb, clock, "2026-03-16T00:00:00Z").status) == (3, "nothing_due")


def test_what_makes_room_stands_as_it_was_at_the_slots_start(ebb, clock) -> None:
    """Restored on 2 March at 0.30 and more: 0.5·exp(−0.02·τ), confidence 0.8·exp(−0.01·τ), τ to the 9th."""
    twice(ebb, clock, "one", "two")
    clock.set("2026-03-12T00:00:00Z")
    dedup(ebb, clock, "2026-03-12T00:00:00Z")
    old = ebb.memory("two", namespace=NS, as_of="2026-06-01T00:00:00Z")
    days = (instant.parse(MONDAY) - instant.to_micros(old.restored_at)) / instant.DAY
    assert old.lifecycle_state == "SUPERSEDED"
    assert (old.salience, old.confidence) == pytest.approx(
        (0.5 * math.exp(-0.02 * days), 0.8 * math.exp(-0.01 * days)), abs=1e-9
    )
    assert (old.stored_salience, old.due_at, old.due_rule) == (old.salience, None, None)
    ledger = check(ebb, NS)
    pair = [entry for entry in ledger.entries if entry.op_type in ("DEDUP_RESOLVED", "SUPERSEDE")]
    assert {entry.effective_at for entry in pair} == {instant.parse(MONDAY)}
    kept = ebb.memory("one", namespace=NS)
    assert (kept.lifecycle_state, kept.due_rule, kept.restored_at) == ("ACTIVE", "warning", kept.restored_at)


def test_a_fact_behind_the_slots_start_is_not_overtaken(ebb, clock) -> None:
    twice(ebb, clock, "one", "two")
    clock.set("2026-03-11T00:00:00Z")
    ebb.reinforce("one", signal="CONFIRMED", namespace=NS)
    dedup(ebb, clock, "2026-03-12T00:00:00Z")
    ends = {state.ref: state.fact_at for state in check(ebb, NS).live.values()}
    assert ends == {"one": instant.parse("2026-03-11T00:00:00Z"), "two": instant.parse(MONDAY)}
    with pytest.raises(Refused):
        ebb.reinforce("two", signal="CONFIRMED", namespace=NS)


def test_what_is_like_one_that_goes_itself_stays(ebb, clock) -> None:
    """Each is 15° from the next: cos 15° = 0.9659 is enough, cos 30° = 0.8660 is not."""
    turned(ebb, clock, a=0, b=15, c=30, d=45, e=60)
    assert dedup(ebb, clock).entries == 4
    ledger = check(ebb, NS)
    assert places(ledger) == {"a": None, "b": "a", "c": None, "d": "c", "e": None}
    said = {ref: payload for op, ref, payload in written(ledger) if op == "DEDUP_RESOLVED"}
    fifteen = math.floor(math.cos(math.radians(15)) * 1e9 + 0.5) / 1e9
    assert said["c"] == {
        "primary_id": ids("c")[0],
        "merged_ids": ids("d"),
        "resolution_strategy": "similar_embedding",
        "similarity": fifteen,
        "evidence_ids": [],
    }
    assert ("SUPERSEDE", "d", {"new_object_id": ids("c")[0], "reason": "similar_embedding", "similarity": fifteen}) in (
        written(ledger)
    )
    assert dedup(ebb, clock, "2026-03-16T00:00:00Z").status == "nothing_due"


def test_it_makes_room_for_the_one_it_is_most_like(ebb, clock) -> None:
    """a and b are 20° apart and both stay; c is 8° from b; d is as far from both, and a is older."""
    turned(ebb, clock, a=0, b=20, c=12, d=10)
    dedup(ebb, clock)
    assert places(check(ebb, NS)) == {"a": None, "b": None, "c": "b", "d": "a"}


def test_both_reasons_in_one_run(ebb, clock) -> None:
    turned(ebb, clock, a=0, b=10)
    ebb.archive("a", namespace=NS)
    twice(ebb, clock, "same", line=HOME | {"value": "a says London"})
    ebb.restore("a", namespace=NS)
    dedup(ebb, clock)
    ledger = check(ebb, NS)
    assert places(ledger) == {"a": None, "b": "a", "same": "a"}
    assert [payload["resolution_strategy"] for op, _, payload in written(ledger) if op == "DEDUP_RESOLVED"] == [
        "same_content",
        "similar_embedding",
    ]


ALONE: dict[str, Callable[[Ebbtide, str], Any]] = {
    "pinned": lambda ebb, ref: ebb.pin(ref, namespace=NS),
    "held": lambda ebb, ref: ebb.hold(ref, namespace=NS),
    "frozen": lambda ebb, ref: ebb.suppress(ref, freeze=True, namespace=NS),
    "frozen until later": lambda ebb, ref: ebb.suppress(
        ref, freeze=True, expires_at="2026-03-10T00:00:00Z", namespace=NS
    ),
    "archived": lambda ebb, ref: ebb.archive(ref, namespace=NS),
    "deprecated": lambda ebb, ref: ebb.deprecate(ref, namespace=NS),
}


@pytest.mark.parametrize("ref", ["one", "two"])
@pytest.mark.parametrize("why", ALONE)
def test_some_are_left_alone(ebb, clock, why, ref) -> None:
    twice(ebb, clock, "one", "two")
    ALONE[why](ebb, ref)
    before = check(ebb, NS).live
    assert dedup(ebb, clock).status == "nothing_due"
    assert check(ebb, NS).live == before


def test_what_is_about_to_leave_is_left_alone(ebb, clock) -> None:
    """0.5·exp(−0.02·81) < 0.1: on 15 June the rule of the first ones had its instant; only the last two are merged."""
    twice(ebb, clock, "one", "two")
    clock.set("2026-06-01T00:00:00Z")
    twice(ebb, clock, "three", "four")
    dedup(ebb, clock, "2026-06-15T00:00:00Z")
    assert places(check(ebb, NS)) == {"one": None, "two": None, "three": None, "four": "three"}


def test_what_was_frozen_until_before_and_what_came_behind_the_start(ebb, clock) -> None:
    turned(ebb, clock, one=0, two=5)
    ebb.suppress("two", freeze=True, expires_at="2026-03-05T00:00:00Z", namespace=NS)
    clock.set("2026-03-10T00:00:00Z")
    turned(ebb, clock, late=3)
    dedup(ebb, clock, "2026-03-11T00:00:00Z")
    assert places(check(ebb, NS)) == {"one": None, "two": "one", "late": None}
    dedup(ebb, clock, "2026-03-16T00:00:00Z")
    assert places(check(ebb, NS)) == {"one": None, "two": "one", "late": "one"}


@pytest.mark.parametrize("other", [{"subject": "tom"}, {"object_type": "INTENT"}])
def test_another_subject_or_type_is_another_memory(ebb, clock, other) -> None:
    twice(ebb, clock, "one", "two", two=other)
    assert dedup(ebb, clock).status == "nothing_due"


def test_the_policy_says_what_is_similar(ebb, clock) -> None:
    turned(ebb, clock, a=0, b=15)
    ebb.register_policy(policy_from({"id": "fine", "version": "1.0.0", "params": {"dedup": {"cosine": 0.97}}}))
    ebb.assign_policy("fine@1.0.0", namespace=NS)
    assert dedup(ebb, clock).status == "nothing_due"


@pytest.mark.parametrize("value", ['quotes " and \\ and / too', "ümlaut – ☃ 𝄞", {"a": ['"']}])
def test_names_that_need_escaping_stand_in_the_log_as_they_are(ebb, clock, value) -> None:
    line = HOME | {"value": value, "subject": 'ma"ya\\ ü☃'}
    twice(ebb, clock, 'one "ü"', "two \\ /", line=line)
    dedup(ebb, clock)
    assert places(check(ebb, NS)) == {'one "ü"': None, "two \\ /": 'one "ü"'}


def test_erasing_what_stayed_takes_what_was_merged_into_it(ebb, clock) -> None:
    """What was superseded by hand says something else, and stays."""
    turned(ebb, clock, two=10, three=20)
    dedup(ebb, clock)
    ebb.ask(HOME | {"ref": "moved", "value": "Maya lives in Leeds."})
    ebb.supersede("moved", "two says London", namespace=NS)
    ebb.archive("two", namespace=NS)
    turned(ebb, clock, one=10)
    ebb.restore("two", namespace=NS)
    dedup(ebb, clock, "2026-03-16T00:00:00Z")
    assert places(check(ebb, NS)) == {"one": "two", "two": None, "three": "two", "moved": "two"}
    receipt = ebb.erase("two", namespace=NS, scrub=False)
    assert sorted(map(str, receipt.objects)) == ids("one", "two", "three")
    kept = {m.ref for m in ebb.memories(namespace=NS, everything=True) if m.withheld != "erased"}
    assert kept == {"moved"}
    check(ebb, NS)


# Chunks


def scene(ebb: Ebbtide, clock: Any) -> None:
    clock.set("2026-03-02T00:00:00Z")
    turned(ebb, clock, **{f"v{n}": 15.0 * n for n in range(9)})
    ebb.event("said", ref="m1", namespace=NS)
    twice(ebb, clock, *(f"s{n}" for n in range(6)), s5={"evidence": ["m1"]})
    for name in ("maya", "m"):
        ebb.ask(PERSON | {"ref": name, "canonical_name": name, "aliases": ["Maya K."]})


PERSON = {"op": "ENTITY_CREATE", "namespace": NS, "entity_type": "PERSON"}


@pytest.mark.parametrize("size", [1, 4])
def test_chunks_come_to_the_same(url, make_url_for, clock, size) -> None:
    found = []
    for where, chunk in ((url, size), (make_url_for("duckdb"), 50_000)):
        with Ebbtide.open(where, clock=clock, chunk_size=chunk) as ebb, ebb.store.session():
            scene(ebb, clock)
            dedup(ebb, clock)
            found.append(places(check(ebb, NS)))
    assert found[0] == found[1]
    assert found[1] == {
        **{f"v{n}": None if n % 2 == 0 else f"v{n - 1}" for n in range(9)},
        **{f"s{n}": "s0" if n else None for n in range(6)},
    }


def test_a_run_that_was_stopped_goes_on_behind_its_last_chunk(url, clock) -> None:
    with Ebbtide.open(url, clock=clock, chunk_size=4) as ebb:
        scene(ebb, clock)
        clock.set(MONDAY)
        asked = iter([False, True])
        assert ebb.organise(tasks=["dedup"], namespace=NS, stopping=lambda: next(asked)) == []
        half = check(ebb, NS)
        assert 0 < list(places(half).values()).count(None) < 15
        [run] = ebb.organise(tasks=["dedup"], namespace=NS)
        ledger = check(ebb, NS)
        assert list(places(ledger).values()).count(None) == 6
        merged = [payload["merged_ids"] for op, _, payload in written(ledger) if op == "DEDUP_RESOLVED"]
        assert len([one for several in merged for one in several]) == 9
        assert run.entries == len([e for e in ledger.entries if e.actor_id == "ebbtide"]) - len(
            [e for e in ledger.entries if e.op_type in ("ORGANISER_RUN", "POLICY_ASSIGNED") and e.actor_id == "ebbtide"]
        )


def test_both_databases_write_the_same_entries(stores) -> None:
    logs = []
    for ebb, clock in stores.both:
        scene(ebb, clock)
        dedup(ebb, clock)
        logs.append([(e.op_type, e.payload, e.after, e.hash) for e in check(ebb, NS).entries])
    assert logs[0] == logs[1]


def test_the_log_alone_says_what_was_merged(ebb, clock, make_url_for, tmp_path) -> None:
    """Rebuilt from the log it is the same; taken to another store, it is there with its names and embeddings."""
    scene(ebb, clock)
    ebb.ask(HOME | {"ref": "again", "value": "v0 says London"})
    dedup(ebb, clock)
    before = check(ebb, NS)
    for table in (aliases, evidence_links, memory_objects, memory_state, entities):
        with ebb.store.begin() as connection:
            connection.execute(delete(table))
    assert not ebb.rebuild(namespace=NS).equal
    after = check(ebb, NS)
    assert (after.live, after.aliases, after.evidence) == (before.live, before.aliases, before.evidence)
    assert merged(ebb) == {"maya": None, "m": "maya"}
    assert ebb.verify(namespace=NS).ok
    ebb.export_pack(tmp_path / "pack", namespace=NS)
    with Ebbtide.open(make_url_for("duckdb"), clock=clock) as other:
        other.import_pack(tmp_path / "pack")
        taken = check(other, NS)
        assert (taken.live, taken.aliases, taken.contents) == (after.live, after.aliases, after.contents)
        assert other.memory("again", namespace=NS).ref == "v0"


def test_a_dry_run_writes_nothing(ebb, clock) -> None:
    scene(ebb, clock)
    clock.set(MONDAY)
    before = check(ebb, NS)
    [run] = ebb.organise(tasks=["dedup"], namespace=NS, dry_run=True)
    assert run.entries > 9
    after = check(ebb, NS)
    assert (after.entries, after.live) == (before.entries, before.live)


# Entities


def merged(ebb: Ebbtide) -> dict[str, str | None]:
    with ebb.store.begin() as connection:
        found = connection.execute(select(entities)).mappings().all()
    refs = {row["entity_id"]: row["ref"] for row in found}
    return {row["ref"]: refs.get(row["merged_into"]) for row in found}


def test_entities_that_share_a_name_are_one(ebb, clock) -> None:
    """By canonical name or alias, also by way of what was merged; of one type only; the oldest stays."""
    people = {
        "maya": ("Maya", ["M."]),
        "mother": ("Emm", ["Emmeline"]),
        "m": ("M.", ["Emm"]),
        "cat": ("Tolly", []),
        "other": ("Otto", ["O."]),
    }
    for ref, (name, others) in people.items():
        ebb.ask(PERSON | {"ref": ref, "canonical_name": name, "aliases": others})
    ebb.ask(PERSON | {"ref": "tolly", "entity_type": "CAT", "canonical_name": "Tolly"})
    run = dedup(ebb, clock)
    assert merged(ebb) == {
        "maya": None, "mother": "maya", "m": "maya", "cat": None, "other": None, "tolly": None,
    }  # fmt: skip
    ledger = check(ebb, NS)
    [own] = [entries for entries in by_stream(ledger.entries).values() if entries[0].stream_type == "namespace"]
    said = [json.loads(entry.payload) for entry in own if entry.op_type == "ENTITY_MERGE"]
    assert said == [{"primary_entity_id": ids("maya")[0], "merged_entity_id": ids(ref)[0]} for ref in ("m", "mother")]
    assert run.entries == 2
    assert dedup(ebb, clock, "2026-03-16T00:00:00Z").status == "nothing_due"


def test_an_entity_that_was_merged_by_hand_keeps_its_place(ebb, clock) -> None:
    for ref, name in (("a", "Ann"), ("b", "Bea"), ("c", "Ann")):
        ebb.ask(PERSON | {"ref": ref, "canonical_name": name})
    ebb.ask({"op": "ENTITY_MERGE", "namespace": NS, "primary": "b", "merged": "a"})
    dedup(ebb, clock)
    assert merged(ebb) == {"a": "b", "b": None, "c": "b"}
    check(ebb, NS)


def test_entities_whose_names_were_erased_are_not_merged(ebb, clock) -> None:
    for ref in ("a", "b"):
        ebb.ask(PERSON | {"ref": ref, "canonical_name": "Ann"})
    ebb.assert_memory(**{name: value for name, value in HOME.items() if name != "op"})
    ebb.erase(everything=True, namespace=NS, scrub=False)
    assert dedup(ebb, clock).status == "nothing_due"
    assert merged(ebb) == {"a": None, "b": None}
