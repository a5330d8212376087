"""Lives through examples/maya.jsonl on a fresh DuckDB file and shows what became of Maya's memories.

Usage: python examples/demo.py FILE.duckdb
"""

import sys
from collections import Counter
from pathlib import Path

from ebbtide import Ebbtide
from ebbtide.cli import output

SAMPLE = Path(__file__).with_name("maya.jsonl")


def main(file: str) -> None:
    with Ebbtide.open(f"duckdb:///{file}") as ebb:
        with SAMPLE.open("rb") as lines, output.progress("18 months of Maya") as report:
            taken = ebb.ingest(lines, SAMPLE.name, walk=True, progress=report)
        ebb.organise()
        everything = ebb.memories(namespace="maya", everything=True)
        eligible = [memory for memory in everything if memory.eligible]
        entries = ebb.status(namespace="maya").entries

    print(f"{taken.appended} entries from {SAMPLE.name}; {entries} in the log once time had passed.\n")
    gone = [memory for memory in everything if memory.lifecycle_state in ("ARCHIVED", "DEPRECATED")]
    output.memories([memory for memory in eligible if memory.warned], "Warned: salience below 0.30")
    print()
    output.memories([m for m in gone if m.lifecycle_state == "ARCHIVED"][:6], "Archived (can be restored)")
    print()
    output.memories([m for m in gone if m.lifecycle_state == "DEPRECATED"][:6], "Deprecated (for good)")
    print()
    output.memories(eligible, "Eligible for retrieval now")
    counts = Counter(memory.lifecycle_state for memory in everything)
    print("\n" + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    print(f"""
Try next (activate .venv first, or write .venv/bin/ebb):
  ebb explain style-2 --namespace maya --url duckdb:///{file}     why the assistant forgot to be brief
  ebb list --all --namespace maya --url duckdb:///{file}          all memories, and why each is withheld
  ebb policy assign archivist@1.0.0 --namespace maya --url duckdb:///{file}
""")


if __name__ == "__main__":
    main(sys.argv[1])
