"""What requests say, as OpenAPI describes it. The keys are those of JSON Lines, and so are the checks: these models say
no more than which keys there are; whose memory it is comes from the path, and who asks from the token."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, WithJsonSchema

from ebbtide.audit.receipts import Receipt
from ebbtide.audit.select import EXAMPLE
from ebbtide.log.digest import Digest
from ebbtide.model.words import (
    Condition,
    DecayProfile,
    EpistemicType,
    ObjectType,
    PenaltySignal,
    ReinforceSignal,
    Role,
    SourceType,
    Task,
)
from ebbtide.policy.document import Policy
from ebbtide.service.http.fields import Instant, Name, PolicyName

Score = Annotated[float, Field(ge=0, le=1, strict=True)]
Reason = Annotated[str, Field(max_length=100_000)]
Called = Annotated[str, Field(min_length=1, max_length=100_000)]
Word = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
Json = Annotated[
    Any,
    WithJsonSchema({"type": ["string", "number", "boolean", "object", "array"], "description": "Any JSON but null"}),
]


def _example(**said: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [said]})


class Body(BaseModel):
    """When it took effect (now, if left out), and what else is kept with it."""

    model_config = _example(effective_at="2026-03-02T09:00:00Z", metadata={"channel": "chat"})

    effective_at: Instant | None = None
    metadata: dict[str, Any] | None = None

    def said(self) -> dict[str, Any]:
        """The keys that were given, as they were given, and those that have a default here."""
        every = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in every.items() if value is not None or name in self.model_fields_set}


class Reasoned(Body):
    """Why, in words."""

    model_config = _example(reason="asked for by the user")

    reason: Reason | None = None


class Event(Body):
    """Something that happened: a message, a tool's output."""

    model_config = _example(
        ref="m1", stream="chat", role="USER", content="I moved to London.", effective_at="2026-03-02T09:00:00Z"
    )

    content: Json
    ref: Name | None = None
    stream: Name = "events"
    role: Role | None = None
    subject: Name | None = None


class Belief(Body):
    """What is believed, and how it ages; left out, scores follow from the types."""

    value: Json
    ref: Name | None = None
    subject: Name | None = None
    evidence: list[Name] = []
    salience: Score | None = None
    confidence: Score | None = None
    decay_profile: DecayProfile | None = None
    condition: Condition | None = None
    embedding: list[float] | None = None
    embedding_model: Name | None = None


class Assert(Belief):
    """A new memory."""

    model_config = _example(
        ref="home-1",
        object_type="FACT",
        epistemic_type="ASSERTED",
        source_type="USER_STATED",
        subject="maya",
        value="Maya lives in London.",
    )

    object_type: ObjectType = ObjectType.FACT
    epistemic_type: EpistemicType
    source_type: SourceType
    reasserts_erased: StrictBool = False


class Supersede(Belief):
    """What takes a memory's place; what is not given stays as it was."""

    model_config = _example(ref="home-2", value="Maya lives in Paris.", reason="she moved")

    object_type: ObjectType | None = None
    epistemic_type: EpistemicType | None = None
    source_type: SourceType | None = None
    reason: Reason | None = None


class Signal(Reasoned):
    """What shows it, in which session; `restore` brings an archived memory back first."""

    session_id: Name | None = None
    evidence: list[Name] = []
    restore: StrictBool = False


class Reinforce(Signal):
    """A memory's use was confirmed."""

    model_config = _example(signal="CONFIRMED", session_id="s7")

    signal: ReinforceSignal


class Penalise(Signal):
    """A memory was wrong, or of no use."""

    model_config = _example(signal="CORRECTED", reason="she said so")

    signal: PenaltySignal


class SetCondition(Reasoned):
    """Whether the condition of a CONDITIONAL memory holds."""

    model_config = _example(condition="TRUE")

    condition: Condition


class Transition(Reasoned):
    """A memory has come to be known in another way."""

    model_config = _example(to_type="ASSERTED", trigger_type="user_correction")

    to_type: EpistemicType
    trigger_type: Literal["user_correction", "system_evaluation", "feedback_signal", "policy"]
    evidence: list[Name] = []


class Suppress(Reasoned):
    """Until when, and whether its time stands meanwhile."""

    model_config = _example(expires_at="2027-01-01T00:00:00Z", freeze=True)

    expires_at: Instant | None = None
    freeze: StrictBool = False


class Filtered(Reasoned):
    """What memories are, now and later."""

    model_config = _example(subject="maya", object_type="PREFERENCE")

    ref: Name | None = None
    object_type: ObjectType | None = None
    epistemic_type: EpistemicType | None = None
    subject: Name | None = None


class SuppressAll(Filtered):
    """Which memories are kept out of retrieval, and until when."""

    model_config = _example(subject="maya", object_type="PREFERENCE", expires_at="2027-01-01T00:00:00Z")

    expires_at: Instant | None = None


class Entity(Body):
    """Somebody or something that memories are about."""

    model_config = _example(ref="person-tom", entity_type="PERSON", canonical_name="Tom", aliases=["Thomas"])

    entity_type: Word
    canonical_name: Called
    aliases: list[Called] = []
    ref: Name | None = None


class Merge(Body):
    """Two entities are one: from now on `merged` stands for `primary`."""

    model_config = _example(primary="person-tom", merged="person-tommy")

    primary: Name
    merged: Name


class Relation(Body):
    """An edge from one memory or entity to another."""

    model_config = _example(source="home-1", edge_type="ABOUT", target="person-tom")

    source: Name
    edge_type: Word
    target: Name
    confidence: Score = 1.0
    ref: Name | None = None


class Contradiction(Body):
    """Two memories cannot both be so."""

    model_config = _example(object_a="home-1", object_b="home-2")

    object_a: Name
    object_b: Name
    conflict_description: Reason | None = None
    ref: Name | None = None


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Found(_Said):
    """What a caller's own search found: a memory by id or ref, and its similarity in [-1, 1]."""

    object: Name
    similarity: Annotated[float, Field(ge=-1, le=1, strict=True)]


class Candidates(_Said):
    """What is to be ranked. The limit comes after the filter."""

    model_config = _example(candidates=[{"object": "home-1", "similarity": 0.9}], limit=5)

    candidates: Annotated[list[Found], Field(max_length=10_000)]
    as_of: Instant | None = None
    limit: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None


class Acknowledgement(_Said):
    """Up to where a consumer has dealt with everything."""

    model_config = _example(position="42@1772442000000000")

    position: Annotated[str, Field(pattern="^[0-9]{1,18}@[0-9]{1,18}$")]


class Erasing(_Said):
    """What to erase: memories by id or ref, or all of a subject, or everything of the namespace."""

    model_config = _example(subject="maya", reason="user_request")

    objects: Annotated[list[Name], Field(max_length=10_000)] = []
    subject: Name | None = None
    everything: StrictBool = False
    reason: Literal["user_request", "compliance"] = "user_request"


class Erase(Erasing):
    """What to erase, and the confirmation that its preview gave. `scrub` takes the bytes out of the files as well."""

    model_config = _example(subject="maya", reason="user_request", confirmation="9f86d081…", scrub=True)

    confirmation: Annotated[str, Field(max_length=64)]
    scrub: StrictBool = True


class Assigning(_Said):
    """A policy version by `id@version`."""

    model_config = _example(policy="archivist@1.0.0")

    policy: PolicyName


class Simulate(_Said):
    """A policy by `id@version` or as a document, against another one or what each memory is under."""

    model_config = _example(policy="archivist@1.0.0", until="2027-01-01T00:00:00Z", namespace="maya")

    policy: PolicyName | Policy
    against: PolicyName | Policy | None = None
    until: Instant | None = None
    namespace: Name | None = None
    limit: Annotated[int, Field(ge=0, le=1000, strict=True)] = 10


class Passing(_Said):
    """Which tasks, of which namespace; left out, all that are due.

    With `no_guard` no slot is held, and its run says so.
    """

    model_config = _example(namespace="maya", tasks=["lifecycle"], dry_run=True)

    namespace: Name | None = None
    tasks: list[Task] | None = None
    dry_run: StrictBool = False
    no_guard: StrictBool = False


class Rebuilding(_Said):
    """Of which namespace; left out, of all."""

    model_config = _example(namespace="maya")

    namespace: Name | None = None


class Fitting(_Said):
    """How a policy is fitted: which curves are tried (all, if left out), as of when, and what it is to be called."""

    model_config = _example(curves=["exponential", "power_law"], min_days=1.0)

    curves: Annotated[list[Name], Field(max_length=10)] = []
    policy_id: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = "fitted"
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", max_length=64)] | None = None
    min_days: Annotated[float, Field(ge=0, le=36_525)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=1 << 63, strict=True)] = 0
    resamples: Annotated[int, Field(ge=1, le=1000, strict=True)] = 200
    as_of: Instant | None = None
    known_at: Instant | None = None


class Select(_Said):
    """One SELECT over the audit views, stopped after `timeout` seconds; of JSON at most `limit` rows."""

    model_config = _example(query=EXAMPLE)

    query: Annotated[str, Field(max_length=100_000)]
    limit: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 1000
    timeout: Annotated[float, Field(gt=0, le=60)] = 60.0


class Correction(_Said):
    """One policy version read as another, from an instant on or always."""

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        json_schema_extra={"examples": [{"replace": "default@1.0.0", "with": "default@1.0.1", "namespace": "maya"}]},
    )

    replace: PolicyName
    by: Annotated[PolicyName, Field(alias="with")]
    begins: Annotated[Instant | None, Field(alias="from")] = None
    namespace: Name | None = None


class Apply(Correction):
    """The correction, and the digest of its plan."""

    digest: Annotated[str, Field(max_length=64)]


class Verifying(_Said):
    """What to verify: one namespace or all, also against a kept digest or receipt; `record` writes the result."""

    model_config = _example(namespace="maya", record=False)

    namespace: Name | None = None
    digest: Digest | None = None
    receipt: Receipt | None = None
    record: StrictBool = False
