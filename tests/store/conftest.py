"""A store with a past, and how to read a log, for the tests of what the store keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from sqlalchemy import create_engine, select, text

from ebbtide import Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.project.writer import entry_from
from ebbtide.store.tables import event_log

MAYA = "maya"


@pytest.fixture(scope="session", params=["duckdb", "postgresql"])
def lived_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a store that one session fills once; for reading only."""
    if request.param == "duckdb":
        yield f"duckdb:///{tmp_path_factory.mktemp('lived') / 'lived.duckdb'}"
        return
    server = request.getfixturevalue("postgres_url")
    name = request.getfixturevalue("postgres_template") + "_lived"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(scope="session")
def lived(lived_url: str) -> Iterator[Ebbtide]:
    """A store in which every request was made and every pass has run, in chunks of three; for reading only.

    By the default policy `hunch` (HYPOTHETICAL, λ 0.2) is warned of on day 3 and deprecated on day 6, and the
    lessons (INFERRED, λ 0.07, confidence 0.95) sink below salience 0.10 on day 23 with 0.42 left: archived.
    """
    now = instant.parse("2026-03-02T00:00:00Z")
    numbers = count(1)

    def entropy(size: int) -> bytes:
        return next(numbers).to_bytes(size, "big")

    with Ebbtide.open(lived_url, clock=lambda: now, entropy=entropy, chunk_size=3) as opened:
        _first_day(opened)
        for days in (1, 6, 25):
            now += days * instant.DAY
            opened.organise()
        _return_of_the_archived(opened)
        now += 7 * instant.DAY
        opened.organise()
        yield opened


def _first_day(ebb: Ebbtide) -> None:
    belief = {"op": "ASSERT", "namespace": MAYA, "object_type": "FACT", "source_type": "USER_STATED"}
    lesson = belief | {"epistemic_type": "INFERRED", "source_type": "SYSTEM_INFERRED", "confidence": 0.95}
    city = belief | {"ref": "city", "epistemic_type": "OBSERVED"}
    ebb.ask(
        {"op": "EVENT", "namespace": MAYA, "ref": "m1", "stream": "chat", "content": 'I moved to "Ōsaka" 🚚'},
        city | {"value": {"b": "Ōsaka", "a": 1.0}, "evidence": ["m1"]},
        belief | {"ref": "job", "epistemic_type": "ASSERTED", "value": "carpenter"},
        belief | {"ref": "trip", "epistemic_type": "CONDITIONAL", "condition": "TRUE", "value": "Rome"},
        belief | {"ref": "hunch", "epistemic_type": "HYPOTHETICAL", "value": "likes jazz"},
        lesson | {"ref": "lesson", "value": "measure twice"},
        lesson | {"ref": "lesson-2", "value": "cut once"},
        lesson | {"value": "nameless"},
    )
    about = {"namespace": MAYA, "object": "city"}
    job = {"namespace": MAYA, "object": "job"}
    ebb.ask(
        about | {"op": "ACCESS"},
        about | {"op": "REINFORCE", "signal": "CONFIRMED", "reason": "said so again"},
        about | {"op": "PENALTY", "object": "trip", "signal": "TASK_FAILED_WITH", "ref": "fine-1"},
        job | {"op": "PIN"},
        job | {"op": "UNPIN", "metadata": {"z": 1, "a": 2}},
        job | {"op": "SUPERSEDE", "ref": "job-2", "value": "joiner", "reason": "promoted"},
    )
    ebb.ask(belief | {"namespace": "otto", "ref": "dog", "epistemic_type": "ASSERTED", "value": "has a dog"})
    with pytest.raises(Refused):
        ebb.ask(about | {"op": "RESTORE"})


def _return_of_the_archived(ebb: Ebbtide) -> None:
    ebb.ask(
        {"op": "RESTORE", "namespace": MAYA, "object": "lesson"},
        {"op": "REINFORCE", "namespace": MAYA, "object": "lesson-2", "signal": "REFERENCED", "restore": True},
    )


@pytest.fixture(scope="session")
def log_of() -> Callable[..., list[Entry]]:
    """Reads a store's log, all of it or a namespace's, in order of seq."""

    def read(ebb: Ebbtide, namespace: str | None = None) -> list[Entry]:
        query = select(event_log).order_by(event_log.c.namespace_id, event_log.c.seq)
        if namespace is not None:
            query = query.where(event_log.c.namespace_id == namespace)
        with ebb.store.begin() as connection:
            return [entry_from(row._mapping) for row in connection.execute(query)]

    return read
