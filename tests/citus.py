"""Databases on a Citus cluster: EBB_TEST_CITUS_URL names a database of its coordinator, from which the others are made.

Citus copies no database from a template, so each store is set up anew; a copy of one is made table by table.
"""

from __future__ import annotations

import psycopg
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import URL

from ebbtide import Ebbtide
from ebbtide.store.tables import metadata

WORKERS = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 AND isactive ORDER BY nodeid"


def query(url: URL, statement: str) -> list[tuple]:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        result = connection.execute(text(statement))
        rows = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return rows


def nodes(coordinator: URL) -> list[URL]:
    """The coordinator and the workers that it knows."""
    return [coordinator, *(coordinator.set(host=host, port=port) for host, port in query(coordinator, WORKERS))]


def create(coordinator: URL, name: str) -> URL:
    """A database on all nodes, in which the coordinator knows its workers; not set up yet."""
    first, *workers = nodes(coordinator)
    for node in (first, *workers):
        query(node, f"CREATE DATABASE {name}")
        query(node.set(database=name), "CREATE EXTENSION citus")
    made = coordinator.set(database=name)
    if workers:
        query(made, f"SELECT citus_set_coordinator_host('{first.host}', {first.port or 5432})")
    for worker in workers:
        query(made, f"SELECT citus_add_node('{worker.host}', {worker.port})")
    return made


def fill(made: URL, of: str | None) -> str:
    """Sets a database up, as a copy of another if one is given; its URL."""
    target = made.render_as_string(hide_password=False)
    with Ebbtide(target) as ebb:
        ebb.init()
    if of is not None:
        for table in metadata.tables:
            copy(table, make_url(of), made)
    return target


def copy(table: str, source: URL, target: URL) -> None:
    there, here = (url.set(drivername="postgresql").render_as_string(hide_password=False) for url in (source, target))
    with psycopg.connect(there) as reading, psycopg.connect(here) as writing:
        writing.execute(f"TRUNCATE {table}")
        read = reading.cursor().copy(f"COPY (SELECT * FROM {table}) TO STDOUT")
        with read as rows, writing.cursor().copy(f"COPY {table} FROM STDIN") as written:
            for data in rows:
                written.write(data)


def drop(made: URL, coordinator: URL) -> None:
    for node in reversed(nodes(coordinator)):
        query(node, f"DROP DATABASE {made.database} WITH (FORCE)")
