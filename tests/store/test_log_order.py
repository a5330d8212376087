"""PostgreSQL: commit order is seq order, whoever writes at once, so a reader at `seq > n` misses nothing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import pytest
from sqlalchemy import Connection, select, text

from ebbtide import Conflict, Ebbtide
from ebbtide.api import DEFAULT_POLICY
from ebbtide.memory.desk import Desk
from ebbtide.memory.requests import request_from
from ebbtide.policy.files import pick
from ebbtide.store.tables import event_log

PATIENCE = 60.0
Work = Callable[[Ebbtide, Barrier], object]
JOB = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED",
       "ref": "job", "value": "carpenter"}  # fmt: skip
CONFIRMED = {"op": "REINFORCE", "object": "job", "signal": "CONFIRMED"}


@pytest.fixture
def url(make_url_for) -> str:
    return make_url_for("postgresql")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(10) as threads:
        yield threads


def event(ref: str, namespace: str = "default") -> dict:
    return {"op": "EVENT", "namespace": namespace, "ref": ref, "content": ref}


def at_once(pool: ThreadPoolExecutor, url: str, clock, works: list[Work]) -> list:
    """Each work in a thread with an Ebbtide of its own, all begun together; results, or the first error."""
    barrier = Barrier(len(works))

    def run(work: Work) -> object:
        with Ebbtide(url, clock=clock) as mine:
            try:
                mine.memories()
                barrier.wait(PATIENCE)
                return work(mine, barrier)
            except BaseException:
                barrier.abort()
                raise

    futures = [pool.submit(run, work) for work in works]
    errors = [future.exception(PATIENCE) for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, BrokenBarrierError):
            raise error
    return [future.result() for future in futures]


def desk_on(ebb: Ebbtide, connection: Connection, clock) -> Desk:
    """A unit of work that the test itself begins and ends, as `ask` would within one call."""
    policy = pick(DEFAULT_POLICY)
    return Desk(ebb.store.db, connection, clock=clock(), entropy=secrets.token_bytes, default_policy=policy)


def take(desk: Desk, clock, request: dict) -> None:
    line = request_from(request)
    desk.open([line.namespace], clock())
    desk.prepare([(line, line.ref)])
    desk.take(line, line.ref)


def comes_to_wait(ebb: Ebbtide, future: Future) -> bool:
    """Watches until a session of this database waits for a lock, or the future is done without having to."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not future.done():
        with ebb.store.begin() as connection:
            if connection.execute(waiting).scalar():
                return True
    return False


def read_after(ebb: Ebbtide, seq: int) -> list[tuple[int, str | None]]:
    """What a reader finds behind the last seq it has seen."""
    query = (
        select(event_log.c.seq, event_log.c.idempotency_key)
        .where(event_log.c.namespace_id == "default", event_log.c.seq > seq)
        .order_by(event_log.c.seq)
    )
    with ebb.store.begin() as connection:
        return [tuple(row) for row in connection.execute(query)]


def test_who_begins_first_and_commits_last_comes_last(ebb, url, clock):
    """A transaction gets its place when it locks the head, not when it begins."""
    ebb.ask(event("zero"))
    with Ebbtide(url, clock=clock) as other:
        with ebb.store.begin() as connection:
            connection.execute(select(event_log)).all()
            other.ask(event("second"))
            assert read_after(other, 2) == [(3, "second")]
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, event("first"))
            desk.close()
            assert read_after(other, 3) == []
        assert read_after(other, 3) == [(4, "first")]


def test_a_writer_waits_for_the_one_that_holds_the_head(ebb, url, clock, pool):
    """While one is open no other can commit a later seq: a reader finds nothing, and then both in order."""
    ebb.ask(event("zero"))
    with Ebbtide(url, clock=clock) as other, Ebbtide(url) as reader:
        with ebb.store.begin() as connection:
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, event("first"))
            desk.close()
            later = pool.submit(other.ask, event("second"))
            assert comes_to_wait(reader, later)
            assert read_after(reader, 2) == []
        later.result(PATIENCE)
        assert read_after(reader, 2) == [(3, "first"), (4, "second")]


def test_a_writer_that_waited_goes_on_from_what_the_other_left(ebb, url, clock, pool):
    """State is read after the head is locked: a reinforcement that waited builds on the one before it."""
    ebb.ask(JOB)
    with Ebbtide(url, clock=clock) as other, Ebbtide(url) as reader:
        with ebb.store.begin() as connection:
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, CONFIRMED)
            desk.close()
            later = pool.submit(other.ask, CONFIRMED)
            assert comes_to_wait(reader, later)
        (taken,) = later.result(PATIENCE)
        assert [(entry.version, entry.fact_version) for entry in taken.entries] == [(3, 3)]


def test_a_rollback_leaves_no_hole(ebb, clock):
    """What was rolled back after it was written is gone, and its seq is given to the next."""
    ebb.ask(event("one"))

    class Regret(Exception):
        pass

    def regretted() -> None:
        with ebb.store.begin() as connection:
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, event("two"))
            desk.close()
            raise Regret

    with pytest.raises(Regret):
        regretted()
    ebb.ask(event("three"))
    assert [key for _, key in read_after(ebb, 0)] == [None, "one", "three"]
    assert [seq for seq, _ in read_after(ebb, 0)] == [1, 2, 3]


def test_a_refused_request_takes_its_whole_call_along(ebb):
    """Of a call in which one request is refused nothing is written, and no seq is lost."""
    ebb.ask(JOB)
    with pytest.raises(Conflict):
        ebb.ask(event("two"), CONFIRMED | {"expected_version": 7})
    ebb.ask(event("three"))
    assert read_after(ebb, 2) == [(3, "three")]


def test_a_reader_sees_every_entry_once_and_in_order(ebb, url, clock, pool):
    """Four writers make 50 requests each while a reader polls `seq > n`: all are found, none comes late."""
    writers, requests = 4, 50
    expected = 1 + writers * requests

    def writes(name: str) -> Work:
        def work(mine: Ebbtide, barrier: Barrier) -> None:
            for number in range(requests):
                mine.ask(event(f"{name}-{number}"))

        return work

    def reads(mine: Ebbtide, barrier: Barrier) -> tuple[int, list[tuple[int, str | None]]]:
        seen: list[tuple[int, str | None]] = []
        polls = 0
        deadline = time.monotonic() + PATIENCE
        while len(seen) < expected and time.monotonic() < deadline and not barrier.broken:
            found = read_after(mine, seen[-1][0] if seen else 0)
            polls += bool(found)
            seen += found
        return polls, seen

    *_, (polls, seen) = at_once(pool, url, clock, [*(writes(f"w{n}") for n in range(writers)), reads])
    assert polls > 10, "the reader read while the writers wrote"
    assert [seq for seq, _ in seen] == list(range(1, expected + 1))
    keys = [key for _, key in seen if key]
    assert len(set(keys)) == writers * requests
    for name in range(writers):
        mine = [key for key in keys if key.startswith(f"w{name}-")]
        assert mine == [f"w{name}-{number}" for number in range(requests)], "each writer's own order is kept"
    assert read_after(ebb, expected) == []


def test_writers_of_several_namespaces_never_deadlock(ebb, url, clock, pool, log_of):
    """Two threads write batches over the same namespaces in opposite orders, 50 rounds: one lock order."""
    names = ["a", "b", "c"]
    ebb.ask(*(event("zero", name) for name in names))

    def rounds(writer: str, order: list[str]) -> Work:
        def work(mine: Ebbtide, barrier: Barrier) -> None:
            for number in range(50):
                barrier.wait(PATIENCE)
                mine.ask(*(event(f"{writer}-{number}", name) for name in order))

        return work

    at_once(pool, url, clock, [rounds("up", names), rounds("down", names[::-1])])
    for name in names:
        assert [entry.seq for entry in log_of(ebb, name)] == list(range(1, 2 + 1 + 100))


def test_the_first_requests_of_two_new_namespaces_do_not_collide(ebb, url, clock, pool):
    """In a store that is quite new, two callers each begin a namespace at once: both succeed."""
    with Ebbtide(url, clock=clock) as other, Ebbtide(url) as reader:
        with ebb.store.begin() as connection:
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, event("first", "a"))
            desk.close()
            later = pool.submit(other.ask, event("first", "b"))
            comes_to_wait(reader, later)
        (taken,) = later.result(PATIENCE)
        assert [entry.seq for entry in taken.entries] == [2]


def test_beginning_several_new_namespaces_never_deadlocks(ebb, url, clock, pool):
    """What a new store still lacks is no lock outside the one order: heads in the order of their names."""
    with Ebbtide(url, clock=clock) as other, Ebbtide(url) as reader:
        with ebb.store.begin() as connection:
            desk = desk_on(ebb, connection, clock)
            take(desk, clock, event("first", "a"))
            later = pool.submit(other.ask, event("other", "b"))
            comes_to_wait(reader, later)
            take(desk, clock, event("first", "b"))
            desk.close()
        later.result(PATIENCE)


def test_ten_reinforcements_at_once_are_ten(ebb, url, clock, pool, log_of):
    """None is lost and none overwrites another: ten entries, versions 1 to 11, one winner of each."""
    ebb.ask(JOB)
    results = at_once(pool, url, clock, [lambda mine, _: mine.ask(CONFIRMED)] * 10)
    versions = [entry.version for (taken,) in results for entry in taken.entries]
    assert sorted(versions) == list(range(2, 12))
    stream = [entry for entry in log_of(ebb, "default") if entry.stream_type == "object"]
    assert [entry.version for entry in stream] == list(range(1, 12))
    assert [entry.fact_version for entry in stream] == list(range(1, 12))
    (memory,) = ebb.memories()
    assert (memory.version, memory.fact_version) == (11, 11)


def test_of_two_writers_who_expect_one_version_one_wins(ebb, url, clock, pool, log_of):
    """The other is told so by a Conflict, exit code 4, and has written nothing but a refusal."""
    ebb.ask(JOB)

    def tries(mine: Ebbtide, _: Barrier) -> Conflict | None:
        try:
            mine.ask(CONFIRMED | {"expected_version": 1})
        except Conflict as conflict:
            return conflict
        return None

    lost = [conflict for conflict in at_once(pool, url, clock, [tries, tries]) if conflict]
    assert [(conflict.exit_code, conflict.rule) for conflict in lost] == [(4, "expected_version")]
    assert [entry.op_type for entry in log_of(ebb)].count("REINFORCE") == 1
    with ebb.store.begin() as connection:
        assert connection.execute(text("SELECT rule FROM refusals")).scalars().all() == ["expected_version"]


def test_two_writers_who_expect_nothing_both_succeed(ebb, url, clock, pool, log_of):
    """Without `expected_version` the second builds on the first."""
    ebb.ask(JOB)
    at_once(pool, url, clock, [lambda mine, _: mine.ask(CONFIRMED)] * 2)
    assert [entry.version for entry in log_of(ebb) if entry.op_type == "REINFORCE"] == [2, 3]


def test_passes_disturb_no_expected_version(ebb, clock):
    """Decay moves an object's version, not the `fact_version` that callers have seen and compare."""
    ebb.ask(JOB)
    clock.forward(days=2)
    ebb.organise()
    (memory,) = ebb.memories()
    assert (memory.version, memory.fact_version) == (2, 1)
    ebb.ask(CONFIRMED | {"expected_version": 1})


def test_one_name_given_twice_at_once_writes_once(ebb, url, clock, pool, log_of):
    """Ten callers with one request under one ref: one writes it, nine are told what it wrote."""
    results = at_once(pool, url, clock, [lambda mine, _: mine.ask(JOB)] * 10)
    assert sorted(taken.unchanged for (taken,) in results) == [False] + [True] * 9
    assert len({taken.target for (taken,) in results}) == 1
    assert [entry.op_type for entry in log_of(ebb)] == ["POLICY_ASSIGNED", "ASSERT"]
