"""`ebb sql`: one SELECT over the audit views; whatever else people try is refused, and changes nothing."""

from __future__ import annotations

import pytest

from ebbtide import Ebbtide
from ebbtide.model.errors import BadInput

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
    "SELECT",
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
    "SELECT length(repeat('x', 100000000000))",
    "SELECT len(range(3000000000))",
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
TRIED = [
    *(("duckdb", query) for query in (*ANYWHERE, *ON_DUCKDB)),
    *(("postgresql", query) for query in (*ANYWHERE, *ON_POSTGRESQL)),
]


def test_what_people_try_is_refused(store, unchanged):
    """Each in one line of bad input, as soon as it is asked; afterwards everything is as it was."""
    kind = "duckdb" if store.startswith("duckdb") else "postgresql"
    with Ebbtide(store) as ebb:
        for query in (query for database, query in TRIED if database == kind):
            with pytest.raises(BadInput) as refused:
                pytest.fail(f"{query}: {ebb.sql(query, seconds=20)}")
            assert "\n" not in str(refused.value)
            assert str(refused.value)
