"""Events, and how beliefs come to be: asserted, or taking another's place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from ebbtide.decay import facts
from ebbtide.memory.case import Case, draft, refused
from ebbtide.memory.requests import Assert, Event, Supersede
from ebbtide.model.entry import Draft
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import id_of_stream
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
from ebbtide.project.writer import value_digest

_ROLES = {
    ActorType.HUMAN_USER: Role.USER,
    ActorType.AI_AGENT: Role.ASSISTANT,
    ActorType.EXTERNAL_CONNECTOR: Role.TOOL,
    ActorType.SYSTEM_PROCESS: Role.SYSTEM,
}


def asserted(case: Case, line: Assert) -> Iterator[Draft]:
    """ASSERT: a new memory object."""
    yield _assert(case, line, case.new_id(line), case.instant(line))


def event(case: Case, line: Event) -> Iterator[Draft]:
    """EVENT: something that happened, in its stream."""
    subject = line.subject or (line.actor_id if line.actor_type == ActorType.HUMAN_USER else None)
    event_id = case.new_id(line)
    role, at = line.role or _ROLES[line.actor_type], case.instant(line)
    case.writer.note_event(
        {
            "event_id": event_id,
            "seq": case.writer.next_seq,
            "ref": line.ref,
            "role": role.value,
            "stream": line.stream,
            "subject": subject,
            "effective_at": at,
            "tombstoned_at": None,
            "erased_at": None,
        }
    )
    payload = {
        "event_id": str(event_id),
        "ref": line.ref,
        "stream": line.stream,
        "role": role,
        "subject": subject,
    }
    yield Draft(
        stream_type=StreamType.EVENTS,
        stream_id=id_of_stream(case.writer.namespace, line.stream),
        op_type=OpType.EVENT,
        effective_at=at,
        actor_id=line.actor_id,
        actor_type=line.actor_type,
        payload=payload,
        fact=False,
        content=line.content(),
    )


def _assert(case: Case, line: Assert, object_id: UUID, at: int, supersedes: UUID | None = None) -> Draft:
    confidence, listed = (
        initial_confidence(line.epistemic_type, line.source_type)
        if line.confidence is None
        else (line.confidence, True)
    )
    condition = line.condition
    if line.epistemic_type == EpistemicType.CONDITIONAL and condition is None:
        condition = Condition.UNKNOWN
    evidence = case.evidence(line.evidence)
    case.writer.note_evidence(object_id, [UUID(one) for one in evidence])
    new = facts.unbegun(
        namespace_id=case.writer.namespace,
        object_id=object_id,
        at=at,
        salience=INITIAL_SALIENCE if line.salience is None else line.salience,
        confidence=confidence,
        ref=line.ref,
        object_type=line.object_type,
        epistemic_type=line.epistemic_type,
        source_type=line.source_type,
        condition=condition,
        subject=line.subject,
        evidence=evidence,
        profile_override=line.decay_profile,
        content_seq=case.writer.next_seq,
        supersedes=supersedes,
    )
    state = facts.asserted(new, case.current_terms(), at)
    payload = facts.assertion(state)
    if not listed:
        payload["warnings"] = ["unusual_source"]
    return draft(
        line,
        OpType.ASSERT,
        None,
        state,
        payload,
        at,
        content=line.content(),
        content_key=value_digest(line.value),
    )


def supersede(case: Case, line: Supersede) -> Iterator[Draft]:
    """SUPERSEDE: the new object is asserted, then the old one closed."""
    old = case.object(line)
    at = case.late(line, old)
    if not old.active:
        raise refused(
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
    new_id = case.new_id(line)
    yield _assert(case, assertion, new_id, at, supersedes=old.object_id)
    terms = case.terms(old)
    state = replace(facts.left(old, terms, at, LifecycleState.SUPERSEDED), superseded_by=new_id)
    content = {"reason": line.reason} if line.reason else None
    yield draft(line, OpType.SUPERSEDE, old, state, {"new_object_id": str(new_id)}, at, content=content)
