"""Entities, relations and contradictions: in the log, in their tables, names in the contents; on both databases."""

import pytest
from sqlalchemy import select

from ebbtide import BadInput, NotFound, Refused
from ebbtide.model.identity import id_of_ref
from ebbtide.store.tables import contents, edges, entities, event_log

pytestmark = pytest.mark.lets_go

NS = "maya"


@pytest.fixture
def known(ebb):
    for ref, name in (("maya", "CANARY Maya"), ("m", "CANARY M."), ("tolly", "CANARY Ptolemy")):
        kind = "CAT" if ref == "tolly" else "PERSON"
        request = {"op": "ENTITY_CREATE", "namespace": NS, "ref": ref, "entity_type": kind, "canonical_name": name}
        ebb.ask(request | {"aliases": [f"{name} again"]})
    for ref in ("home", "away"):
        ebb.assert_memory(ref, ref=ref, namespace=NS, epistemic_type="ASSERTED", source_type="USER_STATED")
    return ebb


def rows(ebb, table):
    with ebb.store.begin() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def ask(ebb, op, **fields):
    return ebb.ask({"op": op, "namespace": NS, **fields})[0]


def test_entities_have_their_names_outside_the_log(known):
    assert {row["ref"]: row["entity_type"] for row in rows(known, entities)} == {
        "maya": "PERSON",
        "m": "PERSON",
        "tolly": "CAT",
    }
    assert not any("CANARY" in str(row) for row in rows(known, event_log))


def test_relations_and_contradictions_become_edges_and_change_no_memory(known):
    before = [memory.fact_version for memory in known.memories(namespace=NS)]
    ask(known, "RELATE", edge_type="LIVES_AT", source="maya", target="home", confidence=0.7)
    ask(known, "CONTRADICTION_NOTED", object_a="home", object_b="away", conflict_description="one of the two")
    made = sorted(
        (row["edge_type"], row["source_id"], row["target_id"], row["confidence"]) for row in rows(known, edges)
    )
    ids = {name: id_of_ref(NS, name) for name in ("maya", "home", "away")}
    assert made == [
        ("CONTRADICTS", ids["home"], ids["away"], 1.0),
        ("LIVES_AT", ids["maya"], ids["home"], 0.7),
    ]
    assert [memory.fact_version for memory in known.memories(namespace=NS)] == before
    assert [memory.lifecycle_state for memory in known.memories(namespace=NS)] == ["ACTIVE", "ACTIVE"]


def test_an_entity_is_merged_once(known):
    ask(known, "ENTITY_MERGE", primary="maya", merged="m")
    merged = {row["ref"]: row["merged_into"] for row in rows(known, entities)}
    assert merged == {"maya": None, "m": id_of_ref(NS, "maya"), "tolly": None}
    for primary, other in (("tolly", "m"), ("m", "tolly")):
        with pytest.raises(Refused, match="merged"):
            ask(known, "ENTITY_MERGE", primary=primary, merged=other)


def test_bad_relations_are_refused(known):
    with pytest.raises(NotFound):
        ask(known, "RELATE", edge_type="KNOWS", source="maya", target="nobody")
    with pytest.raises(BadInput, match="should match pattern"):
        ask(known, "RELATE", edge_type="lives at", source="maya", target="home")
    with pytest.raises(BadInput, match="same memory"):
        ask(known, "CONTRADICTION_NOTED", object_a="home", object_b="home")
    with pytest.raises(NotFound, match="not a memory"):
        ask(known, "CONTRADICTION_NOTED", object_a="home", object_b="maya")
    with pytest.raises(BadInput, match="two different"):
        ask(known, "ENTITY_MERGE", primary="maya", merged="maya")
    assert rows(known, edges) == []


def test_what_was_erased_is_related_to_nothing_any_more(known):
    """And what was written of its relations is gone with it; those of others stay."""
    for pair in (("home", "away"), ("away", "maya"), ("maya", "tolly")):
        known.relate(*pair[:1], "NEAR", pair[1], namespace=NS, metadata={"note": f"CANARY of {'-'.join(pair)}"})
    known.erase("home", namespace=NS, scrub=False)
    with known.store.begin() as connection:
        kept = "".join(connection.execute(select(contents.c.content)).scalars())
    assert "CANARY of home-away" not in kept
    assert "CANARY of away-maya" in kept
    assert "CANARY of maya-tolly" in kept
    for call in (
        lambda: known.relate("maya", "NEAR", "home", namespace=NS),
        lambda: known.contradict("home", "away", namespace=NS),
    ):
        with pytest.raises(Refused, match="home was erased"):
            call()
