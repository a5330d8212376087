"""The schema: one history of migrations gives both databases the same tables, all keyed by namespace."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text

from ebbtide import Ebbtide, StoreUnavailable
from ebbtide.model.words import Task
from ebbtide.store.tables import contents, metadata

WORDS = {
    "BIGINT": "int64", "INTEGER": "int32", "SMALLINT": "int16", "BOOLEAN": "bool", "UUID": "uuid",
    "DOUBLE": "float64", "DOUBLE PRECISION": "float64", "BLOB": "bytes", "BYTEA": "bytes",
    "VARCHAR": "text", "TEXT": "text", "CHARACTER VARYING": "text",
    "BigInteger": "int64", "Integer": "int32", "SmallInteger": "int16", "Boolean": "bool", "Uuid": "uuid",
    "ARRAY": "float64s", "DOUBLE[]": "float64s", "Double": "float64", "LargeBinary": "bytes", "Text": "text",
}  # fmt: skip
CHANGED_BY_DECAY = {"salience", "confidence", "decayed_at", "version", "head_hash"}

COLUMNS = """
    SELECT c.table_name, c.column_name, c.data_type, c.is_nullable, c.column_default
    FROM information_schema.columns c
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
    WHERE c.table_schema IN ('public', 'main') AND t.table_type = 'BASE TABLE'
      AND c.table_catalog = current_database() AND t.table_catalog = current_database()
    ORDER BY c.table_name, c.ordinal_position
"""
POSTGRES_KEYS = """
    SELECT t.relname, i.relname, x.indisprimary,
           ARRAY(SELECT coalesce(a.attname::text, '(expression)')
                 FROM unnest(x.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                 LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum ORDER BY place)
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE x.indisunique AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
"""
DUCKDB_KEYS = """
    SELECT table_name, constraint_name, constraint_type = 'PRIMARY KEY', constraint_column_names
    FROM duckdb_constraints()
    WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND database_name = current_database()
"""


def query(url: str, statement: str) -> list[tuple]:
    with Ebbtide(url) as opened, opened.store.begin() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def columns_of(url: str) -> dict[str, list[tuple[str, str, bool]]]:
    """Columns of each table in order: name, type in words of neither database, nullable."""
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for table, column, kind, nullable, _ in query(url, COLUMNS):
        found.setdefault(table, []).append((column, WORDS[kind.upper()], nullable == "YES"))
    return found


def keys_of(url: str) -> list[tuple[str, str, bool, list[str]]]:
    """Primary and unique keys, constraints and indexes alike: table, name, whether primary, columns."""
    return [row for row in query(url, _keys(url)) if row[0] != "alembic_version"]


def _keys(url: str) -> str:
    return DUCKDB_KEYS if url.startswith("duckdb") else POSTGRES_KEYS


def test_both_databases_have_the_same_tables_columns_types_and_nullability(make_url_for):
    assert columns_of(make_url_for("duckdb")) == columns_of(make_url_for("postgresql"))


def test_both_databases_have_the_same_primary_keys(make_url_for):
    duckdb, postgres = (
        {table: columns for table, _, primary, columns in keys_of(make_url_for(kind)) if primary}
        for kind in ("duckdb", "postgresql")
    )
    assert duckdb == postgres


def test_the_metadata_is_what_the_migrations_made(url):
    """What the program believes of the schema is what the database has, table by table."""
    believed = {
        name: [(c.name, WORDS[type(c.type).__name__], c.nullable) for c in table.columns]
        for name, table in metadata.tables.items()
    }
    made = columns_of(url)
    made.pop("alembic_version")
    assert believed == made
    primary = {table: list(columns) for table, _, is_primary, columns in keys_of(url) if is_primary}
    assert {name: [c.name for c in table.primary_key] for name, table in metadata.tables.items()} == primary


def test_every_primary_and_unique_key_starts_with_the_namespace(url):
    """The namespace is the shard key: a key that does not start with it cannot be kept on Citus."""
    keys = keys_of(url)
    assert {table for table, _, primary, _ in keys if primary} == set(metadata.tables)
    assert [key for key in keys if key[3][0] != "namespace_id"] == []


def test_nothing_numbers_itself(url):
    """No identity columns, no sequences, no defaults: numbers come from the head of the namespace alone."""
    assert [row for row in query(url, COLUMNS) if row[4] is not None] == []
    if url.startswith("duckdb"):
        sequences = "SELECT sequence_name FROM duckdb_sequences() WHERE database_name = current_database()"
        assert query(url, sequences) == []
        return
    assert query(url, "SELECT relname FROM pg_class WHERE relkind = 'S'") == []
    assert query(url, "SELECT attname FROM pg_attribute WHERE attidentity <> '' OR attgenerated <> ''") == []


def test_no_table_has_foreign_keys(url):
    catalogue = (
        "SELECT table_name FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'"
        if url.startswith("duckdb")
        else "SELECT conname FROM pg_constraint WHERE contype = 'f'"
    )
    assert query(url, catalogue) == []


def test_duckdb_has_no_secondary_index(make_url_for):
    assert query(make_url_for("duckdb"), "SELECT index_name FROM duckdb_indexes()") == []


def test_the_planner_samples_nothing_that_was_written(make_url_for):
    """Statistics are copies, which no erasure finds: not of the content, nor of its nonce or digest."""
    engine = create_engine(make_url_for("postgresql"))
    with engine.connect() as connection:
        query = "SELECT attname, attstattarget FROM pg_attribute WHERE attrelid = 'contents'::regclass AND attnum > 0"
        targets = dict(connection.execute(text(query)).tuples().all())
    engine.dispose()
    columns = {column.name for column in contents.columns if not column.primary_key}
    assert {name: targets[name] for name in columns} == dict.fromkeys(columns, 0)


def test_updates_of_a_decay_pass_can_be_hot(make_url_for):
    """`memory_state` has half-empty pages, and no index stands on what a pass changes, nor mentions it."""
    url = make_url_for("postgresql")
    ((options,),) = query(url, "SELECT reloptions FROM pg_class WHERE relname = 'memory_state'")
    assert "fillfactor=50" in options
    definitions = query(url, "SELECT indexdef FROM pg_indexes WHERE tablename = 'memory_state'")
    assert len(definitions) >= 2, "its key and the index that finds what is due"
    mentioned = {word for (definition,) in definitions for word in re.findall(r"\w+", definition)}
    assert mentioned & CHANGED_BY_DECAY == set()
    assert "due_at" in mentioned


def test_updates_of_a_decay_pass_are_hot(make_url_for, clock):
    """The number that says so: all updates of three passes are HOT, and the table does not grow.

    A transaction open in any other database of the server keeps old rows from being pruned, and so may cost a pass its
    room: it has to come out so in one of several tries, which it never does where an index stands on what changes.
    """
    tries = (_three_passes(make_url_for("postgresql"), clock, objects=300) for _ in range(8))
    assert any(found == (900, 900, 0) for found in tries)


def _three_passes(url: str, clock, objects: int) -> tuple[int, int, int]:
    """How many updates three passes made, how many of them were HOT, and by how many bytes the table grew."""
    known = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
    size = "SELECT pg_relation_size('memory_state')"
    with Ebbtide(url, clock=clock) as ebb:
        ebb.ask(*({"op": "ASSERT", "ref": f"o{n}", "value": n, **known} for n in range(objects)))
        ((before,),) = query(url, size)
        for _ in range(3):
            clock.forward(days=1)
            assert [run.decayed for run in ebb.organise(tasks=[Task.DECAY_MEDIUM])] == [objects]
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'memory_state'"
    deadline = time.monotonic() + 30
    while (found := query(url, counted)[0])[0] < 3 * objects and time.monotonic() < deadline:
        pass  # statistics arrive when the session that made them has ended
    ((after,),) = query(url, size)
    return found[0], found[1], after - before


def test_migrating_twice_changes_nothing(url, clock):
    with Ebbtide(url, clock=clock) as ebb:
        ebb.ask({"op": "EVENT", "ref": "m1", "content": "hello"})
        before = everything(url)
        head = ebb.store.head_revision()
        assert ebb.init() == (head, head)
        assert ebb.init() == (head, head)
        assert everything(url) == before


def everything(url: str) -> tuple:
    """The schema, its keys and what the tables hold."""
    rows = {table: sorted(query(url, f"SELECT * FROM {table}"), key=repr) for table in columns_of(url)}
    return columns_of(url), sorted(keys_of(url)), rows


@pytest.fixture(params=["duckdb", "postgresql"])
def bare_url(request: pytest.FixtureRequest, tmp_path) -> Iterator[str]:
    """A database that was never set up."""
    if request.param == "duckdb":
        yield f"duckdb:///{tmp_path / 'bare.duckdb'}"
        return
    server = request.getfixturevalue("postgres_url")
    name = f"ebb_bare_{uuid.uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.mark.parametrize("what", ["ask", "organise", "memories"])
def test_a_store_that_is_not_set_up_is_refused(bare_url, what):
    """Exit code 3, and the message says what to do; nothing is set up on the quiet."""
    with Ebbtide(bare_url) as ebb:
        given = [{"op": "EVENT", "ref": "m1", "content": "hello"}] if what == "ask" else []
        with pytest.raises(StoreUnavailable, match="ebb init") as refused:
            getattr(ebb, what)(*given)
        assert refused.value.exit_code == 3
        assert ebb.store.revision() is None


def test_init_sets_a_store_up_and_then_it_takes_requests(bare_url):
    with Ebbtide(bare_url) as ebb:
        before, after = ebb.init()
        assert (before, after) == (None, ebb.store.head_revision())
        ebb.ask({"op": "EVENT", "ref": "m1", "content": "hello"})
    assert query(bare_url, "SELECT max(seq) FROM event_log") == [(2,)]
