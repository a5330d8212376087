"""Reading a pack: its files checked, its columns and values checked, and its rows loaded into temporary tables.

Nothing of the store is written here. What is wrong is refused with the file and, where there is one, the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError
from sqlalchemy import Connection, Double, LargeBinary, Table, Text, Uuid

from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier
from ebbtide.model.words import OpType
from ebbtide.pack.folder import check
from ebbtide.pack.form import (
    BATCHES,
    CONTENTS,
    EVENTS,
    MANIFEST,
    NAMESPACES,
    OPERATIONS,
    PARTS,
    REFUSALS,
    REQUIRED,
    Manifest,
    Part,
)
from ebbtide.project.passes import empty, temporary
from ebbtide.store.database import Database

ROWS = 20_000
"""Rows in memory at a time, and not more than a row group of the file has."""

NOT_IN_TEXT = "[\x00-\x1f]"
"""No text of the log, which is identifiers and JSON, holds a control character; the hash takes two of them as marks."""

AN_ID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
A_HASH = 32

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Staged:
    """The rows of a pack in temporary tables, with the columns of the tables they are of."""

    log: Table
    batches: Table
    contents: Table
    namespaces: Table
    refusals: Table

    @classmethod
    def named(cls) -> Staged:
        """The tables, which are not made yet."""
        parts = {"log": EVENTS, "batches": BATCHES, "contents": CONTENTS, "namespaces": NAMESPACES}
        made = {name: _staging(name, part) for name, part in (parts | {"refusals": REFUSALS}).items()}
        return cls(**made)

    def of(self, part: Part) -> Table | None:
        """Where the rows of a file go."""
        tables = {EVENTS.file: self.log, OPERATIONS.file: self.log, BATCHES.file: self.batches}
        rest = {CONTENTS.file: self.contents, NAMESPACES.file: self.namespaces, REFUSALS.file: self.refusals}
        return (tables | rest).get(part.file)

    @property
    def all(self) -> tuple[Table, ...]:
        return (self.log, self.batches, self.contents, self.namespaces, self.refusals)


def _staging(name: str, part: Part) -> Table:
    return temporary(f"pack_{name}", part.table)


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a pack whose files are whole. Refuses a folder that is no pack of this format."""
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}", file=str(folder))
    check(folder, [MANIFEST])
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or None
        raise BadInput(f"{first['msg']}: this version reads packs of format 1", file=str(path), field=field) from error
    if manifest.subject is not None:
        raise BadInput("is what is kept about one person, no pack to import", file=str(path))
    check(folder, REQUIRED)
    for name in manifest.namespaces:
        identifier(name, "namespaces")
    return manifest


def load(
    db: Database, connection: Connection, folder: Path, manifest: Manifest, staged: Staged, progress: Progress
) -> list[dict[str, Any]]:
    """Loads a pack into temporary tables, checking every value; the store-wide policies come back as rows."""
    for table in staged.all:
        empty(connection, table)
    total, done = manifest.event_count + manifest.operation_count, 0
    wide: list[dict[str, Any]] = []
    for part in PARTS:
        target, rows = staged.of(part), 0
        for batch in _batches(folder / part.file, part):
            if target is None:
                wide += batch.to_pylist()
            else:
                db.load(connection, target, batch)
            rows += batch.num_rows
            if part in (EVENTS, OPERATIONS):
                done += batch.num_rows
                progress(done, max(total, done))
        expected = {EVENTS.file: manifest.event_count, OPERATIONS.file: manifest.operation_count}.get(part.file, rows)
        if rows != expected:
            raise BadInput(f"has {rows} rows, not {expected} as {MANIFEST} says", file=str(folder / part.file))
    return wide


def _batches(path: Path, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a file, whose columns and values are those that the part may have."""
    try:
        with pq.ParquetFile(path) as file:
            found = [(field.name, field.type) for field in file.schema_arrow]
            expected = [(field.name, field.type) for field in part.schema]
            if found != expected:
                wrong = next(iter([one for one in expected if one not in found]), None)
                text = f"has other columns than {', '.join(part.columns)}"
                raise BadInput(text, file=str(path), field=None if wrong is None else wrong[0])
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(ROWS, row_groups=[group]):
                    _check(batch, part, path)
                    yield batch
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"cannot be read: {str(error).splitlines()[0]}", file=str(path)) from error


def _check(batch: pa.RecordBatch, part: Part, path: Path) -> None:
    for column in part.own:
        values = batch.column(column.name)
        wrong = _wrong(column, values)
        if wrong is None and part in (EVENTS, OPERATIONS) and column.name == "op_type":
            events = pc.equal(values, OpType.EVENT.value)
            mixed = pc.any(pc.invert(events) if part is EVENTS else events).as_py()
            wrong = "has entries that belong into the other file of the log" if mixed else None
        if wrong is not None:
            raise BadInput(wrong, file=str(path), field=column.name)


def _wrong(column: Any, values: pa.Array) -> str | None:
    """What is wrong with values of a column, or None."""
    if values.null_count and not column.nullable and column.name != "secret":
        return "is null somewhere"
    if isinstance(column.type, Text) and _any(pc.match_substring_regex(values, NOT_IN_TEXT)):
        return "holds a control character (U+0000 to U+001F)"
    if isinstance(column.type, Uuid) and _any(pc.invert(pc.match_substring_regex(values, AN_ID))):
        return "holds something that is no id"
    if isinstance(column.type, Double):
        rounded = pc.divide(pc.floor(pc.add(pc.multiply(values, 1e9), 0.5)), 1e9)
        if _any(pc.not_equal(rounded, values)):
            return "holds a number that has not nine decimals"
    if isinstance(column.type, LargeBinary) and "hash" in column.name and _any(pc.not_equal(_length(values), A_HASH)):
        return "holds something that is no hash"
    return None


def _any(found: pa.Array) -> bool:
    return bool(pc.any(found).as_py())


def _length(values: pa.Array) -> pa.Array:
    return pc.binary_length(values)
