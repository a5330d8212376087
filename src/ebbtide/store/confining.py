"""Asks another process for one SELECT over a DuckDB file, and stops it in time: see `confined`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ebbtide.model.errors import BadInput, EbbtideError, StoreUnavailable
from ebbtide.store import confined as program
from ebbtide.store.database import Confines, Selection

MEMORY = 1_000_000_000
"""Bytes that DuckDB may use for it; the process may have four times as much, which is more than it needs to start."""
_HOLDER = re.compile(r"held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")


def held(path: str, message: str, wait: float) -> StoreUnavailable:
    """The error of a file that another process has, from DuckDB's message."""
    holder = _HOLDER.search(message)
    who = f"{holder['program']} (PID {holder['pid']})" if holder else "another process"
    return StoreUnavailable(f"{path} is held by {who}; waited {wait:g} s: let it finish or stop it, then try again")


class Ready:
    """The process that the next query gets. Once asked to, it is started before: most of a query's time is its start.

    It has no file open until it is asked, and ends with this program, as its input does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead = False
        self._next: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """From now on there is always one that waits."""
        with self._lock:
            self._ahead = True
            if self._next is None or self._next.poll() is not None:
                self._next = _started()

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        """The one that waits, or a new one; after it the next is started."""
        with self._lock:
            taken, self._next = self._next, None
        try:
            with taken if taken is not None and taken.poll() is None else _started() as process:
                yield process
        finally:
            if self._ahead:
                self.keep()


def _started() -> subprocess.Popen[bytes]:
    # -P: the folder it stands in has a module of the name `duckdb`.
    command = [sys.executable, "-P", str(Path(program.__file__))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


_ready = Ready()


def expect_questions() -> None:
    """Has a process wait for the next query, from now on."""
    _ready.keep()


@contextmanager
def confined(
    path: str,
    query: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    within: Confines,
    wait: float,
) -> Iterator[Selection]:
    """Runs `confined.py` as long as its rows are read, and no longer than it may take."""
    asked = {"path": path, "wait": wait, "memory": MEMORY, "views": list(within.views)}
    asked |= {"query": query, "parameters": parameters}
    with _ready.process() as process:
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        alarm = threading.Timer(within.seconds, stop)
        alarm.daemon = True
        try:
            with process.stdin:
                process.stdin.write(json.dumps(asked, default=str).encode())
            # It says when it has the file; from then on its time runs.
            if process.stdout.read(len(program.READY)):
                alarm.start()
            yield _rows(process, path, within, wait, late)
        finally:
            alarm.cancel()
            process.kill()


def _rows(
    process: subprocess.Popen[bytes], path: str, within: Confines, wait: float, late: threading.Event
) -> Selection:
    def failed() -> EbbtideError:
        return _error(process, path, within, wait, late)

    try:
        stream = pa.ipc.open_stream(process.stdout)
    except pa.ArrowInvalid as error:
        raise failed() from error

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from stream
        except (pa.ArrowInvalid, OSError) as error:
            raise failed() from error
        # What fails later leaves a stream without an end, which looks like one that ended.
        if process.wait() != 0:
            raise failed()

    return Selection(stream.schema, batches())


def _error(
    process: subprocess.Popen[bytes], path: str, within: Confines, wait: float, late: threading.Event
) -> EbbtideError:
    """What the process says went wrong, or what became of it."""
    assert process.stderr is not None, "it is a pipe"
    said = process.stderr.read().decode(errors="replace").strip()
    process.wait()
    if late.is_set():
        return within.late()
    last = said.splitlines()[-1] if said else ""
    told = json.loads(last) if last.startswith("{") else {"error": "memory", "message": ""}
    message = next(iter(told["message"].splitlines()), "")
    if told["error"] == "old":
        return within.old()
    if told["error"] == "store" and program.LOCKED in told["message"]:
        return held(path, told["message"], wait)
    if told["error"] == "store":
        return StoreUnavailable(f"{path} cannot be opened: {message}")
    if told["error"] == "memory":
        return BadInput("needs more memory than it may have and was stopped: ask for less")
    return BadInput(message)
