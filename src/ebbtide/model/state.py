"""The state of a memory object: what the projection says of it, column by column.

An entry carries its result as whole groups of these columns, so that the fold applies and never recomputes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from uuid import UUID

from ebbtide.model.words import LifecycleState

GROUPS: dict[str, tuple[str, ...]] = {
    "object": (
        "ref",
        "object_type",
        "epistemic_type",
        "source_type",
        "condition",
        "subject",
        "evidence",
        "profile_override",
        "created_at",
        "content_seq",
        "supersedes",
        "superseded_by",
    ),
    "segment": (
        "segment_at",
        "segment_age",
        "decaying",
        "boost",
        "confidence_base",
        "confidence_from",
        "baseline",
        "centrality",
        "stability",
        "difficulty",
        "decay_profile",
        "policy_id",
        "policy_version",
    ),
    "due": ("due_at", "due_rule", "exit_at", "exit_rule", "expires_at", "warned"),
    "clocks": ("accessed_at", "reinforced_at", "modified_at", "restored_at"),
    "counts": ("access_count", "reinforce_count"),
    "flags": ("pinned", "held", "frozen", "thaws_at", "stopped_at", "tombstoned_at", "erased_at"),
}
"""Columns that are always written together, by the name they have in an entry's `after`."""

BITS: dict[str, int] = {group: 1 << place for place, group in enumerate(GROUPS)}
"""The bit of each group in an entry's `carries`."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """One memory object as of its last entry. Instants and `segment_age` are µs, scores in [0, 1].

    `decaying`, `boost`, `confidence_base`, `confidence_from` and `segment_age` are the segment's d0, b0, c0,
    g and a0 at `segment_at`. Time stands still from `stopped_at` on where that is set: pinned, or no longer ACTIVE.
    `due_at` and `due_rule` are the next rule; `exit_at` and `exit_rule` the one by which decay would move the
    object out of ACTIVE, which a warning leaves as it is. A `frozen` object's time goes on at `thaws_at`, where the
    segment begins, or stands until it is thawed. `fact_at` is when the last fact or transition took effect, or
    a changed centrality since: a fact takes effect no earlier.
    """

    namespace_id: str
    object_id: UUID
    version: int
    fact_version: int
    fact_at: int
    head_hash: bytes
    lifecycle_state: LifecycleState
    salience: float
    confidence: float
    decayed_at: int | None

    ref: str | None
    object_type: str
    epistemic_type: str
    source_type: str
    condition: str | None
    subject: str | None
    evidence: str
    profile_override: str | None
    created_at: int
    content_seq: int
    supersedes: UUID | None
    superseded_by: UUID | None

    segment_at: int
    segment_age: int
    decaying: float
    boost: float
    confidence_base: float
    confidence_from: int
    baseline: float
    centrality: float
    stability: float | None
    difficulty: float | None
    decay_profile: str
    policy_id: str
    policy_version: str

    due_at: int | None
    due_rule: str | None
    exit_at: int | None
    exit_rule: str | None
    expires_at: int | None
    warned: bool

    accessed_at: int | None
    reinforced_at: int | None
    modified_at: int
    restored_at: int | None

    access_count: int
    reinforce_count: int

    pinned: bool
    held: bool
    frozen: bool
    thaws_at: int | None
    stopped_at: int | None
    tombstoned_at: int | None
    erased_at: int | None

    @property
    def active(self) -> bool:
        return self.lifecycle_state == LifecycleState.ACTIVE

    @property
    def standing(self) -> bool:
        """Whether time stands still for the object."""
        return self.stopped_at is not None

    def group(self, name: str) -> dict[str, object]:
        """One group of columns, as an entry carries it; ids as text."""
        return {column: _plain(getattr(self, column)) for column in GROUPS[name]}


COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(MemoryState))
OBJECT_COLUMNS: tuple[str, ...] = ("namespace_id", "object_id", *GROUPS["object"])
STATE_COLUMNS: tuple[str, ...] = tuple(c for c in COLUMNS if c not in GROUPS["object"])
ID_COLUMNS = frozenset({"supersedes", "superseded_by"})


def _plain(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value
