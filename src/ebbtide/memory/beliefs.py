"""Events, and how beliefs come to be: asserted, or taking another's place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from ebbtide.decay import facts
from ebbtide.memory.case import Case, draft, refused
from ebbtide.memory.door import Kind, Said, Twin
from ebbtide.memory.requests import Assert, Belief, Event, Supersede
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
    Resolution,
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


def said_by(line: Belief, object_type: str, subject: str | None) -> Said:
    """What a request would store of a type and subject, as far as it is compared with what is there."""
    return Said(Kind(object_type, subject), value_digest(line.value), line.vector)


def asserted(case: Case, line: Assert) -> Iterator[Draft]:
    """ASSERT: a new memory object, unless an ACTIVE one says the same."""
    new_id, at = case.new_id(line), case.instant(line)
    said = said_by(line, line.object_type, line.subject)
    case.door.refuse_length(said.embedding)
    twin = case.door.twin(said, line.epistemic_type, at)
    yield _assert(case, line, said, new_id, at) if twin is None else _said_again(case, line, twin, new_id)


def _said_again(case: Case, line: Assert, twin: Twin, alias_id: UUID) -> Draft:
    """DEDUP_RESOLVED in the stream of the memory that said it first: its evidence grows, its name is one more.

    What was said in other words is kept as content of this entry, and so goes where the memory goes.
    """
    first, at = twin.state, case.late(line, twin.state)
    evidence = json.loads(first.evidence)
    known = {str(first.object_id), *evidence}
    more = [one for one in dict.fromkeys(case.evidence(line.evidence)) if one not in known]
    case.writer.note_evidence(first.object_id, map(UUID, more))
    if line.ref is not None:
        case.writer.note_alias(alias_id, first.object_id, line.ref)
    payload = {
        "primary_id": str(first.object_id),
        "merged_ids": [str(alias_id)],
        "resolution_strategy": twin.strategy,
        "similarity": twin.similarity,
        "alias_id": line.ref and str(alias_id),
        "ref": line.ref,
        "evidence_ids": more,
    }
    new = replace(first, evidence=json.dumps([*evidence, *more], separators=(",", ":")))
    said = (
        {"metadata": line.metadata}
        if twin.strategy == Resolution.SAME_CONTENT
        else {"value": line.value, "metadata": line.metadata}
    )
    content = {name: text for name, text in said.items() if text is not None}
    return replace(draft(line, OpType.DEDUP_RESOLVED, first, new, payload, at, content=None), content=content)


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


def _assert(case: Case, line: Assert, said: Said, object_id: UUID, at: int, supersedes: UUID | None = None) -> Draft:
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
    if line.reasserts_erased:
        payload["reasserts_erased"] = True
    case.door.admitted(said, object_id)
    asserted = draft(line, OpType.ASSERT, None, state, payload, at, content=line.content())
    return replace(asserted, content_key=said.digest, embedding=said.embedding)


def supersede(case: Case, line: Supersede) -> Iterator[Draft]:
    """SUPERSEDE: the new object is asserted, unless another ACTIVE one says the same, then the old one closed."""
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
            "embedding",
            "embedding_model",
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
        reasserts_erased=False,
        **given,
    )
    new_id = case.new_id(line)
    said = said_by(assertion, assertion.object_type, assertion.subject)
    case.door.refuse_length(said.embedding)
    twin = case.door.twin(said, new_type, at, but=old.object_id)
    if twin is None:
        yield _assert(case, assertion, said, new_id, at, supersedes=old.object_id)
    else:
        yield _said_again(case, assertion, twin, new_id)
        new_id = twin.state.object_id
    terms = case.terms(old)
    state = replace(facts.left(old, terms, at, LifecycleState.SUPERSEDED), superseded_by=new_id)
    content = {"reason": line.reason} if line.reason else None
    yield draft(line, OpType.SUPERSEDE, old, state, {"new_object_id": str(new_id)}, at, content=content)
