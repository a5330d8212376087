"""What is kept about one person, to hand to them: documents to read, which no import takes.

Memories whose subject they are, with values, scores as of now, and histories; events whose subject they are; and what
was suppressed of them. What is about other subjects is left out, be it in the same chat or evidence of the same memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from ebbtide.memory import read
from ebbtide.memory.read import Memory
from ebbtide.model import instant
from ebbtide.model.errors import NotFound
from ebbtide.model.words import OpType, StreamType
from ebbtide.pack.folder import write_json
from ebbtide.pack.form import Manifest, PolicyVersions, when
from ebbtide.pack.write import Progress, write_manifest
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log, event_state, memory_objects, namespaces

DOCUMENT = "subject.json"
LINES = ("memories", "events", "entries")
"""Files of JSON Lines, with the ending `.jsonl`; the document holds the same, put together to be read."""

Documents = list[dict[str, Any]]


class About(BaseModel):
    """What an export of a subject wrote: from which namespaces, and how many memories, events and entries."""

    path: str
    subject: str
    namespaces: list[str]
    memories: int = 0
    events: int = 0
    entries: int = 0
    is_full_export: bool = False


@dataclass
class SubjectExport:
    """Writes what is kept about a subject into an empty folder, in the caller's transaction."""

    db: Database
    connection: Connection
    folder: Path
    subject: str
    progress: Progress

    def run(self, namespace: str | None, now: int) -> About:
        """Writes it, one namespace after the other; raises `NotFound` where nothing is kept about the subject."""
        done = About(path=str(self.folder), subject=self.subject, namespaces=[])
        found: Documents = []
        policies: set[str] = set()
        names = self._namespaces(namespace)
        with ExitStack() as stack:
            files = {name: stack.enter_context((self.folder / f"{name}.jsonl").open("w")) for name in LINES}
            for place, name in enumerate(names, 1):
                memories, events, entries = self._memories(name, now), self._events(name), self._entries(name)
                self.progress(place, len(names))
                if not (memories or events or entries):
                    continue
                for file, documents in zip(files.values(), (memories, events, entries), strict=True):
                    file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
                policies |= {one["policy"] for one in entries if one["policy"]}
                found.append(_together(name, memories, events, entries))
                done.namespaces.append(name)
                done.memories += len(memories)
                done.events += len(events)
                done.entries += len(entries)
        if not found:
            raise NotFound(f"nothing is kept about {self.subject!r}", field="subject")
        created = instant.to_datetime(now)
        write_json(self.folder / DOCUMENT, {"subject": self.subject, "created_at": when(created), "namespaces": found})
        manifest = Manifest(
            created_at=created,
            namespaces=done.namespaces,
            event_count=done.events,
            operation_count=sum(e["op_type"] != OpType.EVENT for one in found for e in _entries_in(one)),
            policy_versions=PolicyVersions(decay=sorted(policies), confidence=sorted(policies)),
            is_full_export=False,
            subject=self.subject,
        )
        write_manifest(self.folder, manifest)
        return done

    def _namespaces(self, namespace: str | None) -> list[str]:
        query = select(namespaces.c.namespace_id).where(namespaces.c.last_seq > 0)
        if namespace is not None:
            query = query.where(namespaces.c.namespace_id == namespace)
        return sorted(self.connection.execute(query).scalars())

    def _memories(self, namespace: str, now: int) -> Documents:
        query = select(memory_objects.c.object_id).where(self._theirs(memory_objects, namespace))
        ids: Sequence[UUID] = self.connection.execute(query).scalars().all()
        found: list[Memory] = []
        if ids:
            found = read.memories(self.db, self.connection, namespace, now=now, only=ids, everything=True)
        return [memory.model_dump(mode="json") for memory in found]

    def _theirs(self, table: Any, namespace: str) -> ColumnElement[bool]:
        return and_(table.c.namespace_id == namespace, table.c.subject == self.subject)

    def _events(self, namespace: str) -> Documents:
        e = event_state.c
        same = and_(e.namespace_id == event_log.c.namespace_id, e.seq == event_log.c.seq)
        query = (
            select(e.namespace_id, e.event_id.label("id"), e.ref, e.stream, e.role, e.effective_at, e.erased_at)
            .add_columns(event_log.c.actor_id, contents.c.content)
            .join_from(event_state, event_log, same)
            .outerjoin(contents, and_(e.namespace_id == contents.c.namespace_id, e.seq == contents.c.seq))
            .where(self._theirs(event_state, namespace))
            .order_by(e.seq)
        )
        return [_event(row) for row in self.connection.execute(query)]

    def _entries(self, namespace: str) -> Documents:
        """Every entry about the subject, by what it is about and then in order."""
        log = event_log.c
        objects = select(memory_objects.c.object_id).where(self._theirs(memory_objects, namespace))
        events = select(event_state.c.seq).where(self._theirs(event_state, namespace))
        event_ids = select(event_state.c.event_id).where(self._theirs(event_state, namespace))
        own = and_(
            log.stream_type == StreamType.NAMESPACE.value,
            self.db.member(self.db.json(log.payload), "subject") == self.subject,
        )
        about = or_(log.stream_id.in_(objects), log.stream_id.in_(event_ids), log.seq.in_(events), own)
        query = (
            select(event_log, contents.c.content)
            .outerjoin_from(
                event_log, contents, and_(log.namespace_id == contents.c.namespace_id, log.seq == contents.c.seq)
            )
            .where(log.namespace_id == namespace, about)
            .order_by(log.stream_id, log.version)
        )
        return [_entry(row) for row in self.connection.execute(query)]


def _event(row: Row[Any]) -> dict[str, Any]:
    times = {name: row._mapping[name] for name in ("effective_at", "erased_at")}
    return {
        **row._mapping,
        "id": str(row.id),
        **{name: None if at is None else instant.iso(at) for name, at in times.items()},
        "content": None if row.content is None else json.loads(row.content),
    }


def _entry(row: Row[Any]) -> dict[str, Any]:
    told = read.log_entry(row._mapping).model_dump(mode="json")
    return {"namespace_id": row.namespace_id, "about": str(row.stream_id), **told}


def _together(namespace: str, memories: Documents, events: Documents, entries: Documents) -> dict[str, Any]:
    """A namespace's part of the document: each memory with its history, and what belongs to none of them."""
    histories = {about: list(those) for about, those in groupby(entries, key=lambda one: one["about"])}
    ids = {memory["id"] for memory in memories}
    return {
        "namespace_id": namespace,
        "memories": [{**memory, "history": histories.get(memory["id"], [])} for memory in memories],
        "events": events,
        "other_entries": [one for about, those in histories.items() if about not in ids for one in those],
    }


def _entries_in(part: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for memory in part["memories"]:
        yield from memory["history"]
    yield from part["other_entries"]
