"""`ebb sql`: one SELECT over the audit views; whatever else people try is refused, and changes nothing."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from sqlalchemy import make_url, text

from ebbtide import Ebbtide
from ebbtide.audit import views
from ebbtide.model.errors import BadInput
from ebbtide.store import confined

LINES = [
    {"op": "EVENT", "ref": "m1", "actor_id": "maya", "actor_type": "HUMAN_USER", "content": "I moved to London."},
    {
        "op": "ASSERT",
        "ref": "home",
        "object_type": "FACT",
        "epistemic_type": "ASSERTED",
        "source_type": "USER_STATED",
        "value": 'London, "the city"',
        "evidence": ["m1"],
        "effective_at": "2026-01-05T09:00:01Z",
    },
    {"op": "PIN", "object": "home", "reason": "she asked"},
]


@pytest.fixture(scope="module")
def store(shared_url: str) -> str:
    """A store with a little in it, which nothing here may change."""
    with Ebbtide(shared_url) as ebb:
        ebb.ask(*LINES)
    return shared_url


@pytest.fixture
def unchanged(store, rows, tmp_path):
    """Compares all tables, and the folder that commands run in, before and after."""
    before = rows(store)
    yield
    assert rows(store) == before
    assert list(tmp_path.iterdir()) == []


ANYWHERE = (
    "",
    "   ",
    ";",
    "-- nothing",
    "/* nothing */",
    "selec 1",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE event_log",
    "SELECT 1 /* ; */; DELETE FROM event_log; --",
    "SELECT ';'; DROP TABLE event_log",
    "INSERT INTO memories (ref) VALUES ('x')",
    "INSERT INTO event_log SELECT * FROM event_log",
    "UPDATE event_log SET actor_id = 'nobody'",
    "DELETE FROM refusals",
    "TRUNCATE event_log",
    "DROP VIEW memories",
    "DROP SCHEMA audit CASCADE",
    "CREATE TABLE mine AS SELECT * FROM memories",
    "CREATE TEMP TABLE mine (x INTEGER)",
    "CREATE VIEW audit.mine AS SELECT 1",
    "ALTER TABLE event_log ADD COLUMN x INTEGER",
    "GRANT ALL ON event_log TO PUBLIC",
    "WITH gone AS (DELETE FROM event_log RETURNING *) SELECT * FROM gone",
    "WITH more AS (INSERT INTO event_log SELECT * FROM event_log RETURNING 1) SELECT * FROM more",
    "SELECT * INTO mine FROM memories",
    "SELECT * FROM memories FOR UPDATE",
    "EXPLAIN ANALYZE INSERT INTO event_log SELECT * FROM event_log",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN SELECT 1",
    "COPY (SELECT 1) TO 'stolen.csv'",
    "COPY event_log TO 'stolen.csv'",
    "COPY event_log FROM '/etc/passwd'",
    "BEGIN",
    "COMMIT",
    "ROLLBACK; DROP TABLE event_log",
    "VACUUM",
    "CHECKPOINT",
    "ANALYZE",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "DEALLOCATE ALL",
    "SET search_path = public",
    "RESET ALL",
    "CALL something()",
    "SELECT nextval('x')",
    "SELECT * FROM event_log",
    "TABLE event_log",
    "SELECT * FROM contents",
    "SELECT (SELECT count(*) FROM contents)",
    "SELECT * FROM memories WHERE id IN (SELECT object_id FROM memory_state)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM namespaces WHERE secret IS NOT NULL)",
    "SELECT * FROM (WITH event_log AS (SELECT 1) SELECT * FROM event_log) a, event_log",
    "SELECT m.ref FROM memories m, LATERAL (SELECT content FROM contents) c",
    "SELECT ref FROM memories UNION ALL SELECT content FROM contents",
    "SELECT x FROM memories",
    "SELECT 1/0 FROM nowhere",
    'SELECT "ref FROM memories',
    "SELECT '\0'",
    "WITH a AS (SELECT 1) DELETE FROM event_log",
    "MERGE INTO event_log t USING memories s ON true WHEN MATCHED THEN DELETE",
)
ON_DUCKDB = (
    "ATTACH 'stolen.duckdb'",
    "ATTACH 'stolen.duckdb' AS stolen; SELECT 1",
    "DETACH store",
    "USE main",
    "EXPORT DATABASE 'stolen'",
    "IMPORT DATABASE 'stolen'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL httpfs FROM 'https://example.org'",
    "SELECT",
    "PRAGMA database_size",
    "PRAGMA enable_external_access = true",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SHOW TABLES",
    "DESCRIBE memories",
    "SUMMARIZE memories",
    "PIVOT memories ON lifecycle_state",
    "FROM (PIVOT event_log ON op_type)",
    "FROM event_log",
    "SELECT * FROM main.event_log",
    "SELECT * FROM main.memory_state",
    "SELECT * FROM store.main.event_log",
    "SELECT * FROM store.audit.memories",
    'SELECT * FROM "EVENT_LOG"',
    "WITH event_log AS (SELECT 1) SELECT * FROM main.event_log",
    "WITH Event_Log AS (SELECT 1) SELECT * FROM event_log",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "SELECT * FROM 'memories.csv'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto(['/etc/passwd'])",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM parquet_scan('x.parquet')",
    "SELECT * FROM read_duckdb('x.duckdb')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('*')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM memories, read_text('/etc/passwd')",
    "SELECT * FROM memories WHERE ref IN (FROM glob('/*'))",
    "SELECT * FROM query('SELECT * FROM event_log')",
    "SELECT * FROM query_table('event_log')",
    "SELECT * FROM query_table(['event_log'])",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "PRAGMA json_execute_serialized_sql('{}')",
    "SELECT * FROM seq_scan('event_log')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM pragma_storage_info('event_log')",
    "SELECT * FROM pragma_table_info('event_log')",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM python_map_function()",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM duckdb_views",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT getenv('HOME')",
    "SELECT currval('x')",
    "SELECT setseed(0.5)",
    "SELECT write_log('x')",
    "SELECT sleep_ms(100000)",
    "SELECT * FROM os",
    "SELECT * FROM asked",
)
ON_POSTGRESQL = (
    "SELECT 1 INTO mine",
    "SELECT * FROM public.event_log",
    "SELECT * FROM public.contents",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "SELECT * FROM pg_hba_file_rules",
    "COPY (SELECT 1) TO PROGRAM 'touch stolen'",
    "COPY (SELECT 1) TO STDOUT",
    "SET ROLE postgres",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION postgres",
    "SHOW all",
    "LISTEN x",
    "NOTIFY x",
    "LOCK TABLE event_log",
    "DO $$ BEGIN PERFORM 1; END $$",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM auditor",
    "LOAD 'plpgsql'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT pg_catalog.set_config('role', 'none', true), query_to_xml('SELECT * FROM contents', true, true, '')",
    "SELECT \"set_config\"('role', 'none', true)",
    "SELECT \"SET_CONFIG\"('role', 'none', true)",
    "SELECT set_config /* a */ ('role', 'none', true)",
    "SELECT U&\"set_conf\\0069g\"('role', 'none', true)",
    "SELECT u&\"s!0065t_config\" UESCAPE '!' ('role', 'none', true)",
    "SELECT * FROM set_config('transaction_read_only', 'off', true)",
    "SELECT x FROM generate_series(1, 2) x ORDER BY set_config('role', 'none', true)",
    "SELECT query_to_xml('SELECT * FROM public.contents', true, true, '')",
    "SELECT table_to_xml('public.contents', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT * FROM pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_creat(-1)",
    "SELECT lo_export(1, '/tmp/stolen')",
    "SELECT dblink('dbname=postgres', 'SELECT 1')",
    "SELECT pg_sleep(100000)",
    "SELECT pg_sleep_for('1 day')",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_cancel_backend(pg_backend_pid())",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_advisory_xact_lock(0x65626274)",
    "SELECT pg_notify('x', 'y')",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "SELECT pg_export_snapshot()",
    "SELECT pg_logical_emit_message(false, 'x', 'y')",
    "SELECT pg_stat_reset()",
    "SELECT setval('x', 1)",
    "SELECT ts_stat('SELECT 1')",
    "SELECT has_table_privilege('event_log', 'SELECT')",
)
IN_THE_END = ("SELECT 1; DROP TABLE event_log", "COPY event_log TO 'stolen.csv'", "SELECT * FROM event_log")
"""Of all that, what is tried on the command line."""


def test_what_people_try_is_refused_on_duckdb(store, unchanged):
    """As `confined` does it, within this process; afterwards everything is as it was."""
    if not store.startswith("duckdb"):
        return
    with Ebbtide(store) as ebb:
        names = set(views.names(ebb.store.db))
    with confined.opened(make_url(store).database, 1, 10**9) as connection:
        assert confined.answer(connection, "SELECT ref FROM memories", [], names).read_all().num_rows == 1
        for query in (*ANYWHERE, *ON_DUCKDB):
            with pytest.raises((confined.NotAllowed, duckdb.Error, UnicodeError)):
                pytest.fail(f"{query}: {confined.answer(connection, query, [], names).read_all()}")


def test_what_people_try_is_refused_on_postgresql(store, unchanged):
    """Each in one line of bad input, as soon as it is asked; afterwards everything is as it was."""
    if store.startswith("duckdb"):
        return
    with Ebbtide(store) as ebb:
        for query in (*ANYWHERE, *ON_POSTGRESQL):
            with pytest.raises(BadInput) as refused:
                pytest.fail(f"{query}: {ebb.sql(query, seconds=20)}")
            assert str(refused.value)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("query", IN_THE_END)
def test_a_refusal_is_one_line_and_exit_code_2(store, unchanged, run, query):
    result = run("sql", query, "--url", store)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert run("sql", query, "--url", store, "--format", "json").error["code"] == "bad_input"


ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b"
RECURSIVE = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"


@pytest.mark.parametrize("query", [ENDLESS, RECURSIVE])
def test_what_does_not_end_is_stopped(store, run, query):
    result = run("sql", query, "--url", store, "--timeout", "1.5")
    assert result.code == 2
    assert "took longer than 1.5 s" in result.err


def test_what_would_fill_the_machine_is_stopped(store, run):
    """Out of what it may have, a query ends, and nothing else does."""
    query = "SELECT len(range(3000000000))" if store.startswith("duckdb") else "SELECT repeat('x', 2000000000)"
    result = run("sql", query, "--url", store)
    assert result.code == 2
    assert len(result.err.splitlines()) == 1


def test_rows_come_as_they_are_wanted(store, run):
    """More rows than memory could hold, of which the first are printed."""
    many = "SELECT x FROM range(1, 100000000000) AS t(x)"
    if not store.startswith("duckdb"):
        many = "SELECT generate_series(1, 100000000000) AS x"
    result = run("sql", many, "--limit", 2, "--url", store)
    assert (result.code, result.out.split()) == (0, ["x", "1", "2"])
    assert result.err == "only the first 2 rows: --limit N for more, --csv or --parquet for all\n"


SELECTED = """
    SELECT m.ref, m.value, m.pinned, m.created_at, m.id, o.salience, o.version, m.erased_at, -- who?
        o.actor_id AS "by whom", o.stated_reason
    FROM memories m JOIN audit.operations o ON o.namespace_id = m.namespace_id AND o.object_id = m.id
    WHERE o.op_type = 'PIN' OR '%' = 'SYSTEM';
"""
COLUMNS = ["ref", "value", "pinned", "created_at", "id", "salience", "version", "erased_at"]
COLUMNS += ["by whom", "stated_reason"]


def test_a_query_gives_the_same_on_both_databases_and_in_every_form(store, run, tmp_path):
    """As JSON, CSV and Parquet; comments, percent signs and a semicolon are nobody's business."""
    result = run("sql", SELECTED, "--url", store, "--format", "json")
    assert result.code == 0, result.err
    assert result.json["columns"] == COLUMNS
    (row,) = result.json["rows"]
    wanted = ["home", 'London, "the city"', True, "2026-01-05T09:00:01Z", row[4], 1.0, 2, None, "caller", "she asked"]
    assert row[:5] + row[6:] == wanted[:5] + wanted[6:]
    assert 0 < row[5] <= 1
    assert run("sql", SELECTED, "--csv", "pins.csv", "--url", store).out == "1 rows in pins.csv\n"
    header, line = csv.reader(io.StringIO((tmp_path / "pins.csv").read_text()))
    assert (header, line[:5]) == (COLUMNS, ["home", 'London, "the city"', "true", "2026-01-05T09:00:01Z", row[4]])
    assert (line[5], line[7]) == (repr(row[5]), "")
    assert run("sql", SELECTED, "--parquet", "pins.parquet", "--url", store).code == 0
    table = pq.read_table(tmp_path / "pins.parquet")
    assert [str(field.type) for field in table.schema] == [
        *("string", "string", "bool", "timestamp[us, tz=UTC]", "string", "double", "int64", "timestamp[us, tz=UTC]"),
        *("string", "string"),
    ]
    assert table["salience"].to_pylist() == [row[5]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pins.csv", "pins.parquet"]


def test_all_rows_go_to_a_file(store, run, tmp_path):
    query = "SELECT x, CAST(x AS numeric(20, 3)) / 8 AS y FROM generate_series(1, 5000) AS t(x) ORDER BY x"
    assert run("sql", query, "--csv", "all.csv", "--url", store).out == "5000 rows in all.csv\n"
    lines = list(csv.reader(io.StringIO((tmp_path / "all.csv").read_text())))
    assert len(lines) == 5001
    assert [(x, float(y)) for x, y in (lines[1], lines[5000])] == [("1", 0.125), ("5000", 625.0)]


def test_a_file_that_fails_is_not_left_behind(store, run, tmp_path):
    (tmp_path / "kept.csv").write_text("kept")
    failing = "SELECT 10 / (x - 4000) AS y FROM generate_series(1, 5000) AS t(x)"
    query = failing if not store.startswith("duckdb") else f"SELECT CASE y WHEN 5 THEN error('no') END FROM ({failing})"
    assert run("sql", query, "--csv", "kept.csv", "--url", store).code == 2
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept.csv", "kept")]
    result = run("sql", "SELECT 1 AS a", "--csv", "nowhere/x.csv", "--url", store)
    assert (result.code, "nowhere/x.csv" in result.err) == (2, True)
    assert run("sql", "SELECT 1 AS a, 2 AS a", "--parquet", "x.parquet", "--url", store).code == 2
    assert run("sql", "SELECT 1", "--csv", "x", "--parquet", "y", "--url", store).code == 2


def test_a_table_fits_a_terminal(store, run):
    """Many columns are printed as records, one below the other."""
    out = run("sql", "SELECT * FROM memories", "--url", store).out
    assert "row 1 of 1" in out
    assert max(map(len, out.splitlines())) <= 120
    assert run("sql", "-", "--url", store, stdin=b"SELECT 1 AS a, NULL AS b").out.split() == ["a", "b", "1"]


def test_parameters_are_values(store):
    with Ebbtide(store) as ebb:
        query = "SELECT ref FROM memories WHERE ref = :ref AND created_at < :before AND namespace_id <> '%'"
        before = datetime(2026, 2, 1, tzinfo=UTC)
        assert ebb.sql(query, {"ref": "home", "before": before}).rows == [["home"]]
        assert ebb.sql(query, {"ref": "x' OR 'a' = 'a", "before": before}).rows == []
        for wrong in ({"ref": "home"}, {"ref": "home", "before": before, "more": 1}):
            with pytest.raises(BadInput):
                ebb.sql(query, wrong)
        for limit, seconds in ((-1, 1), (1, 0), (1, float("nan"))):
            with pytest.raises(BadInput):
                ebb.sql("SELECT 1", limit=limit, seconds=seconds)


def test_a_store_that_is_busy_or_not_there_is_exit_code_3(store, run, tmp_path, monkeypatch):
    monkeypatch.setenv("EBB_WAIT", "0.1")
    assert run("sql", "SELECT 1", "--url", "duckdb:///none.duckdb").code == 3
    assert not (tmp_path / "none.duckdb").exists()
    if store.startswith("duckdb"):
        with Ebbtide(store) as ebb, ebb.store.session():
            result = run("sql", "SELECT 1", "--url", store)
        assert (result.code, len(result.err.splitlines())) == (3, 1)
        # Another process's.
        program = f"import duckdb; c = duckdb.connect({make_url(store).database!r}); print(1, flush=True); input()"
        with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) as other:
            other.stdout.readline()
            result = run("sql", "SELECT 1", "--url", store)
            other.communicate(b"\n")
        assert result.code == 3
        assert f"PID {other.pid}" in result.err
    assert run("sql", "SELECT 1 AS one", "--url", store).code == 0


def test_a_file_that_cannot_be_written_can_be_asked(store, run):
    """It is opened read-only: the right to read is enough."""
    if store.startswith("duckdb"):
        path = Path(make_url(store).database)
        before = path.read_bytes()
        path.chmod(0o444)
        assert run("sql", "SELECT count(*) AS n FROM memories", "--url", store).out.split() == ["n", "1"]
        path.chmod(0o644)
        assert path.read_bytes() == before
        assert [one for one in path.parent.iterdir() if one.name.endswith(".wal")] == []


def test_a_store_without_all_views_is_to_be_migrated(store, run):
    with Ebbtide(store) as ebb:
        with ebb.store.begin() as connection:
            connection.execute(text("DROP VIEW audit.batches"))
        result = run("sql", "SELECT 1", "--url", store)
        assert (result.code, "ebb migrate" in result.err) == (3, True)
        ebb.init()
    assert run("sql", "SELECT 1", "--url", store).code == 0
