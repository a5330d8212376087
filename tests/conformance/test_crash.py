"""A process that is killed between any two statements leaves all of its transaction or nothing of it; what it had
begun is gone on with, and ends as if nothing had happened.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from doomed import BELIEF, WORKS, killed, opened, watch
from ledger import Ledger, check
from sqlalchemy import create_engine, event, make_url, text

from ebbtide import Ebbtide
from ebbtide.model import instant

BEGIN = instant.parse("2026-03-02T00:00:00Z")
NOW = BEGIN + 70 * instant.DAY
"""A Monday: every task has a slot here."""
OBJECTS = 22


def lived_in(ebb: Ebbtide, now: Callable[[int], None]) -> None:
    """Memories of which, ten weeks on, some are to be warned of, some to leave, and the rest have decayed."""
    kinds = ["HYPOTHETICAL", "INFERRED", "ASSERTED", "ASSERTED", "OBSERVED"]
    now(BEGIN)
    for number in range(OBJECTS):
        belief = BELIEF | {"epistemic_type": kinds[number % 5], "salience": 0.3 + 0.03 * number}
        ebb.ask(belief | {"ref": f"m{number}", "value": number, "confidence": 0.95})
    now(BEGIN + instant.DAY)
    ebb.organise()


@dataclass
class Copies:
    """A store that was lived in, and as many copies of it as are wanted."""

    kind: str
    base: str
    _copy: Callable[[int], str]
    _numbers: Any

    def copy(self) -> str:
        """The URL of a new copy."""
        return self._copy(next(self._numbers))


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def copies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    if request.param == "duckdb":
        folder = tmp_path_factory.mktemp("crash")
        base = folder / "base.duckdb"
        shutil.copy(request.getfixturevalue("duckdb_template"), base)
        yield _prepared(
            Copies("duckdb", f"duckdb:///{base}", lambda n: _copied(base, folder / f"{n}.duckdb"), count(1))
        )
        return
    server, name = request.getfixturevalue("postgres_url"), f"{request.getfixturevalue('postgres_template')}_crash"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")

    def create(made: str, template: str) -> str:
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made} TEMPLATE {template}"))
        databases.append(made)
        return make_url(server).set(database=made).render_as_string(hide_password=False)

    databases: list[str] = []
    base = create(name, request.getfixturevalue("postgres_template"))
    yield _prepared(Copies("postgresql", base, lambda n: create(f"{name}_{n}", name), count(1)))
    with admin.connect() as connection:
        for made in reversed(databases):
            connection.execute(text(f"DROP DATABASE {made} WITH (FORCE)"))
    admin.dispose()


def _copied(base: Path, to: Path) -> str:
    shutil.copy(base, to)
    return f"duckdb:///{to}"


def _prepared(copies: Copies) -> Copies:
    times = [0]
    with Ebbtide(copies.base, clock=lambda: times[0]) as ebb:
        lived_in(ebb, lambda at: times.__setitem__(0, at))
    return copies


def uninterrupted(copies: Copies, work: str) -> tuple[list[str], int, dict[str, Any]]:
    """What the work executes where nobody kills it, how often it lets go of a connection, and what it leaves."""
    executed: list[str] = []
    let_go: list[Any] = []
    with opened(copies.copy(), NOW) as ebb:
        watch(ebb, executed.append)
        event.listen(ebb.store.db.engine(), "checkin", lambda *_: let_go.append(_))
        WORKS[work](ebb)
        statements, times = list(executed), len(let_go)
        return statements, times, ledgers(ebb)


def ledgers(ebb: Ebbtide) -> dict[str, Any]:
    """All that the work can have changed, once it holds together."""
    return {namespace: told(check(ebb, namespace)) for namespace in ("default", "other")}


def moments(executed: list[str], more: int) -> list[int]:
    """After which statements to kill: the first of each kind that writes, and some more along the way."""
    first: dict[str, int] = {}
    for number, statement in enumerate(executed, 1):
        if not statement.lstrip().startswith(("SELECT", "CREATE", "TRUNCATE")):
            first.setdefault(statement, number)
    along = range(len(executed) // more, len(executed) + 1, len(executed) // more)
    return sorted({*first.values(), *along})


HASHES = ("hash", "prev_hash", "content_hash", "request_hash")
RANGE = re.compile(r'"after":(null|"[^"]*"),')
"""Where a chunk of an assignment begins: one that is gone on with looks at everything once more."""


def told(ledger: Ledger) -> dict[str, Any]:
    """A namespace without its hashes, which hang on nonces."""
    entries = [{k: v for k, v in asdict(entry).items() if k not in HASHES} for entry in ledger.entries]
    for entry in entries:
        if (entry["stream_type"], entry["op_type"]) == ("namespace", "POLICY_ASSIGNED"):
            entry["payload"] = RANGE.sub("", entry["payload"])
    state = {i: {k: v for k, v in asdict(s).items() if k != "head_hash"} for i, s in ledger.live.items()}
    return {"entries": entries, "state": state, "runs": ledger.runs}


@pytest.mark.parametrize(("work", "more"), [("organise", 6), ("assign", 3), ("ask", 2)])
def test_killed_after_any_statement_it_goes_on_and_ends_as_uninterrupted(copies, work, more) -> None:
    executed, _, expected = uninterrupted(copies, work)
    for last in moments(executed, more):
        url = copies.copy()
        assert killed(url, NOW, work, statement=last), f"{work} ended before statement {last}"
        with opened(url, NOW) as ebb, ebb.store.db.connect():
            assert_nothing_by_halves(check(ebb))
            WORKS[work](ebb)
            assert ledgers(ebb) == expected, f"killed after statement {last}: {executed[last - 1]}"


def assert_nothing_by_halves(ledger: Ledger) -> None:
    """A slot that is begun knows how far it came: what it wrote is what its chunks report."""
    reports = [entry for entry in ledger.entries if entry.op_type == "ORGANISER_RUN"]
    for run in ledger.runs:
        mine = [entry for entry in reports if f'"run_id":"{run["run_id"]}"' in entry.payload]
        assert len(mine) >= 1
        assert ('"to":null' in mine[-1].payload) == (run["status"] != "running")


@pytest.mark.parametrize("work", WORKS)
def test_what_was_committed_outlives_the_process(copies, work) -> None:
    _, times, expected = uninterrupted(copies, work)
    url = copies.copy()
    assert killed(url, NOW, work, checkin=times)
    with opened(url, NOW) as ebb, ebb.store.db.connect():
        assert ledgers(ebb) == expected


def test_the_pass_that_is_killed_has_much_to_do(copies) -> None:
    """It warns, moves and decays, each in several chunks: else the other tests would show little."""
    with opened(copies.copy(), NOW) as ebb:
        runs = {run.task: run for run in ebb.organise()}
    assert runs["lifecycle"].warned > 5
    assert runs["lifecycle"].archived + runs["lifecycle"].deprecated > 5
    assert runs["decay_medium"].decayed > 5
