"""A process that is killed between any two statements leaves all of its transaction or nothing of it; what it had
begun is gone on with, and ends as if nothing had happened.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from doomed import BELIEF, WORKS, killed, opened, watch
from ledger import Ledger, check, unlike
from sizes import STATEMENTS
from sqlalchemy import create_engine, event, make_url, text
from tests.files import copy_store

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
    for ref in ("twin-a", "twin-b", "twin-c"):
        ebb.event(ref, ref=f"heard {ref}")
        ebb.ask(BELIEF | {"ref": ref, "epistemic_type": "OBSERVED", "value": "the same", "evidence": [f"heard {ref}"]})
        ebb.archive(ref)
    for ref in ("twin-a", "twin-b", "twin-c"):
        ebb.restore(ref)
        ebb.ask({"op": "ENTITY_CREATE", "ref": f"who-{ref}", "entity_type": "PERSON", "canonical_name": "Ann"})


@dataclass
class Victim:
    """A store that was lived in, at one URL, as often as wanted. `ebb` has it open: building statements takes time."""

    ebb: Ebbtide
    url: str
    renew: Callable[[], None]
    """Makes it again what it was before anything was killed."""


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    make = _in_files if request.param == "duckdb" else _in_databases
    with contextmanager(make)(request, tmp_path_factory.mktemp("crash")) as (base, url, renew):
        times = [0]
        with Ebbtide(base, clock=lambda: times[0]) as ebb:
            lived_in(ebb, lambda at: times.__setitem__(0, at))
        with opened(url, NOW) as ebb:

            def renewed() -> None:
                ebb.close()
                renew()

            yield Victim(ebb, url, renewed)


Place = tuple[str, str, Callable[[], None]]
"""The URL of what to copy, that of the copy, and what copies."""


def _in_files(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    base, copy = folder / "base.duckdb", folder / "copy.duckdb"
    shutil.copy(request.getfixturevalue("duckdb_template"), base)

    def renew() -> None:
        copy_store(base, copy)

    yield f"duckdb:///{base}", f"duckdb:///{copy}", renew


def _in_databases(request: pytest.FixtureRequest, _: Path) -> Iterator[Place]:
    server, template = request.getfixturevalue("postgres_url"), request.getfixturevalue("postgres_template")
    base, copy = f"{template}_crash", f"{template}_crashed"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")

    def execute(*statements: str) -> None:
        with admin.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def renew() -> None:
        execute(f"DROP DATABASE IF EXISTS {copy} WITH (FORCE)", f"CREATE DATABASE {copy} TEMPLATE {base}")

    execute(f"CREATE DATABASE {base} TEMPLATE {template}")
    first, second = (make_url(server).set(database=name).render_as_string(hide_password=False) for name in (base, copy))
    yield first, second, renew
    execute(*(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in (copy, base)))
    admin.dispose()


def uninterrupted(victim: Victim, work: str) -> tuple[list[str], int, dict[str, Any]]:
    """What the work executes where nobody kills it, how often it lets go of a connection, and what it leaves."""
    executed: list[str] = []
    let_go: list[Any] = []
    victim.renew()
    with opened(victim.url, NOW) as ebb:
        watch(ebb, executed.append)
        event.listen(ebb.store.db.engine(), "checkin", lambda *_: let_go.append(_))
        WORKS[work](ebb)
        statements, times = list(executed), len(let_go)
        return statements, times, ledgers(ebb)


def ledgers(ebb: Ebbtide) -> dict[str, Any]:
    """All that the work can have changed, once it holds together."""
    return {namespace: told(check(ebb, namespace)) for namespace in ("default", "other")}


def moments(executed: list[str], more: int) -> list[int]:
    """After which statements to kill: the first of each kind that writes, and some more along the way.

    A pass has several kinds per table; of others the verb and the table tell them apart.
    """
    first: dict[str, int] = {}
    for number, statement in enumerate(executed, 1):
        if not statement.lstrip().startswith(("SELECT", "CREATE", "TRUNCATE")):
            kind = statement if "pass_" in statement else " ".join(statement.split()[:3])
            first.setdefault(kind, number)
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
def test_killed_after_any_statement_it_goes_on_and_ends_as_uninterrupted(victim, work, more) -> None:
    executed, _, expected = uninterrupted(victim, work)
    for last in moments(executed, more)[::STATEMENTS]:
        victim.renew()
        assert killed(victim.url, NOW, work, statement=last), f"{work} ended before statement {last}"
        with victim.ebb.store.db.connect():
            assert_nothing_by_halves(check(victim.ebb))
            WORKS[work](victim.ebb)
            assert not unlike(ledgers(victim.ebb), expected), f"killed after statement {last}: {executed[last - 1]}"


def assert_nothing_by_halves(ledger: Ledger) -> None:
    """A slot that is begun knows how far it came: what it wrote is what its chunks report."""
    reports = [entry for entry in ledger.entries if entry.op_type == "ORGANISER_RUN"]
    for run in ledger.runs:
        mine = [entry for entry in reports if f'"run_id":"{run["run_id"]}"' in entry.payload]
        assert len(mine) >= 1
        assert ('"to":null' in mine[-1].payload) == (run["status"] != "running")


@pytest.mark.parametrize("work", WORKS)
def test_what_was_committed_outlives_the_process(victim, work) -> None:
    _, times, expected = uninterrupted(victim, work)
    victim.renew()
    assert killed(victim.url, NOW, work, checkin=times)
    assert not unlike(ledgers(victim.ebb), expected)


def test_the_pass_that_is_killed_has_much_to_do(victim) -> None:
    """It warns, moves, decays and merges, in several chunks: else the other tests would show little."""
    victim.renew()
    runs = {run.task: run for run in victim.ebb.organise()}
    assert runs["lifecycle"].warned > 5
    assert runs["lifecycle"].archived + runs["lifecycle"].deprecated > 5
    assert runs["decay_medium"].decayed > 5
    assert runs["dedup"].entries >= 5  # 2 memories into 1, 2 entities
