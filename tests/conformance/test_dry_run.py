"""What a dry run says is what the run then does, entry for entry; both databases."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from ledger import check, read
from lived import belief
from sqlalchemy import select

from ebbtide import Ebbtide
from ebbtide.model.words import Task
from ebbtide.organise.rehearsal import Decision
from ebbtide.policy.document import policy_from
from ebbtide.store.tables import event_log

POLICY = {
    "version": "1.0.0",
    "params": {
        "summarise": {"enabled": True, "min_events": 2},
        "guard": {"max_fraction": 0.5, "min_objects": 4},
        "schedule": {"lifecycle": 6, "dedup": 48, "summarise": 12, "decay_slow": 10},
        "retention": [
            {"match": {"object_types": ["TASK", "SUMMARY"]}, "ttl_days": 6, "action": "erase"},
            {"match": {"object_types": ["PREFERENCE"]}, "ttl_days": 3},
            {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 2, "action": "erase"},
        ],
    },
}


def same_entropy(size: int) -> bytes:
    return b"\x07" * size


def events(ref: str, count: int) -> list[dict[str, Any]]:
    said = {"op": "EVENT", "stream": ref, "actor_id": "maya", "actor_type": "HUMAN_USER"}
    return [{**said, "ref": f"{ref}-{n}", "content": f"Message {n} of {ref} says something."} for n in range(count)]


def fill(ebb: Ebbtide) -> None:
    """Duplicates, windows to summarise, a graph, ttls, and what sinks, in two namespaces more."""
    kinds = ("FACT", "TASK", "PREFERENCE")
    for name in ("quiet", "zoo"):
        # A version of its own: which namespace a pass begins with decides what the guard counts over all under one.
        ebb.register_policy(policy_from(POLICY | {"id": f"of-{name}"}))
        ebb.assign_policy(f"of-{name}@1.0.0", namespace=name)
        lines = [
            *events("chat", 5),
            {"op": "EVENT", "ref": "tool", "role": "TOOL", "content": "printed"},
            *(belief(f"b{n}", object_type=kinds[n % 3], salience=0.11 + n / 30, confidence=n / 20) for n in range(18)),
            belief("seen", epistemic_type="OBSERVED", source_type="USER_DEMONSTRATED", salience=0.9),
            {"op": "RELATE", "edge_type": "RELATES_TO", "source": "b3", "target": "b6", "confidence": 0.7},
            {"op": "RELATE", "edge_type": "RELATES_TO", "source": "b9", "target": "b6", "confidence": 0.7},
        ]
        # The door takes what is said again for the same memory, unless that one is archived.
        for n in range(3):
            lines.append(belief(f"alike{n}", value="said alike", evidence=[f"chat-{n}"]))
            lines.append({"op": "ARCHIVE", "object": f"alike{n}", "reason": "old"})
        lines += [{"op": "RESTORE", "object": f"alike{n}"} for n in range(3)]
        ebb.ask(*({**line, "namespace": name} for line in lines))


def decided(ebb: Ebbtide, before: dict[str, int]) -> list[tuple[Any, ...]]:
    """What the log holds of memories and events behind some heads."""
    log = event_log.c
    names = [name for name in Decision.__slots__ if name not in ("id", "ref", "rule")]
    with ebb.store.begin() as connection:
        query = select(event_log).where(log.stream_type != "namespace").order_by(log.namespace_id, log.seq)
        rows = connection.execute(query).mappings().all()
    return [
        (row["stream_id"], *(row[name] for name in names))
        for row in rows
        if row["seq"] > before.get(row["namespace_id"], 0)
    ]


@pytest.mark.parametrize("chunk_size", [7, 50_000])
def test_what_a_dry_run_says_is_what_the_run_then_does(url, clock, chunk_size) -> None:
    with Ebbtide.open(url, clock=clock, entropy=same_entropy, chunk_size=chunk_size) as ebb, ebb.store.session():
        fill(ebb)
        seen = set()
        for hours in (20, 169, 1000):
            clock.forward(hours=hours)
            for tasks in ([Task.DEDUP, Task.CENTRALITY], None) if hours == 169 else (None,):
                before = [asdict(read(ebb, name)) for name in ("quiet", "zoo")]
                heads = {head.namespace_id: head.seq for head in ebb.digest().heads}
                found = ebb.rehearse(tasks=tasks, limit=10_000)
                few = ebb.rehearse(tasks=tasks, limit=3)
                assert (few.total, few.decisions) == (found.total, found.decisions[:3])
                promised = ebb.organise(tasks=tasks, dry_run=True)
                assert [asdict(read(ebb, name)) for name in ("quiet", "zoo")] == before
                assert ebb.organise(tasks=tasks) == promised == found.runs
                said = [
                    (one.id, *(getattr(one, name) for name in Decision.__slots__ if name not in ("id", "ref", "rule")))
                    for one in found.decisions
                ]
                assert said == decided(ebb, heads)
                assert found.total == len(said) == sum(run.entries for run in promised)
                seen |= {(run.task, run.status) for run in promised if run.entries or run.status == "held"}
        assert {task for task, _ in seen} == {str(task) for task in Task}
        assert "held" in {status for _, status in seen}
        check(ebb, "quiet")
