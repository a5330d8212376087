"""What an explanation says: a document of plain values, which `audit.explain` fills."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue

from ebbtide.memory.read import Memory


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class Segment(_Told):
    """The closed formula that the scores follow now, with its numbers put in; ages in days, rates per day.

    `decaying`, `boost`, `confidence_base` are what it begins with at `begins_at`, `age_days` the age there. `rate` is λ
    divided by what `uses` slow it. Where time stands still it stands at `stopped_at`.
    """

    begins_at: datetime
    age_days: float
    decaying: float
    boost: float
    baseline: float
    centrality: float
    confidence_base: float
    confidence_ages_from: datetime
    decay_profile: str
    curve: str
    rate: float
    uses: int
    counts: str
    stability_days: float | None
    floor: float
    rho: float
    mu: float
    stopped_at: datetime | None
    salience_formula: str
    confidence_formula: str
    rate_formula: str


class UnderPolicy(_Told):
    """The policy version that the memory is under, and where its document is from."""

    name: str
    id: str
    version: str
    note: str
    source: str
    registered_at: datetime
    warning: float
    archive: float
    force_archive: float
    deprecate_by_confidence: float
    archive_min_confidence: float


class Clocks(_Told):
    """Every clock of a memory. `ages_by` is the one its profile names, `ages_from` that one or a later restore."""

    created_at: datetime
    modified_at: datetime
    accessed_at: datetime | None
    reinforced_at: datetime | None
    restored_at: datetime | None
    decayed_at: datetime | None
    ages_by: str
    ages_from: datetime
    accesses: int
    reinforcements: int
    grace_until: datetime | None
    expires_at: datetime | None


class Suppression(_Told):
    """What keeps a memory out of retrieval: `of` says which words it was made by."""

    suppressed_by: str
    suppressed_at: datetime
    expires_at: datetime | None
    of: dict[str, str]
    policy: str


class Flags(_Told):
    """What is set on a memory. `frozen_until` is None for a freeze without an end, and for none."""

    pinned: bool
    held: bool
    frozen: bool
    frozen_until: datetime | None
    suppressed: bool
    suppressions: list[Suppression]
    warned: bool
    tombstoned_at: datetime | None
    erased_at: datetime | None


class Decision(_Told):
    """A decision that stands in the log: what was decided, on which inputs, under which policy and by whom.

    `rule` is the rule that fired; None for one by hand, by dedup or by a correction, as `by` says.
    """

    rule: str | None
    by: str
    op_type: str
    at: datetime
    recorded_at: datetime
    seq: int
    from_state: str
    to_state: str
    salience: float | None
    confidence: float | None
    inputs: dict[str, JsonValue]
    reason: str | None
    policy: str | None
    actor_id: str
    actor_type: str


class Foreseen(_Told):
    """A rule that strikes if nothing touches the memory before, with the scores it has there.

    `overdue` says that its instant has come and no pass has executed it yet; `action` is what a ttl does.
    """

    at: datetime
    rule: str
    to_state: str
    salience: float
    confidence: float
    action: str | None
    overdue: bool


class NextCentrality(_Told):
    """Another centrality that the pass of a slot gives the memory: from then on it has another future."""

    slot: datetime
    now: float
    becomes: float


class Head(_Told):
    """Where the log stood after an erasure, as its receipt says it."""

    seq: int
    batch: int
    hash: str


class Erasure(_Told):
    """How a memory was erased. What it said is nowhere any more."""

    at: datetime
    recorded_at: datetime
    reason: str
    policy: str
    actor_id: str
    actor_type: str
    tombstone: UUID
    head: Head


class Mark(_Told):
    """Something that happened to the memory, or a rule that will strike: a point on the curve."""

    at: datetime
    what: str
    salience: float
    confidence: float
    ahead: bool


class CurveTold(_Told):
    """The scores from the first entry to the last crossing: columns of the same length, and what happened on the way.

    What lies behind `now` is the forecast.
    """

    now: datetime
    at: list[datetime]
    salience: list[float]
    confidence: list[float]
    marks: list[Mark]


class Explanation(_Told):
    """Everything that is known of one memory at an instant, and what comes next if nothing touches it."""

    as_of: datetime
    known_at: datetime | None
    summary: str
    memory: Memory
    withheld: str | None
    segment: Segment
    policy: UnderPolicy
    clocks: Clocks
    flags: Flags
    last_rule: Decision | None
    last_transition: Decision | None
    erasure: Erasure | None
    forecast: list[Foreseen]
    waits_for: str | None
    next_centrality: NextCentrality | None
    curve: CurveTold
