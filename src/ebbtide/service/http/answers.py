"""What routes answer with where the Python API has no model of its own: the documents of the command line."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel

from ebbtide.decay.course import Course
from ebbtide.memory.erase import Counts, Receipt
from ebbtide.memory.read import LogEntry
from ebbtide.model.instant import to_datetime
from ebbtide.organise.approval import Held
from ebbtide.organise.ledger import Run
from ebbtide.replay.plan import Plan


class Taken(BaseModel):
    """What was made; `unchanged` says that it was there already."""

    id: UUID
    unchanged: bool


class Batch(BaseModel):
    """What became of a batch: entries appended, lines by which nothing came to be, and lines refused."""

    appended: int
    unchanged: int
    refused: list[dict[str, Any]]


class Entries(BaseModel):
    """Entries in their order; `next` is the cursor to go on with, null where there are no more."""

    entries: list[LogEntry]
    next: str | None


class Preview(BaseModel):
    """What an erasure would take along, and what confirms that exactly this is meant."""

    namespace_id: str
    subject: str | None
    objects: list[UUID] | None
    summaries: list[UUID]
    erased: Counts
    kept: Counts
    confirmation: str

    @classmethod
    def of(cls, receipt: Receipt) -> Self:
        """A preview of a receipt: without the nonces, which only an erasure gives away."""
        shown = {name: getattr(receipt, name) for name in cls.model_fields if name != "confirmation"}
        return cls(**shown, confirmation=receipt.confirmation())


class RunShown(BaseModel):
    """A run of the ledger."""

    run_id: UUID
    task: str
    namespace_id: str
    as_of: datetime
    status: str
    examined: int
    decayed: int
    warned: int
    archived: int
    deprecated: int
    expired: int
    entries: int
    policy: str | None
    guard: dict[str, Any] | None
    error: str | None

    @classmethod
    def of(cls, run: Run) -> Self:
        """A run with its instants as such."""
        guard = None if run.verdict is None else run.verdict.document()
        return cls(**{**dataclasses.asdict(run), "as_of": to_datetime(run.as_of), "guard": guard})


class Runs(BaseModel):
    """Runs, newest slot first; `next` is the cursor of the page after."""

    runs: list[RunShown]
    next: str | None = None


class LeavingShown(BaseModel):
    """A memory or event that a held run would move or erase."""

    id: UUID
    target_type: str
    ref: str | None
    rule: str
    at: datetime
    to_state: str
    erases: bool
    salience: float | None
    confidence: float | None


class ChangedShown(BaseModel):
    """Something listed that got an entry since."""

    name: str
    op_type: str
    recorded_at: datetime


class HeldShown(BaseModel):
    """What a held run would do, and what of that has changed, so that it cannot be approved."""

    total: int
    leaving: list[LeavingShown]
    changed: list[ChangedShown]

    @classmethod
    def of(cls, found: Held) -> Self:
        """What a held run would do, with its instants as such."""
        return cls(
            total=found.total,
            leaving=[LeavingShown(**{**dataclasses.asdict(one), "at": to_datetime(one.at)}) for one in found.leaving],
            changed=[
                ChangedShown(name=one.name, op_type=one.op_type, recorded_at=to_datetime(one.recorded_at))
                for one in found.changed
            ],
        )


class OneRun(RunShown):
    """A run; of a held one also what it would do."""

    held: HeldShown | None = None


class ConflictShown(BaseModel):
    """A fact that met another state than it did, or a request that was refused meanwhile."""

    namespace_id: str
    object: str
    seq: int | None
    op_type: str
    what: str


class ChangeShown(BaseModel):
    """One memory's old and new state and scores."""

    namespace_id: str
    object: str
    from_state: str
    to_state: str
    salience: float
    new_salience: float
    confidence: float
    new_confidence: float


class PlanShown(BaseModel):
    """What a corrected policy would have done; applying asks for the digest."""

    digest: str
    objects: int
    changed: int
    by_transition: dict[str, int]
    largest_changes: list[ChangeShown]
    conflicts: list[ConflictShown]
    irreversible: list[str]
    refused: list[ConflictShown]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """A plan without its rows."""
        return cls(
            digest=plan.digest(),
            objects=plan.objects,
            changed=plan.changed,
            by_transition=plan.by_transition(),
            largest_changes=[ChangeShown(**dataclasses.asdict(one)) for one in plan.largest()],
            conflicts=[ConflictShown(**dataclasses.asdict(one)) for one in plan.conflicts],
            irreversible=plan.irreversible,
            refused=[ConflictShown(**dataclasses.asdict(one)) for one in plan.refused],
        )


class AppliedShown(BaseModel):
    """What a correction wrote; those that got a fact in between are left for a new plan."""

    entries: int
    changed: int
    meanwhile: list[str]


class PolicyShown(BaseModel):
    """A policy version by name, with the digest of its document."""

    policy: str
    note: str
    digest: str


class PolicyList(BaseModel):
    """All policy versions at hand."""

    policies: list[PolicyShown]


class Registered(BaseModel):
    """A policy version that is registered; `registered` is false where it was there already."""

    policy: str
    registered: bool


class Assigned(BaseModel):
    """A policy that is a namespace's own now; `changed` is how many memories begin a new segment."""

    policy: str
    namespace_id: str
    changed: int


class BadShown(BaseModel):
    """What is wrong first."""

    namespace_id: str
    seq: int
    code: str
    what: str
    object: str | None


class VerifiedShown(BaseModel):
    """Whether the log is whole, and if not, where it first is not."""

    ok: bool
    entries: int
    batches: int
    first_bad: BadShown | None
    recorded: list[str]


class Curves(BaseModel):
    """What memories keep by their age: a line a profile, or several profiles that age alike."""

    lines: list[Course]


class Health(BaseModel):
    """What is wrong with a store or its set-up, each with what to do."""

    ok: bool
    problems: list[str]


class QueryList(BaseModel):
    """The named queries, each with its question, parameters and columns."""

    queries: list[dict[str, Any]]
