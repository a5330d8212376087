"""Several organisers on one store: who has a namespace, who was overtaken, and what fails stops nobody."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from ledger import check, entries_of
from sqlalchemy import delete, event, func, insert, select, update

from ebbtide import Ebbtide
from ebbtide.log.head import lock
from ebbtide.model.instant import HOUR
from ebbtide.model.words import Task
from ebbtide.organise import sharing
from ebbtide.organise.lease import Lease, Overtaken, Taken
from ebbtide.organise.reports import Reports
from ebbtide.store.tables import event_log, leases, policies

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "HYPOTHETICAL", "source_type": "USER_STATED"}


def remember(ebb: Ebbtide, *names: str, each: int = 1) -> None:
    said = [BELIEF | {"namespace": name, "ref": f"m{n}", "value": n} for name in names for n in range(each)]
    ebb.ask(*said)


def execute(ebb: Ebbtide, *statements: Any) -> None:
    with ebb.store.begin() as connection:
        for statement in statements:
            connection.execute(statement)


def lease_of(ebb: Ebbtide, name: str) -> Any:
    with ebb.store.begin() as connection:
        return connection.execute(select(leases).where(leases.c.namespace_id == name)).first()


def test_an_organiser_that_was_overtaken_writes_nothing(make_url_for, clock) -> None:
    """Two on one PostgreSQL, whose clocks are an hour apart, take turns chunk by chunk."""
    url = make_url_for("postgresql")
    with ExitStack() as both:
        ebb = both.enter_context(Ebbtide(url, clock=clock, chunk_size=2))
        ahead = both.enter_context(Ebbtide(url, clock=lambda: clock.now + HOUR, chunk_size=2))
        remember(ebb, "default", each=7)
        remember(ebb, "other")
        clock.forward(days=30)
        one = both.enter_context(ebb._organiser())
        two = both.enter_context(ahead._organiser())
        slot = ("default", Task.LIFECYCLE, clock.now)
        first = one.take("default", wait=False)
        assert isinstance(first, Lease)
        assert one._one_chunk(*slot)[0] is False
        assert two.take("default", wait=False) == Taken.LEASED
        assert [run.namespace_id for run in ahead.organise(tasks=["lifecycle"])] == ["other"]

        execute(ebb, update(leases).values(lease_until=0))  # one was stopped for as long as the lease lasts
        second = two.take("default", wait=False)
        assert (type(second), second.fence) == (Lease, first.fence + 1)
        assert two._one_chunk(*slot)[0] is False
        before = entries_of(ebb)
        with pytest.raises(Overtaken):
            one._one_chunk(*slot)
        assert entries_of(ebb) == before
        one.give_back(well=True)
        assert lease_of(ebb, "default").holder == two.holder, "nobody gives back what another holds"
        run = two.run(*slot)
        two.give_back(well=True)
        assert (run.status, run.deprecated) == ("done", 7)
        assert lease_of(ebb, "default").holder is None
        moved = Counter(e.stream_id for e in check(ebb).entries if e.op_type == "DEPRECATE")
        assert (len(moved), set(moved.values())) == (7, {1})
        assert ebb.organise(tasks=["lifecycle"]) == []


def test_a_lease_ends_with_the_connection_of_its_holder(make_url_for, clock) -> None:
    """Killed, an organiser keeps nobody waiting; while its connection is let go of, only time does."""
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as ebb, ebb._organiser() as two:
        remember(ebb, "default")
        clock.forward(days=30)
        with Ebbtide(url, clock=clock) as dying:
            with dying._organiser() as one:
                taken = one.take("default", wait=False)
                assert two.take("default", wait=False) == Taken.LEASED
                pid = one.connection.connection.dbapi_connection.info.backend_pid
                execute(ebb, select(func.pg_terminate_backend(pid, 10_000)))  # and waits until it is gone
                one.connection.invalidate()
            assert isinstance(two.take("default", wait=False), Lease)
            assert two.lease.fence == taken.fence + 1
        execute(ebb, update(leases).values(holder="away", session=None))
        assert two.take("default", wait=False) == Taken.LEASED
        execute(ebb, update(leases).values(lease_until=0))
        assert isinstance(two.take("default", wait=False), Lease)


def test_what_is_locked_is_left_for_last_and_then_set_aside(make_url_for, clock) -> None:
    """A transaction that never ends keeps its own namespace only."""
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as stuck, Ebbtide(url, clock=clock, wait=0.2) as ebb:
        remember(ebb, "a", "b", "c")
        clock.forward(days=30)
        with stuck.store.begin() as connection:
            lock(stuck.store.db, connection, "a")
            found = {run.namespace_id: run for run in ebb.organise(tasks=["lifecycle"])}
            assert {name: run.status for name, run in found.items()} == {
                "a": "quarantined", "b": "done", "c": "done",
            }  # fmt: skip
            assert found["a"].error.startswith("LockNotAvailable: ")
        ebb.retry("a")
        assert [run.status for run in ebb.organise(tasks=["lifecycle"])] == ["done"]


def test_a_namespace_that_fails_is_set_aside_and_stops_no_other(ebb, clock) -> None:
    remember(ebb, "a", "b", "c")
    clock.forward(days=30)
    mine = policies.c.namespace_id == "b"
    with ebb.store.begin() as connection:
        document = connection.execute(select(policies.c.document).where(mine)).scalar_one()
        other = connection.execute(select(policies.c.document).where(policies.c.namespace_id == "a")).scalar_one()
    assert document == other
    execute(ebb, update(policies).where(mine).values(document='{"id":'))

    for _ in range(2):
        found = {(run.namespace_id, run.task): run for run in ebb.organise(tasks=["lifecycle"])}
        assert found["b", "all"].status == "quarantined"
        assert "EOF" in found["b", "all"].error or "JSON" in found["b", "all"].error
        assert lease_of(ebb, "b").failures == 1, "what is set aside is not tried meanwhile"
    assert {run.status for run in ebb.runs() if run.namespace_id != "b"} == {"done"}
    assert {run.namespace_id for run in ebb.runs() if run.status == "done"} == {"a", "c"}
    assert ebb.runs()[0].status == "quarantined"
    assert [p for p in ebb.problems() if p.startswith("namespace b: it failed") and "ebb runs retry b" in p]
    assert ebb.organise(tasks=["lifecycle"], namespace="a") == []

    first = lease_of(ebb, "b")
    execute(ebb, update(leases).values(retry_at=1))  # a while later
    ebb.organise(tasks=["lifecycle"])
    again = lease_of(ebb, "b")
    assert again.failures == 2
    assert again.retry_at > first.retry_at, "twice as long"
    execute(ebb, update(policies).where(mine).values(document=document))
    assert {t.last_status for t in ebb.status(namespace="b").tasks} == {"quarantined"}
    ebb.retry("b")
    assert [(run.namespace_id, run.status) for run in ebb.organise(tasks=["lifecycle"])] == [("b", "done")]
    after = lease_of(ebb, "b")
    assert (after.failures, after.retry_at, after.error, after.holder) == (0, None, None, None)
    check(ebb, "b")


def test_a_slot_that_fails_is_named_and_leaves_nothing_behind(ebb, clock) -> None:
    """Something stands already in the log where its chunk would write."""
    remember(ebb, "a", "b")
    clock.forward(days=30)
    with ebb.store.begin() as connection:
        mine = select(event_log).where(event_log.c.namespace_id == "a").order_by(event_log.c.seq.desc())
        last = dict(connection.execute(mine).mappings().first())
        stray = {"seq": last["seq"] + 1, "version": last["version"] + 100, "idempotency_key": None}
        connection.execute(insert(event_log), last | stray)
    runs = {run.namespace_id: run for run in ebb.organise(tasks=["lifecycle"])}
    assert (runs["a"].status, runs["a"].task, runs["a"].as_of) == ("quarantined", "lifecycle", clock.now)
    assert "\n" not in runs["a"].error
    assert "nstraint" in runs["a"].error
    assert runs["b"].status == "done"
    assert {m.lifecycle_state for m in ebb.memories(namespace="a", everything=True)} == {"ACTIVE"}
    assert [(run.namespace_id, run.status) for run in ebb.runs()] == [("a", "quarantined"), ("b", "done")]
    status = {t.task: t.last_status for t in ebb.status(namespace="a").tasks}
    assert (status["lifecycle"], status["retention"]) == ("quarantined", None)
    execute(ebb, delete(leases))


def test_a_wake_up_with_nothing_due_asks_as_much_for_many_namespaces_as_for_one(ebb, clock) -> None:
    asked: list[str] = []
    event.listen(ebb.store.db.engine(), "after_cursor_execute", lambda *given: asked.append(given[2]))

    def statements(*names: str) -> list[str]:
        remember(ebb, *names)
        ebb.organise()
        asked.clear()
        assert ebb.organise() == []
        return [statement[:50] for statement in asked]

    alone = statements("one")
    assert statements(*(f"n{number}" for number in range(30))) == alone
    assert len(alone) < 10


def test_what_another_organiser_did_meanwhile_is_not_done_again(make_url_for, clock, monkeypatch) -> None:
    """Namespaces are looked at in groups; what is in one that is to come may be done by others before."""
    monkeypatch.setattr(sharing, "TOGETHER", 2)
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as ebb, Ebbtide(url, clock=clock) as other:
        names = [f"n{number}" for number in range(6)]
        remember(ebb, *names)
        clock.forward(days=30)
        meanwhile: list[Any] = []

        class Told(Reports):
            def ran(self, run: Any, seconds: float) -> None:
                if not meanwhile:
                    meanwhile.extend(other.organise())

        mine = ebb.organise(told=Told())
        assert {run.namespace_id for run in mine} | {run.namespace_id for run in meanwhile} == set(names)
        slots = Counter((run.namespace_id, run.task, run.as_of) for run in [*mine, *meanwhile])
        assert set(slots.values()) == {1}
        for name in names:
            check(ebb, name)
