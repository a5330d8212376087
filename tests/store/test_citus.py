"""A database with Citus: what setting up asks of it, heard by a function of Citus's name on a plain PostgreSQL.

That it works on a real one only EBB_TEST_CITUS_URL can show.
"""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from ebbtide import Ebbtide
from ebbtide.store.tables import metadata

LISTENS = """
    CREATE TABLE heard (place serial, name text, by_column text, beside text, sequential text);
    CREATE FUNCTION create_distributed_table(named regclass, by_column text, colocate_with text DEFAULT 'default')
    RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = named) THEN
            RAISE EXCEPTION 'cannot distribute relation % because it has triggers', named;
        END IF;
        INSERT INTO heard (name, by_column, beside, sequential)
        VALUES (named::text, by_column, colocate_with, current_setting('citus.multi_shard_modify_mode'));
    END $$
"""


@pytest.fixture
def url(make_url_for) -> str:
    """An empty database that takes what is said to Citus."""
    url = make_url_for("postgresql")
    engine = create_engine(make_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in (
            "DROP SCHEMA public, audit CASCADE",
            "CREATE SCHEMA public",
            "GRANT USAGE ON SCHEMA public TO PUBLIC",
            LISTENS,
        ):
            connection.execute(text(statement))
    engine.dispose()
    return url


def test_init_distributes_every_table_by_its_namespace_and_makes_no_trigger(url):
    with Ebbtide(url) as ebb:
        ebb.init()
        with ebb.store.begin() as connection:
            heard = connection.execute(
                text("SELECT name, by_column, beside, sequential FROM heard ORDER BY place")
            ).all()
            first, *others = heard
            assert tuple(first) == ("namespaces", "namespace_id", "default", "sequential")
            assert {tuple(row[1:]) for row in others} == {("namespace_id", "namespaces", "sequential")}
            assert sorted(row.name for row in heard) == sorted(metadata.tables)
            assert connection.execute(text("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal")).scalar() == 0
        assert ebb.init()[0] == ebb.store.head_revision(), "and once only"


def test_rights_alone_keep_the_service_from_changing_the_log(url):
    with Ebbtide.open(url) as ebb:
        ebb.event("hello")
        for table in ("event_log", "batches", "refusals"):
            for change in (f"UPDATE {table} SET namespace_id = 'x'", f"DELETE FROM {table}", f"TRUNCATE {table}"):
                with ebb.store.session() as connection, connection.begin() as transaction:
                    connection.execute(text("SET LOCAL ROLE ebbtide_app"))
                    with pytest.raises(DBAPIError, match="permission denied"):
                        connection.execute(text(change))
                    transaction.rollback()
        assert ebb.verify().ok
