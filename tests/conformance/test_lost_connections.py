"""PostgreSQL goes away in the middle: nothing is there by halves, and whoever asks again gets what was meant, once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger import check, entries_of
from proxy import Proxy, proxied
from sqlalchemy import create_engine, event, text

from ebbtide import Ebbtide, StoreUnavailable

KINDS = ("HYPOTHETICAL", "INFERRED", "ASSERTED", "ASSERTED", "OBSERVED")


def belief(number: int) -> dict[str, Any]:
    kind = {"object_type": "FACT", "epistemic_type": KINDS[number % 5], "source_type": "USER_STATED"}
    return {"op": "ASSERT", "ref": f"m{number}", "value": number, **kind}


@pytest.fixture
def store(make_url_for, clock) -> str:
    """Memories in two namespaces, some of which are to leave by now."""
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as ebb:
        ebb.ask(*(belief(number) | {"namespace": name} for name in ("a", "b") for number in range(10)))
    clock.forward(days=40)
    return url


def told(ebb: Ebbtide) -> dict[str, Any]:
    """What is in the store, without the ids and hashes that follow from nonces."""
    found = {}
    for name in ("a", "b"):
        ledger = check(ebb, name)
        log = [(e.seq, e.op_type, e.effective_at, e.salience, e.confidence, e.lifecycle_state) for e in ledger.entries]
        runs = [(run["task"], run["slot"], run["status"], run["entries"]) for run in ledger.runs]
        found[name] = (log, runs, [(s.ref, s.salience, s.confidence, s.due_at) for s in ledger.live.values()])
    return found


@pytest.fixture
def uninterrupted(store, make_url_for, clock) -> dict[str, Any]:
    """What a pass makes of it where nothing happens."""
    with Ebbtide(make_url_for("postgresql", of=store), clock=clock, chunk_size=4) as ebb:
        ebb.organise()
        return told(ebb)


WITHIN = ["SELECT namespaces", "INSERT INTO pass_", "INSERT INTO event_log", "UPDATE memory_state", "UPDATE namespaces"]


def test_a_connection_that_is_terminated_during_a_chunk(store, uninterrupted, clock) -> None:
    """After each kind of statement: the pass ends with an error that is no namespace's, and the next one goes on."""
    admin = create_engine(store, isolation_level="AUTOCOMMIT")
    waiting = list(WITHIN)

    def terminate(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if waiting and statement.lstrip().startswith(waiting[0]):
            del waiting[0]
            pid = connection.connection.dbapi_connection.info.backend_pid
            with admin.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    with Ebbtide(store, clock=clock, chunk_size=4) as ebb:
        event.listen(ebb.store.db.engine(), "after_cursor_execute", terminate)
        for left in range(len(WITHIN) - 1, -1, -1):
            with pytest.raises(StoreUnavailable, match=r"terminating connection.*try again"):
                ebb.organise()
            assert len(waiting) == left
        ebb.organise()
        assert told(ebb) == uninterrupted
        assert {run.status for run in ebb.runs()} <= {"done", "nothing_due"}, "no namespace is set aside"
    admin.dispose()


@pytest.fixture
def proxy(store) -> Iterator[Proxy]:
    # In a folder with a short name: that of a socket may have a hundred characters.
    with tempfile.TemporaryDirectory() as folder, proxied(store, Path(folder)) as found:
        yield found


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_dropped_at_commit_and_a_caller_who_tries_again(store, proxy, clock, cut) -> None:
    """Whether the server had committed the caller cannot know; one batch is there in the end."""
    with Ebbtide(store, clock=clock) as ebb:
        before = check(ebb, "a")
    said = [belief(100) | {"namespace": "a"}, {"op": "ACCESS", "ref": "shown", "object": "m100", "namespace": "a"}]
    with Ebbtide(proxy.url.render_as_string(hide_password=False), clock=clock) as ebb:
        ebb.memories(namespace="a")
        proxy.cut = cut
        with pytest.raises(StoreUnavailable, match="whether it was written is not known: try again"):
            ebb.ask(*said)
        assert proxy.cut is None
        again = ebb.ask(*said)
        assert [one.unchanged for one in again] == [cut == "after"] * 2
        after = check(ebb, "a")
    assert len(after.batches) == len(before.batches) + 1
    assert [entry.op_type for entry in after.entries[len(before.entries) :]] == ["ASSERT", "ACCESS"]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_dropped_at_commit_of_a_chunk(store, uninterrupted, proxy, clock, cut) -> None:
    """At each of the first commits of a pass in turn; every chunk is there once."""
    with Ebbtide(proxy.url.render_as_string(hide_password=False), clock=clock, chunk_size=4) as ebb:
        ebb.memories(namespace="a")
        commits: list[int] = []
        event.listen(ebb.store.db.engine(), "commit", lambda _: cut_at(commits))
        rounds = 0

        def cut_at(seen: list[int]) -> None:
            seen.append(len(seen))
            if len(seen) == 2 * rounds + 3:
                proxy.cut = cut

        for rounds in range(6):  # noqa: B007 - read by cut_at
            commits.clear()
            with pytest.raises(StoreUnavailable):
                ebb.organise()
        commits.extend(range(1000))
        ebb.organise()
        assert told(ebb) == uninterrupted
    with Ebbtide(store, clock=clock) as ebb:
        reports = [json.loads(e.payload) for e in entries_of(ebb, "a") if e.op_type == "ORGANISER_RUN"]
        assert len({(one["run_id"], one["after"]) for one in reports}) == len(reports), "no chunk twice"
