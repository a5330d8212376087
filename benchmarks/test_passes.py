"""How long a pass takes: `make bench`. EBB_BENCH_OBJECTS sets the number of objects in the namespace (20,000).

Every pass runs as a dry run, which does all of the work and rolls it back, so that each round finds the same store.
"""

import io
import json
import os
import random

import pytest

from ebbtide import Ebbtide
from ebbtide.model import instant

OBJECTS = int(os.environ.get("EBB_BENCH_OBJECTS", "20000"))
START = instant.parse("2026-01-01T00:00:00Z")
NOW = START + 60 * instant.DAY
KINDS = ("OBSERVED", "ASSERTED", "INFERRED", "UNVERIFIED")


def lines(count: int) -> bytes:
    """Beliefs of all kinds, asserted over 50 days."""
    chance = random.Random(1885)
    made = (
        {
            "op": "ASSERT",
            "ref": f"belief-{number}",
            "object_type": "FACT",
            "epistemic_type": chance.choice(KINDS),
            "source_type": "EXTERNAL_DOCUMENT",
            "value": f"belief {number}",
            "salience": round(chance.uniform(0.3, 1.0), 3),
            "effective_at": instant.iso(START + chance.randrange(50 * 86_400) * instant.SECOND),
        }
        for number in range(count)
    )
    return b"\n".join(json.dumps(line).encode() for line in made)


@pytest.fixture
def filled(url):
    with Ebbtide.open(url, clock=lambda: NOW) as ebb:
        ebb.ingest(io.BytesIO(lines(OBJECTS)), "beliefs.jsonl")
        yield ebb


@pytest.mark.parametrize("task", ["decay_rapid_fast", "decay_medium", "decay_slow", "lifecycle"])
def test_one_pass(benchmark, filled, task):
    runs = benchmark.pedantic(
        lambda: filled.organise(tasks=[task], dry_run=True, no_guard=True), rounds=3, warmup_rounds=1
    )
    benchmark.extra_info |= {"objects": OBJECTS, "entries": runs[0].entries}
    assert runs[0].entries


def test_nothing_due(benchmark, filled):
    filled.organise(no_guard=True)
    benchmark.pedantic(lambda: filled.walk(instant.iso(NOW), instant.iso(NOW), no_guard=True), rounds=5)


def test_reading_the_most_salient(benchmark, filled):
    found = benchmark.pedantic(lambda: filled.memories(limit=10), rounds=5, warmup_rounds=1)
    assert len(found) == 10


def test_ingest(benchmark, url):
    data = lines(2_000)

    def ingest(number):
        with Ebbtide.open(url, clock=lambda: NOW) as ebb:
            named = data.replace(b'"op"', f'"namespace": "n{number}", "op"'.encode())
            return ebb.ingest(io.BytesIO(named), "beliefs.jsonl")

    rounds = iter(range(100))
    done = benchmark.pedantic(lambda: ingest(next(rounds)), rounds=3)
    benchmark.extra_info["lines"] = 2_000
    assert done.appended == 2_001
