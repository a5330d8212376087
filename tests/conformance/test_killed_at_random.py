"""A process that is killed at random instants, again and again, and then left to finish: as if nothing had happened.

tests/conformance/test_crash.py kills after chosen statements; this kills wherever the time is.
"""

from __future__ import annotations

import signal
import time
from dataclasses import asdict
from random import Random
from typing import Any

import pytest
from doomed import buried
from ledger import check, unlike
from shift import started, walk
from sizes import KILLS, WEEKS

from ebbtide import Ebbtide
from ebbtide.model import instant

KINDS = ("HYPOTHETICAL", "INFERRED", "ASSERTED", "ASSERTED", "OBSERVED")
BEGAN = instant.parse("2026-03-02T00:00:00Z")
NAMES = ("a", "b")
STEPS = [BEGAN + number * 7 * instant.DAY for number in range(1, WEEKS + 1)]
HASHES = ("hash", "prev_hash", "content_hash", "request_hash")
pytestmark = pytest.mark.lets_go


def told(ebb: Ebbtide) -> dict[str, Any]:
    """All that is in the store but the hashes, which hang on nonces."""
    found = {}
    for name in NAMES:
        ledger = check(ebb, name)
        entries = [{k: v for k, v in asdict(entry).items() if k not in HASHES} for entry in ledger.entries]
        state = {i: {k: v for k, v in asdict(s).items() if k != "head_hash"} for i, s in ledger.live.items()}
        found[name] = {"entries": entries, "state": state, "runs": ledger.runs}
    return found


def test_killed_at_random_instants_it_ends_as_if_nobody_had(url, ebb, clock, make_url_for, request) -> None:
    clock.now = BEGAN
    kind = "duckdb" if url.startswith("duckdb") else "postgresql"
    ebb.ask(
        *(
            {"op": "ASSERT", "object_type": "FACT", "epistemic_type": KINDS[n % 5], "source_type": "USER_STATED",
             "namespace": name, "ref": f"m{n}", "value": n, "salience": 0.4 + 0.05 * n}
            for name in NAMES
            for n in range(10)
        )
    )  # fmt: skip
    ebb.close()
    alone = make_url_for(kind, of=url)
    worker = started(walk, alone, STEPS)
    assert worker.answer() == "begins"
    began = time.monotonic()
    assert worker.answer() == "ended"
    whole = time.monotonic() - began
    worker.process.join(60)
    with Ebbtide(alone, clock=clock) as other:
        expected, digest = told(other), heads(other)

    chance, killed = Random(kind), 0
    for _ in range(KILLS):
        worker = started(walk, url, STEPS)
        assert worker.answer() == "begins"
        worker.process.join(chance.uniform(0, 2 * whole / KILLS))
        worker.process.kill()
        worker.process.join(60)
        killed += worker.process.exitcode == -signal.SIGKILL
        ebb.close()
        buried(url)
        for name in NAMES:
            check(ebb, name)
    assert killed > KILLS / 2
    worker = started(walk, url, STEPS)
    assert [worker.answer(), worker.answer()] == ["begins", "ended"]
    worker.process.join(60)
    assert not unlike(told(ebb), expected)
    assert heads(ebb) == digest, "to the last hash"
    assert ebb.verify().ok


def heads(ebb: Ebbtide) -> list[Any]:
    return list(ebb.digest().heads)
