"""A case: what deciding a request may look at, and how it says what it decided.

Nothing is written here. A request that a rule forbids raises `Refused`, one that names what is not there `NotFound`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from ebbtide.decay.segment import Terms
from ebbtide.memory.door import Door
from ebbtide.memory.requests import (
    Access,
    Hold,
    Line,
    OfObject,
    Release,
    Supersede,
    Suppress,
    Unsuppress,
)
from ebbtide.model import instant
from ebbtide.model.entry import Draft
from ebbtide.model.errors import BadInput, Conflict, NotFound, Refused
from ebbtide.model.identity import id_in, id_of_entry, id_of_ref, identifier
from ebbtide.model.state import GROUPS, MemoryState
from ebbtide.model.words import OpType, StreamType
from ebbtide.project.aliases import resolved
from ebbtide.project.shelf import Shelf
from ebbtide.project.writer import Writer
from ebbtide.store.database import Database

AHEAD = 5 * instant.MINUTE
"""How far ahead of the clock a write may take effect."""

Change = Callable[[MemoryState, Terms, int], MemoryState]
"""What a fact does to a state, under the terms of its policy, at the instant it takes effect."""


AboutObject = OfObject | Supersede | Suppress | Unsuppress


def id_of(namespace: str, name: str) -> UUID:
    """The id that a caller's word stands for: an id as it is, a ref by its derivation.

    Ids are UUIDs of version 5 or 8; any other text is a ref, also one that looks like a UUID.
    """
    identifier(namespace, "namespace")
    identifier(name, "object")
    return id_in(name) or id_of_ref(namespace, name)


def ids_of(
    db: Database, connection: Connection, namespace: str, names: Sequence[str], known_at: int | None = None
) -> list[UUID]:
    """The ids that callers' words stand for, in the same order; a name under which a memory was said again is its."""
    named = [id_of(namespace, name) for name in names]
    found = resolved(db, connection, namespace, named, known_at)
    return [found.get(one, one) for one in named]


class Case:
    """One request at one desk: the writer of its namespace, what is at its door, the policies, and the clock."""

    def __init__(self, writer: Writer, door: Door, shelf: Shelf, clock: int) -> None:
        self.writer = writer
        self.door = door
        self.clock = clock
        self._shelf = shelf

    def new_id(self, line: Line) -> UUID:
        """The id of what a request makes: by its ref, else that of its first entry."""
        if line.ref:
            return id_of_ref(self.writer.namespace, line.ref)
        return id_of_entry(self.writer.namespace, self.writer.next_seq)

    def meant(self, name: str) -> UUID:
        """The id that a request's word stands for, an alias resolved."""
        return self.writer.stands_for(id_of(self.writer.namespace, name))

    def object(self, line: AboutObject, *, checked: bool = False) -> MemoryState:
        """The state of the object a request is about; a version other than the expected one is a conflict."""
        assert line.object is not None, "checked by the request"
        state = self.writer.state(self.meant(line.object))
        if state is None:
            raise NotFound(
                f"there is no memory {line.object!r} in namespace {self.writer.namespace!r}",
                field="object",
                object=line.object,
            )
        _untombstoned(state, but_expired=isinstance(line, _AFTER_TOMBSTONE))
        expected = line.expected_version
        if expected is not None and not checked and expected != state.fact_version:
            raise Conflict(
                f"{line.object} is at version {state.fact_version}, not {expected}: read it again and decide anew",
                rule="expected_version",
                object=line.object,
            )
        return state

    def node(self, name: str, field: str) -> UUID:
        """The id of a memory or entity that a request relates; a memory that has expired or was erased is refused."""
        node = self.meant(name)
        state = self.writer.state(node)
        if state is None and self.writer.entity(node) is None:
            raise NotFound(f"there is no memory or entity {name!r}", field=field, object=name)
        if state is not None:
            _untombstoned(state)
        return node

    def of_namespace(self, line: Line, op: OpType, payload: dict[str, Any]) -> Draft:
        """An entry in the namespace's own stream."""
        stream_type, stream_id = self.writer.own_stream()
        return Draft(
            stream_type=stream_type,
            stream_id=stream_id,
            op_type=op,
            effective_at=self.instant(line),
            actor_id=line.actor_id,
            actor_type=line.actor_type,
            payload={name: value for name, value in payload.items() if value is not None},
            fact=False,
            content=line.content() or None,
        )

    def evidence(self, names: tuple[str, ...]) -> list[str]:
        """The ids of events or memories that a request names as evidence."""
        found = []
        for place, name in enumerate(names):
            evidence_id = self.meant(name)
            if not self.writer.has_event(evidence_id) and self.writer.state(evidence_id) is None:
                raise NotFound(f"there is no event or memory {name!r} to serve as evidence", field=f"evidence.{place}")
            found.append(str(evidence_id))
        return found

    def instant(self, line: Line) -> int:
        """When a request says it took effect; now where it says nothing."""
        at = self.clock if line.effective_at is None else line.effective_at
        if at > self.clock + AHEAD:
            raise BadInput(
                f"{instant.iso(at)} is ahead of the clock ({instant.iso(self.clock)}) by more than 5 minutes",
                field="effective_at",
            )
        return at

    def late(self, line: Line, state: MemoryState) -> int:
        """When a fact takes effect: not before the last one of its object."""
        return max(self.instant(line), state.fact_at)

    def terms(self, state: MemoryState) -> Terms:
        """The terms of an object's policy."""
        return self._shelf.terms(self.writer.namespace, state.policy_id, state.policy_version)

    def current_terms(self) -> Terms:
        """The terms of the namespace's policy."""
        head = self.writer.head
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        return self._shelf.terms(self.writer.namespace, head.policy_id, head.policy_version)

    def fact(self, line: AboutObject, op: OpType, change: Change, payload: dict[str, Any] | None = None) -> Draft:
        """The entry of a fact about one object."""
        old = self.object(line)
        at = self.late(line, old)
        return draft(line, op, old, change(old, self.terms(old), at), payload or {}, at, content=line.content())


_AFTER_TOMBSTONE = (Access, Hold, Release)


def _untombstoned(state: MemoryState, *, but_expired: bool = False) -> None:
    """After an erasing tombstone no fact is taken, after an archiving one only those that change nothing of it."""
    if state.erased_at is not None:
        raise refused(state, "erased", "was erased: assert it again")
    if state.tombstoned_at is not None and not but_expired:
        raise refused(state, "expired", "has expired: assert it again")


def refused(state: MemoryState, rule: str, why: str) -> Refused:
    """A rule's no, with the object's name."""
    name = state.ref or str(state.object_id)
    return Refused(f"{name} {why}", rule=rule, object=name)


def draft(
    line: Line,
    op: OpType,
    old: MemoryState | None,
    new: MemoryState,
    payload: dict[str, Any],
    at: int,
    *,
    content: dict[str, Any] | None,
) -> Draft:
    """The entry that leads from one state to another: it carries the groups of columns that differ."""
    if line.effective_at is not None and at > line.effective_at:
        payload = {**payload, "late": True, "stated_at": instant.iso(line.effective_at)}
    scored = op == OpType.ASSERT or old is None or (new.salience, new.confidence) != (old.salience, old.confidence)
    return Draft(
        stream_type=StreamType.OBJECT,
        stream_id=new.object_id,
        op_type=op,
        effective_at=at,
        actor_id=line.actor_id,
        actor_type=line.actor_type,
        payload={key: value for key, value in payload.items() if value is not None},
        after={name: new.group(name) for name in GROUPS if old is None or new.group(name) != old.group(name)},
        lifecycle_state=new.lifecycle_state if old is None or new.lifecycle_state != old.lifecycle_state else None,
        salience=new.salience if scored else None,
        confidence=new.confidence if scored else None,
        decay_profile=new.decay_profile,
        policy_id=new.policy_id,
        policy_version=new.policy_version,
        content=content or None,
    )
