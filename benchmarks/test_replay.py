"""A policy bug in a log of EBB_BENCH_ENTRIES entries (200,000) over 180 days: planned, applied, beside a rebuild."""

import os
import time

import pytest

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.policy.document import policy_from

ENTRIES = int(os.environ.get("EBB_BENCH_ENTRIES", "200000"))
PER_OBJECT = 55
"""Entries of an object that lives for 180 days, on average: measured on this history."""
START = instant.parse("2026-01-01T00:00:00Z")
KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def version(number: str, rate: float):
    params = {"profiles": {"MEDIUM": {"rate": rate}}, "restore_grace_days": 7}
    return policy_from({"id": "bench", "version": number, "params": params})


@pytest.fixture
def planted(url):
    """Half a year under a rate of decay that is five times what it should be."""
    now = [START]
    with Ebbtide.open(url, clock=lambda: now[0]) as ebb:
        ebb.register_policy(version("1.0.0", 0.1))
        ebb.register_policy(version("1.0.1", 0.02))
        ebb.ask({"op": "EVENT", "ref": "begin", "content": "begin"})
        ebb.assign_policy("bench@1.0.0")
        objects = ENTRIES // PER_OBJECT
        for month in range(6):
            count = objects // 6
            ebb.ask(*({**KNOWN, "ref": f"o{month}-{n}", "value": f"{month} {n}"} for n in range(count)))
            for half in range(2):
                now[0] += 15 * instant.DAY
                ebb.walk(instant.iso(now[0] - 15 * instant.DAY), instant.iso(now[0]), no_guard=True)
                ebb.ask(*({"op": "ACCESS", "object": f"o{month}-{n}"} for n in range(half, count, 10)))
        yield ebb


def test_correcting(benchmark, planted):
    """`rebuild`, `plan` and `apply` in seconds; the benchmark's own figure is the plan's."""
    rebuilt = planted.rebuild()
    plan = benchmark.pedantic(lambda: planted.plan_replay("bench@1.0.0", "bench@1.0.1"), rounds=1)
    began = time.monotonic()
    applied = planted.apply_replay(plan)
    seconds = time.monotonic() - began
    benchmark.extra_info |= {
        "entries": rebuilt.entries,
        "objects": plan.objects,
        "changed": applied.changed,
        "rebuild_seconds": rebuilt.seconds,
        "apply_seconds": round(seconds, 2),
    }
    assert planted.plan_replay("bench@1.0.0", "bench@1.0.1").changed == 0
