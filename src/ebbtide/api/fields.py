"""The keyword arguments that requests have in common, for type checkers and whoever reads a signature.

Values are those of JSON Lines; words of the vocabulary are given as text or as the enum of `ebbtide.model.words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict
from uuid import UUID

from ebbtide.api.opened import When


class Asked(TypedDict, total=False):
    """What every request takes.

    `namespace` is whose memory: `default` if left out, or for the id of a memory the one that has it. `actor` and
    `actor_type` say who asks, `at` when it took effect (now, at most 5 minutes ahead of the clock). `ref` is the
    caller's own name for what is made, and makes a repeat write nothing; `metadata` is kept with the content. `key`
    makes a repeat by the same actor write nothing where there is no ref.
    """

    namespace: str | None
    actor: str | None
    actor_type: str | None
    at: When
    ref: str | None
    key: str | None
    metadata: dict[str, Any] | None


class About(Asked, total=False):
    """What a request about one memory takes besides; another `fact_version` than the expected one is a `Conflict`."""

    expected_version: int | None


class Reasoned(About, total=False):
    """A request about one memory that may say why, in words."""

    reason: str | None


class Signalled(Reasoned, total=False):
    """A signal of use: its session, which shares one limit; what shows it; `restore` brings an archived memory back."""

    session_id: str | None
    evidence: Sequence[UUID | str] | None
    restore: bool | None


class Transitioned(Reasoned, total=False):
    """What shows that a belief is known in another way now."""

    evidence: Sequence[UUID | str] | None


class Happened(Asked, total=False):
    """What an event takes: its stream (`events`), its role (by actor type), whom it is about (a human actor)."""

    stream: str | None
    role: str | None
    subject: str | None


class Believed(Asked, total=False):
    """What a belief takes. `salience` and `confidence` are in [0, 1]; left out they follow from the types.

    `embedding` is a vector that says what the value means, by `embedding_model`.
    """

    subject: str | None
    evidence: Sequence[UUID | str] | None
    salience: float | None
    confidence: float | None
    decay_profile: str | None
    condition: str | None
    embedding: Sequence[float] | None
    embedding_model: str | None


class Reasserted(Believed, total=False):
    """A new belief may say that it is once more what an erased memory said."""

    reasserts_erased: bool | None


class Superseding(Believed, total=False):
    """What takes another's place; types, source and subject are as they were unless given."""

    object_type: str | None
    epistemic_type: str | None
    source_type: str | None
    expected_version: int | None
    reason: str | None


class Filtered(Reasoned, total=False):
    """One memory, or instead of it a filter on what memories are, now and later."""

    object_type: str | None
    epistemic_type: str | None
    subject: str | None


class Suppressed(Filtered, total=False):
    """Until when, and for one memory whether its time stands meanwhile."""

    expires_at: When
    freeze: bool | None
