"""Retention: expired at an instant, in whatever state, unless pinned or held; both databases."""

import hashlib
import json

import pytest
from sqlalchemy import select

from ebbtide import Refused
from ebbtide.model.identity import uuid8
from ebbtide.policy.document import policy_from
from ebbtide.store.tables import contents, event_log

NS = "maya"
POLICY = policy_from(
    {
        "id": "ttl",
        "version": "1.0.0",
        "params": {
            "guard": {"max_fraction": 1.0},
            "retention": [
                {"match": {"object_types": ["TASK"]}, "ttl_days": 10, "action": "erase"},
                {"match": {"object_types": ["FACT"]}, "ttl_days": 20, "clock": "last_accessed"},
                {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 5, "action": "erase"},
                {"match": {"events": True}, "ttl_days": 15},
            ],
        },
    }
)


@pytest.fixture
def kept(ebb):
    """A TASK to erase after 10 days, two FACTs to archive 20 days after their last access, and evidence."""
    ebb.register_policy(POLICY)
    ebb.assign_policy("ttl@1.0.0", namespace=NS)
    ebb.event("canary said", ref="said", namespace=NS, actor="maya", actor_type="HUMAN_USER")
    ebb.event("canary tool", ref="tool", namespace=NS, role="TOOL")
    for ref, kind, evidence in (("task", "TASK", ["said"]), ("fact", "FACT", ["said"]), ("used", "FACT", [])):
        ebb.assert_memory(
            f"canary {ref}",
            ref=ref,
            object_type=kind,
            evidence=evidence,
            namespace=NS,
            epistemic_type="OBSERVED",
            source_type="USER_STATED",
            salience=0.9,
        )
    return ebb


def texts(ebb):
    with ebb.store.begin() as connection:
        return sorted(connection.execute(select(contents.c.content)).scalars())


def tombstones(ebb):
    with ebb.store.begin() as connection:
        return connection.execute(select(event_log).where(event_log.c.op_type == "TOMBSTONE")).all()


def test_expired_at_the_instant_even_before_any_sweep(kept, clock):
    clock.set("2026-03-11T23:59:59.999999Z")
    assert kept.memory("task", namespace=NS).withheld is None
    clock.set("2026-03-12T00:00:00Z")
    assert kept.memory("task", namespace=NS).withheld == "expired"
    assert [memory.ref for memory in kept.memories(namespace=NS)] != []


def test_erased_archived_and_prolonged_by_access(kept, clock):
    clock.forward(days=9)
    kept.access("used", namespace=NS)
    clock.forward(days=12)
    kept.organise()
    task, fact, used = (kept.memory(ref, namespace=NS) for ref in ("task", "fact", "used"))
    assert (task.lifecycle_state, task.value, task.withheld) == ("ARCHIVED", None, "erased")
    assert (fact.lifecycle_state, fact.value, fact.withheld) == ("ARCHIVED", "canary fact", "archived")
    assert used.lifecycle_state == "ACTIVE"
    assert not any("task" in text or "tool" in text for text in texts(kept))
    assert '{"content":"canary said"}' in texts(kept)
    clock.forward(days=8)
    kept.organise()
    assert kept.memory("used", namespace=NS).lifecycle_state == "ARCHIVED"


def test_pinned_and_held_do_not_expire_deprecated_and_superseded_do(kept, clock):
    kept.pin("task", namespace=NS)
    kept.hold("fact", namespace=NS)
    kept.deprecate("used", namespace=NS)
    clock.forward(days=40)
    kept.organise()
    states = {memory.ref: memory.lifecycle_state for memory in kept.memories(namespace=NS, everything=True)}
    assert states == {"task": "ACTIVE", "fact": "ACTIVE", "used": "ARCHIVED"}


def test_the_tombstone_is_to_the_letter(kept, clock):
    clock.forward(days=30)
    kept.organise()
    entries = tombstones(kept)
    assert len(entries) == 5
    for entry in entries:
        payload = json.loads(entry.payload)
        assert list(payload) == [
            "target_id",
            "target_type",
            "reason",
            "policy_ref",
            "content_hash_of_deleted",
            "tombstone_ts",
            "record",
        ]
        assert (payload["reason"], payload["policy_ref"]) == ("retention_policy_expiry", "ttl@1.0.0")
        assert payload["target_type"] in ("event", "memory_object")
        record = entry.payload[entry.payload.index('"record":') + len('"record":') : -1]
        bare = record[: record.index(',"checksum"')] + "}"
        assert hashlib.sha256(bare.encode()).hexdigest() == payload["record"]["checksum"]
        action = payload["record"].get("action")
        if action is None:
            action = "archive" if payload["record"]["after"]["erased_at"] is None else "erase"
            assert payload["record"]["before"]["lifecycle_state"] == "ACTIVE"
            assert payload["record"]["after"]["lifecycle_state"] == "ARCHIVED"
        decided = ("tombstone", payload["target_id"], action, payload["reason"], payload["policy_ref"])
        assert entry.id == uuid8(NS, *decided, payload["record"]["expired_at"])
        assert entry.effective_at == payload["record"]["expired_at"]


def test_after_a_ttl_nothing_brings_it_back(kept, clock):
    clock.forward(days=30)
    kept.organise()
    for request in (kept.restore, kept.pin):
        with pytest.raises(Refused):
            request("fact", namespace=NS)
    assert kept.access("fact", namespace=NS).lifecycle_state == "ARCHIVED"
    with pytest.raises(Refused, match="erased"):
        kept.access("task", namespace=NS)
    before = len(tombstones(kept))
    clock.forward(days=30)
    kept.organise()
    assert len(tombstones(kept)) == before


def test_evidence_of_nothing_else_is_erased_with_it(ebb, clock):
    ebb.register_policy(POLICY)
    ebb.assign_policy("ttl@1.0.0", namespace=NS)
    for ref in ("only", "shared"):
        ebb.event(f"canary {ref}", ref=ref, namespace=NS)
    common = {"namespace": NS, "epistemic_type": "OBSERVED", "source_type": "USER_STATED"}
    ebb.assert_memory("t", object_type="TASK", evidence=["only", "shared"], **common)
    ebb.assert_memory("f", object_type="FACT", evidence=["shared"], **common)
    clock.forward(days=11)
    ebb.organise()
    assert texts(ebb) == ['{"content":"canary shared"}', '{"value":"f"}']
