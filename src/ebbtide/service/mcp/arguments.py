"""What each tool takes. The docstring of a class is what an assistant is told of the tool."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ebbtide.model.words import (
    Condition,
    DecayProfile,
    EpistemicType,
    ObjectType,
    PenaltySignal,
    ReinforceSignal,
    SourceType,
)

MOST = 200
"""Memories that one call lists, and that one call forgets, at most."""


class Arguments(BaseModel):
    """The arguments of a tool; one that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> dict[str, Any]:
        """What was said, without what was left out."""
        return {name: value for name, value in self if value is not None}


Object = Annotated[str, Field(description="The memory: its id or its ref")]
AsOf = Annotated[
    str | None, Field(description="The instant to speak of, such as 2026-03-01T09:00:00Z; left out it is now")
]
KnownAt = Annotated[str | None, Field(description="Only what was recorded by this instant; left out it is all")]
Reason = Annotated[str | None, Field(description="Why, in words; kept with the entry")]
Evidence = Annotated[list[str] | None, Field(description="What shows it: ids or refs of events or memories")]
Ref = Annotated[
    str | None, Field(description="A name of your own for this call: the same call under it again writes nothing more")
]
Expected = Annotated[
    int | None, Field(description="The fact_version you saw; the call is refused where another one was quicker")
]
Subject = Annotated[str | None, Field(description="Whom or what it is about; all of a subject can be erased at once")]
Score = Annotated[float | None, Field(ge=0, le=1, description="Left out, it follows from the types")]
Value = Annotated[JsonValue, Field(description="What is to be remembered: one plain sentence, or any JSON but null")]
Epistemic = Annotated[
    EpistemicType,
    Field(
        description="How it is known: OBSERVED (seen to be so), ASSERTED (somebody said so), INFERRED (concluded), "
        "HYPOTHETICAL and UNVERIFIED (not to be relied on), CONDITIONAL (only while its condition holds)"
    ),
]
Source = Annotated[
    SourceType,
    Field(description="Where it is from: SYSTEM_INFERRED for what you concluded yourself, USER_STATED for their words"),
]


class Remember(Arguments):
    """Store a new memory. Say honestly how it is known and from where: that sets how much it is believed and how fast
    it fades. What a memory of the same type and subject says already is not stored twice: that one comes back, with
    `duplicate` true."""

    value: Value
    epistemic_type: Epistemic
    source_type: Source
    object_type: Annotated[ObjectType, Field(description="What kind of thing it is")] = ObjectType.FACT
    subject: Subject = None
    ref: Annotated[str | None, Field(description="Your own name for it; a repeat under it writes nothing")] = None
    evidence: Evidence = None
    condition: Annotated[Condition | None, Field(description="Of CONDITIONAL: whether its condition holds")] = None
    decay_profile: Annotated[DecayProfile | None, Field(description="Left out, it follows from the type")] = None
    salience: Score = None
    confidence: Score = None


class Memories(Arguments):
    """List what is remembered, most salient first: what is eligible for retrieval, or with `everything` also what is
    archived, suppressed or otherwise withheld, and why. Listing confirms nothing: call `reinforce` for what was of
    use."""

    text: Annotated[str | None, Field(description="Part of what it says, in any case")] = None
    subject: Annotated[str | None, Field(description="Only what is about this subject")] = None
    object_type: Annotated[ObjectType | None, Field(description="Only this kind of thing")] = None
    limit: Annotated[int, Field(ge=1, le=MOST, description="At most so many")] = 20
    cursor: Annotated[str | None, Field(description="The `next` of the call before, to go on behind it")] = None
    everything: Annotated[bool, Field(description="Also what is withheld")] = False
    as_of: AsOf = None
    known_at: KnownAt = None


class Reinforce(Arguments):
    """Say that a memory was of use: its clock starts again and its scores rise, within limits."""

    object: Object
    signal: Annotated[
        ReinforceSignal,
        Field(description="REFERENCED in an answer, CONFIRMED by the user, TASK_COMPLETED_WITH it, or CORROBORATED"),
    ]
    session_id: Annotated[str | None, Field(description="The conversation: its signals share one limit")] = None
    evidence: Evidence = None
    restore: Annotated[bool, Field(description="Bring an archived memory back first")] = False
    reason: Reason = None
    ref: Ref = None
    expected_version: Expected = None


class Correct(Arguments):
    """Say that a memory is wrong. With `value` a new memory takes its place, and what is not given stays as it was;
    without it the old one stays, and is believed less."""

    object: Object
    value: Annotated[JsonValue, Field(description="What is so instead; left out, only that it is wrong is said")] = None
    epistemic_type: Annotated[EpistemicType | None, Field(description="With a value: how it is known")] = None
    source_type: Annotated[SourceType | None, Field(description="With a value: where it is from")] = None
    signal: Annotated[PenaltySignal, Field(description="Without a value: in what way it is wrong")] = (
        PenaltySignal.CORRECTED
    )
    evidence: Evidence = None
    reason: Reason = None
    ref: Annotated[str | None, Field(description="With a value: your own name for the new memory")] = None
    expected_version: Expected = None


class Pin(Arguments):
    """Stop a memory's time, so that it neither fades nor leaves by any rule; or, with `pinned` false, let it go on."""

    object: Object
    pinned: Annotated[bool, Field(description="Whether it is to be pinned from now on")] = True
    reason: Reason = None
    ref: Ref = None
    expected_version: Expected = None


class Suppress(Arguments):
    """Keep a memory out of retrieval without forgetting it, until an instant or until it is ended; or, with
    `suppressed` false, end that."""

    object: Object
    suppressed: Annotated[bool, Field(description="Whether it is to be kept out from now on")] = True
    expires_at: Annotated[str | None, Field(description="When it ends by itself, such as 2026-03-01T09:00:00Z")] = None
    freeze: Annotated[bool, Field(description="Also stop its time meanwhile")] = False
    reason: Reason = None
    ref: Ref = None
    expected_version: Expected = None


class Restore(Arguments):
    """Bring an archived memory back. What was deprecated, superseded or erased does not come back."""

    object: Object
    reason: Reason = None
    ref: Ref = None
    expected_version: Expected = None


class Forget(Arguments):
    """Erase memories for good, with their evidence and the summaries made from them, in two steps. The first call
    writes nothing: it says what would go and gives a `confirmation`. Show that to the user; where they agree, call
    again with the same arguments and the confirmation. To stop using a memory, `suppress` it instead."""

    objects: Annotated[list[str], Field(min_length=1, max_length=MOST, description="The memories: ids or refs")]
    reason: Annotated[
        Literal["user_request", "compliance"], Field(description="Who wants it: the user, or a rule of law")
    ] = "user_request"
    confirmation: Annotated[str | None, Field(description="What the first call gave; left out, nothing is erased")] = (
        None
    )


class Explain(Arguments):
    """Say why a memory is as it is: its formula with numbers put in, its clocks and flags, which rule struck last and
    what comes next."""

    object: Object
    as_of: AsOf = None
    known_at: KnownAt = None


class Forecast(Arguments):
    """Say which rules will strike a memory, and when, if nothing touches it before."""

    object: Object
    as_of: AsOf = None
