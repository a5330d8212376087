"""The door: what an ACTIVE memory of the same type and subject says already is not stored twice; on both databases."""

from __future__ import annotations

import io
import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from ledger import check
from sqlalchemy import select

from ebbtide import BadInput, Ebbtide, NotFound, Refused
from ebbtide.model.identity import id_of_ref
from ebbtide.store.tables import aliases, contents, event_log, evidence_links, memory_objects, refusals

NS = "maya"
HOME = {
    "op": "ASSERT",
    "namespace": NS,
    "object_type": "FACT",
    "epistemic_type": "ASSERTED",
    "source_type": "USER_STATED",
    "subject": "maya",
    "value": "Maya lives in London.",
}


@pytest.fixture(autouse=True)
def kept_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """A connection kept open spares DuckDB from opening the file for each step."""
    if "ebb" in request.fixturenames:
        with request.getfixturevalue("ebb").store.db.connect():
            yield
    else:
        yield


def rows(ebb: Ebbtide, table: Any) -> list[dict[str, Any]]:
    query = select(table).where(table.c.namespace_id == NS).order_by(*table.primary_key)
    with ebb.store.begin() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def objects(ebb: Ebbtide) -> set[str]:
    return {row["ref"] for row in rows(ebb, memory_objects)}


def said_again(ebb: Ebbtide) -> list[dict[str, Any]]:
    """The payloads of what was found at the door."""
    entries = [row for row in rows(ebb, event_log) if row["op_type"] == "DEDUP_RESOLVED"]
    return [json.loads(entry["payload"]) for entry in entries]


def ingest(ebb: Ebbtide, *lines: dict[str, Any]) -> tuple[int, int]:
    """Entries appended and lines unchanged."""
    done = ebb.ingest(io.BytesIO(b"\n".join(json.dumps(line).encode() for line in lines)), "f.jsonl")
    return done.appended, done.unchanged


# The same content


def test_the_first_one_comes_back_and_says_so(ebb) -> None:
    first = ebb.assert_memory(**_given(HOME, ref="one"))
    again = ebb.assert_memory(**_given(HOME, ref="two", salience=0.9, confidence=0.1))
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.id, again.ref, again.salience, again.confidence) == (first.id, "one", 0.5, 0.8)
    assert objects(ebb) == {"one"}
    assert said_again(ebb) == [
        {
            "primary_id": str(first.id),
            "merged_ids": [str(id_of_ref(NS, "two"))],
            "resolution_strategy": "same_content",
            "alias_id": str(id_of_ref(NS, "two")),
            "ref": "two",
            "evidence_ids": [],
        }
    ]
    check(ebb, NS)


def _given(line: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: value for name, value in (line | more).items() if name != "op"}


def test_without_a_ref_it_is_recorded_and_names_nothing(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"})
    [taken] = ebb.ask(HOME)
    assert (taken.duplicate, taken.unchanged, taken.target) == (True, True, id_of_ref(NS, "one"))
    assert [entry.op_type for entry in taken.entries] == ["DEDUP_RESOLVED"]
    assert rows(ebb, aliases) == []
    check(ebb, NS)


@pytest.mark.parametrize(
    "other", [{"subject": "tom"}, {"subject": None}, {"object_type": "INTENT"}, {"value": "Maya lives in Paris."}]
)
def test_another_subject_type_or_value_is_another_memory(ebb, other) -> None:
    ebb.ask(HOME | {"ref": "one"})
    [taken] = ebb.ask({name: value for name, value in (HOME | {"ref": "two"} | other).items() if value is not None})
    assert not taken.duplicate
    assert objects(ebb) == {"one", "two"}


def test_values_are_compared_as_json_whatever_the_order_of_their_keys(ebb) -> None:
    ebb.ask(HOME | {"ref": "one", "value": {"city": "London", "since": 2024}})
    [taken] = ebb.ask(HOME | {"ref": "two", "value": {"since": 2024, "city": "London"}})
    assert taken.duplicate
    assert not ebb.ask(HOME | {"ref": "three", "value": {"city": "London", "since": "2024"}})[0].duplicate


def test_memories_without_a_subject_are_of_one_kind(ebb) -> None:
    line = {name: value for name, value in HOME.items() if name != "subject"}
    ebb.ask(line | {"ref": "one"})
    assert ebb.ask(line | {"ref": "two"})[0].duplicate


def test_two_in_one_file_and_the_file_once_more(ebb) -> None:
    """The first time: the policy, the memory, and that it was said again twice. Then nothing."""
    lines = [HOME | {"ref": ref} for ref in ("one", "two")] + [HOME | {"effective_at": "2026-03-01T00:00:00Z"}]
    assert ingest(ebb, *lines) == (4, 2)
    before = rows(ebb, event_log)
    assert ingest(ebb, *lines) == (0, 3)
    assert ingest(ebb, *reversed(lines)) == (0, 3)
    assert rows(ebb, event_log) == before
    assert objects(ebb) == {"one"}
    check(ebb, NS)


def test_what_was_said_again_stays_so_when_the_first_has_gone(ebb) -> None:
    """A repeat of the line is unchanged, whatever has become of the memory; another line says it anew."""
    lines = [HOME | {"ref": "one"}, HOME | {"ref": "two"}, HOME | {"effective_at": "2026-03-01T00:00:00Z"}]
    ingest(ebb, *lines)
    ebb.deprecate("two", namespace=NS)
    assert ebb.memory("one", namespace=NS).lifecycle_state == "DEPRECATED"
    assert ingest(ebb, *lines) == (0, 3)
    assert ingest(ebb, HOME | {"ref": "three"}) == (1, 0)
    assert objects(ebb) == {"one", "three"}


def test_the_same_ref_with_other_content_is_refused(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"}, HOME | {"ref": "two"})
    for other in ({"value": "Maya lives in Paris."}, {"salience": 0.7}, {"metadata": {"a": 1}}):
        with pytest.raises(Refused) as refused:
            ebb.ask(HOME | {"ref": "two"} | other)
        assert refused.value.rule == "idempotency_key"
    assert {row["object_id"] for row in rows(ebb, refusals)} == {id_of_ref(NS, "one")}


def test_what_names_the_second_works_on_the_first(ebb, clock) -> None:
    ebb.ask(HOME | {"ref": "one"}, HOME | {"ref": "two"}, {"op": "PIN", "namespace": NS, "object": "two"})
    first = id_of_ref(NS, "one")
    for name in ("two", id_of_ref(NS, "two")):
        assert ebb.memory(name, namespace=NS).id == first
        assert ebb.memory(name, namespace=NS, as_of=clock.iso).id == first
        assert [entry.op_type for entry in ebb.history(name, namespace=NS)][:3] == ["ASSERT", "DEDUP_RESOLVED", "PIN"]
        assert ebb.reinforce(name, signal="CONFIRMED", namespace=NS, actor="a").id == first
    assert ebb.reinforce(id_of_ref(NS, "two"), signal="REFERENCED", actor="a").namespace_id == NS
    ebb.ask(
        HOME | {"ref": "work", "value": "Maya works in Leeds.", "evidence": ["two"]},
        {"op": "RELATE", "namespace": NS, "edge_type": "NEAR", "source": "work", "target": "two"},
        {"op": "SUPPRESS", "namespace": NS, "object": "two"},
    )
    assert ebb.memory("work", namespace=NS).evidence == [first]
    assert ebb.memory("one", namespace=NS).suppressed
    assert ebb.rank([("two", 0.5)], namespace=NS).withheld[0].reason == "suppressed"
    with pytest.raises(BadInput, match="twice"):
        ebb.rank([("one", 0.5), ("two", 0.5)], namespace=NS)
    with pytest.raises(Refused):
        ebb.archive("two", namespace=NS, expected_version=1)
    assert rows(ebb, refusals)[-1]["object_id"] == first
    check(ebb, NS)


def test_a_name_is_not_known_before_it_was_recorded(ebb, clock) -> None:
    ebb.ask(HOME | {"ref": "one"})
    before = clock.iso
    clock.forward(days=1)
    ebb.ask(HOME | {"ref": "two"})
    assert ebb.memory("two", namespace=NS, known_at=clock.iso).ref == "one"
    with pytest.raises(NotFound):
        ebb.memory("two", namespace=NS, known_at=before)


def test_evidence_is_joined_and_serves_the_first(ebb) -> None:
    for event in ("m1", "m2", "m3"):
        ebb.event(f"said {event}", ref=event, namespace=NS)
    ebb.ask(HOME | {"ref": "one", "evidence": ["m2", "m1"]})
    ebb.ask(HOME | {"ref": "two", "evidence": ["m1", "m3", "m3", "one"]}, HOME | {"ref": "three", "evidence": ["m3"]})
    expected = [id_of_ref(NS, event) for event in ("m2", "m1", "m3")]
    assert ebb.memory("one", namespace=NS).evidence == expected
    assert {(row["object_id"], row["evidence_id"]) for row in rows(ebb, evidence_links)} == {
        (id_of_ref(NS, "one"), event) for event in expected
    }
    assert [payload["evidence_ids"] for payload in said_again(ebb)] == [[str(expected[2])], []]
    check(ebb, NS)


def test_nothing_is_confirmed_by_being_said_again(ebb, clock) -> None:
    ebb.ask(HOME | {"ref": "one", "salience": 0.9})
    clock.forward(days=20)
    before = ebb.memory("one", namespace=NS)
    after = ebb.assert_memory(**_given(HOME, ref="two"))
    for name in ("salience", "confidence", "due_at", "due_rule", "reinforced_at", "modified_at", "decay_profile"):
        assert getattr(after, name) == getattr(before, name), name


@pytest.mark.parametrize("leaves", ["archive", "deprecate", "supersede", "erase", "expires", "sinks"])
def test_only_what_is_active_counts(ebb, clock, leaves) -> None:
    ebb.ask(HOME | {"ref": "one"})
    if leaves == "supersede":
        ebb.supersede("one", "Maya lives in Paris.", ref="paris", namespace=NS)
    elif leaves == "erase":
        ebb.erase("one", namespace=NS, scrub=False)
    elif leaves == "expires":  # recency: a TASK's ttl ends after 90 days; no run has come
        ebb.assign_policy("recency@1.0.0", namespace=NS)
        clock.forward(days=91)
    elif leaves == "sinks":  # 0.5 · exp(−0.02 · 81) < 0.1: its rule's instant has come, and no run
        clock.forward(days=81)
    else:
        getattr(ebb, leaves)("one", namespace=NS)
    line = HOME | {"ref": "two"}
    if leaves == "expires":
        line |= {"object_type": "TASK"}
        clock.set("2026-03-02T00:00:00Z")
        ebb.ask(line | {"ref": "task"})
        assert ebb.ask(line | {"ref": "task-2"})[0].duplicate
        clock.forward(days=91)
    assert not ebb.ask(line)[0].duplicate
    assert "two" in objects(ebb)
    check(ebb, NS)


def test_what_was_restored_in_the_same_batch_counts(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"}, {"op": "ARCHIVE", "namespace": NS, "object": "one"})
    _, taken = ebb.ask({"op": "RESTORE", "namespace": NS, "object": "one"}, HOME | {"ref": "two"})
    assert taken.duplicate
    ebb.ask({"op": "ARCHIVE", "namespace": NS, "object": "one"}, HOME | {"ref": "three"})
    assert objects(ebb) == {"one", "three"}


def test_a_late_line_takes_effect_where_the_first_stands(ebb, clock) -> None:
    ebb.ask(HOME | {"ref": "one"})
    now = clock.now
    clock.forward(days=3)
    [taken] = ebb.ask(HOME | {"ref": "two", "effective_at": "2026-02-01T00:00:00Z"})
    assert taken.entries[0].effective_at == now
    assert said_again(ebb)[0]["late"] is True
    check(ebb, NS)


# SUPERSEDE


def test_what_takes_anothers_place_may_be_there_already(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"}, HOME | {"ref": "paris", "value": "Maya lives in Paris."})
    new = ebb.supersede("one", "Maya lives in Paris.", ref="newer", namespace=NS, reason="she moved")
    assert (new.ref, new.duplicate, new.supersedes) == ("paris", True, None)
    old = ebb.memory("one", namespace=NS)
    assert (old.lifecycle_state, old.superseded_by) == ("SUPERSEDED", new.id)
    assert ebb.memory("newer", namespace=NS).id == new.id
    again = ebb.supersede("one", "Maya lives in Paris.", ref="newer", namespace=NS, reason="she moved")
    assert (again.id, again.duplicate) == (new.id, True)
    assert objects(ebb) == {"one", "paris"}
    check(ebb, NS)


def test_a_memory_that_is_superseded_by_its_own_words_makes_room_for_a_new_one(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"})
    new = ebb.supersede("one", HOME["value"], ref="two", epistemic_type="OBSERVED", namespace=NS)
    assert (new.ref, new.duplicate, new.epistemic_type) == ("two", False, "OBSERVED")
    check(ebb, NS)


def test_a_chain_in_one_batch_knows_its_kind(ebb) -> None:
    """What a SUPERSEDE makes is of the type and subject of its object, also where that comes in the same batch."""
    paris = HOME | {"ref": "paris", "value": "Maya lives in Paris."}
    change = {"op": "SUPERSEDE", "namespace": NS, "object": "one", "ref": "newer", "value": "Maya lives in Paris."}
    assert [taken.duplicate for taken in ebb.ask(HOME | {"ref": "one"}, paris, change)] == [False, False, True]
    back = {"op": "SUPERSEDE", "namespace": NS, "object": "newer", "ref": "back", "value": HOME["value"]}
    assert [taken.duplicate for taken in ebb.ask(back, HOME | {"ref": "back-2"})] == [False, True]
    assert ebb.memory("back-2", namespace=NS).ref == "back"
    check(ebb, NS)


# Erasure


def test_erasing_the_first_takes_all_that_was_said_again(ebb, url) -> None:
    ebb.event("CANARY event", ref="m1", namespace=NS)
    line = HOME | {"value": "CANARY home"}
    lines = [
        line | {"ref": "one"},
        line | {"ref": "two", "metadata": {"note": "CANARY note"}, "evidence": ["m1"]},
        line | {"effective_at": "2026-03-01T00:00:00Z", "metadata": {"note": "CANARY once more"}},
    ]
    ingest(ebb, *lines)
    receipt = ebb.erase("two", namespace=NS, scrub=False)
    assert receipt.objects == [id_of_ref(NS, "one")]
    assert receipt.erased.model_dump() == {"objects": 1, "events": 1, "contents": 4}
    assert not [row for row in rows(ebb, contents) if "CANARY" in row["content"]]
    assert ingest(ebb, *lines) == (0, 3)
    assert ebb.memory("two", namespace=NS).withheld == "erased"
    with pytest.raises(Refused) as refused:
        ebb.pin("two", namespace=NS)
    assert refused.value.rule == "erased"
    check(ebb, NS)


def test_what_was_erased_is_said_again_as_a_new_memory_that_may_say_so(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"})
    ebb.erase("one", namespace=NS, scrub=False)
    [taken] = ebb.ask(HOME | {"ref": "two", "reasserts_erased": True})
    assert not taken.duplicate
    assert json.loads(taken.entries[0].payload)["reasserts_erased"] is True
    [other] = ebb.ask(HOME | {"ref": "three", "value": "Something else."})
    assert "reasserts_erased" not in other.entries[0].payload


def test_hashes_of_what_was_said_again_cannot_be_guessed(ebb) -> None:
    """Each entry has a nonce of its own, though nothing but the request was said."""
    ebb.ask(HOME | {"ref": "one"}, HOME | {"ref": "two"}, HOME | {"ref": "three"})
    nonces = [bytes(row["nonce"]) for row in rows(ebb, contents)]
    assert len(set(nonces)) == 3
    assert [row["content"] for row in rows(ebb, contents)][1:] == ["{}", "{}"]
    assert all(row["content_hash"] for row in rows(ebb, event_log) if row["op_type"] == "DEDUP_RESOLVED")


# At once


def test_of_many_at_once_one_is_first(make_url_for, clock) -> None:
    """PostgreSQL: eight writers, each with a connection of its own; the head's lock lets one in after the other."""
    url, together = make_url_for("postgresql"), threading.Barrier(8)

    def say(number: int) -> tuple[bool, UUID]:
        with Ebbtide(url, clock=clock) as ebb:
            together.wait()
            [taken] = ebb.ask(HOME | {"ref": f"writer-{number}"})
            return taken.duplicate, taken.target

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(say, range(8)))
    assert sorted(duplicate for duplicate, _ in answers) == [False] + [True] * 7
    assert len({target for _, target in answers}) == 1
    with Ebbtide(url, clock=clock) as ebb:
        assert len(objects(ebb)) == 1
        assert len(rows(ebb, aliases)) == 7
        check(ebb, NS)


# Embeddings


def at_angle(cosine: float) -> list[float]:
    """A vector with this cosine to (1, 0), three long: the length does not matter."""
    return [3 * cosine, 3 * math.sqrt(1 - cosine * cosine)]


def other_words(ref: str, cosine: float, **more: Any) -> dict[str, Any]:
    return HOME | {"ref": ref, "value": f"{ref}: home is London", "embedding": at_angle(cosine)} | more


def test_a_rewording_is_what_is_as_similar_as_the_policy_says(ebb) -> None:
    ebb.ask(HOME | {"ref": "one", "embedding": [1.0, 0.0]})
    taken = ebb.ask(other_words("near", 0.951), other_words("far", 0.949))
    assert [one.duplicate for one in taken] == [True, False]
    [payload] = said_again(ebb)
    assert (payload["resolution_strategy"], payload["similarity"]) == ("similar_embedding", 0.951)
    assert ebb.memory("near", namespace=NS).value == HOME["value"]
    kept = [json.loads(row["content"]) for row in rows(ebb, contents)]
    assert {"value": "near: home is London"} in kept
    check(ebb, NS)


def test_the_threshold_is_compared_at_nine_decimals(ebb) -> None:
    """(1, 0) and (0.95, √(1 − 0.95²)): 0.95 but for the last bits, and the policy says 0.95."""
    ebb.ask(HOME | {"ref": "one", "embedding": [1, 0]})
    assert ebb.ask(other_words("at", 0.95))[0].duplicate
    assert ebb.ask(other_words("just-at", 0.9499999996))[0].duplicate
    assert not ebb.ask(other_words("below", 0.9499999994))[0].duplicate


def test_in_one_batch_the_most_similar_one_before_it_counts(ebb) -> None:
    """cos 20° = 0.9397 apart are the first two; the third is 8° from one and 12° from the other."""
    angles = {"a": 0, "b": 20, "c": 12, "d": 8, "e": 12}
    lines = [
        other_words(ref, 1) | {"embedding": [math.cos(math.radians(deg)), math.sin(math.radians(deg))]}
        for ref, deg in angles.items()
    ]
    assert [one.duplicate for one in ebb.ask(*lines)] == [False, False, True, True, True]
    found = {payload["ref"]: (payload["primary_id"], payload["similarity"]) for payload in said_again(ebb)}
    a, b = (str(id_of_ref(NS, ref)) for ref in "ab")
    eight = round(math.cos(math.radians(8)), 9)
    assert found == {"c": (b, eight), "d": (a, eight), "e": (b, eight)}
    check(ebb, NS)


def test_the_same_content_goes_before_what_is_similar(ebb) -> None:
    ebb.ask(other_words("near", 1.0), HOME | {"ref": "one"})
    [taken] = ebb.ask(HOME | {"ref": "two", "embedding": at_angle(1.0)})
    assert taken.target == id_of_ref(NS, "one")
    assert said_again(ebb)[-1]["resolution_strategy"] == "same_content"


@pytest.mark.parametrize("other", [{"subject": "tom"}, {"object_type": "INTENT"}, {"embedding_model": "other"}])
def test_embeddings_of_another_kind_or_model_are_not_compared(ebb, other) -> None:
    ebb.ask(other_words("one", 1.0))
    assert not ebb.ask(other_words("two", 1.0) | other)[0].duplicate


def test_an_embedding_is_content(ebb) -> None:
    """Its hash stands in the content, whose hash stands in the log; erased with it."""
    ebb.ask(other_words("one", 0.5, embedding_model="small-1"))
    [row] = [row for row in rows(ebb, contents) if row["dimensions"]]
    assert (row["embedding_model"], row["dimensions"], list(row["embedding"])) == ("small-1", 2, at_angle(0.5))
    said = json.loads(row["content"])
    assert (len(said["embedding"]), said["embedding_model"]) == (64, "small-1")
    ebb.erase("one", namespace=NS, scrub=False)
    assert rows(ebb, contents) == []
    ebb.ask(other_words("two", 0.5, embedding_model="small-1"))
    assert objects(ebb) == {"one", "two"}


@pytest.mark.parametrize(
    "embedding", [[], [0, 0], [float("nan"), 1], [float("inf"), 1], [1e300, 1], ["1", 2], [True, 1], 7, [1.0] * 4097]
)
def test_bad_embeddings_are_refused(ebb, embedding) -> None:
    with pytest.raises(BadInput) as refused:
        ebb.ask(HOME | {"embedding": embedding})
    assert refused.value.field == "embedding"
    with pytest.raises(BadInput) as refused:
        ebb.ask(HOME | {"embedding_model": "small-1"})
    assert refused.value.field == "embedding_model"


def test_another_length_than_the_models_others_is_refused(ebb) -> None:
    ebb.ask(other_words("one", 1.0), other_words("named", 1.0, embedding_model="m", embedding=[1, 2, 3]))
    for lines in (
        [HOME | {"embedding": [1, 2, 3]}],
        [HOME | {"subject": "tom", "embedding_model": "m", "embedding": [1, 2]}],
        [
            HOME | {"subject": "tom", "embedding_model": "n", "embedding": [1, 2]},
            HOME | {"subject": "eve", "embedding_model": "n", "embedding": [1]},
        ],
    ):
        with pytest.raises(BadInput, match="numbers") as refused:
            ebb.ask(*lines)
        assert refused.value.field == "embedding"
    assert objects(ebb) == {"one", "named"}


def test_a_superseding_embedding_is_compared_too(ebb) -> None:
    ebb.ask(HOME | {"ref": "one"}, other_words("paris", 1.0))
    new = ebb.supersede("one", "Paris it is", embedding=at_angle(0.99), namespace=NS)
    assert (new.ref, new.duplicate) == ("paris", True)
    check(ebb, NS)


def test_plain_sql_decides_as_pgvector_does(make_url_for, clock) -> None:
    """Where a server has no pgvector, or its extension is not installed, all pairs are compared in plain SQL."""
    verdicts = []
    for installed in (True, False):
        with Ebbtide(make_url_for("postgresql"), clock=clock) as ebb:
            with ebb.store.begin() as connection:
                found = connection.exec_driver_sql("SELECT to_regtype('vector') IS NOT NULL").scalar_one()
                if not installed:
                    connection.exec_driver_sql("DROP EXTENSION IF EXISTS vector")
            ebb.ask(HOME | {"ref": "one", "embedding": [1, 0]})
            cosines = (0.96, 0.95, 0.9499999996, 0.9499999994)
            verdicts.append([ebb.ask(other_words(f"w{c}", c))[0].duplicate for c in cosines])
            assert found in (True, False)
    assert verdicts[0] == verdicts[1] == [True, True, True, False]


@pytest.mark.parametrize("guess", ["HYPOTHETICAL", "UNVERIFIED", "CONDITIONAL"])
def test_what_is_known_is_no_name_of_a_guess(ebb, guess):
    """A guess is not retrieved by default: the fact that turns out to be so must be."""
    first = ebb.ask(HOME | {"ref": "guess", "epistemic_type": guess})[0]
    known = ebb.ask(HOME | {"ref": "known"})[0]
    assert not known.duplicate
    assert known.target != first.target
    assert "known" in {memory.ref for memory in ebb.memories(namespace=NS)}
    assert ebb.ask(HOME | {"ref": "again", "epistemic_type": guess})[0].duplicate
    ebb.organise(tasks=["dedup"])
    assert ebb.memory("known", namespace=NS).lifecycle_state == "ACTIVE"
    check(ebb, NS)
