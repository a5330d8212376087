"""DuckDB: one process has the file at a time. Others wait, a bounded time, and are then told who has it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event

import pytest
from sqlalchemy import event as events

from ebbtide import Ebbtide, NotFound, StoreUnavailable

REQUEST = {"op": "EVENT", "ref": "m1", "content": "hello"}
HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
connection.close()
print("released", flush=True)
"""


@pytest.fixture
def url(make_url_for) -> str:
    return make_url_for("duckdb")


@pytest.fixture
def file(url: str) -> Path:
    return Path(url.removeprefix("duckdb:///"))


@contextmanager
def holding(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has opened the file and keeps it until a line comes in at its stdin."""
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def let_go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.mark.parametrize("what", ["ask", "organise", "memories"])
def test_a_held_file_is_waited_for_and_then_its_holder_is_named(url, file, what):
    """Exit code 3; the file, the PID of whoever has it, and what to do; after the time given, not later."""
    with holding(file) as child, Ebbtide(url, wait=0.5) as ebb:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as refused:
            getattr(ebb, what)(*([REQUEST] if what == "ask" else []))
        waited = time.monotonic() - began
    assert refused.value.exit_code == 3
    assert str(file) in refused.value.message
    assert f"PID {child.pid}" in refused.value.message
    assert "try again" in refused.value.message
    assert 0.5 <= waited < 5


def test_without_waiting_it_says_so_at_once(url, file):
    with holding(file) as child, Ebbtide(url, wait=0) as ebb, pytest.raises(StoreUnavailable) as refused:
        ebb.memories()
    assert f"PID {child.pid}" in refused.value.message


def test_a_call_that_waits_goes_on_once_the_file_is_free(url, file):
    """The holder lets go at the third attempt to open: the call succeeds and what it wrote is there."""
    attempts = 0
    waiting = Event()

    with holding(file) as child, Ebbtide(url, wait=20) as ebb, ThreadPoolExecutor(1) as pool:

        @events.listens_for(ebb.store.db.engine(), "do_connect")
        def count(*_: object) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 3:
                waiting.set()

        def release() -> bool:
            begun = waiting.wait(20)
            let_go(child)
            return begun

        released = pool.submit(release)
        (taken,) = ebb.ask(REQUEST)
        assert released.result(20), "the call waited before the file was free"
        assert [entry.op_type for entry in taken.entries] == ["EVENT"]
        assert child.wait(20) == 0
        assert [taken.unchanged for taken in ebb.ask(REQUEST)] == [True]


def test_between_calls_the_file_is_free_for_others(url, file):
    """A unit of work opens, works and lets go: an open Ebbtide, idle between calls, keeps nobody out."""
    with Ebbtide(url) as ebb:
        ebb.ask(REQUEST)
        with holding(file) as child:
            let_go(child)
            assert child.wait(20) == 0
        assert [taken.unchanged for taken in ebb.ask(REQUEST)] == [True]


def test_a_failed_call_lets_go_too(url, file):
    """Whatever ends a call, the file is free after it."""
    with Ebbtide(url) as ebb:
        with pytest.raises(NotFound):
            ebb.ask({"op": "ACCESS", "object": "nothing"})
        with holding(file) as child:
            assert child.poll() is None


@pytest.mark.parametrize("shared", [True, False], ids=["one Ebbtide", "one each"])
def test_threads_of_one_process_share_the_file(url, log_of, shared):
    """Eight threads of ten requests each take turns: no error, no request lost, seq contiguous."""
    threads, requests = 8, 10
    barrier = Barrier(threads)

    def work(name: int, ebb: Ebbtide) -> None:
        barrier.wait(30)
        for number in range(requests):
            ebb.ask({"op": "EVENT", "ref": f"{name}-{number}", "content": number})

    with ThreadPoolExecutor(threads) as pool, Ebbtide(url, wait=30) as one:
        several = [one if shared else Ebbtide(url, wait=30) for _ in range(threads)]
        for future in [pool.submit(work, name, ebb) for name, ebb in enumerate(several)]:
            future.result(120)
        for ebb in several:
            ebb.close()
        log = log_of(one)
    assert [entry.seq for entry in log] == list(range(1, 2 + threads * requests))
    keys = {entry.idempotency_key for entry in log[1:]}
    assert keys == {f"{name}-{number}" for name in range(threads) for number in range(requests)}
