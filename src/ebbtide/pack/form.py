"""The form of a pack: its files, their columns and its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Column, Table

from ebbtide.store.arrow import schema_of
from ebbtide.store.tables import (
    batches,
    contents,
    edges,
    entities,
    event_log,
    memory_objects,
    memory_state,
    namespaces,
    policies,
    refusals,
)

RMS_VERSION = "1.0"
FORMAT_VERSION = "1"

MANIFEST = "manifest.json"
CHECKSUMS = "checksum.sha256"
VECTORS = "vectors"
SNAPSHOT = "snapshot"
GRAPH = "graph"
SNAPSHOT_TS = f"{SNAPSHOT}/snapshot_ts.json"


@dataclass(frozen=True)
class Part:
    """A Parquet file of a pack: the table that its rows are of, and which of its columns it has."""

    file: str
    table: Table
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.own)

    @property
    def own(self) -> list[Column[object]]:
        """The columns of the table that the file has, in order."""
        return [self.table.c[name] for name in self.columns]


def _part(file: str, table: Table, *columns: str) -> Part:
    return Part(file, table, columns or tuple(column.name for column in table.columns))


EVENTS = _part("events.parquet", event_log)
OPERATIONS = _part("operations.parquet", event_log)
BATCHES = _part("batches.parquet", batches)
CONTENTS = _part("contents.parquet", contents)
NAMESPACES = _part(
    "namespaces.parquet", namespaces, "namespace_id", "last_seq", "last_batch", "last_batch_hash", "secret"
)
REFUSALS = _part("refusals.parquet", refusals)
POLICIES = _part("policies.parquet", policies, "policy_id", "policy_version", "document", "registered_at")
PARTS = (EVENTS, OPERATIONS, BATCHES, CONTENTS, NAMESPACES, REFUSALS, POLICIES)
"""What an import reads. The log is in the first two, to the letter; the rest cannot be told from it."""

ENTITIES = _part(f"{GRAPH}/entities.parquet", entities)
EDGES = _part(f"{GRAPH}/edges.parquet", edges)
OBJECTS = "snapshot/memory_objects.parquet"
STATE = (*memory_objects.columns, *(c for c in memory_state.columns if c.name not in ("namespace_id", "object_id")))
"""The columns of the snapshot: the state of the objects. It is a cache, which no import trusts."""

REQUIRED = (MANIFEST, *(part.file for part in PARTS))
"""Files without which a folder is no pack."""


class PolicyVersions(BaseModel):
    """The policy versions, as `id@version`, that entries of the pack were decided under.

    One version governs decay and confidence alike. Ebbtide extracts nothing from text, so nothing is named there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    decay: list[str]
    confidence: list[str]
    extraction: list[str] = []


class Manifest(BaseModel):
    """What a pack says of itself. `subject` is of a person's own data only, which is no pack to import."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rms_version: Literal["1.0"] = "1.0"
    format_version: Literal["1"] = "1"
    created_at: AwareDatetime
    namespaces: list[str]
    event_count: Annotated[int, Field(ge=0)]
    operation_count: Annotated[int, Field(ge=0)]
    policy_versions: PolicyVersions
    embedding_model: str | None = None
    embedding_version: str | None = None
    is_full_export: bool
    base_snapshot_id: None = None
    subject: str | None = None


def when(at: datetime) -> str:
    """An instant as the JSON files have it: ISO 8601 UTC."""
    return at.isoformat().replace("+00:00", "Z")
