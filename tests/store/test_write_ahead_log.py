"""DuckDB: a short write-ahead log stays beside the file, a long one goes into it, and nothing hangs on which."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from ledger import check

from ebbtide import Ebbtide
from ebbtide.store import duckdb

pytestmark = pytest.mark.lets_go

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}

DIES = """
import os, sys
from ebbtide import Ebbtide
with Ebbtide(sys.argv[1]) as ebb:
    with ebb.store.db.kept_open():
        for number in range(3):
            name = f"killed {number}"
            ebb.assert_memory(name, ref=name, epistemic_type="ASSERTED", source_type="USER_STATED")
        os._exit(9)
"""


@pytest.fixture
def path(make_url_for) -> Path:
    return Path(make_url_for("duckdb").removeprefix("duckdb:///"))


def left(path: Path) -> int:
    log = Path(f"{path}.wal")
    return log.stat().st_size if log.exists() else 0


def test_a_call_leaves_little_beside_the_file(path):
    """And many calls no more: now and then it goes into the file."""
    sizes = []
    with Ebbtide(f"duckdb:///{path}") as ebb:
        for number in range(30):
            ebb.ask(BELIEF | {"ref": f"belief {number}", "value": f"{number} " * 200})
            sizes.append(left(path))
    assert max(sizes) <= duckdb.LEFT
    assert max(sizes) > 0
    assert any(later < earlier for earlier, later in pairwise(sizes))
    with Ebbtide(f"duckdb:///{path}") as ebb:
        assert len(ebb.memories(limit=None)) == 30
        check(ebb)


def test_what_a_killed_process_left_is_kept_by_who_only_looks(path):
    """Whoever replays a log and looks at nothing must not lose entries of an index."""
    with Ebbtide(f"duckdb:///{path}") as ebb:
        ebb.ask(BELIEF | {"ref": "before", "value": "before"})
    killed = subprocess.run([sys.executable, "-c", DIES, f"duckdb:///{path}"], check=False)
    assert killed.returncode == 9
    assert left(path) > 0
    for _ in range(2):
        with Ebbtide(f"duckdb:///{path}") as ebb, ebb.store.session():
            pass
    with Ebbtide(f"duckdb:///{path}") as ebb:
        assert {memory.ref for memory in ebb.memories()} == {"before", "killed 0", "killed 1", "killed 2"}
        again = ebb.ask(BELIEF | {"ref": "killed 1", "value": "killed 1"})
        assert [one.unchanged for one in again] == [True]
        check(ebb)


def test_a_failed_call_leaves_the_store_as_it_was(path):
    with Ebbtide(f"duckdb:///{path}") as ebb:
        ebb.ask(BELIEF | {"ref": "one", "value": "x" * 100_000})
        digest = ebb.digest()
        with pytest.raises(RuntimeError), ebb.store.begin():
            raise RuntimeError
        assert ebb.digest().heads == digest.heads
        check(ebb)
