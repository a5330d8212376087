"""Erasing takes every summary along that was made from what is erased, and a hold on one stands against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from tests.conformance.ledger import check

from ebbtide import Ebbtide, Refused
from ebbtide.policy.document import policy_from

pytestmark = pytest.mark.lets_go

NS = "home"
KNOWN = {"namespace": NS, "epistemic_type": "OBSERVED", "source_type": "USER_STATED"}
DERIVED = {"namespace": NS, "epistemic_type": "INFERRED", "source_type": "SYSTEM_INFERRED", "object_type": "SUMMARY"}


def dump(ebb: Ebbtide) -> str:
    """Every row of every table, as text."""
    with ebb.store.begin() as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('main', 'public')"
        names = connection.execute(text(query + " AND table_type = 'BASE TABLE'")).scalars().all()
        return "".join(str(connection.execute(text(f"SELECT * FROM {name}")).all()) for name in sorted(names))


def left(ebb: Ebbtide) -> set[str]:
    """What of the canaries is still anywhere: the words after `CANARY-`."""
    return {word.partition("CANARY-")[2].partition(" ")[0] for word in dump(ebb).split('"') if "CANARY-" in word}


def event(ebb: Ebbtide, ref: str, **said: Any) -> None:
    ebb.event(f"CANARY-{ref} said", ref=ref, **({"namespace": NS} | said))


def summary(ebb: Ebbtide, ref: str, *made_from: str, **said: Any) -> None:
    ebb.assert_memory(f"CANARY-{ref} in short", ref=ref, evidence=list(made_from), **DERIVED | said)


@pytest.fixture
def ebb(ebb: Ebbtide) -> Iterator[Ebbtide]:
    """The store, checked as a whole after each test."""
    yield ebb
    check(ebb, NS)


@pytest.fixture
def days(ebb: Ebbtide) -> Ebbtide:
    """Four messages; a fact from the first; a summary of the first two, one of the other two, a week over both."""
    for ref in ("m1", "m2", "m3", "m4"):
        event(ebb, ref)
    ebb.assert_memory("CANARY-fact known", ref="fact", evidence=["m1"], **KNOWN)
    summary(ebb, "monday", "m1", "m2")
    summary(ebb, "tuesday", "m3", "m4")
    summary(ebb, "week", "monday", "tuesday")
    summary(ebb, "month", "week")
    return ebb


def ids(ebb: Ebbtide, *refs: str) -> set[Any]:
    return {ebb.memory(ref, namespace=NS).id for ref in refs}


def test_a_summary_goes_with_what_it_was_made_from_and_so_on(days) -> None:
    """The fact goes, m1 which nothing else needs, and the three summaries above it; m2 and Tuesday stay."""
    gone = ids(days, "monday", "week", "month")
    receipt = days.erase("fact", namespace=NS)
    assert left(days) == {"m2", "m3", "m4", "tuesday"}
    assert set(receipt.summaries) == gone
    assert receipt.erased.model_dump() == {"objects": 4, "events": 1, "contents": 5}
    assert receipt.kept.model_dump() == {"objects": 1, "events": 3, "contents": 4}
    assert len(receipt.tombstones) == len(receipt.items) == 5
    memory = days.memory("week", namespace=NS)
    assert (memory.lifecycle_state, memory.withheld, memory.value) == ("ARCHIVED", "erased", None)


def test_the_preview_counts_them_and_leaves_them(days) -> None:
    before = dump(days)
    preview = days.erase("fact", namespace=NS, preview=True)
    assert dump(days) == before
    assert len(preview.summaries) == 3
    receipt = days.erase("fact", namespace=NS)
    assert (receipt.erased, receipt.summaries) == (preview.erased, preview.summaries)


def test_an_erased_summary_takes_its_summaries_and_not_its_evidence(days) -> None:
    days.erase("tuesday", namespace=NS)
    assert left(days) == {"m1", "m2", "m3", "m4", "fact", "monday"}


def test_a_memory_that_was_summarised_takes_the_summary_along(ebb) -> None:
    for ref in ("a", "b", "c"):
        ebb.assert_memory(f"CANARY-{ref} known", ref=ref, **KNOWN)
    summary(ebb, "both", "a", "b")
    summary(ebb, "other", "c")
    ebb.assert_memory("CANARY-fact from the summary", ref="fact", evidence=["both"], **KNOWN)
    ebb.erase("a", namespace=NS)
    assert left(ebb) == {"b", "c", "other", "fact"}


def test_one_subject_takes_the_summaries_of_its_messages_and_no_others(ebb) -> None:
    for number in range(2):
        event(ebb, f"maya{number}", subject="maya")
        event(ebb, f"tom{number}", subject="tom")
    summary(ebb, "of-both", "maya0", "tom0")
    summary(ebb, "of-maya", "maya1", subject="maya")
    summary(ebb, "of-tom", "tom1", subject="tom")
    receipt = ebb.erase(subject="maya", namespace=NS)
    assert left(ebb) == {"tom0", "tom1", "of-tom"}
    assert receipt.erased.model_dump() == {"objects": 2, "events": 2, "contents": 4}
    assert len(receipt.summaries) == 1


def test_a_hold_on_a_summary_refuses_it_all_and_is_named(days) -> None:
    days.hold("month", namespace=NS)
    before = left(days)
    with pytest.raises(Refused, match="month is held"):
        days.erase("fact", namespace=NS)
    assert left(days) == before
    with days.store.begin() as connection:
        assert connection.execute(text("SELECT rule FROM refusals")).scalars().all() == ["held"]
    days.release("month", namespace=NS)
    assert len(days.erase("fact", namespace=NS).summaries) == 3


def test_a_namespace_goes_with_all_of_them(days) -> None:
    event(days, "elsewhere", namespace="other")
    receipt = days.erase(everything=True, namespace=NS)
    assert left(days) == {"elsewhere"}
    assert (receipt.erased.objects, receipt.summaries) == (5, [])


def test_what_was_erased_before_takes_nothing_later(days) -> None:
    """A summary that names an erased message as its evidence was written by somebody who knew that it is gone."""
    days.erase("fact", namespace=NS)
    summary(days, "later", "m1", "m2")
    days.erase("tuesday", namespace=NS)
    assert left(days) == {"m2", "m3", "m4", "later"}


TTL = policy_from(
    {
        "id": "ttl",
        "version": "1.0.0",
        "params": {
            "guard": {"max_fraction": 1.0},
            "retention": [
                {"match": {"object_types": ["TASK"]}, "ttl_days": 5, "action": "erase"},
                {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 10, "action": "erase"},
                {"match": {"events": True, "roles": ["SYSTEM"]}, "ttl_days": 3},
            ],
        },
    }
)


@pytest.fixture
def expiring(ebb: Ebbtide) -> Ebbtide:
    """A task with evidence of its own and a tool's output, each with a summary, and one of what is only archived."""
    ebb.register_policy(TTL)
    ebb.assign_policy("ttl@1.0.0", namespace=NS)
    event(ebb, "asked", role="USER")
    event(ebb, "tool", role="TOOL")
    event(ebb, "kept", role="SYSTEM")
    ebb.assert_memory("CANARY-task to do", ref="task", object_type="TASK", evidence=["asked"], **KNOWN)
    summary(ebb, "of-asked", "asked")
    summary(ebb, "of-task", "task")
    summary(ebb, "of-tool", "tool")
    summary(ebb, "of-summaries", "of-tool")
    summary(ebb, "of-kept", "kept")
    return ebb


def test_what_expires_by_erasure_takes_its_summaries_along(expiring, clock) -> None:
    clock.forward(days=5)
    [run] = expiring.organise(tasks=["retention"])
    assert left(expiring) == {"tool", "kept", "of-tool", "of-summaries", "of-kept"}
    assert run.expired == 1 + 1 + 1 + 2  # the archived event, the task, its evidence, their summaries
    clock.forward(days=5)
    [run] = expiring.organise(tasks=["retention"])
    assert left(expiring) == {"kept", "of-kept"}
    assert run.expired == 3
    with expiring.store.begin() as connection:
        query = "SELECT payload FROM event_log WHERE op_type = 'TOMBSTONE'"
        tombstones = [json.loads(payload) for payload in connection.execute(text(query)).scalars()]
    assert {one["reason"] for one in tombstones} == {"retention_policy_expiry"}
    assert {one["policy_ref"] for one in tombstones} == {"ttl@1.0.0"}


def test_what_a_held_summary_was_made_from_waits_for_the_release(expiring, clock) -> None:
    """Not the task, whose evidence waits alone; the tool's output by way of a summary of a summary."""
    expiring.hold("of-asked", namespace=NS)
    expiring.hold("of-summaries", namespace=NS)
    clock.forward(days=20)
    expiring.organise()
    assert left(expiring) == {"asked", "tool", "kept", "of-asked", "of-tool", "of-summaries", "of-kept"}
    expiring.release("of-asked", namespace=NS)
    expiring.release("of-summaries", namespace=NS)
    clock.forward(days=1)
    expiring.organise()
    assert left(expiring) == {"kept", "of-kept"}


def test_a_held_summary_keeps_the_memory_it_was_made_from(expiring, clock) -> None:
    expiring.hold("of-task", namespace=NS)
    clock.forward(days=6)
    expiring.organise()
    assert "task" in left(expiring)
    assert expiring.memory("task", namespace=NS).withheld == "expired"
    expiring.release("of-task", namespace=NS)
    clock.forward(days=1)
    expiring.organise()
    assert not {"task", "of-task", "asked", "of-asked"} & left(expiring)
