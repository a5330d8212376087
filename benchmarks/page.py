"""The page docs/benchmarks.md, made of build/bench.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebbtide.bench.measures import DAYS
from ebbtide.bench.suite import YEAR

HERE = Path(__file__).parent
INTRODUCTION = HERE / "introduction.md"
REMARKS = HERE / "remarks.md"
"""Why what falls short does, written by hand: put in below the verdicts."""

MILLION = 1_000_000
Results = list[dict[str, Any]]


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        INTRODUCTION.read_text(encoding="utf-8"),
        "\n",
        *_where(found),
        "## What was wanted\n\n",
        *_verdicts(found["results"]),
    ]
    parts += ["\n", REMARKS.read_text(encoding="utf-8")]
    for database in dict.fromkeys(result["database"] for result in found["results"]):
        mine = [result for result in found["results"] if result["database"] == database]
        parts += [f"\n## {NAMES[database]}\n\n", *_table(mine), "\n", *_left(mine)]
    return "".join(parts)


NAMES = {"duckdb": "DuckDB", "postgresql": "PostgreSQL"}


def _where(found: dict[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    memory = machine["memory_bytes"] / 2**30
    commits = ", ".join(dict.fromkeys(result["commit"] for result in found["results"]))
    yield f"Measured on {machine['cpu']}, {machine['cores']} cores, {memory:.0f} GiB, {machine['system']}; "
    yield f"load at the end {machine['load']}; {versions}; of commit {commits}. "
    yield "PostgreSQL has the settings it comes with.\n\n"


def _verdicts(results: Results) -> Iterator[str]:
    yield "| What | Wanted | " + " | ".join(NAMES.values()) + " |\n|---|---|---|---|\n"
    for what, wanted, value, limits in WANTED:
        cells = [_judged(value([r for r in results if r["database"] == name]), limits[name]) for name in NAMES]
        yield f"| {what} | {wanted} | " + " | ".join(cells) + " |\n"


def _judged(value: float | None, limit: float) -> str:
    if value is None:
        return "not measured"
    said = f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
    return said if value <= limit else f"**{said}**, falls short"


def _one(results: Results, name: str, n: int = MILLION) -> dict[str, Any] | None:
    return next((r for r in results if (r["name"], r["n"], r["namespaces"]) == (name, n, 1)), None)


def _ratio(name: str) -> Any:
    def value(results: Results) -> float | None:
        found = _one(results, name)
        return None if found is None else found["ratio"]

    return value


GROWING = ("decay_cycle", "lifecycle_50_percent_due", "rebuild", "verify", "replay_plan")


def _growth(key: str) -> Any:
    def value(results: Results) -> float | None:
        pairs = [(_one(results, name, 100_000), _one(results, name)) for name in GROWING]
        grown = [large[key] / small[key] for small, large in pairs if small and large]
        return max(grown, default=None)

    return value


def _peak(results: Results) -> float | None:
    return max((r["peak_rss_bytes"] / 2**30 for r in results if r["n"] == MILLION), default=None)


WANTED = (
    ("decay cycle, by its floor", "2.0 · 2.5", _ratio("decay_cycle"), {"duckdb": 2.0, "postgresql": 2.5}),
    (
        "lifecycle with nothing due, by a decay cycle",
        "0.02",
        _ratio("lifecycle_0_percent_due"),
        {"duckdb": 0.02, "postgresql": 0.02},
    ),
    ("rebuild, by a scan of the log", "3", _ratio("rebuild"), {"duckdb": 3.0, "postgresql": 3.0}),
    (
        f"most growth of time from 100,000 to a million ({', '.join(GROWING)})",
        "11",
        _growth("seconds"),
        {"duckdb": 11.0, "postgresql": 11.0},
    ),
    ("peak memory at a million, GiB", "2", _peak, {"duckdb": 2.0, "postgresql": 2.0}),
)
"""What is judged, of a million memories in one namespace: words, limit in words, the value, and its limit."""


def _table(results: Results) -> Iterator[str]:
    yield "| n | namespaces | measure | seconds | floor, seconds | ratio | memory, MB | bytes per entry |\n"
    yield "|--:|--:|---|--:|--:|--:|--:|--:|\n"
    for r in results:
        memory = f"{r['peak_rss_bytes'] / 1e6:.0f}"
        if r["server_peak_rss_bytes"]:
            memory += f" + {r['server_peak_rss_bytes'] / 1e6:.0f}"
        name = r["name"].replace("_", " ")
        if "p95_seconds" in r["figures"]:
            name += f" (p50; p95 is {_seconds(r['figures']['p95_seconds'])})"
        each = r["bytes_per_entry"]
        cells = (
            f"{r['n']:,}",
            f"{r['namespaces']:,}",
            name,
            _seconds(r["seconds"]),
            "" if r["floor_seconds"] is None else f"{_seconds(r['floor_seconds'])} {FLOORS[r['floor']]}",
            "" if r["ratio"] is None else f"{r['ratio']:.3g}",
            memory,
            "" if each is None else f"{each:.0f}",
        )
        yield f"| {' | '.join(cells)} |\n"


FLOORS = {
    "the same rows inserted and updated, bare": "bare",
    "one scan of the log": "scan",
    "a decay cycle": "(a decay cycle)",
}


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def _left(results: Results) -> Iterator[str]:
    for r in results:
        figures = r["figures"]
        if "hot_ratio" in figures:
            yield f"After {figures['cycles']:.0f} decay cycles of {r['n']:,} memories {figures['hot_ratio']:.1%} of "
            yield f"the updates of the state were HOT, and its table had {figures['growth']:.2f} times its size.\n\n"
        if r["name"] == "year":
            yield f"A memory leaves {figures['entries_per_object']:.0f} entries and "
            yield f"{figures['bytes_per_object'] / 1000:.0f} KB in a year under `default` ({YEAR} memories, a quarter "
            yield f"of each profile, {DAYS} days, every slot; those that decay out leave no more).\n"
