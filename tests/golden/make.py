"""Makes a golden log: a pack of this version's log, and digests of the state that it folds to.

    python -m tests.golden.make

Every release has one, and every later version must fold it to the same state on both databases. Only that of a version
that is not released yet is ever made anew. The clock stands still between steps and entropy is counted, so that the
log is the same whenever it is made.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from ebbtide import Ebbtide, __version__
from ebbtide.store.tables import metadata
from tests.conformance import eventful, packs
from tests.conftest import Clock

HERE = Path(__file__).parent
NOT_STATE = ("event_log", "batches", "contents", "refusals", "policies", "policy_profiles")
"""Tables that are the log itself, or beside it."""


def columns() -> dict[str, list[str]]:
    """The columns of the state, by table, but for the secret and what leases use."""
    return {
        name: [c.name for c in table.columns if c.name not in ("secret", "fence")]
        for name, table in metadata.tables.items()
        if name not in NOT_STATE
    }


def digests(ebb: Ebbtide, of: dict[str, list[str]]) -> dict[str, str]:
    """SHA-256 over the rows of each table in order of their keys, a line of JSON each, in columns of a given order."""
    rows = packs.tables(ebb)
    return {
        name: hashlib.sha256("".join(_line(row, names) for row in rows[name]).encode()).hexdigest()
        for name, names in of.items()
    }


def _line(row: dict[str, Any], names: list[str]) -> str:
    return json.dumps([_plain(row[name]) for name in names], ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, UUID) else value


def counted() -> Any:
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def main() -> None:
    """Lives through the history in a new store and writes what it came to."""
    target = HERE / __version__
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        with Ebbtide.open(f"duckdb:///{folder}/golden.duckdb", clock=clock, entropy=counted()) as ebb:
            eventful.live(ebb, clock)
            eventful.erase(ebb, clock)
            eventful.go_on(ebb, clock)
            for _ in range(10):
                clock.forward(days=15)
                ebb.organise()
            done = ebb.export_pack(target / "pack")
            of = columns()
            state = {"entries": done.events + done.operations, "columns": of, "digests": digests(ebb, of)}
    (target / "state.json").write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}: {state['entries']} entries\n")


if __name__ == "__main__":
    main()
