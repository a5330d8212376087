"""One SELECT over the audit views, as an auditor writes it: its rows, or a file of them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel
from sqlalchemy import DateTime, bindparam, text
from sqlalchemy.exc import ArgumentError

from ebbtide.audit import views
from ebbtide.model.errors import BadInput
from ebbtide.store.database import Confines, Database, Selection

SECONDS = 60.0
ROWS = 1_000
EXAMPLE = "SELECT ref, to_state, rule, policy FROM lifecycle_transitions ORDER BY seq"
"""A query as people ask it: what left, by which rule and policy version."""


class Answer(BaseModel):
    """What a query gave, `rows` in the order of `columns`. `more` says that there are rows beyond the limit."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool


def select(
    db: Database,
    query: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    limit: int = ROWS,
    seconds: float = SECONDS,
) -> Answer:
    """The first rows of a query. Ids are texts, instants aware datetimes, whole decimals integers."""
    with db.selected(*_driver(db, query, parameters), _confines(db, seconds)) as selection:
        rows: list[list[Any]] = []
        for row in _rows(selection):
            if len(rows) == limit:
                return Answer(columns=selection.schema.names, rows=rows, more=True)
            rows.append(row)
        return Answer(columns=selection.schema.names, rows=rows, more=False)


def write_csv(
    db: Database, query: str, file: Path, parameters: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
) -> int:
    """Writes all rows as CSV with a header: instants in ISO 8601 UTC, null as an empty field. How many there were."""
    with db.selected(*_driver(db, query, parameters), _confines(db, seconds)) as selection:
        count = 0
        with _replaced(file) as path, path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(selection.schema.names)
            for row in _rows(selection):
                writer.writerow([_field(value) for value in row])
                count += 1
        return count


def write_parquet(
    db: Database, query: str, file: Path, parameters: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
) -> int:
    """Writes all rows as a Parquet file with the columns' types. How many there were."""
    with db.selected(*_driver(db, query, parameters), _confines(db, seconds)) as selection:
        names = selection.schema.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadInput(f"two columns are called {twice[0]}: name them apart with AS")
        count = 0
        try:
            with _replaced(file) as path, pq.ParquetWriter(path, selection.schema) as out:
                for batch in selection.batches:
                    out.write_batch(batch)
                    count += batch.num_rows
        except pa.ArrowNotImplementedError as error:
            raise BadInput(f"Parquet cannot hold this: {str(error).splitlines()[0]}; cast it to text") from error
        return count


@contextmanager
def _replaced(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the file's place only once all is written."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield fresh
        fresh.replace(file)
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(file)) from error
    finally:
        fresh.unlink(missing_ok=True)


def _confines(db: Database, seconds: float) -> Confines:
    return Confines(db.once("names of views", lambda: views.names(db)), seconds)


def _driver(
    db: Database, query: str, parameters: Mapping[str, Any] | None
) -> tuple[str, Sequence[Any] | Mapping[str, Any]]:
    """A query and its parameters as the database's driver takes them; a query names them as `:name`."""
    if "\0" in query or any("\ud800" <= one <= "\udfff" for one in query):
        raise BadInput("holds what is no text")
    if not parameters:
        return query, ()
    # A time that is not typed is taken for one without a zone.
    bound = [
        bindparam(name, value, type_=DateTime(timezone=True) if isinstance(value, datetime) else None)
        for name, value in parameters.items()
    ]
    try:
        compiled = text(query).bindparams(*bound).compile(dialect=db.engine().dialect)
    except ArgumentError as error:
        raise BadInput(f"{str(error).splitlines()[0]}: name each parameter in the query as :name") from error
    values = compiled.params
    if missing := [name for name in values if name not in parameters]:
        raise BadInput(f"parameter {missing[0]} has no value")
    return str(compiled), [values[name] for name in compiled.positiontup or ()] or values


def _rows(selection: Selection) -> Iterator[list[Any]]:
    for batch in selection.batches:
        columns = [map(_value, column.to_pylist()) for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _value(value: Any) -> Any:
    """A value as Python and JSON have it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    return value if isinstance(value, str | int | float | bool | date | None) else str(value)


def _field(value: Any) -> Any:
    """A value as CSV has it."""
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value
