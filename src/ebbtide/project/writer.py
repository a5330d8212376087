"""The inline writer: appends what requests decided and keeps the state in step, in the caller's transaction.

It locks the namespace's head first and reads state only after, so two writers of one namespace come one after the
other. Nothing is sent to the tables before `flush`; a request that fails in between has written nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select

from ebbtide.decay.maths import rounded
from ebbtide.log.batches import root_of
from ebbtide.log.canonical import NONCE, hash_of
from ebbtide.log.head import Head, close_batch, lock_or_create
from ebbtide.model.entry import Draft, Entry
from ebbtide.model.identity import id_of_entry, id_of_namespace
from ebbtide.model.state import BITS, OBJECT_COLUMNS, STATE_COLUMNS, MemoryState
from ebbtide.model.words import LifecycleState, OpType, StreamType
from ebbtide.project.aliases import resolved
from ebbtide.project.fold import apply
from ebbtide.store.database import Database
from ebbtide.store.tables import (
    aliases,
    contents,
    edges,
    entities,
    event_log,
    event_state,
    evidence_links,
    memory_objects,
    memory_state,
    streams,
    suppressions,
)


def as_json(value: Any) -> str:
    """JSON as the log keeps it: no spaces, keys in the order given, no escapes but those that are needed."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def content_hash(nonce: bytes, content: str) -> bytes:
    """SHA-256(nonce ‖ content): says nothing about the content once the nonce is erased."""
    return hashlib.sha256(nonce + content.encode()).digest()


def value_digest(value: Any) -> bytes:
    """SHA-256 over a value as sorted JSON: by this the same content is known again, as long as it is kept."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).digest()


@dataclass(frozen=True, slots=True)
class Signal:
    """A reinforcement an object got before, or, where `signal` is None, its assertion."""

    actor_id: str
    signal: str | None
    session_id: str | None
    gamma: float


@dataclass(frozen=True, slots=True)
class Request:
    """How a request is known again: the key its first entry bears, and what a repeat must be equal to."""

    key: str
    canonical: str


class Writer:
    """Appends to one namespace within one transaction."""

    def __init__(
        self,
        db: Database,
        connection: Connection,
        namespace: str,
        *,
        now: int,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._db = db
        self._connection = connection
        self._entropy = entropy
        self.head: Head = lock_or_create(db, connection, namespace, entropy)
        self.namespace = namespace
        self.recorded_at = max(now, self.head.last_recorded_at)
        self.secret = self.head.secret
        self._states: dict[UUID, MemoryState | None] = {}
        self._streams: dict[UUID, tuple[int, bytes]] = {}
        self._touched: dict[UUID, None] = {}
        self._described: dict[UUID, None] = {}
        self._touched_streams: dict[UUID, None] = {}
        self._entries: list[Entry] = []
        self._nonces: dict[int, bytes] = {}
        self._contents: list[dict[str, Any]] = []
        self._signals: dict[UUID, list[Signal]] = {}
        self._events: list[dict[str, Any]] = []
        self._known_events: set[UUID] = set()
        self._suppressions: dict[UUID, dict[str, Any]] = {}
        self._evidence: list[dict[str, Any]] = []
        self._entities: dict[UUID, dict[str, Any] | None] = {}
        self._touched_entities: dict[UUID, None] = {}
        self._edges: list[dict[str, Any]] = []
        self._aliases: dict[UUID, UUID | None] = {}
        self._new_aliases: list[dict[str, Any]] = []

    # What is there

    def load(self, objects: Iterable[UUID]) -> None:
        """Reads the states of objects that are not at hand yet, all in one query."""
        wanted = [object_id for object_id in dict.fromkeys(objects) if object_id not in self._states]
        if not wanted:
            return
        # Each table by itself first: DuckDB would join all of both.
        state, of = (
            select(table)
            .where(table.c.namespace_id == self.namespace, self._db.among(table.c.object_id, wanted))
            .subquery()
            for table in (memory_state, memory_objects)
        )
        columns = (of.c[name] for name in OBJECT_COLUMNS[2:])
        query = select(state, *columns).join_from(state, of, state.c.object_id == of.c.object_id)
        self._states |= dict.fromkeys(wanted)
        for row in self._connection.execute(query):
            found = state_from(row._mapping)
            self._states[found.object_id] = found

    def load_aliases(self, ids: Iterable[UUID]) -> None:
        """Looks up which of these ids are names under which a memory was said again."""
        wanted = [one for one in dict.fromkeys(ids) if one not in self._aliases]
        if wanted:
            self._aliases |= dict.fromkeys(wanted)
            self._aliases |= resolved(self._db, self._connection, self.namespace, wanted)

    def stands_for(self, named: UUID) -> UUID:
        """The memory that an id stands for: another where it is an alias, else itself."""
        self.load_aliases([named])
        return self._aliases[named] or named

    def note_alias(self, alias_id: UUID, object_id: UUID, ref: str) -> None:
        """Keeps that a ref stands for a memory from now on."""
        self._aliases[alias_id] = object_id
        row = {"alias_id": alias_id, "object_id": object_id, "ref": ref, "recorded_at": self.recorded_at}
        self._new_aliases.append({"namespace_id": self.namespace, **row})

    def load_streams(self, ids: Iterable[UUID]) -> None:
        """Reads the heads of event streams, all in one query."""
        wanted = [stream for stream in dict.fromkeys(ids) if stream not in self._streams]
        if not wanted:
            return
        self._streams |= dict.fromkeys(wanted, (0, bytes(32)))
        query = select(streams).where(
            streams.c.namespace_id == self.namespace, self._db.among(streams.c.stream_id, wanted)
        )
        for row in self._connection.execute(query):
            self._streams[row.stream_id] = (row.version, bytes(row.head_hash))

    def load_events(self, ids: Iterable[UUID]) -> None:
        """Looks up which of these ids are events of this namespace."""
        wanted = list(dict.fromkeys(ids))
        if wanted:
            query = select(event_state.c.event_id).where(
                event_state.c.namespace_id == self.namespace, self._db.among(event_state.c.event_id, wanted)
            )
            self._known_events |= set(self._connection.execute(query).scalars())

    def has_event(self, event_id: UUID) -> bool:
        """Whether an id is that of an event of this namespace, also of one appended here."""
        if event_id not in self._known_events:
            self.load_events([event_id])
        return event_id in self._known_events

    def note_event(self, row: Mapping[str, Any]) -> None:
        """Keeps a row of `event_state` for an event just appended."""
        self._events.append({"namespace_id": self.namespace, **row})
        self._known_events.add(row["event_id"])

    def suppressed_by(self, same: Mapping[str, Any], at: int) -> list[dict[str, Any]]:
        """The suppressions that hold at an instant and speak of the same: rows of `suppressions`."""
        columns = suppressions.c
        query = select(suppressions).where(
            columns.namespace_id == self.namespace,
            columns.ended_at.is_(None),
            *(columns[name].is_(None) if value is None else columns[name] == value for name, value in same.items()),
        )
        stored = [dict(row._mapping) for row in self._connection.execute(query)]
        found = {row["suppression_id"]: row for row in stored} | self._suppressions
        return [
            row
            for row in found.values()
            if row["ended_at"] is None
            and (row["expires_at"] is None or row["expires_at"] > at)
            and all(row[name] == value for name, value in same.items())
        ]

    def note_evidence(self, object_id: UUID, evidence: Iterable[UUID]) -> None:
        """Keeps which events and memories serve as evidence for an object just asserted."""
        for evidence_id in dict.fromkeys(evidence):
            self._evidence.append({"namespace_id": self.namespace, "object_id": object_id, "evidence_id": evidence_id})

    def entity(self, entity_id: UUID) -> dict[str, Any] | None:
        """A row of `entities` as of the last append; None where there is none."""
        if entity_id not in self._entities:
            query = select(entities).where(entities.c.namespace_id == self.namespace, entities.c.entity_id == entity_id)
            row = self._connection.execute(query).mappings().first()
            self._entities[entity_id] = None if row is None else dict(row)
        return self._entities[entity_id]

    def note_entity(self, row: Mapping[str, Any]) -> None:
        """Keeps a row of `entities`, new or changed."""
        self._entities[row["entity_id"]] = {"namespace_id": self.namespace, **row}
        self._touched_entities[row["entity_id"]] = None

    def note_edge(self, row: Mapping[str, Any]) -> None:
        """Keeps a row of `edges` for a relation just appended."""
        self._edges.append({"namespace_id": self.namespace, **row})

    def note_suppression(self, row: Mapping[str, Any]) -> None:
        """Keeps a row of `suppressions`, new or changed."""
        self._suppressions[row["suppression_id"]] = {"namespace_id": self.namespace, **row}

    def state(self, object_id: UUID) -> MemoryState | None:
        """The state of an object as of the last append; None where there is none."""
        if object_id not in self._states:
            self.load([object_id])
        return self._states[object_id]

    def load_signals(self, objects: Iterable[UUID]) -> None:
        """Reads who asserted and reinforced objects so far, all in one query."""
        wanted = [object_id for object_id in dict.fromkeys(objects) if object_id not in self._signals]
        if not wanted:
            return
        self._signals |= {object_id: [] for object_id in wanted}
        log = event_log.c
        query = (
            select(log.stream_id, log.op_type, log.actor_id, log.payload)
            .where(
                log.namespace_id == self.namespace,
                self._db.among(log.stream_id, wanted),
                log.op_type.in_([OpType.ASSERT.value, OpType.REINFORCE.value]),
            )
            .order_by(log.seq)
        )
        for row in self._connection.execute(query):
            self._signals[row.stream_id].append(_signal(row.op_type, row.actor_id, json.loads(row.payload)))

    def signals(self, object_id: UUID) -> list[Signal]:
        """The assertion and the reinforcements of an object as of the last append."""
        self.load_signals([object_id])
        return self._signals[object_id]

    def nonce_of(self, entry: Entry) -> bytes | None:
        """The nonce of an entry appended here and not flushed yet; None where it has no content."""
        return self._nonces.get(entry.seq)

    @property
    def next_seq(self) -> int:
        return self.head.last_seq + len(self._entries) + 1

    # What is written

    def append(self, draft: Draft, request: Request | None = None) -> Entry:
        """Gives a draft its place, version, hash and content, and folds it into the state at hand."""
        state = self.state(draft.stream_id) if draft.stream_type == StreamType.OBJECT else None
        version, prev_hash = self._stream_head(draft, state)
        content, nonce = None, bytes(NONCE)
        if draft.content is not None:
            content, nonce = as_json(draft.content), self._entropy(NONCE)
        entry = Entry(
            namespace_id=self.namespace,
            seq=self.next_seq,
            id=id_of_entry(self.namespace, self.next_seq),
            stream_type=draft.stream_type,
            stream_id=draft.stream_id,
            version=version + 1,
            fact_version=(state.fact_version if state else 0) + 1 if draft.fact else None,
            op_type=draft.op_type,
            recorded_at=self.recorded_at,
            effective_at=draft.effective_at,
            actor_id=draft.actor_id,
            actor_type=draft.actor_type,
            payload=as_json(draft.payload),
            after=as_json(draft.after) if draft.after else None,
            carries=sum(BITS[group] for group in draft.after),
            idempotency_key=request.key if request else None,
            request_hash=content_hash(nonce, request.canonical) if request else None,
            lifecycle_state=draft.lifecycle_state,
            salience=draft.salience,
            confidence=draft.confidence,
            salience_delta=_delta(draft.salience, state.salience if state else 0.0),
            confidence_delta=_delta(draft.confidence, state.confidence if state else 0.0),
            decay_profile=draft.decay_profile,
            policy_id=draft.policy_id,
            policy_version=draft.policy_version,
            content_hash=content_hash(nonce, content) if content else None,
            prev_hash=prev_hash,
        )
        entry = replace(entry, hash=hash_of(entry))
        if content:
            self._nonces[entry.seq] = nonce
            vector = draft.embedding
            self._contents.append(
                {
                    "namespace_id": self.namespace,
                    "seq": entry.seq,
                    "nonce": nonce,
                    "content": content,
                    "digest": draft.content_key,
                    "embedding_model": vector and vector.model,
                    "dimensions": vector and len(vector.numbers),
                    "embedding": vector and list(vector.numbers),
                }
            )
        if draft.stream_id in self._signals and draft.op_type in (OpType.ASSERT, OpType.REINFORCE):
            self._signals[draft.stream_id].append(_signal(draft.op_type, draft.actor_id, draft.payload))
        elif draft.op_type == OpType.ASSERT:
            self._signals[draft.stream_id] = [_signal(draft.op_type, draft.actor_id, draft.payload)]
        self._entries.append(entry)
        self._move(entry, state)
        return entry

    def _stream_head(self, draft: Draft, state: MemoryState | None) -> tuple[int, bytes]:
        if draft.stream_type == StreamType.OBJECT:
            return (state.version, state.head_hash) if state else (0, bytes(32))
        if draft.stream_type == StreamType.EVENTS:
            self.load_streams([draft.stream_id])
            return self._streams[draft.stream_id]
        return self.head.version, self.head.head_hash

    def _move(self, entry: Entry, state: MemoryState | None) -> None:
        if entry.stream_type == StreamType.OBJECT:
            self._states[entry.stream_id] = apply(state, entry)
            self._touched[entry.stream_id] = None
            if entry.carries & BITS["object"]:
                self._described[entry.stream_id] = None
        elif entry.stream_type == StreamType.EVENTS:
            self._streams[entry.stream_id] = (entry.version, entry.hash)
            self._touched_streams[entry.stream_id] = None
        else:
            self.head = replace(self.head, version=entry.version, head_hash=entry.hash)

    def own_stream(self) -> tuple[StreamType, UUID]:
        """The namespace's own stream."""
        return StreamType.NAMESPACE, id_of_namespace(self.namespace)

    def under(self, policy_id: str, policy_version: str) -> None:
        """Notes the namespace's policy in its head."""
        self.head = replace(self.head, policy_id=policy_id, policy_version=policy_version)

    def flush(self) -> list[Entry]:
        """Writes everything appended since the last flush as one batch; what was appended comes back."""
        written, self._entries = self._entries, []
        if not written:
            return written
        db, connection = self._db, self._connection
        db.bulk_insert(connection, event_log, [entry_row(entry) for entry in written])
        db.bulk_insert(connection, contents, self._contents)
        db.upsert(connection, memory_objects, self._rows(self._described, OBJECT_COLUMNS))
        db.upsert(connection, memory_state, self._rows(self._touched, STATE_COLUMNS))
        db.bulk_insert(connection, event_state, self._events)
        db.bulk_insert(connection, evidence_links, self._evidence)
        db.bulk_insert(connection, edges, self._edges)
        db.bulk_insert(connection, aliases, self._new_aliases)
        touched = [self._entities[entity] for entity in self._touched_entities]
        db.upsert(connection, entities, [row for row in touched if row is not None])
        db.upsert(connection, suppressions, list(self._suppressions.values()))
        db.upsert(connection, streams, [self._stream_row(stream) for stream in self._touched_streams])
        moved = replace(self.head, last_recorded_at=self.recorded_at)
        moved = moved.with_effect(min(entry.effective_at for entry in written))
        self.head = close_batch(connection, moved, len(written), root_of([entry.hash for entry in written]))
        self._suppressions, self._evidence, self._edges, self._touched_entities = {}, [], [], {}
        self._new_aliases = []
        self._contents, self._events = [], []
        self._touched, self._described, self._touched_streams = {}, {}, {}
        return written

    def _rows(self, objects: Iterable[UUID], names: Iterable[str]) -> list[dict[str, Any]]:
        states = (self._states[object_id] for object_id in objects)
        return [{name: _plain(getattr(state, name)) for name in names} for state in states if state]

    def _stream_row(self, stream: UUID) -> dict[str, Any]:
        version, head_hash = self._streams[stream]
        return {
            "namespace_id": self.namespace,
            "stream_id": stream,
            "version": version,
            "head_hash": head_hash,
        }


def _signal(op_type: str, actor_id: str, payload: Mapping[str, Any]) -> Signal:
    if op_type == OpType.ASSERT:
        return Signal(actor_id, None, None, 0.0)
    return Signal(actor_id, payload["signal_type"], payload.get("session_id"), payload["gamma_effective"])


def _delta(after: float | None, before: float) -> float | None:
    return None if after is None else rounded(after - before)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def entry_row(entry: Entry) -> dict[str, Any]:
    """An entry as a row of `event_log`."""
    return {column.name: _plain(getattr(entry, column.name)) for column in event_log.columns}


def entry_from(row: Mapping[Any, Any]) -> Entry:
    """An entry from a row of `event_log`."""
    return Entry(**_with_bytes(row))


def state_from(row: Mapping[Any, Any]) -> MemoryState:
    """A state from a row of `memory_state` joined with `memory_objects`."""
    values = _with_bytes(row)
    return MemoryState(**{**values, "lifecycle_state": LifecycleState(values["lifecycle_state"])})


def _with_bytes(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(name): bytes(value) if isinstance(value, memoryview | bytearray) else value for name, value in row.items()
    }
