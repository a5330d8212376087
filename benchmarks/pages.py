"""How long the dashboard's pages take on the server: python -m benchmarks.pages [memories] [--only DATABASE]

A store of 10,000 memories that lived through 39 days, every day of them organised; each page is asked for ten times,
one after the other. Printed as a table: the fastest, the median and the slowest, in ms, as Server-Timing says it. The
first request of each is left out: it compiles statements.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from benchmarks.run import BUILD, postgres
from ebbtide.api import Ebbtide
from ebbtide.bench.filling import BEGIN, CORRECTED, POLICY, filled, names
from ebbtide.bench.scratch import scratch
from ebbtide.model import instant
from ebbtide.service.http.app import application

DAYS, TIMES = 39, 10
MEMORIES = 10_000


class _Clock:
    now = BEGIN + instant.DAY // 2

    def __call__(self) -> int:
        return self.now


@contextmanager
def lived(url: str, memories: int) -> Iterator[Ebbtide]:
    """A store filled and organised day by day, open."""
    clock = _Clock()
    with Ebbtide.open(url, clock=clock) as ebb:
        filled(ebb, memories, 1)
        for _ in range(DAYS):
            clock.now += instant.DAY
            ebb.organise()
        yield ebb


def paths(ebb: Ebbtide) -> Iterator[tuple[str, str]]:
    """Every page with its name; of the named queries each one."""
    (namespace,) = names(1)
    memory = ebb.memories(namespace=namespace, limit=1)[0].id
    run = ebb.runs(namespace=namespace, limit=1)[0].run_id
    yield "overview", "/?"
    yield "overview, a year", "/?days=365&"
    yield "memories", "/memories?"
    yield "memories, a word looked for", "/memories?text=belief+12&which=all&"
    yield "a memory", f"/memories/{memory}?"
    yield "erase, what would go", f"/memories/{memory}/erase?"
    yield "runs", "/runs?"
    yield "a run", f"/runs/{run}?"
    yield "policies", "/policies?"
    yield "a policy", "/policies/default@1.0.0?"
    yield "two policies", "/policies/diff?a=default@1.0.0&b=permastore@1.0.0&"
    yield "simulation of 90 days", "/policies/simulate?policy=archivist@1.0.0&"
    yield "corrections", "/corrections?"
    yield "corrections, a plan", f"/corrections?replaced={POLICY}&by={CORRECTED}&"
    yield "audit", "/audit?"
    yield "audit, a query to be asked", "/audit/transitions?"
    for query in ebb.audit_queries():
        yield f"audit: {query.name}", f"/audit/{query.name}?ask=yes&"


def measured(ebb: Ebbtide) -> Iterator[tuple[str, float, float, float]]:
    """Name, fastest, median and slowest of each page, in ms."""
    (namespace,) = names(1)
    browser = TestClient(application(ebb, insecure=True), base_url="http://127.0.0.1")
    for name, path in paths(ebb):
        taken = []
        for _ in range(TIMES + 1):
            page = browser.get(f"{path}namespace={namespace}")
            page.raise_for_status()
            found = re.search(r"dur=([\d.]+)", page.headers["server-timing"])
            assert found is not None, "every page says it"
            taken.append(float(found[1]))
        yield name, min(taken[1:]), statistics.median(taken[1:]), max(taken[1:])


def main() -> None:
    memories = next((int(one) for one in sys.argv[1:] if one.isdecimal()), MEMORIES)
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    BUILD.mkdir(exist_ok=True)
    if only != "postgresql":
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            show(f"duckdb:///{Path(folder) / 'pages.duckdb'}", memories)
    if only != "duckdb":
        with postgres() as server, scratch(server) as place:
            show(place.new(), memories)


def show(url: str, memories: int) -> None:
    """Measures one store, and prints its table."""
    with lived(url, memories) as ebb:
        print(f"\n{memories} memories, {ebb.status().entries} entries, {ebb.store.db.name}")
        print(f"{'page':<40}{'fastest':>10}{'median':>10}{'slowest':>10}")
        for name, fastest, median, slowest in measured(ebb):
            print(f"{name:<40}{fastest:>10.0f}{median:>10.0f}{slowest:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
