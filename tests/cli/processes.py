"""`ebb` in a process of its own, whose output is read line by line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

EBB = "from ebbtide.cli.main import run; run()"


@contextmanager
def child(*command: str, seconds: float = 120) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes, standard error in its output; killed in the end, or after so many seconds."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([sys.executable, "-c", *command], text=True, **pipes) as process:
        watchdog = Timer(seconds, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def line_with(process: subprocess.Popen[str], *words: str) -> str:
    """Reads output up to the first line with all of these words."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if all(word in line for word in words):
            return line
    raise AssertionError(f"{words} not in {''.join(seen)!r}")
