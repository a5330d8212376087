"""The schedule: every slot once, missed ones made up by one run, in UTC, whatever clocks and processes do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from ledger import check, entries_of, read

from ebbtide import Ebbtide
from ebbtide.model import instant

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}
HOURS = {"lifecycle": 24, "retention": 24, "decay_rapid_fast": 6, "decay_medium": 24, "decay_slow": 168}
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Kiritimati")
MONDAY = datetime(1970, 1, 5, tzinfo=UTC)


def newest(task: str, at: datetime) -> datetime:
    """The newest start of a task: starts are multiples of its interval since Monday 1970-01-05T00:00Z."""
    step = timedelta(hours=HOURS[task])
    return MONDAY + (at - MONDAY) // step * step


def slots(ebb: Ebbtide, namespace: str = "default") -> list[tuple[str, datetime]]:
    """The task and start of each slot of the run ledger, which must be done, and once."""
    runs = read(ebb, namespace).runs
    assert all(run["status"] in ("done", "nothing_due") for run in runs)
    assert all(run["as_of"] == run["slot"] for run in runs)
    found = [(run["task"], instant.to_datetime(run["slot"])) for run in runs if run["task"] in HOURS]
    assert len(set(found)) == len(found)
    return found


@pytest.fixture
def hunch(ebb: Ebbtide, clock: Any) -> None:
    """A memory in a namespace that began on a Thursday noon."""
    clock.set("2026-03-05T12:00:00Z")
    ebb.ask(BELIEF | {"ref": "hunch", "value": "likes jazz"})


@pytest.mark.usefixtures("hunch")
def test_missed_slots_are_made_up_by_one_run_at_the_newest(ebb, clock) -> None:
    clock.set("2026-03-06T13:00:00Z")
    ebb.organise()
    first = slots(ebb)
    assert sorted(first) == sorted(
        (task, newest(task, instant.to_datetime(clock.now))) for task in HOURS if task != "decay_slow"
    )
    clock.set("2026-03-19T15:30:00Z")
    ebb.organise()
    now = instant.to_datetime(clock.now)
    assert sorted(set(slots(ebb)) - set(first)) == sorted((task, newest(task, now)) for task in HOURS)
    missed = {
        run["task"]: run["missed"] for run in read(ebb).runs if run["slot"] > instant.parse("2026-03-07T00:00:00Z")
    }
    # Between the 6th and the 19th lie 12 further midnights, and 52 further starts of six hours.
    assert (missed["lifecycle"], missed["decay_medium"], missed["decay_rapid_fast"]) == (12, 12, 51)
    check(ebb)


@pytest.mark.usefixtures("hunch")
def test_no_slot_lies_before_the_namespace_began(ebb, clock) -> None:
    ebb.organise()
    assert slots(ebb) == [("decay_rapid_fast", instant.to_datetime(clock.now))]


@pytest.mark.usefixtures("hunch")
def test_a_clock_that_jumps_does_no_slot_twice(ebb, clock) -> None:
    clock.set("2026-03-17T09:00:00Z")
    ebb.organise()
    done, log = slots(ebb), entries_of(ebb)
    for back in ("2026-03-17T08:59:00Z", "2026-03-16T23:00:00Z", "2026-03-10T00:00:00Z", "2026-03-17T09:00:00Z"):
        clock.set(back)
        assert ebb.organise() == []
        assert ebb.organise(as_of="2026-03-06T00:00:00Z") == []
    assert entries_of(ebb) == log
    clock.set("2026-03-17T12:00:00Z")
    assert [(run.task, run.as_of) for run in ebb.organise()] == [("decay_rapid_fast", clock.now)]
    assert len(slots(ebb)) == len(done) + 1
    recorded = [entry.recorded_at for entry in check(ebb).entries]
    assert recorded == sorted(recorded)


@pytest.mark.usefixtures("hunch")
def test_what_is_asked_while_the_clock_is_behind_is_recorded_no_earlier(ebb, clock) -> None:
    clock.set("2026-03-17T09:00:00Z")
    ebb.organise(tasks=["decay_medium"])
    clock.set("2026-03-16T09:00:00Z")
    [taken] = ebb.ask({"op": "ACCESS", "object": "hunch"})
    assert instant.iso(taken.entries[0].recorded_at) == "2026-03-17T09:00:00Z"
    assert instant.iso(taken.entries[0].effective_at) == "2026-03-16T09:00:00Z"
    check(ebb)


@pytest.mark.usefixtures("hunch")
def test_weekly_slots_start_on_mondays_at_midnight(ebb, clock) -> None:
    clock.set("2026-04-09T10:00:00Z")
    with ebb.store.db.connect():
        ebb.walk("2026-03-05T00:00:00Z", None, tasks=["decay_slow", "decay_medium"])
    found = [start for task, start in slots(ebb) if task == "decay_slow"]
    assert found == [datetime(2026, 3, 9, tzinfo=UTC) + timedelta(weeks=n) for n in range(5)]
    assert {start.weekday() for start in found} == {0}


@pytest.mark.usefixtures("hunch")
def test_a_walk_runs_every_slot_once_across_daylight_saving(ebb, clock) -> None:
    """The clocks of Europe and America change within these days; no day has more or fewer slots for it."""
    clock.set("2026-04-02T00:00:00Z")
    with ebb.store.db.connect():
        tasks = ["decay_rapid_fast", "lifecycle"]
        ebb.walk("2026-03-06T00:00:00Z", None, tasks=tasks)
        assert ebb.walk("2026-03-06T00:00:00Z", None, tasks=tasks) == []
    per_day = Counter((task, start.date()) for task, start in slots(ebb))
    days = [datetime(2026, 3, 6, tzinfo=UTC).date() + timedelta(days=n) for n in range(27)]
    assert [per_day["decay_rapid_fast", day] for day in days] == [4] * 27
    assert [per_day["lifecycle", day] for day in days] == [1] * 27


@pytest.mark.usefixtures("hunch")
def test_a_process_that_starts_again_and_again_runs_a_task_once_per_interval(url, ebb, clock) -> None:
    """The interval is counted from Monday, not from the start of a process."""
    for _ in range(40):
        clock.forward(seconds=20 * 60)
        with Ebbtide(url, clock=clock) as restarted:
            restarted.organise(tasks=["decay_rapid_fast"])
    starts = [start.hour for _, start in slots(ebb)]
    assert starts == [12, 18, 0]


@pytest.mark.usefixtures("hunch")
def test_a_stopped_run_goes_on_and_its_slot_is_done_once(url, ebb, clock) -> None:
    ebb.ask(*(BELIEF | {"ref": f"m{n}", "value": n} for n in range(9)))
    clock.forward(days=40)
    asked = iter([False, False, True])
    with Ebbtide(url, clock=clock, chunk_size=2) as small:
        assert small.organise(tasks=["lifecycle"], stopping=lambda: next(asked, True)) == []
        [begun] = read(ebb).runs
        assert (begun["status"], begun["deprecated"]) == ("running", 4)
        clock.forward(hours=1)
        [run] = small.organise(tasks=["lifecycle"])
    assert (run.status, run.deprecated, run.examined) == ("done", 10, 10)
    assert {state.lifecycle_state for state in check(ebb).live.values()} == {"DEPRECATED"}


def test_many_organisers_at_once_do_each_slot_once(make_url_for, clock) -> None:
    """Four of them, on one PostgreSQL, in chunks of two."""
    url = make_url_for("postgresql")
    clock.set("2026-03-05T12:00:00Z")
    with Ebbtide(url, clock=clock) as ebb:
        ebb.ask(*(BELIEF | {"ref": f"m{n}", "value": n} for n in range(15)))
        clock.forward(days=40)
        barrier = Barrier(4)

        def organise(_: int) -> int:
            with Ebbtide(url, clock=clock, chunk_size=2) as mine:
                mine.status()
                barrier.wait(60)
                return len(mine.organise())

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(organise, range(4)))
        ledger = check(ebb)
        assert sum(found) >= len(slots(ebb))
    assert {state.lifecycle_state for state in ledger.live.values()} == {"DEPRECATED"}
    for name in ("DECAY_WARNING", "DEPRECATE"):
        assert Counter(e.stream_id for e in ledger.entries if e.op_type == name).most_common(1)[0][1] == 1


CHILD = """
import json, sys, time
from ebbtide import Ebbtide
from ebbtide.model import instant
now = [instant.parse("2026-03-05T12:00:00Z")]
seen = []
for url in sys.argv[1:]:
    now[0] = instant.parse("2026-03-05T12:00:00Z")
    with Ebbtide(url, clock=lambda: now[0]) as ebb, ebb.store.db.connect():
        ebb.assign_policy("recency@1.0.0", namespace="short")
        belief = {"op": "ASSERT", "object_type": "TASK", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}
        for namespace in ("default", "short"):
            ebb.ask(belief | {"namespace": namespace, "ref": "hunch", "value": 1})
            ebb.ask(belief | {"namespace": namespace, "ref": "task", "value": 1, "decay_profile": "PERMANENT"})
        for when in ("2026-03-08T06:30:00Z", "2026-03-29T00:30:00Z", "2026-03-29T23:30:00Z", "2026-06-03T12:00:00Z"):
            now[0] = instant.parse(when)
            ebb.organise()
            for namespace in ("default", "short"):
                for m in ebb.memories(namespace=namespace, everything=True):
                    seen.append([when, namespace, m.ref, m.lifecycle_state, m.salience, m.withheld, str(m.due_at)])
                for e in ebb.history("hunch", namespace=namespace):
                    seen.append([e.op_type, str(e.effective_at), str(e.recorded_at)])
        seen.append(sorted([r.namespace_id, r.task, r.as_of] for r in ebb.runs(limit=1000)))
print(json.dumps([time.strftime("%z", time.gmtime(0)), time.timezone, seen]))
"""


def test_the_hosts_time_zone_changes_nothing(make_url_for) -> None:
    """Slots, instants and verdicts are the same under any TZ; 90 days are over at an instant, not on a local date."""
    children = []
    for zone in ZONES:
        environment = os.environ | {"TZ": zone, "PGTZ": zone}
        urls = [make_url_for(kind) for kind in ("duckdb", "postgresql")]
        command = [sys.executable, "-c", CHILD, *urls]
        children.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
        )
    told = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert [child.returncode for child in children] == [0] * len(ZONES)
    assert len({offset for _, offset, _ in told}) == len(ZONES), "the zones do differ"
    for _, _, seen in told[1:]:
        assert seen == told[0][2]
