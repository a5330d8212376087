"""Several organisers on one PostgreSQL, each a process of its own: every slot once, whatever their clocks and fates."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from ledger import check, entries_of, read
from shift import hired
from sizes import NAMESPACES, ORGANISERS, SLOTS

from ebbtide import Ebbtide
from ebbtide.model import instant

KINDS = ("HYPOTHETICAL", "INFERRED", "ASSERTED", "ASSERTED", "OBSERVED")
HOURS = {
    "lifecycle": 24, "retention": 24, "decay_rapid_fast": 6, "decay_medium": 24, "decay_slow": 168, "centrality": 168,
    "dedup": 168,
}  # fmt: skip
BEGAN = datetime(2026, 3, 5, 12, tzinfo=UTC)
"""A Thursday noon."""
STEP = timedelta(hours=6)
MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
APART = (0, 3600, -3600, 1800, -1800, 60)
"""By how many seconds the clocks of organisers differ."""
ONCE = ("DECAY_WARNING", "ARCHIVE", "DEPRECATE")


def remember(ebb: Ebbtide, names: list[str], each: int = 5) -> None:
    ebb.ask(
        *(
            {"op": "ASSERT", "object_type": "FACT", "epistemic_type": KINDS[n % 5], "source_type": "USER_STATED",
             "namespace": name, "ref": f"m{n}", "value": n}
            for name in names
            for n in range(each)
        )
    )  # fmt: skip


def expected(wake_ups: list[datetime]) -> set[tuple[str, int]]:
    """Every start of every task from the beginning to the last wake-up, counted from Monday by hand."""
    found = set()
    for task, hours in HOURS.items():
        step = timedelta(hours=hours)
        start = MONDAY + -(-(BEGAN - MONDAY) // step) * step
        while start <= wake_ups[-1]:
            found.add((task, instant.to_micros(start)))
            start += step
    return found


@pytest.mark.parametrize("organisers", ORGANISERS)
def test_every_slot_of_every_namespace_is_done_once(make_url_for, clock, organisers) -> None:
    """On one machine, so under one host name, with clocks that are an hour apart. Each wakes up once for each slot."""
    url = make_url_for("postgresql")
    clock.now = instant.to_micros(BEGAN)
    names = [f"n{number:03}" for number in range(NAMESPACES)]
    wake_ups = [BEGAN + STEP * number + timedelta(minutes=90) for number in range(SLOTS)]
    with Ebbtide(url, clock=clock) as ebb:
        remember(ebb, names)
        workers = [hired(url, ahead=APART[number] * instant.SECOND) for number in range(organisers)]
        told: list[list[tuple[str, str, int, str]]] = [[] for _ in workers]
        began = time.monotonic()
        for at in wake_ups:
            for worker in workers:
                worker.ask(instant.to_micros(at))
            for number, worker in enumerate(workers):
                told[number] += worker.answer()
        seconds = time.monotonic() - began
        for worker in workers:
            worker.end()

        done = Counter(run[:3] for runs in told for run in runs)
        slots = expected(wake_ups)
        assert done == dict.fromkeys(((name, *slot) for name in names for slot in slots), 1), "each told by one of them"
        assert {run[3] for runs in told for run in runs} <= {"done", "nothing_due"}
        assert all(told), "all of them had some"
        for name in names:
            ledger = check(ebb, name)
            assert {(run["task"], run["slot"]) for run in ledger.runs} == slots
            assert len(ledger.runs) == len(slots)
            ends = Counter()
            for entry in ledger.entries:
                if entry.op_type == "ORGANISER_RUN":
                    said = json.loads(entry.payload)
                    ends[said["run_id"]] += said["to"] is None
            assert ends == {str(run["run_id"]): 1 for run in ledger.runs}, "each ended once"
            twice = Counter((e.stream_id, e.op_type) for e in ledger.entries if e.op_type in ONCE)
            twice += Counter((e.stream_id, e.effective_at) for e in ledger.entries if e.op_type == "DECAY_APPLIED")
            assert set(twice.values()) == {1}
    print(
        f"{organisers} organisers: {sum(done.values())} slots in {seconds:.1f} s, {sum(done.values()) / seconds:.0f}/s"
    )


@pytest.mark.parametrize("place", ["INSERT INTO event_log", "UPDATE memory_state", "COMMIT"])
def test_an_organiser_that_is_stopped_past_its_lease_writes_nothing_when_it_goes_on(make_url_for, clock, place) -> None:
    """Within a chunk, where it has the namespace locked, and between two chunks, where it has only the lease."""
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as ebb:
        remember(ebb, ["default"], each=20)
        clock.forward(days=40)
        stopped, other = hired(url, lease_seconds=1, stop_after=place), hired(url, lease_seconds=1)
        try:
            stopped.ask(clock.now)
            assert stopped.answer() == "stopping"
            deadline = time.monotonic() + 60
            while [run["finished_at"] is not None for run in read(ebb).runs] != [True] * len(HOURS):
                assert time.monotonic() < deadline, "the other takes over and does all that is left"
                other.ask(clock.now)
                other.answer()
            log = entries_of(ebb)
            stopped.signal(signal.SIGCONT)
            answer = stopped.answer()
            if place == "COMMIT":
                assert isinstance(answer, list), "it finds that it was overtaken, and goes on"
            else:
                assert "nothing was written" in answer, "the database has ended its connection"
            assert entries_of(ebb) == log
            stopped.ask(clock.now)
            assert stopped.answer() == []
            stopped.end()
            other.end()
        finally:
            with suppress(ProcessLookupError):
                stopped.signal(signal.SIGKILL)
        assert entries_of(ebb) == log
        ledger = check(ebb)
    assert {run["status"] for run in ledger.runs} <= {"done", "nothing_due"}
