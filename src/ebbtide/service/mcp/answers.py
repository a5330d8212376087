"""What each tool gives: short enough for a conversation. A memory whole is a resource."""

from __future__ import annotations

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, JsonValue

from ebbtide.audit.explanation import Clocks, Decision, Erasure, Explanation, Flags, Foreseen, NextCentrality
from ebbtide.memory.erase import Counts, Receipt
from ebbtide.memory.read import Memory, Stored


class Brief(BaseModel):
    """A memory in brief. Scores are in [0, 1], as of the instant asked for; `withheld` says why it is not eligible."""

    id: UUID
    ref: str | None
    type: str
    epistemic_type: str
    subject: str | None
    value: JsonValue
    lifecycle_state: str
    pinned: bool
    suppressed: bool
    eligible: bool
    withheld: str | None
    salience: float
    confidence: float
    due_at: datetime | None
    due_rule: str | None
    supersedes: UUID | None
    superseded_by: UUID | None
    fact_version: int

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """A memory in brief."""
        return cls.model_validate(memory.model_dump())


class Kept(Brief):
    """A memory that was to be stored; `duplicate` says that it was there already."""

    duplicate: bool

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """A memory that was stored, or met by a request that stores none."""
        duplicate = isinstance(memory, Stored) and memory.duplicate
        return cls.model_validate(memory.model_dump() | {"duplicate": duplicate})


class Found(BaseModel):
    """Memories, most salient first; `next` is the cursor of those behind them, null where there are none."""

    memories: list[Brief]
    next: str | None


class Forgotten(BaseModel):
    """What an erasure takes along, and what stays in the namespace.

    With `done` false nothing is erased yet, and `confirmation` is what the second call needs. Once done there is a
    receipt. It alone still has the nonces, by which its holder can show what was erased.
    """

    done: bool
    goes: Counts
    stays: Counts
    summaries: list[UUID]
    confirmation: str | None
    receipt: Receipt | None

    @classmethod
    def of(cls, found: Receipt, *, done: bool) -> Self:
        """What an erasure did, or, where it was a preview, would do."""
        return cls(
            done=done,
            goes=found.erased,
            stays=found.kept,
            summaries=found.summaries,
            confirmation=None if done else found.confirmation(),
            receipt=found if done else None,
        )


class Explained(BaseModel):
    """Why a memory is as it is; `summary` says it in words."""

    as_of: datetime
    known_at: datetime | None
    summary: str
    memory: Brief
    policy: str
    salience_formula: str
    confidence_formula: str
    rate_formula: str
    clocks: Clocks
    flags: Flags
    last_rule: Decision | None
    last_transition: Decision | None
    erasure: Erasure | None
    forecast: list[Foreseen]
    waits_for: str | None

    @classmethod
    def of(cls, told: Explanation) -> Self:
        """An explanation without the points of its curve."""
        segment = told.segment
        return cls(
            memory=Brief.of(told.memory),
            policy=told.policy.name,
            salience_formula=segment.salience_formula,
            confidence_formula=segment.confidence_formula,
            rate_formula=segment.rate_formula,
            **{name: getattr(told, name) for name in cls.model_fields.keys() & type(told).model_fields.keys() - _PUT},
        )


_PUT = {"memory", "policy"}
"""What an explanation has too, but at greater length."""


class Forecasted(BaseModel):
    """The rules that strike one after the other if nothing touches the memory.

    `waits_for` says what keeps its ttl from being executed; another centrality begins another future.
    """

    id: UUID
    ref: str | None
    as_of: datetime
    lifecycle_state: str
    salience: float
    confidence: float
    forecast: list[Foreseen]
    waits_for: str | None
    next_centrality: NextCentrality | None

    @classmethod
    def of(cls, told: Explanation) -> Self:
        """What an explanation says of the future."""
        memory = told.memory.model_dump()
        ahead = {name: getattr(told, name) for name in ("as_of", "forecast", "waits_for", "next_centrality")}
        return cls(**{name: memory[name] for name in cls.model_fields.keys() & memory.keys()}, **ahead)
