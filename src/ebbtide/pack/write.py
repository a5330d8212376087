"""Writing a pack: the log of one or all namespaces, streamed into Parquet within one snapshot of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, and_, func, literal, select

from ebbtide.model import instant
from ebbtide.model.errors import NotFound
from ebbtide.model.words import OpType
from ebbtide.pack.folder import write_checksums, write_json, write_parquet
from ebbtide.pack.form import (
    BATCHES,
    CONTENTS,
    EDGES,
    ENTITIES,
    EVENTS,
    MANIFEST,
    NAMESPACES,
    OBJECTS,
    OPERATIONS,
    POLICIES,
    REFUSALS,
    SNAPSHOT_TS,
    STATE,
    VECTORS,
    Manifest,
    Part,
    PolicyVersions,
    when,
)
from ebbtide.project.shelf import STORE_WIDE
from ebbtide.store.arrow import schema_of
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log, memory_objects, memory_state, namespaces, policies

ROWS = 2_000
"""Rows read at a time."""

Progress = Callable[[int, int], None]


class Exported(BaseModel):
    """What an export wrote: the namespaces, and how many events, operations and contents of them."""

    path: str
    namespaces: list[str]
    events: int
    operations: int
    contents: int
    refusals: int
    policies: int
    is_full_export: bool


@dataclass
class Export:
    """Writes a pack into an empty folder, in the caller's transaction, which sees one snapshot."""

    db: Database
    connection: Connection
    folder: Path
    progress: Progress

    def run(self, namespace: str | None, now: int) -> Exported:
        """Writes the pack of one namespace, or of all; `NotFound` where there is no such namespace."""
        heads = self._heads(namespace)
        self._total = sum(heads.values())
        self._done = 0
        event = event_log.c.op_type == OpType.EVENT.value
        wide = and_(policies.c.namespace_id == STORE_WIDE, literal(namespace is None))
        counts = {
            part.file: self._part(part, condition)
            for part, condition in (
                (EVENTS, and_(event, self._of(event_log, namespace))),
                (OPERATIONS, and_(~event, self._of(event_log, namespace))),
                (BATCHES, self._of(BATCHES.table, namespace)),
                (CONTENTS, self._of(contents, namespace)),
                (NAMESPACES, and_(namespaces.c.last_seq > 0, self._of(namespaces, namespace))),
                (REFUSALS, self._of(REFUSALS.table, namespace)),
                (POLICIES, wide),
                (ENTITIES, self._of(ENTITIES.table, namespace)),
                (EDGES, self._of(EDGES.table, namespace)),
            )
        }
        self._snapshot(namespace, heads, now)
        (self.folder / VECTORS).mkdir()
        named = self._policies(namespace)
        manifest = Manifest(
            created_at=instant.to_datetime(now),
            namespaces=sorted(heads),
            event_count=counts[EVENTS.file],
            operation_count=counts[OPERATIONS.file],
            policy_versions=PolicyVersions(decay=named, confidence=named),
            is_full_export=namespace is None or self._only(namespace),
        )
        write_manifest(self.folder, manifest, EVENTS.file, OPERATIONS.file)
        return Exported(
            path=str(self.folder),
            namespaces=manifest.namespaces,
            events=manifest.event_count,
            operations=manifest.operation_count,
            contents=counts[CONTENTS.file],
            refusals=counts[REFUSALS.file],
            policies=counts[POLICIES.file],
            is_full_export=manifest.is_full_export,
        )

    def _heads(self, namespace: str | None) -> dict[str, int]:
        query = select(namespaces.c.namespace_id, namespaces.c.last_seq).where(
            namespaces.c.last_seq > 0, self._of(namespaces, namespace)
        )
        found = {row.namespace_id: row.last_seq for row in self.connection.execute(query)}
        if namespace is not None and not found:
            raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
        return found

    def _only(self, namespace: str) -> bool:
        """Whether nothing has happened in any other namespace."""
        others = select(func.count()).where(namespaces.c.last_seq > 0, namespaces.c.namespace_id != namespace)
        return not self.connection.execute(others).scalar_one()

    @staticmethod
    def _of(table: Any, namespace: str | None) -> ColumnElement[bool]:
        return literal(True) if namespace is None else table.c.namespace_id == namespace

    def _part(self, part: Part, which: ColumnElement[bool]) -> int:
        order = [column for column in part.own if column.primary_key]
        query = select(*part.own).where(which).order_by(*order)
        rows = self.db.arrow(self.connection, query, ROWS)
        if part.table is event_log:
            rows = self._counted(rows)
        return write_parquet(self.folder / part.file, part.schema, rows)

    def _counted(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch
            self._done += batch.num_rows
            self.progress(self._done, self._total)

    def _snapshot(self, namespace: str | None, heads: dict[str, int], now: int) -> None:
        """The state as it is, for readers of the files; an import folds the log instead."""
        same = and_(
            memory_objects.c.namespace_id == memory_state.c.namespace_id,
            memory_objects.c.object_id == memory_state.c.object_id,
        )
        query = (
            select(*STATE)
            .join_from(memory_objects, memory_state, same)
            .where(self._of(memory_state, namespace))
            .order_by(memory_objects.c.namespace_id, memory_objects.c.object_id)
        )
        write_parquet(self.folder / OBJECTS, schema_of(STATE), self.db.arrow(self.connection, query, ROWS))
        stands = {"snapshot_ts": when(instant.to_datetime(now)), "last_seq": dict(sorted(heads.items()))}
        write_json(self.folder / SNAPSHOT_TS, stands)

    def _policies(self, namespace: str | None) -> list[str]:
        p = policies.c
        query = (
            select(p.policy_id, p.policy_version)
            .where(p.namespace_id != STORE_WIDE, self._of(policies, namespace))
            .distinct()
        )
        return sorted(f"{row.policy_id}@{row.policy_version}" for row in self.connection.execute(query))


def write_manifest(folder: Path, manifest: Manifest, *first: str) -> None:
    """Writes the manifest and then the checksums of all files, those named first."""
    document = manifest.model_dump(mode="json", exclude={"subject"} if manifest.subject is None else None)
    write_json(folder / MANIFEST, document)
    write_checksums(folder, (MANIFEST, *first))
