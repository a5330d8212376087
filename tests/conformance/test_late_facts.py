"""Facts that arrive late, and the two times: what held at an instant, and what was known at one."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from histories import ASKED, EPISTEMIC
from ledger import Ledger, check, entries_of
from sizes import SEEDS
from sqlalchemy import delete, insert, select

from ebbtide import BadInput, Ebbtide, NotFound, Refused
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.state import OBJECT_COLUMNS, STATE_COLUMNS
from ebbtide.project.fold import fold
from ebbtide.store.tables import contents, memory_objects, memory_state, policies, policy_profiles, suppressions

DAY, MINUTE = instant.DAY, instant.MINUTE
BEGIN = instant.parse("2026-03-02T00:00:00Z")
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
CONFIRMED = {"op": "REINFORCE", "signal": "CONFIRMED"}


def iso(days: float) -> str:
    """So many days after the beginning."""
    return instant.iso(BEGIN + round(days * DAY))


@pytest.fixture
def job(ebb: Ebbtide) -> Callable[..., Entry]:
    """A memory asserted on day 0. Called with a request about it, gives the entry that was written."""
    ebb.ask(BELIEF | {"ref": "job", "value": "carpenter"})

    def ask(request: dict[str, Any], day: float) -> Entry:
        return ebb.ask(request | {"object": "job", "effective_at": iso(day)})[0].entries[-1]

    return ask


# Lateness


def test_a_fact_from_before_the_last_one_takes_effect_at_that_ones_instant(ebb, clock, job) -> None:
    clock.forward(days=10)
    assert job(CONFIRMED, 8).effective_at == BEGIN + 8 * DAY
    late = job({"op": "PENALTY", "signal": "TASK_FAILED_WITH"}, 5)
    assert late.effective_at == BEGIN + 8 * DAY
    assert '"late":true' in late.payload
    assert f'"stated_at":"{iso(5)}"' in late.payload
    assert job({"op": "ACCESS"}, 8.5).effective_at == BEGIN + round(8.5 * DAY)
    check(ebb)


def test_a_fact_that_is_on_time_bears_no_mark(ebb, clock, job) -> None:
    clock.forward(days=10)
    for day in (8, 8, 9):
        assert "late" not in job(CONFIRMED, day).payload
    assert ebb.ask({"op": "ACCESS", "object": "job"})[0].entries[0].effective_at == clock.now


def test_a_fact_from_before_a_transition_takes_effect_at_the_transitions_instant(ebb, clock, job) -> None:
    ebb.assign_policy("archivist@1.0.0")
    clock.forward(days=120)
    ebb.organise()
    [archived] = [entry for entry in entries_of(ebb) if entry.op_type == "ARCHIVE"]
    assert archived.effective_at < clock.now - 30 * DAY
    restored = job({"op": "RESTORE"}, 40)
    assert restored.effective_at == archived.effective_at
    assert f'"stated_at":"{iso(40)}"' in restored.payload


def test_what_is_late_only_against_a_decay_pass_needs_no_mending(ebb, clock, job) -> None:
    """The scores are those of a store that heard of it before the pass."""
    twin = BELIEF | {"namespace": "on-time", "ref": "job", "value": "carpenter", "effective_at": iso(0)}
    ebb.ask(twin)
    clock.forward(days=5)
    ebb.ask(CONFIRMED | {"namespace": "on-time", "object": "job"})
    clock.forward(days=5)
    ebb.organise()
    assert any(e.op_type == "DECAY_APPLIED" and e.effective_at > BEGIN + 5 * DAY for e in entries_of(ebb))
    heard_late = job(CONFIRMED, 5)
    assert (heard_late.effective_at, "late" in heard_late.payload) == (BEGIN + 5 * DAY, False)
    clock.forward(days=4)
    ebb.organise()
    both = [next(iter(check(ebb, namespace).live.values())) for namespace in ("default", "on-time")]
    for name in ("salience", "confidence", "decaying", "boost", "confidence_base", "segment_at", "due_at", "exit_at"):
        assert getattr(both[0], name) == getattr(both[1], name), name


def test_a_fact_more_than_five_minutes_ahead_of_the_clock_is_refused(ebb, clock, job) -> None:
    clock.forward(days=1)
    before = entries_of(ebb)
    for ahead in (5 * MINUTE + 1, DAY):
        for request in (CONFIRMED | {"object": "job"}, BELIEF | {"value": 1}, {"op": "EVENT", "content": "x"}):
            with pytest.raises(BadInput, match="ahead of the clock"):
                ebb.ask(request | {"effective_at": instant.iso(clock.now + ahead)})
    assert entries_of(ebb) == before
    assert job(CONFIRMED, (clock.now - BEGIN + 5 * MINUTE) / DAY).effective_at == clock.now + 5 * MINUTE


@pytest.mark.parametrize("naive", ["2026-03-02T00:00:00", "2026-03-02", datetime(2026, 3, 2)])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused_everywhere(ebb, clock, job, naive) -> None:
    clock.forward(days=1)
    before = entries_of(ebb)
    for call in (
        lambda: ebb.ask(BELIEF | {"value": 1, "effective_at": naive}),
        lambda: ebb.reinforce("job", signal="CONFIRMED", at=naive),
        lambda: ebb.organise(as_of=naive),
        lambda: ebb.walk(naive, None),
        lambda: ebb.memories(as_of=naive),
        lambda: ebb.memories(known_at=naive),
        lambda: ebb.memory("job", as_of=naive),
    ):
        with pytest.raises(BadInput):
            call()
    assert entries_of(ebb) == before


# Two times


def live_through(ebb: Ebbtide, clock: Any, seed: int) -> Iterator[None]:
    """A random history with late facts and late runs; it pauses after every step, and the clock never stands."""
    rng = random.Random(seed)
    policies_at_hand = ["default@1.0.0", "archivist@1.0.0", "permastore@1.0.0", "spaced@1.0.0"]
    ebb.assign_policy(rng.choice(policies_at_hand))
    for number in range(8):
        clock.forward(hours=rng.uniform(0.01, 30))
        kind = {"epistemic_type": EPISTEMIC[number % 6], "confidence": 0.95, "subject": "maya"}
        ebb.ask(BELIEF | kind | {"ref": f"m{number}", "value": number, "salience": round(rng.uniform(0.2, 1), 9)})
        yield
    asked = [
        *ASKED,
        {"op": "SUPERSEDE", "value": "newer"},
        {"op": "SUPPRESS"},
        {"op": "UNSUPPRESS"},
        {"op": "DEPRECATE"},
    ]
    for _ in range(32):
        clock.forward(hours=rng.choice([rng.uniform(0.01, 5), rng.uniform(10, 400)]))
        step = rng.random()
        if step < 0.25:
            ebb.organise()
        elif step < 0.3:
            ebb.assign_policy(rng.choice(policies_at_hand))
        else:
            request = rng.choice(asked) | {"object": f"m{rng.randrange(8)}"}
            if request.pop("days", None) is not None:
                request["expires_at"] = instant.iso(clock.now + 9 * DAY)
            if rng.random() < 0.5:
                request["effective_at"] = instant.iso(max(BEGIN, clock.now - rng.randrange(20 * DAY)))
            try:
                ebb.ask(request)
            except (Refused, NotFound):
                continue
        yield


@dataclass
class Sandbox:
    """A second store that only ever saw some entries of the first: their fold, and what they name."""

    ebb: Ebbtide
    now: list[int]
    suppressions: list[dict[str, Any]] = field(default_factory=list)

    def memories(self, entries: Iterable[Entry], at: int, known_at: int | None = None) -> list[Any]:
        """All memories at an instant, after entries; with suppressions, and their ends, as recorded by another."""
        self.now[0] = at
        until = sys.maxsize if known_at is None else known_at
        heard = [row for row in self.suppressions if row["recorded_at"] <= until]
        unheard = {"ended_at": None, "end_recorded_at": None}
        rows = [row | unheard if (row["end_recorded_at"] or 0) > until else row for row in heard]
        with self.ebb.store.begin() as connection:
            connection.execute(delete(suppressions))
            if rows:
                connection.execute(insert(suppressions), rows)
        states = list(fold(entries).values())
        with self.ebb.store.begin() as connection:
            for table, names in ((memory_objects, OBJECT_COLUMNS), (memory_state, STATE_COLUMNS)):
                connection.execute(delete(table))
                rows = [{name: getattr(state, name) for name in names} for state in states]
                self.ebb.store.db.bulk_insert(connection, table, rows)
        return self.ebb.memories(everything=True)

    def share(self, source: Ebbtide) -> None:
        """Takes over what entries name: policies and contents."""
        with source.store.begin() as connection:
            self.suppressions = [dict(row) for row in connection.execute(select(suppressions)).mappings()]
        for table in (policies, policy_profiles, contents):
            with source.store.begin() as connection:
                rows = [dict(row) for row in connection.execute(select(table)).mappings()]
            with self.ebb.store.begin() as connection:
                connection.execute(delete(table))
                if rows:
                    connection.execute(insert(table), rows)


@pytest.fixture
def sandbox(url, make_url_for) -> Iterator[Sandbox]:
    now = [0]
    with Ebbtide.open(make_url_for(url.partition(":")[0].partition("+")[0]), clock=lambda: now[0]) as ebb:
        yield Sandbox(ebb, now)


def moments(ledger: Ledger, rng: random.Random, size: int) -> list[int]:
    """Instants at which entries took effect or were recorded, and those just before."""
    found = {at for entry in ledger.entries for at in (entry.effective_at, entry.recorded_at)}
    return sorted(rng.sample(sorted(found | {at - 1 for at in found}), size))


def as_datetime(at: int) -> datetime:
    return instant.to_datetime(at)


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_reading_the_past_gives_what_a_store_gives_that_saw_no_more(ebb, clock, sandbox, seed) -> None:
    """as_of: only entries effective by then; known_at: only those recorded by then; and both at once."""
    with ebb.store.db.connect(), sandbox.ebb.store.db.connect():
        for _ in live_through(ebb, clock, seed):
            pass
        ledger, rng = check(ebb), random.Random(seed)
        sandbox.share(ebb)
        for at in moments(ledger, rng, 24):
            effective = [entry for entry in ledger.entries if entry.effective_at <= at]
            assert ebb.memories(as_of=as_datetime(at), everything=True) == sandbox.memories(effective, at), at
            known = [entry for entry in effective if entry.recorded_at <= at]
            assert ebb.memories(known_at=as_datetime(at), everything=True) == sandbox.memories(known, at, at), at
        for at, then in zip(moments(ledger, rng, 12), rng.sample(moments(ledger, rng, 12), 12), strict=True):
            seen = [entry for entry in ledger.entries if entry.effective_at <= at and entry.recorded_at <= then]
            found = ebb.memories(as_of=as_datetime(at), known_at=as_datetime(then), everything=True)
            assert found == sandbox.memories(seen, at, then), (at, then)


def test_a_suppression_heard_of_later_was_not_known_before(ebb, clock, job) -> None:
    """Nor does one that ended, as was heard of later, stop being known."""
    clock.forward(days=10)
    job({"op": "SUPPRESS"}, 5)
    assert [ebb.memory("job", known_at=iso(day)).suppressed for day in (7, 10)] == [False, True]
    assert ebb.memory("job", as_of=iso(7)).suppressed
    clock.forward(days=10)
    job({"op": "UNSUPPRESS"}, 12)
    assert [ebb.memory("job", known_at=iso(day)).suppressed for day in (7, 10, 15, 20)] == [False, True, True, False]
    assert [ebb.memory("job", as_of=iso(day)).suppressed for day in (7, 15)] == [True, False]


@pytest.mark.parametrize("seed", range(5, 5 + SEEDS))
def test_what_was_known_is_what_was_read_then(ebb, clock, seed) -> None:
    """Whatever is heard of later, `known_at` tells what a reader saw at that instant."""
    with ebb.store.db.connect():
        read_then = {}
        for _ in live_through(ebb, clock, seed):
            read_then[clock.now] = ebb.memories(everything=True)
        for at, memories in read_then.items():
            assert ebb.memories(known_at=as_datetime(at), everything=True) == memories, instant.iso(at)


def test_as_of_now_is_what_is_read_without_it(ebb, clock) -> None:
    with ebb.store.db.connect():
        for step, _ in enumerate(live_through(ebb, clock, 5)):
            if step % 3:
                continue
            assert ebb.memories(as_of=as_datetime(clock.now), everything=True) == ebb.memories(everything=True)
