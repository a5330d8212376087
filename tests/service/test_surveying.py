"""A namespace at a glance: counts over time are those of each instant, and what is due next is what the rules say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.conformance.lived import live

from ebbtide.model import instant
from ebbtide.model.errors import BadInput

KNOWN = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def counted(memories: list[Any]) -> dict[str, Counter[str]]:
    """By profile, as the memories of an instant say it themselves."""
    found: dict[str, Counter[str]] = {}
    for one in memories:
        mine = found.setdefault(one.decay_profile, Counter())
        mine["eligible"] += one.eligible
        mine["warned"] += one.warned and one.lifecycle_state == "ACTIVE"
        mine[one.lifecycle_state.lower()] += 1
    return found


def test_counts_over_time_are_those_of_each_instant(ebb, clock):
    """Suppressions with and without an end, ttl, conditions, late facts, corrections of belief, two policies."""
    live(ebb, clock)
    points: dict[Any, dict[str, Any]] = {}
    for one in ebb.over_time(days=200):
        points.setdefault(one.at, {})[one.decay_profile] = one
    assert max(points) == instant.to_datetime(clock.now)
    looked_at = [*sorted(points)[19:75:3], *sorted(points)[75::30], max(points)]
    assert len(looked_at) > 20
    for at in looked_at:
        expected = counted(ebb.memories(as_of=at, everything=True))
        assert points[at].keys() == expected.keys()
        for profile, counts in expected.items():
            for name in ("eligible", "warned", "active", "archived", "deprecated", "superseded"):
                assert getattr(points[at][profile], name) == counts[name], (at, profile, name)


def test_a_day_is_a_day_back_from_the_instant(ebb, clock):
    ebb.ask({"op": "ASSERT", "ref": "a", "value": "a", **KNOWN})
    clock.forward(days=2)
    ebb.ask({"op": "ASSERT", "ref": "b", "value": "b", **KNOWN})
    clock.forward(hours=1)
    found = ebb.over_time(days=3)
    # Three days ago there was nothing; the first memory was made two days and an hour ago.
    assert [one.eligible for one in found] == [1, 1, 2]
    assert [one.eligible for one in ebb.over_time(days=0, as_of="2026-03-02T00:00:00Z")] == [1]
    assert [one.eligible for one in ebb.over_time(days=3, every=2)] == [1, 2]
    assert ebb.over_time(days=3, namespace="nobody") == []
    with pytest.raises(BadInput):
        ebb.over_time(days=367)


def test_what_is_due_next(ebb, clock):
    """By hand: MEDIUM from 0.5 is at 0.30 after ln(0.5 / 0.3) / 0.02 = 25.54 days, RAPID after 2.55."""
    ebb.ask(
        {"op": "ASSERT", "ref": "medium", "value": "m", **KNOWN},
        {"op": "ASSERT", "ref": "rapid", "value": "r", "decay_profile": "RAPID", **KNOWN},
        {"op": "ASSERT", "ref": "ever", "value": "e", "decay_profile": "PERMANENT", **KNOWN},
    )
    found = ebb.ahead(within=[2, 3, 26], limit=5)
    assert [(one.ref, one.due_rule) for one in found.next] == [("rapid", "warning"), ("medium", "warning")]
    assert [one.memories for one in found.counts] == [0, 1, 2]
    assert ebb.now() == instant.to_datetime(clock.now)


def test_the_last_verification_is_the_one_on_record(ebb, clock):
    ebb.ask({"op": "ASSERT", "ref": "a", "value": "a", **KNOWN})
    assert ebb.last_check() is None
    clock.forward(days=1)
    entries = ebb.status().entries
    ebb.verify(record=True)
    found = ebb.last_check()
    assert found is not None
    assert (found.ok, found.entries, found.at) == (True, entries, instant.to_datetime(clock.now))


@pytest.mark.lets_go
def test_a_query_that_is_expected_is_answered_alike(ebb):
    ebb.ask({"op": "ASSERT", "ref": "a", "value": "a", **KNOWN})
    before = ebb.audit("pressure")
    ebb.expect_questions()
    assert ebb.audit("pressure").rows == before.rows
    assert ebb.audit("pressure").rows == before.rows
