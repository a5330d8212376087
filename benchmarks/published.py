"""`make horizon`: RFC-0007, section 13, into build/rfc13.json and the page docs/long-horizon.md.

    python -m benchmarks.published           does what build/rfc13.json does not have yet, then writes the page
    python -m benchmarks.published --page    writes the page only

Remove build/rfc13.json to do all of it anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import rfc13
from benchmarks.horizon import NO_DECAY, Precisions, Setting, lived, without_decay
from benchmarks.published_page import page
from ebbtide.policy.files import library

ROOT = Path(__file__).parent.parent
JSON = ROOT / "build" / "rfc13.json"
PAGE = ROOT / "docs" / "long-horizon.md"
DESCRIBED = Setting()
VARIED = (
    replace(DESCRIBED, name="other persons", persons=10, seed=2),
    replace(DESCRIBED, name="nobody asks before", persons=10, asks=False),
    replace(DESCRIBED, name="half of the wrong ones are confirmed too", persons=10, wrong=0.5),
    replace(DESCRIBED, name="four times the remarks", persons=10, remarks=4.0),
    replace(DESCRIBED, name="a search with four times the noise", persons=10, blur=0.2),
)
"""Lived through under `default` only."""
USUAL = "default@1.0.0"


def parts() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is to be done, each under a name."""
    policies = {policy.name: policy for policy, _ in library().values()}
    yield "decay", lambda: list(rfc13.decay_correctness(list(policies.values())))
    yield "half-lives", lambda: _in_a_folder(lambda folder: rfc13.half_lives_of_a_store(_url(folder)))
    yield "tombstones", lambda: _in_a_folder(rfc13.tombstones)
    yield "transitions", lambda: _in_a_folder(lambda folder: rfc13.transitions(_url(folder)))
    for setting, names in ((DESCRIBED, list(policies)), *((one, [USUAL]) for one in VARIED)):
        yield f"{setting.name}/{NO_DECAY}", lambda setting=setting: _flat(without_decay(setting.people()))
        for name in names:
            yield (
                f"{setting.name}/{name}",
                lambda setting=setting, name=name: _flat(lived(name, setting, setting.people())),
            )


def _in_a_folder(work: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory(prefix="ebb-rfc13-") as folder:
        return work(Path(folder))


def _url(folder: Path) -> str:
    return f"duckdb:///{folder / 'store.duckdb'}"


def _flat(found: Precisions) -> list[list[Any]]:
    return [[*key, value] for key, value in found.items()]


def main(given: list[str]) -> None:
    JSON.parent.mkdir(exist_ok=True)
    done: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8")) if JSON.exists() else {}
    for name, work in parts():
        if name not in done and given != ["--page"]:
            sys.stderr.write(f"{name} …\n")
            began = time.monotonic()
            done[name] = {"found": work(), "seconds": round(time.monotonic() - began, 1)}
            JSON.write_text(json.dumps(done) + "\n", encoding="utf-8")
    PAGE.write_text(page({name: one["found"] for name, one in done.items()}, DESCRIBED, VARIED), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
