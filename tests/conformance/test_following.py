"""Readers that follow: the log without a gap, and what left retrieval, until it is acknowledged."""

from __future__ import annotations

import threading
from itertools import islice

import pytest
from tests.conformance import lived

from ebbtide import BadInput, Ebbtide, NotFound
from ebbtide.policy.document import policy_from


def test_the_log_is_followed_without_a_gap(ebb):
    ebb.ask(*(lived.belief(f"b{n}") for n in range(5)))
    reader = ebb.follow("default", wait=0.0)
    first = list(islice(reader, 6))
    assert [entry.seq for entry in first] == [1, 2, 3, 4, 5, 6]
    assert [entry.op_type for entry in first] == ["POLICY_ASSIGNED"] + ["ASSERT"] * 5
    assert [entry.content["value"] for entry in first[1:]] == [f"what b{n} says" for n in range(5)]
    assert first[1].stream_id == ebb.memory("b0").id
    ebb.ask({"op": "PIN", "object": "b3"})
    assert next(reader).op_type == "PIN"
    assert [entry.seq for entry in ebb.follow("default", 6)] == [7]
    assert list(ebb.follow("nobody")) == []


def test_readers_miss_nothing_of_writers_that_commit_out_of_order(make_url_for):
    """Four threads write, each in transactions of several entries, while one reads."""
    url, each = make_url_for("postgresql"), 25
    with Ebbtide(url) as ebb:
        ebb.ask(lived.belief("first"))
        writers = [threading.Thread(target=write, args=(url, name, each)) for name in "abcd"]
        for writer in writers:
            writer.start()
        wanted = 2 + 4 * each * 3
        found = [entry.seq for entry in islice(ebb.follow("default", wait=0.0), wanted)]
        for writer in writers:
            writer.join()
        assert found == list(range(1, wanted + 1))
        assert list(ebb.follow("default", wanted)) == []


def write(url: str, name: str, times: int) -> None:
    with Ebbtide(url) as ebb:
        for number in range(times):
            ebb.ask(*(lived.belief(f"{name}{number}-{one}") for one in range(3)))


def reasons(ebb: Ebbtide, consumer: str = "vectors") -> dict[str, str]:
    return {one.ref: one.reason for one in ebb.evictions(consumer).evictions}


def test_evictions_come_again_until_they_are_acknowledged(ebb, clock):
    ebb.ask(*(lived.belief(f"b{n}", subject="maya") for n in range(6)), lived.belief("other", subject="tom"))
    found = ebb.evictions("vectors")
    assert found.evictions == []
    ebb.acknowledge("vectors", found.position)
    clock.forward(days=1)
    ebb.ask(
        {"op": "ARCHIVE", "object": "b0"},
        {"op": "DEPRECATE", "object": "b1"},
        {"op": "SUPERSEDE", "object": "b2", "ref": "b2b", "value": "better"},
        {"op": "SUPPRESS", "object": "b3"},
        {"op": "REINFORCE", "object": "b4", "signal": "CONFIRMED"},
    )
    ebb.erase("b5", scrub=False)
    gone = {"b0": "archived", "b1": "deprecated", "b2": "superseded", "b3": "suppressed", "b5": "erased"}
    assert reasons(ebb) == gone
    assert reasons(ebb) == gone, "not acknowledged"
    ebb.acknowledge("vectors", ebb.evictions("vectors").position)
    assert reasons(ebb) == {}
    assert reasons(ebb, "another") == gone, "each consumer has a place of its own"
    ebb.ask({"op": "SUPPRESS", "subject": "tom"})
    assert reasons(ebb) | {"other": "suppressed"} == reasons(ebb)
    assert reasons(ebb)["other"] == "suppressed"


def test_what_only_the_clock_did_is_evicted(ebb, clock):
    """A ttl that ends and a guess that is hardly believed any more leave no entry behind."""
    rules = [{"match": {"object_types": ["TASK"]}, "ttl_days": 10, "clock": "created", "action": "archive"}]
    ebb.register_policy(policy_from({"id": "short", "version": "1.0.0", "params": {"retention": rules}}))
    ebb.ask({"op": "EVENT", "ref": "m", "content": "begin"})
    ebb.assign_policy("short@1.0.0")
    unsure = {"epistemic_type": "UNVERIFIED", "source_type": "IMPORTED", "confidence": 0.45}
    ebb.ask(lived.belief("todo", object_type="TASK"), lived.belief("rumour", **unsure), lived.belief("kept"))
    ebb.acknowledge("vectors", ebb.evictions("vectors").position)
    clock.forward(days=9)
    assert reasons(ebb) == {"rumour": "unverified"}, "0.45 · exp(−0.1 · 9) = 0.18"
    clock.forward(days=1)
    assert reasons(ebb) == {"rumour": "unverified", "todo": "expired"}
    ebb.acknowledge("vectors", ebb.evictions("vectors").position)
    assert reasons(ebb) == {}


def test_bad_input_is_refused(ebb):
    ebb.ask(lived.belief("b"))
    with pytest.raises(NotFound, match="nobody"):
        ebb.evictions("vectors", namespace="nobody")
    for position in ("", "7", "a@b", "-1@5"):
        with pytest.raises(BadInput, match="is no position"):
            ebb.acknowledge("vectors", position)
    with pytest.raises(BadInput, match="consumer"):
        ebb.evictions("")
