"""Where a store stands: what is due, behind schedule, held and set aside, against a calculation by hand."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import insert

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.model.words import Task
from ebbtide.organise.lease import retry, set_aside
from ebbtide.store.tables import organiser_runs

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}
NOON = instant.parse("2026-03-05T12:00:00Z")
"""A Thursday."""
DAY, HOUR = instant.DAY, instant.HOUR


def test_an_empty_store_stands_at_nothing(ebb) -> None:
    found = ebb.standing()
    assert (found.namespaces, found.entries, found.due, found.quarantined) == (0, 0, 0, 0)
    assert set(found.lag.values()) == {0}
    assert found.last == {}
    assert found.head == hashlib.sha256(b"").hexdigest()


def test_lag_is_counted_from_the_first_start_that_nobody_ran(ebb, clock) -> None:
    clock.now = NOON
    ebb.ask(BELIEF | {"namespace": "a", "ref": "m", "value": 1})
    clock.forward(hours=13)
    assert lag(ebb) == {"decay_rapid_fast": 13 * HOUR, "lifecycle": HOUR, "retention": HOUR, "decay_medium": HOUR}
    ebb.organise()
    assert lag(ebb) == {}
    assert ebb.standing().last[Task.DECAY_RAPID_FAST] == NOON + 12 * HOUR
    clock.forward(hours=4)
    ebb.ask(BELIEF | {"namespace": "b", "ref": "m", "value": 1})
    clock.forward(hours=2)
    # In "a" 06:00 is due since an hour; "b" began at 05:00, so for it as well.
    assert lag(ebb) == {"decay_rapid_fast": HOUR}
    ebb.organise(namespace="b")
    assert lag(ebb) == {"decay_rapid_fast": HOUR}, "a is still behind"
    ebb.organise(namespace="a")
    assert lag(ebb) == {}
    # Until Monday the 16th at noon: lifecycle missed from Saturday the 7th on, the weekly ones from Monday the 9th.
    clock.now = instant.parse("2026-03-16T12:00:00Z")
    assert lag(ebb) == {
        "decay_rapid_fast": 10 * DAY, "lifecycle": 9 * DAY + 12 * HOUR, "retention": 9 * DAY + 12 * HOUR,
        "decay_medium": 9 * DAY + 12 * HOUR, "decay_slow": 7 * DAY + 12 * HOUR, "centrality": 7 * DAY + 12 * HOUR,
        "dedup": 7 * DAY + 12 * HOUR,
    }  # fmt: skip


def lag(ebb: Ebbtide) -> dict[str, int]:
    return {str(task): late for task, late in ebb.standing().lag.items() if late}


def test_what_is_due_held_and_set_aside_is_counted(ebb, clock) -> None:
    clock.now = NOON
    ebb.ask(*(BELIEF | {"namespace": "many", "ref": f"m{n}", "value": n} for n in range(30)))
    ebb.ask(*(BELIEF | {"namespace": "few", "ref": f"m{n}", "value": n} for n in range(3)))
    assert ebb.standing().due == 0
    clock.forward(days=40)
    assert ebb.standing().due == 33
    ebb.organise(namespace="many")
    found = ebb.standing()
    assert {task: number for task, number in found.held.items() if number} == {Task.LIFECYCLE: 1}
    assert found.due == 33
    [held] = [run for run in ebb.runs(namespace="many") if run.status == "held"]
    ebb.approve(held.run_id)
    ebb.organise(no_guard=True)
    found = ebb.standing()
    assert (found.due, set(found.held.values()), found.quarantined) == (0, {0}, 0)
    ends = ebb.digest().heads
    said = "".join("\x1f".join((e.namespace_id, str(e.seq), str(e.batch), e.hash)) + "\n" for e in ends)
    assert (found.head, found.namespaces) == (hashlib.sha256(said.encode()).hexdigest(), 2)
    assert found.entries == sum(e.seq for e in ends)
    with ebb.store.begin() as connection:
        set_aside(ebb.store.db, connection, "few", "me", task="lifecycle", slot=NOON, why="a reason")
    assert ebb.standing().quarantined == 1
    with ebb.store.begin() as connection:
        retry(connection, "few")
    assert ebb.standing().quarantined == 0


def test_a_ledger_of_years_is_not_read_through(make_url_for, clock) -> None:
    """PostgreSQL finds the newest slot of each task by the key: as many rows of the ledger as there are tasks."""
    clock.now = NOON
    with Ebbtide(make_url_for("postgresql"), clock=clock) as ebb:
        ebb.ask(BELIEF | {"ref": "m", "value": 1})
        ebb.organise()
        with ebb.store.begin() as connection:
            row: dict[str, Any] = dict(connection.execute(organiser_runs.select().limit(1)).mappings().one())
            old = [row | {"slot": row["slot"] - n, "as_of": row["as_of"] - n} for n in range(1, 20_001)]
            connection.execute(insert(organiser_runs), old)
            connection.exec_driver_sql("ANALYZE organiser_runs")
        before = rows_read(ebb)
        ebb.standing()
        ebb.organise()
        assert rows_read(ebb) - before < 200


def rows_read(ebb: Ebbtide) -> int:
    """Rows of the run ledger that were read so far, by scans and by index."""
    with ebb.store.begin() as connection:
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
    with ebb.store.begin() as connection:
        query = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'organiser_runs'"
        return connection.exec_driver_sql(query).scalar_one()
