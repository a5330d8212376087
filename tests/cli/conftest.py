"""Runs `ebb` within the test's process, as a shell would: arguments, environment, standard streams, exit code."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text
from typer.main import get_command

from ebbtide import Ebbtide
from ebbtide.cli import main
from ebbtide.store.tables import metadata

COMMAND = get_command(main.app)
"""Made once, since that takes as long as many a command."""


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON document on standard error."""
        (line,) = self.err.splitlines()
        return json.loads(line)["error"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """`run("list", "--all", stdin=b"")`: in an empty folder, without settings but those a test makes."""
    for name in [name for name in os.environ if name.startswith("EBB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, stdin: bytes = b"") -> Result:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        with monkeypatch.context() as streams:
            streams.setattr(sys, "argv", ["ebb", *map(str, arguments)])
            streams.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = main._run(COMMAND)
        return Result(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))

    return call


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty store that the tests of a module share, who leave it as it is; on both databases."""
    if request.param == "duckdb":
        path = tmp_path_factory.mktemp("shared") / "store.duckdb"
        shutil.copy(request.getfixturevalue("duckdb_template"), path)
        yield f"duckdb:///{path}"
        return
    server, template = (request.getfixturevalue(name) for name in ("postgres_url", "postgres_template"))
    name = f"{template}_{request.module.__name__.rpartition('.')[2]}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def rows() -> Callable[..., dict[str, list[dict[str, Any]]]]:
    """All rows of all tables of a store but `refusals`, which keeps what was not done; or of the tables named."""

    def read(url: str, *names: str) -> dict[str, list[dict[str, Any]]]:
        wanted = names or tuple(name for name in metadata.tables if name != "refusals")
        with Ebbtide(url) as ebb, ebb.store.begin() as connection:
            return {name: _sorted_rows(connection, metadata.tables[name]) for name in wanted}

    return read


def _sorted_rows(connection: Any, table: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key))]
