"""What each request decides: from the state of its object and the terms of its policy to the entries to append.

Nothing is written here. A request that a rule forbids raises `Refused`, one that names what is not there `NotFound`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from ebbtide.decay import facts
from ebbtide.decay.maths import rounded
from ebbtide.decay.segment import Terms
from ebbtide.memory.requests import (
    Access,
    AnyRequest,
    Assert,
    Belief,
    Event,
    Line,
    OfObject,
    Penalty,
    Pin,
    Reinforce,
    Restore,
    Supersede,
    Unpin,
)
from ebbtide.model import instant
from ebbtide.model.entry import Draft
from ebbtide.model.errors import BadInput, Conflict, NotFound, Refused
from ebbtide.model.identity import id_of_entry, id_of_ref, id_of_stream
from ebbtide.model.state import GROUPS, MemoryState
from ebbtide.model.words import (
    INITIAL_SALIENCE,
    ActorType,
    Condition,
    EpistemicType,
    LifecycleState,
    OpType,
    Role,
    SourceType,
    StreamType,
    initial_confidence,
)
from ebbtide.project.shelf import Shelf
from ebbtide.project.writer import Writer

AHEAD = 5 * instant.MINUTE
"""How far ahead of the clock a write may take effect."""

_ROLES = {
    ActorType.HUMAN_USER: Role.USER,
    ActorType.AI_AGENT: Role.ASSISTANT,
    ActorType.EXTERNAL_CONNECTOR: Role.TOOL,
    ActorType.SYSTEM_PROCESS: Role.SYSTEM,
}


def id_of(namespace: str, name: str) -> UUID:
    """The id that a caller's word stands for: an id as it is, a ref by its derivation."""
    try:
        return UUID(name) if len(name) == 36 else id_of_ref(namespace, name)
    except ValueError:
        return id_of_ref(namespace, name)


def value_digest(value: Any) -> bytes:
    """SHA-256 over a value as sorted JSON: by this the same content is known again, as long as it is kept."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).digest()


class Decision:
    """The drafts of one request, in order; each is decided on the state that the one before left.

    `decide` yields a draft and goes on once the writer has appended it, so that it sees the new state.
    """

    def __init__(self, writer: Writer, shelf: Shelf, clock: int) -> None:
        self._writer = writer
        self._shelf = shelf
        self._clock = clock

    def decide(self, line: AnyRequest) -> Iterator[Draft]:
        """The entries that a request writes."""
        match line:
            case Event():
                yield self._event(line)
            case Assert():
                yield self._assert(line, self._new_id(line), self._instant(line))
            case Supersede():
                yield from self._supersede(line)
            case Reinforce() | Penalty():
                yield from self._signal(line)
            case Access():
                yield self._fact(line, OpType.ACCESS, {}, facts.accessed)
            case Pin():
                yield self._pin(line)
            case Unpin():
                yield self._fact(line, OpType.UNPIN, {}, facts.unpinned)
            case Restore():
                yield self._restore(line)

    # Events and new objects

    def _event(self, line: Event) -> Draft:
        subject = line.subject or (line.actor_id if line.actor_type == ActorType.HUMAN_USER else None)
        event_id = self._new_id(line)
        role, at = line.role or _ROLES[line.actor_type], self._instant(line)
        self._writer.note_event(
            {
                "event_id": event_id,
                "seq": self._writer.next_seq,
                "ref": line.ref,
                "role": role.value,
                "stream": line.stream,
                "subject": subject,
                "effective_at": at,
            }
        )
        payload = {
            "event_id": str(event_id),
            "ref": line.ref,
            "stream": line.stream,
            "role": role,
            "subject": subject,
        }
        return Draft(
            stream_type=StreamType.EVENTS,
            stream_id=id_of_stream(self._writer.namespace, line.stream),
            op_type=OpType.EVENT,
            effective_at=at,
            actor_id=line.actor_id,
            actor_type=line.actor_type,
            payload=payload,
            fact=False,
            content=line.content(),
        )

    def _assert(self, line: Assert, object_id: UUID, at: int, supersedes: UUID | None = None) -> Draft:
        confidence, listed = (
            initial_confidence(line.epistemic_type, line.source_type)
            if line.confidence is None
            else (line.confidence, True)
        )
        salience = rounded(INITIAL_SALIENCE if line.salience is None else line.salience)
        condition = line.condition
        if line.epistemic_type == EpistemicType.CONDITIONAL and condition is None:
            condition = Condition.UNKNOWN
        evidence = self._evidence(line.evidence)
        terms = self._current_terms()
        state = facts.asserted(
            MemoryState(
                namespace_id=self._writer.namespace,
                object_id=object_id,
                version=0,
                fact_version=0,
                fact_at=at,
                head_hash=b"",
                lifecycle_state=LifecycleState.ACTIVE,
                salience=salience,
                confidence=rounded(confidence),
                decayed_at=None,
                ref=line.ref,
                object_type=line.object_type,
                epistemic_type=line.epistemic_type,
                source_type=line.source_type,
                condition=condition,
                subject=line.subject,
                evidence=json.dumps(evidence, separators=(",", ":")),
                profile_override=line.decay_profile,
                created_at=at,
                content_seq=self._writer.next_seq,
                supersedes=supersedes,
                superseded_by=None,
                segment_at=at,
                segment_age=0,
                decaying=salience,
                boost=0.0,
                confidence_base=rounded(confidence),
                confidence_from=at,
                baseline=salience,
                centrality=0.0,
                stability=None,
                difficulty=None,
                decay_profile="",
                policy_id="",
                policy_version="",
                due_at=None,
                due_rule=None,
                exit_at=None,
                exit_rule=None,
                expires_at=None,
                warned=False,
                accessed_at=None,
                reinforced_at=None,
                modified_at=at,
                restored_at=None,
                access_count=0,
                reinforce_count=0,
                pinned=False,
                held=False,
                frozen=False,
                thaws_at=None,
                stopped_at=None,
            ),
            terms,
            at,
        )
        payload = {
            "object_type": line.object_type,
            "epistemic_type": line.epistemic_type,
            "source_type": line.source_type,
            "evidence_ids": evidence,
            "confidence": state.confidence_base,
            "salience": state.baseline,
        }
        if not listed:
            payload["warnings"] = ["unusual_source"]
        return _draft(
            line,
            OpType.ASSERT,
            None,
            state,
            payload,
            at,
            content=line.content(),
            content_key=value_digest(line.value),
        )

    def _supersede(self, line: Supersede) -> Iterator[Draft]:
        old = self._object(line)
        at = self._late(line, old)
        if not old.active:
            raise self._refused(
                old,
                "supersede_active_only",
                f"is {old.lifecycle_state}, and only an ACTIVE memory is superseded",
            )
        given = line.model_dump(
            include={
                "ref",
                "effective_at",
                "actor_id",
                "actor_type",
                "metadata",
                "value",
                "evidence",
                "salience",
                "confidence",
                "decay_profile",
            }
        )
        source = line.source_type or SourceType(old.source_type)
        new_type = line.epistemic_type or EpistemicType(old.epistemic_type)
        if source == SourceType.IMPORTED and line.confidence is None:
            raise BadInput("the old memory is IMPORTED: say source_type, or give confidence", field="confidence")
        assertion = Assert.model_construct(
            op="ASSERT",
            namespace=line.namespace,
            object_type=line.object_type or old.object_type,
            epistemic_type=new_type,
            source_type=source,
            subject=line.subject or old.subject,
            condition=line.condition or (old.condition if new_type == EpistemicType.CONDITIONAL else None),
            **given,
        )
        new_id = self._new_id(line)
        yield self._assert(assertion, new_id, at, supersedes=old.object_id)
        terms = self._terms(old)
        state = replace(facts.left(old, terms, at, LifecycleState.SUPERSEDED), superseded_by=new_id)
        content = {"reason": line.reason} if line.reason else None
        yield _draft(line, OpType.SUPERSEDE, old, state, {"new_object_id": str(new_id)}, at, content=content)

    # Facts about one object

    def _fact(self, line: OfObject, op: OpType, payload: dict[str, Any], change: Any) -> Draft:
        old = self._object(line)
        at = self._late(line, old)
        return _draft(line, op, old, change(old, self._terms(old), at), payload, at, content=line.content())

    def _pin(self, line: Pin) -> Draft:
        old = self._object(line)
        if not old.active:
            raise self._refused(
                old, "pin_active_only", f"is {old.lifecycle_state}: restore it first, or assert it again"
            )
        return self._fact(line, OpType.PIN, {}, facts.pinned)

    def _restore(self, line: OfObject) -> Draft:
        old = self._object(line)
        if old.lifecycle_state != LifecycleState.ARCHIVED:
            hint = (
                "is ACTIVE already"
                if old.active
                else f"is {old.lifecycle_state}, which cannot be undone: assert it again"
            )
            raise self._refused(old, "restore_archived_only", hint)
        return self._fact(line, OpType.RESTORE, {}, facts.restored)

    def _signal(self, line: Reinforce | Penalty) -> Iterator[Draft]:
        state = self._object(line)
        evidence = self._evidence(line.evidence)
        if line.restore and state.lifecycle_state == LifecycleState.ARCHIVED:
            yield self._restore(line)
            state = self._object(line, checked=True)
        if not state.active:
            raise self._refused(
                state,
                "signal_active_only",
                f"is {state.lifecycle_state}: "
                + (
                    "say restore to bring it back first"
                    if state.lifecycle_state == LifecycleState.ARCHIVED
                    else "assert it again"
                ),
            )
        at = self._late(line, state)
        terms = self._terms(state)
        rules = terms.policy.params.reinforcement
        common = {
            "signal_type": line.signal,
            "signal_source": line.actor_id,
            "session_id": line.session_id,
            "evidence_ids": evidence,
        }
        if isinstance(line, Reinforce):
            gamma = rules.gamma[line.signal]
            new = facts.reinforced(state, terms, at, gamma)
            payload = {
                **common,
                "gamma": gamma,
                "gamma_effective": gamma,
                "correlation_discount_applied": False,
            }
            yield _draft(line, OpType.REINFORCE, state, new, payload, at, content=line.content())
        else:
            delta = rules.delta[line.signal]
            new = facts.penalised(state, terms, at, line.signal, delta)
            yield _draft(line, OpType.PENALTY, state, new, {**common, "delta": delta}, at, content=line.content())

    # What a request names

    def _new_id(self, line: Event | Belief) -> UUID:
        ref = line.ref
        return (
            id_of_ref(self._writer.namespace, ref)
            if ref
            else id_of_entry(self._writer.namespace, self._writer.next_seq)
        )

    def _object(self, line: OfObject | Supersede, *, checked: bool = False) -> MemoryState:
        state = self._writer.state(id_of(self._writer.namespace, line.object))
        if state is None:
            raise NotFound(
                f"there is no memory {line.object!r} in namespace {self._writer.namespace!r}",
                field="object",
                object=line.object,
            )
        expected = line.expected_version
        if expected is not None and not checked and expected != state.fact_version:
            raise Conflict(
                f"{line.object} is at version {state.fact_version}, not {expected}: read it again and decide anew",
                rule="expected_version",
                object=line.object,
            )
        return state

    def _evidence(self, names: tuple[str, ...]) -> list[str]:
        found = []
        for place, name in enumerate(names):
            evidence_id = id_of(self._writer.namespace, name)
            if not self._writer.has_event(evidence_id) and self._writer.state(evidence_id) is None:
                raise NotFound(f"there is no event or memory {name!r} to serve as evidence", field=f"evidence.{place}")
            found.append(str(evidence_id))
        return found

    def _instant(self, line: Line) -> int:
        at = self._clock if line.effective_at is None else line.effective_at
        if at > self._clock + AHEAD:
            raise BadInput(
                f"{instant.iso(at)} is ahead of the clock ({instant.iso(self._clock)}) by more than 5 minutes",
                field="effective_at",
            )
        return at

    def _late(self, line: OfObject | Supersede, state: MemoryState) -> int:
        """When a fact takes effect: not before the last one of its object."""
        return max(self._instant(line), state.fact_at)

    def _terms(self, state: MemoryState) -> Terms:
        return self._shelf.terms(self._writer.namespace, state.policy_id, state.policy_version)

    def _current_terms(self) -> Terms:
        head = self._writer.head
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        return self._shelf.terms(self._writer.namespace, head.policy_id, head.policy_version)

    @staticmethod
    def _refused(state: MemoryState, rule: str, why: str) -> Refused:
        name = state.ref or str(state.object_id)
        return Refused(f"{name} {why}", rule=rule, object=name)


def _draft(
    line: Line,
    op: OpType,
    old: MemoryState | None,
    new: MemoryState,
    payload: dict[str, Any],
    at: int,
    *,
    content: dict[str, Any] | None,
    content_key: bytes | None = None,
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
        content_key=content_key,
    )
