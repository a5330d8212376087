"""Packs for tests: what a store holds, and packs with something changed in them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select
from tests.conformance import ledger

from ebbtide import Ebbtide
from ebbtide.store.tables import leases, metadata

Rows = list[dict[str, Any]]


def tables(ebb: Ebbtide) -> dict[str, Rows]:
    """Every row of every table by primary key, but for what is of a place, not of the history: when the policies that
    come with Ebbtide were registered, and who has or had a lease."""
    found = {}
    with ebb.store.begin() as connection:
        for name, table in metadata.tables.items():
            if table is leases:
                continue
            rows = connection.execute(select(table)).mappings()
            found[name] = sorted((_plain(row) for row in rows), key=lambda r, t=table: _key(r, t))
    for row in found["policies"]:
        if not row["namespace_id"]:
            del row["registered_at"]
    for row in found["namespaces"]:
        del row["fence"]
    return found


def _plain(row: Any) -> dict[str, Any]:
    return {k: bytes(v) if isinstance(v, memoryview | bytearray) else v for k, v in row.items()}


def _key(row: dict[str, Any], table: Any) -> list[str]:
    return [str(row[column.name]).rjust(40, "0") for column in table.primary_key]


def sign(pack: Path) -> None:
    """Makes the checksums anew, as somebody would who changes a pack on purpose."""
    files = sorted(p.relative_to(pack).as_posix() for p in pack.rglob("*") if p.is_file() and p.suffix != ".sha256")
    lines = (f"{hashlib.sha256((pack / name).read_bytes()).hexdigest()}  {name}\n" for name in files)
    (pack / "checksum.sha256").write_text("".join(lines))


def copied(pack: Path, where: Path) -> Path:
    """A copy of a pack, to be changed."""
    return Path(shutil.copytree(pack, where / "copy"))


def rewritten(pack: Path, file: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes the rows of a file, with new checksums and counts that fit."""
    table = change(pq.read_table(pack / file))
    pq.write_table(table, pack / file)
    if file in ("events.parquet", "operations.parquet"):
        manifest = json.loads((pack / "manifest.json").read_text())
        manifest[f"{file.removesuffix('s.parquet')}_count"] = table.num_rows
        (pack / "manifest.json").write_text(json.dumps(manifest))
    sign(pack)


def with_value(column: str, row: int, value: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    """Changes one value of a table."""

    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value(values[row])
        place = table.schema.get_field_index(column)
        return table.set_column(
            place, table.schema.field(column), pa.array(values, type=table.schema.field(column).type)
        )

    return change


def without_row(row: int) -> Callable[[pa.Table], pa.Table]:
    """Cuts a row out of a table; negative ones count from the end."""

    def change(table: pa.Table) -> pa.Table:
        at = row % table.num_rows
        return pa.concat_tables([table.slice(0, at), table.slice(at + 1)])

    return change


def forged(pack: Path, change: Callable[[Rows], None]) -> None:
    """Changes entries and makes every hash, root and checksum anew: a pack whose log is whole, and is not what was."""
    halves = {name: pq.read_table(pack / f"{name}.parquet") for name in ("events", "operations")}
    entries = [row for half in halves.values() for row in half.to_pylist()]
    entries.sort(key=lambda row: (row["namespace_id"], row["seq"]))
    change(entries)
    last: dict[tuple[str, str], bytes] = {}
    for row in entries:
        stream = row["namespace_id"], row["stream_id"]
        row["prev_hash"] = last.get(stream, bytes(32))
        row["hash"] = hashlib.sha256(row["prev_hash"] + ledger.canonical(SimpleNamespace(**row))).digest()
        last[stream] = row["hash"]
    ends = _batches(pack, {(row["namespace_id"], row["seq"]): row["hash"] for row in entries})
    heads = pq.read_table(pack / "namespaces.parquet")
    rows = [row | {"last_batch_hash": ends[row["namespace_id"]]} for row in heads.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, heads.schema), pack / "namespaces.parquet")
    for name, half in halves.items():
        mine = [row for row in entries if (row["op_type"] == "EVENT") == (name == "events")]
        pq.write_table(pa.Table.from_pylist(mine, half.schema), pack / f"{name}.parquet")
    sign(pack)


def _batches(pack: Path, hashes: dict[tuple[str, int], bytes]) -> dict[str, bytes]:
    table = pq.read_table(pack / "batches.parquet")
    last: dict[str, bytes] = {}
    rows = table.to_pylist()
    for row in rows:
        name, first, count = row["namespace_id"], row["first_seq"], row["entries"]
        row["root"] = ledger.root_of([hashes[name, seq] for seq in range(first, first + count)])
        row["prev_hash"] = last.get(name, bytes(32))
        said = "\x1f".join((name, *map(str, (row["batch"], first, first + count - 1, count))))
        row["hash"] = last[name] = hashlib.sha256(row["prev_hash"] + said.encode() + row["root"]).digest()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), pack / "batches.parquet")
    return last
