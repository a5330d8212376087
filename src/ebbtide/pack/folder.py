"""The folder of a pack on disk: written whole or not at all, and known again by the checksums of its files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.model.errors import BadInput
from ebbtide.pack.form import CHECKSUMS

GROUP_ROWS = 20_000
GROUP_BYTES = 16 << 20
"""A row group ends with the batch that reaches one of them: so much of a file is in memory at a time."""

_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path`, only its owner's, that takes its place at the end; gone after any error.

    A folder that is there already and is not empty is refused, as is what is no folder.
    """
    place = path.resolve()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{path} is there already: name a folder that is new or empty", file=str(path))
    if not place.parent.is_dir():
        raise BadInput(f"there is no folder {place.parent}: make it first", file=str(path))
    made = None
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        yield made
        for each in [*made.rglob("*"), made]:
            _sync(each)
        made.rename(place)
        _sync(place.parent)
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror or error}", file=str(path)) from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_parquet(path: Path, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> int:
    """Writes record batches as they come, in row groups of a bounded size; how many rows."""
    path.parent.mkdir(exist_ok=True)
    written = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_batches(group, schema))
            written += sum(batch.num_rows for batch in group)
    return written


def _groups(rows: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches put together until they are a row group."""
    group: list[pa.RecordBatch] = []
    for batch in rows:
        group.append(batch)
        if sum(one.num_rows for one in group) >= GROUP_ROWS or sum(one.nbytes for one in group) >= GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def write_json(path: Path, document: Any) -> None:
    """Writes a JSON document to be read by people too."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_checksums(folder: Path, first: Iterable[str]) -> None:
    """Lists every file with its SHA-256, as `sha256sum` does: `sha256sum -c checksum.sha256` checks them."""
    leading = list(first)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    names = [*leading, *sorted(files - set(leading))]
    lines = (f"{_digest(folder / name)}  {name}\n" for name in names)
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def check(folder: Path, required: Iterable[str]) -> None:
    """Refuses a folder in which a file is missing, is not listed, or is not what its checksum says."""
    listed = _listed(folder)
    for name in required:
        if name not in listed:
            raise BadInput(f"does not list {name}: the pack is not whole", file=str(folder / CHECKSUMS))
    for name, digest in listed.items():
        path = folder / name
        if not path.is_file():
            raise BadInput("is missing: the pack is not whole", file=str(path))
        if _digest(path) != digest:
            raise BadInput(
                f"was changed: its SHA-256 is not the one in {CHECKSUMS}; get the pack again", file=str(path)
            )


def _listed(folder: Path) -> dict[str, str]:
    path = folder / CHECKSUMS
    if not path.is_file():
        raise BadInput(f"is no pack: it has no {CHECKSUMS}", file=str(folder))
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise BadInput("is no line of sha256sum", file=str(path), line=number)
        name = PurePosixPath(match[2])
        if name.is_absolute() or ".." in name.parts:
            raise BadInput(f"{name} is outside of the pack", file=str(path), line=number)
        found[str(name)] = match[1]
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
