"""Setting up at once: however many begin, one migrates and the others find it done."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, make_url, text

from ebbtide import Ebbtide, StoreUnavailable


@pytest.fixture(params=["duckdb", "postgresql"])
def bare_url(request, make_url_for, tmp_path):
    """The URL of a store that nobody has set up."""
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path / 'bare.duckdb'}"
    url = make_url_for("postgresql")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("DROP SCHEMA audit CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url


def test_three_processes_set_up_one_store(bare_url):
    program = "import sys; from ebbtide import Ebbtide; Ebbtide(sys.argv[1]).init()"
    children = [
        subprocess.Popen([sys.executable, "-c", program, bare_url], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [child.communicate(timeout=120)[1] for child in children] == ["", "", ""]
    with Ebbtide(bare_url) as ebb:
        assert ebb.memories() == []


def test_four_threads_set_up_one_store(bare_url):
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Ebbtide.open(bare_url), range(4)))
    assert [ebb.memories() for ebb in opened] == [[]] * 4
    for ebb in opened:
        ebb.close()


@pytest.mark.lets_go
def test_a_store_of_a_newer_version_is_left_alone(url):
    """An older Ebbtide says that it is the one to upgrade, whatever it is asked for."""
    with Ebbtide(url) as newer, newer.store.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with Ebbtide(url) as older:
        for asked in (older.memories, older.init, older.problems):
            with pytest.raises(StoreUnavailable, match=r"migration 9999, which a newer Ebbtide made.*upgrade it"):
                asked()


def test_a_writer_that_never_ends_is_waited_for_a_bounded_time(make_url_for):
    """PostgreSQL: another transaction holds the namespace's head."""
    url = make_url_for("postgresql")
    with Ebbtide(url) as ebb:
        ebb.event("hello")
    engine = create_engine(make_url(url))
    with engine.connect() as holder:
        holder.execute(text("SELECT * FROM namespaces FOR UPDATE"))
        with Ebbtide(url, wait=0.2) as ebb, pytest.raises(StoreUnavailable, match="nothing was written"):
            ebb.event("are you there?")
    engine.dispose()
