"""One SELECT over a DuckDB file, run by a process of its own, which can be killed and has only the memory it is given.

DuckDB has no roles, and some of what a SELECT may ask for can be neither interrupted nor held within its memory limit.
So this file is run as a program: it reads what to do as JSON from standard input, and writes the rows as an Arrow
stream to standard output, or a JSON object with `error` to standard error. It imports nothing of Ebbtide, so that it
starts quickly.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import duckdb
import pyarrow as pa

LOCKED = "Could not set lock on file"
BATCH = 2_048
READY = b"."
"""What comes before the rows, once the file is open."""

CONFIG = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
"""No files but the store's, no network, no extension, no variable of this program."""

TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "json_each", "json_tree"}
"""What may stand in FROM beside the views: all that makes rows of its arguments alone."""
FUNCTIONS_ALLOWED = {
    *("now", "today", "get_current_timestamp", "get_current_time", "current_date", "transaction_timestamp"),
    *("random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "stats", "error"),
}
"""Functions that give another value each time, and do nothing else."""


class NotAllowed(Exception):
    """What is asked for is not one SELECT over the views; the message says what to do instead."""


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object within a JSON document."""
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)


def parsed(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    """The one SELECT that a text is, as DuckDB's parser has it."""
    row = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    document: dict[str, Any] = json.loads(row[0]) if row else {}
    if document.get("error") and document.get("error_type") == "parser":
        raise NotAllowed(str(document["error_message"]).partition("\n")[0])
    statements = document.get("statements", [])
    if document.get("error") or len(statements) != 1:
        raise NotAllowed("write one SELECT, and nothing else")
    found: dict[str, Any] = statements[0]
    return found


def check(connection: duckdb.DuckDBPyConnection, query: str, views: set[str]) -> None:
    """Refuses whatever is not one SELECT that reads the views alone and calls nothing that does more than compute."""
    tree = parsed(connection, query)
    effects = connection.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE stability <> 'CONSISTENT' OR has_side_effects OR function_type = 'pragma'"
    )
    refused = {name for (name,) in effects.fetchall()} - FUNCTIONS_ALLOWED
    tables = connection.execute(
        "SELECT lower(table_name) FROM duckdb_tables() UNION "
        "SELECT lower(view_name) FROM duckdb_views() WHERE schema_name <> 'audit'"
    )
    elsewhere = {name for (name,) in tables.fetchall()} - views
    within = set()
    for node in nodes(tree):
        within |= {entry["key"].lower() for entry in (node.get("cte_map") or {}).get("map", ())}
    for name in sorted(within & elsewhere):
        raise NotAllowed(f"{name} is the name of a table: give the WITH another one")
    for node in nodes(tree):
        kind = node.get("type")
        if "class" not in node and kind == "BASE_TABLE":
            _check_table(node, views, within)
        elif "class" not in node and kind == "SHOW_REF":
            raise NotAllowed("write one SELECT, and nothing else")
        elif "class" not in node and kind == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise NotAllowed(f"{name}() is not allowed here: only the views of schema audit can be read")
        elif str(node.get("function_name", "")).lower() in refused:
            raise NotAllowed(f"{node['function_name']}() is not allowed here: it does more than compute")


def _check_table(node: dict[str, Any], views: set[str], within: set[str]) -> None:
    schema, name = node["schema_name"].lower(), node["table_name"].lower()
    known = name in views or (not schema and name in within)
    if node["catalog_name"] or schema not in ("", "audit") or not known:
        raise NotAllowed(f"{node['table_name']} is no view of schema audit, and nothing else can be read")


def limit_memory(size: int) -> None:
    """No more address space than this for the whole process, where the system can."""
    try:
        import resource  # noqa: PLC0415  There is none on Windows.
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def opened(path: str, wait: float, memory: int) -> duckdb.DuckDBPyConnection:
    """The file, read-only and with all doors shut; waits for another process to let go of it."""
    deadline = time.monotonic() + wait
    config: dict[str, Any] = {**CONFIG, "memory_limit": f"{memory}B", "threads": 2}
    while True:
        try:
            connection = duckdb.connect(path, read_only=True, config=config)
            break
        except duckdb.IOException as error:
            if LOCKED not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.01, 0.05))
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET schema = 'audit'")
    connection.execute("SET lock_configuration = true")
    return connection


def answer(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any, views: set[str]) -> pa.RecordBatchReader:
    """The rows of a query, if it is one SELECT over the views."""
    check(connection, query, views)
    return connection.execute(query, parameters).to_arrow_reader(BATCH)


def main() -> None:
    """Does what standard input says."""
    said = sys.stdin.read()
    if not said:
        # Whoever started it has ended, or needs it no more.
        return
    asked = json.loads(said)
    limit_memory(4 * asked["memory"])
    try:
        connection = opened(asked["path"], asked["wait"], asked["memory"])
    except duckdb.Error as error:
        _fail("store", error)
    there = connection.execute("SELECT view_name FROM duckdb_views() WHERE schema_name = 'audit'").fetchall()
    if not set(asked["views"]) <= {name for (name,) in there}:
        _fail("old")
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    try:
        with answer(connection, asked["query"], asked["parameters"], set(asked["views"])) as rows:
            _send(rows)
    except BrokenPipeError:
        # Whoever asked has what they wanted.
        return
    except (duckdb.OutOfMemoryException, MemoryError):
        _fail("memory")
    except (NotAllowed, duckdb.Error, pa.ArrowException, OverflowError) as error:
        _fail("input", error)


def _send(rows: pa.RecordBatchReader) -> None:
    out = sys.stdout.buffer
    with pa.ipc.new_stream(out, rows.schema) as stream:
        for batch in rows:
            stream.write_batch(batch)
            out.flush()


def _fail(what: str, error: Exception | None = None) -> NoReturn:
    sys.exit(json.dumps({"error": what, "message": "" if error is None else str(error)}))


if __name__ == "__main__":
    main()
