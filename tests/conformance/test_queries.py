"""The named queries: their headers are true, and their answers are right and the same on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from math import exp, floor
from typing import Any
from uuid import UUID

import lived
import pytest
from sqlalchemy import SmallInteger, text
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.audit.queries import library
from ebbtide.model.errors import Refused
from ebbtide.model.instant import to_datetime
from ebbtide.policy.document import Policy
from ebbtide.store.tables import event_log

QUERIES = library()
LONG = {"days": 1000}
"""More than any of the histories lasts."""
WATCHED = {"regret": {"days": 90}}
"""What asks for a time that began twice as long ago as it ended."""


def asked(ebb: Ebbtide, name: str, **given):
    """A query's answer, as far back as there is anything."""
    known = {parameter.name for parameter in QUERIES[name].parameters}
    return ebb.audit(name, **{key: value for key, value in WATCHED.get(name, LONG).items() if key in known} | given)


def told(ebb: Ebbtide, name: str, *columns: str, **given: Any) -> list[tuple[Any, ...]]:
    """Some columns of a query's rows, in its order."""
    found = asked(ebb, name, **given)
    places = [found.columns.index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in found.rows]


@pytest.fixture(scope="module")
def rich(make_url_for_module):
    """The same rich history in a store of each database."""
    made = {}
    for kind in DATABASES:
        clock = Clock()
        ebb = made[kind] = Ebbtide.open(make_url_for_module(kind), clock=clock, entropy=counted_entropy())
        lived.live(ebb, clock)
        for refused in ({"op": "RESTORE", "object": "n8"}, {"op": "PIN", "object": "home", "expected_version": 1}):
            with pytest.raises(Refused):
                ebb.ask({**refused, "actor_id": "maya", "actor_type": "HUMAN_USER"})
        ebb.apply_replay(ebb.plan_replay("keeping@1.0.0", "permastore@1.0.0", namespace="default"), actor="ops")
        clock.forward(days=8)
        ebb.organise()
        ebb.ask(lived.belief("late-comer"), lived.belief("for-good", decay_profile="PERMANENT"))
    yield made
    for ebb in made.values():
        ebb.close()


@pytest.fixture(scope="module")
def empty(make_url_for_module):
    made = {kind: Ebbtide.open(make_url_for_module(kind), clock=Clock()) for kind in DATABASES}
    yield made
    for ebb in made.values():
        ebb.close()


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_equal_on_both_databases_and_have_the_columns_of_the_header(rich, name):
    ours, theirs = (asked(rich[kind], name) for kind in DATABASES)
    assert ours.columns == theirs.columns == [column.name for column in QUERIES[name].columns]
    assert ours.rows == theirs.rows
    assert [[type(value) for value in row] for row in ours.rows] == [
        [type(value) for value in row] for row in theirs.rows
    ]
    assert ours.rows


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - {"quality"}))
def test_an_empty_store_has_no_rows(empty, name):
    for ebb in empty.values():
        assert asked(ebb, name).rows == []


# A small history, counted by hand

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
"""When it begins: also the start of a slot of every task."""
STILL = {
    "id": "still",
    "version": "1.0.0",
    "params": {"mu_multiplier": 0, "profiles": {"MEDIUM": {"lambda": 0.02, "salience_floor": 0.4}}},
}
MAYA = {"actor_id": "maya", "actor_type": "HUMAN_USER"}


def nine(score: float) -> float:
    return floor(score * 1e9 + 0.5) / 1e9


def live(ebb: Ebbtide, clock: Clock) -> None:
    def ask(*requests: dict[str, Any]) -> None:
        ebb.ask(*({**MAYA, **request} for request in requests))

    def refused(request: dict[str, Any]) -> None:
        with pytest.raises(Refused):
            ask(request)

    ebb.register_policy(Policy.model_validate(STILL))
    ask(
        *(lived.belief(ref) for ref in ("plain", "gone", "pinned", "frozen", "victim")),
        lived.belief("fixed", decay_profile="PERMANENT"),
        lived.belief("sinks", decay_profile="RAPID", salience=0.12),
        lived.belief("slow", decay_profile="SLOW"),
    )
    ask({"op": "PIN", "object": "pinned"}, {"op": "SUPPRESS", "object": "frozen", "freeze": True})
    ask({"op": "ARCHIVE", "object": "gone"}, {"op": "HOLD", "object": "slow"})
    ask({"op": "SUPPRESS", "object_type": "FACT", "subject": "zoe", "expires_at": "2026-04-01T00:00:00Z"})
    ebb.assign_policy("still@1.0.0", namespace="level", actor="ops")
    ask(lived.belief("floor", salience=0.4, namespace="level"))
    clock.forward(days=1)
    ebb.organise()
    ask(lived.belief("young"))
    clock.forward(days=2, hours=1)
    ebb.organise(namespace="default")
    refused({"op": "RESTORE", "object": "plain"})
    refused({"op": "PIN", "object": "plain", "expected_version": 9})
    ask({"op": "CONTRADICTION_NOTED", "object_a": "plain", "object_b": "fixed", "conflict_description": "so and so"})
    ask(
        {"op": "REINFORCE", "object": "plain", "signal": "CONFIRMED"},
        {"op": "REINFORCE", "object": "young", "signal": "CONFIRMED"},
        {"op": "PENALTY", "object": "plain", "signal": "TASK_FAILED_WITH"},
    )
    ask({"op": "RELEASE", "object": "slow"}, {"op": "RESTORE", "object": "sinks"})
    ebb.erase("victim", actor="ops", scrub=False)
    ebb.assign_policy("archivist@1.0.0", namespace="default", actor="ops")


@pytest.fixture(scope="module", params=DATABASES)
def small(request: pytest.FixtureRequest, make_url_for_module) -> Iterator[Ebbtide]:
    clock = Clock()
    ebb = Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy())
    live(ebb, clock)
    yield ebb
    ebb.close()


SUNK = MONDAY + timedelta(seconds=78_763)
"""0.12 · exp(−0.2 a) is below 0.10 after ln 1.2 / 0.2 days, which is 78,762.6 s."""
SUNK_SALIENCE = nine(0.12 * exp(-0.2 * 78_763 / 86_400))
SUNK_CONFIDENCE = nine(0.8 * exp(-0.1 * 78_763 / 86_400))


def test_decay_is_counted_by_version_profile_and_day(small):
    one, three = (0.5 * exp(-0.02 * days) for days in (1, 3))
    doubt, doubts = (0.8 * exp(-0.01 * days) for days in (1, 3))
    # On the third `plain` and `victim` lose a day, on the fifth two more, and `young` its first two.
    young, unsure = 0.5 - nine(0.5 * exp(-0.04)), 0.8 - nine(0.8 * exp(-0.02))
    expected = [
        (date(2026, 3, 2), "default@1.0.0", "RAPID", 1, 0.12 - SUNK_SALIENCE, 0.8 - SUNK_CONFIDENCE),
        (date(2026, 3, 3), "default@1.0.0", "MEDIUM", 2, 2 * (0.5 - nine(one)), 2 * (0.8 - nine(doubt))),
        (
            date(2026, 3, 5),
            "default@1.0.0",
            "MEDIUM",
            3,
            2 * (nine(one) - nine(three)) + young,
            2 * (nine(doubt) - nine(doubts)) + unsure,
        ),
    ]
    assert asked(small, "decay_by_policy").rows == [
        [*row[:4], pytest.approx(row[4], abs=1e-12), pytest.approx(row[5], abs=1e-12)] for row in expected
    ]
    assert told(small, "decay_by_policy", "day", days=1) == [(date(2026, 3, 5),)]
    assert told(small, "decay_by_policy", "day", as_of="2026-03-03T00:00:00Z") == [
        (date(2026, 3, 2),),
        (date(2026, 3, 3),),
    ]
    # The instant of `sinks` was before the run that found it.
    assert told(small, "decay_by_policy", "day", known_at="2026-03-02T23:00:00Z") == []
    assert asked(small, "decay_by_policy", namespace="level").rows == []


def test_transitions_say_what_met_which_thresholds(small):
    columns = ("ref", "from_state", "to_state", "reason", "threshold", "archive_min_confidence", "actor_id")
    assert told(small, "transitions", *columns) == [
        ("gone", "ACTIVE", "ARCHIVED", "requested", None, None, "maya"),
        ("sinks", "ACTIVE", "ARCHIVED", "archive", 0.1, 0.4, "ebbtide"),
        ("sinks", "ARCHIVED", "ACTIVE", None, None, None, "maya"),
        ("victim", "ACTIVE", "ARCHIVED", "user_request", None, None, "ops"),
    ]
    by_rule = told(small, "transitions", "effective_at", "salience", "confidence", "policy")[1]
    assert by_rule == (SUNK, SUNK_SALIENCE, SUNK_CONFIDENCE, "default@1.0.0")


def test_left_active_names_what_a_version_moved_and_where_it_is_since(small):
    columns = ("ref", "to_state", "reason", "state")
    assert told(small, "left_active", *columns, policy="default@1.0.0") == [("sinks", "ARCHIVED", "archive", "ACTIVE")]
    before = told(small, "left_active", *columns, as_of="2026-03-04T00:00:00Z")
    assert before == [("sinks", "ARCHIVED", "archive", "ARCHIVED")]
    assert told(small, "left_active", *columns, policy="archivist@1.0.0") == []


def test_tombstones_are_counted_by_reason(small):
    columns = ("reason", "policy_ref", "action", "target_type", "actor_id", "tombstones")
    assert told(small, "tombstones", *columns) == [
        ("user_request", "default@1.0.0", "erase", "memory_object", "ops", 1)
    ]


def test_marks_say_who_did_what(small):
    columns = ("actor_id", "action", "ref", "filter", "freeze", "expires_at", "reason")
    assert told(small, "marks", *columns) == [
        ("maya", "PIN", "pinned", None, None, None, None),
        ("maya", "SUPPRESS", "frozen", None, True, None, None),
        ("maya", "HOLD", "slow", None, None, None, None),
        ("maya", "SUPPRESS", None, "FACT zoe", False, datetime(2026, 4, 1, tzinfo=UTC), None),
        ("maya", "RELEASE", "slow", None, None, None, None),
        ("ops", "ERASE", "victim", None, None, None, "user_request"),
    ]
    assert told(small, "marks", "ref", actor="ops") == [("victim",)]


def test_stale_decisions_are_those_under_a_version_no_longer_assigned(small):
    columns = ("namespace_id", "policy", "assigned", "op_type", "entries")
    gone = ("default", "default@1.0.0", "archivist@1.0.0")
    # Warned: `sinks`. Six decayed, as counted above.
    assert told(small, "stale_decisions", *columns) == [
        (*gone, "ARCHIVE", 1),
        (*gone, "DECAY_APPLIED", 6),
        (*gone, "DECAY_WARNING", 1),
    ]
    assert told(small, "stale_decisions", *columns, known_at="2026-03-05T00:00:00Z") == []


def test_slots_are_told_where_they_were_missed_or_late(small):
    columns = ("namespace_id", "task", "slot", "missed", "late", "minutes_late", "status")
    weekly = ("centrality", "decay_slow", "dedup")
    thursday = MONDAY + timedelta(days=3)
    missed = {"decay_medium": 1, "decay_rapid_fast": 7, "lifecycle": 1, "retention": 1}
    found = told(small, "slots", *columns)
    assert [(*row[:6],) for row in found] == [
        *((name, task, MONDAY, 0, True, 1440) for name in ("default", "level") for task in weekly),
        *(("default", task, thursday, count, True, 60) for task, count in missed.items()),
    ]
    assert {row[6] for row in found} <= {"done", "nothing_due"}
    still = told(small, "slots", "task", "late", namespace="default", late_minutes=61, days=2)
    assert still == [(task, False) for task in missed]


def test_reinforcement_is_counted_by_signal_and_actor(small):
    changes: dict[tuple[str, str], float] = {}
    for ref in ("plain", "young"):
        for entry in small.history(ref):
            if entry.op_type in ("REINFORCE", "PENALTY"):
                key = (entry.op_type, entry.payload["signal_type"])
                changes[key] = changes.get(key, 0.0) + (entry.confidence_delta or 0.0)
    columns = ("op_type", "signal_type", "actor_id", "signals", "objects", "gamma", "gamma_effective", "delta")
    assert told(small, "reinforcement", *columns, "confidence_change") == [
        (
            "PENALTY",
            "TASK_FAILED_WITH",
            "maya",
            1,
            1,
            None,
            None,
            0.1,
            pytest.approx(changes["PENALTY", "TASK_FAILED_WITH"]),
        ),
        ("REINFORCE", "CONFIRMED", "maya", 2, 2, 0.3, 0.3, None, pytest.approx(changes["REINFORCE", "CONFIRMED"])),
    ]


def test_what_never_decayed_says_why(small):
    assert dict(told(small, "never_decayed", "ref", "why")) == {
        "fixed": "permanent",
        "floor": "no_change",
        "frozen": "frozen",
        "gone": "left_active",
        "pinned": "pinned",
        "slow": "no_slot_since",
    }
    before = dict(told(small, "never_decayed", "ref", "why", known_at="2026-03-03T00:00:00Z", namespace="default"))
    assert before == {
        "fixed": "permanent",
        "frozen": "frozen",
        "gone": "left_active",
        "pinned": "pinned",
        "slow": "no_slot_since",
        "young": "no_slot_since",
    }


def test_refusals_and_conflicts_say_who_met_which_rule(small):
    # Both at one instant: their order is that of their random ids.
    assert sorted(told(small, "refusals", "actor_id", "op_type", "ref", "rule")) == [
        ("maya", "PIN", "plain", "expected_version"),
        ("maya", "RESTORE", "plain", "restore_archived_only"),
    ]
    assert told(small, "conflicts", "kind", "rule", "ref", "other_ref", "actor_id") == [
        ("contradiction", None, "plain", "fixed", "maya"),
        ("refused", "expected_version", "plain", None, "maya"),
    ]


def test_the_log_grows_by_what_its_entries_are(small):
    with small.store.begin() as connection:
        rows = connection.execute(event_log.select()).mappings().all()
    expected: dict[tuple[date, str], list[int]] = {}
    for row in rows:
        day = to_datetime(row["recorded_at"]).date()
        expected.setdefault((day, row["op_type"]), []).append(sum(map(size, row.values(), event_log.columns)))
    found = {(row[0], row[1]): row[2:] for row in asked(small, "log_growth").rows}
    assert found == {key: [len(sizes), sum(sizes), sum(sizes) / len(sizes)] for key, sizes in expected.items()}


def size(value: Any, column: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    return 16 if isinstance(value, UUID) else 2 if isinstance(column.type, SmallInteger) else 8


def test_corrections_say_what_they_changed(rich):
    ebb = rich["duckdb"]
    found = asked(ebb, "corrections")
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    (made,) = [row for row in rows if row["object_id"] is None]
    changed = [row for row in rows if row["object_id"] is not None]
    assert (made["replaced"], made["replaced_by"], made["memories"]) == (
        "keeping@1.0.0",
        "permastore@1.0.0",
        len(changed),
    )
    assert changed
    for row in changed:
        (entry,) = [one for one in ebb.history(row["object_id"]) if one.op_type == "CORRECTED"]
        assert (row["seq"], row["salience"], row["confidence"]) == (entry.seq, entry.salience, entry.confidence)
        assert (row["from_state"], row["to_state"]) == (entry.payload["from_state"], entry.payload["to_state"])
        assert row["to_state"] == (entry.lifecycle_state or row["from_state"])


def test_a_count_by_day_reads_no_json_and_has_an_index_on_postgresql(empty):
    """DuckDB scans the columns that are asked for; the index of PostgreSQL has the expression that the view has."""
    for kind, ebb in empty.items():
        query, given = QUERIES["decay_by_policy"], {"as_of": "2026-03-02T00:00:00Z"}
        with ebb.store.begin() as connection:
            if kind == "postgresql":
                connection.execute(text("SET LOCAL enable_seqscan = off"))
                connection.execute(text("SET LOCAL enable_indexscan = off"))
            rows = connection.execute(text(f"EXPLAIN {query.typed()}"), query.values(given, 0)).all()
        plan = "\n".join(" ".join(map(str, row)) for row in rows)
        assert "payload" not in plan.partition("FROM")[2]
        assert "memory_objects" not in plan
        if kind == "postgresql":
            assert "event_log_effective_day" in plan
