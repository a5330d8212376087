"""The policy document: every parameter of decay, with the range it may have. Nothing here reads a clock or a file."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.model.words import (
    DEFAULT_RATES,
    Clock,
    Condition,
    Curve,
    DecayProfile,
    EpistemicType,
    Expiry,
    Grade,
    ObjectType,
    OnReinforce,
    PenaltySignal,
    RateByUse,
    ReinforceSignal,
    Role,
    Task,
)
from ebbtide.policy.weights import FSRS_6, Weights

SEMANTIC_VERSION = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$"


def _number(low: float, high: float, *, whole: bool = False) -> Any:
    """A number in a range; the error names the range. No text and no truth value is taken for one."""

    def check(value: Any) -> Any:
        good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not good or not low <= value <= high:
            raise ValueError(f"must be a {'whole ' if whole else ''}number from {low:g} to {high:g}")
        return value

    return BeforeValidator(check)


Unit = Annotated[float, _number(0, 1)]
Rate = Annotated[float, _number(0, 100)]
Days = Annotated[float, _number(0.001, 36_525)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    def _given(self) -> set[str]:
        """The fields whose value is not the default."""
        return {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}


class UseModifier(_Strict):
    """How the rate falls with use n: `logarithmic` λ/(1 + α·ln(n + 1)), `linear_capped` λ/min(cap, 1 + β·n)."""

    kind: RateByUse = RateByUse.NONE
    alpha: Annotated[float, _number(0, 100)] = 0.0
    beta: Annotated[float, _number(0, 100)] = 0.0
    cap: Annotated[float, _number(1, 1000)] = 1.0
    counts: Literal["accesses", "reinforcements"] = "reinforcements"

    @model_validator(mode="after")
    def _only_its_own(self) -> Self:
        unread = (
            self._given()
            & {
                RateByUse.NONE: {"alpha", "beta", "cap"},
                RateByUse.LOGARITHMIC: {"beta", "cap"},
                RateByUse.LINEAR_CAPPED: {"alpha"},
            }[self.kind]
        )
        if unread:
            raise ValueError(f"{', '.join(sorted(unread))} would not be read with kind {self.kind}: leave it out")
        return self


class Profile(_Strict):
    """One decay profile: its curve, its rate λ per day, what slows it, and the clock that ages it.

    Of `fsrs`, `weights` are FSRS-6's w0 to w20, and `initial_grade` is how well what is asserted was learnt.
    """

    rate: Rate = Field(alias="lambda")
    curve: Curve = Curve.EXPONENTIAL
    scale_days: Days = 1.0
    weights: Weights | None = None
    initial_grade: Grade | None = None
    by_use: UseModifier = UseModifier()
    clock: Clock = Clock.LAST_REINFORCED
    salience_floor: Unit = 0.0
    floor_after: Annotated[int, _number(0, 1_000_000, whole=True)] = 0

    @model_validator(mode="after")
    def _only_its_own(self) -> Self:
        read = {
            Curve.EXPONENTIAL: set[str](),
            Curve.POWER_LAW: {"scale_days"},
            Curve.FSRS: {"weights", "initial_grade"},
        }[self.curve]
        unread = ({"scale_days", "weights", "initial_grade"} - read) & self._given()
        if unread:
            raise ValueError(f"{', '.join(sorted(unread))} would not be read with curve {self.curve}: leave it out")
        if self.curve == Curve.FSRS:
            self._only_fsrs()
        return self

    def _only_fsrs(self) -> None:
        if self.by_use.kind != RateByUse.NONE:
            raise ValueError("by_use would not be read with curve fsrs, whose stability grows with use: leave it out")
        if self.clock == Clock.CREATED:
            raise ValueError("curve fsrs counts from the last use: clock is last_reinforced or last_accessed")
        object.__setattr__(self, "weights", self.weights or FSRS_6)
        object.__setattr__(self, "initial_grade", self.initial_grade or Grade.GOOD)


class TierThresholds(_Strict):
    """Where the rules of forgetting strike; all in [0, 1], `force_archive` ≤ `archive` ≤ `warning`."""

    warning: Unit = 0.30
    archive: Unit = 0.10
    force_archive: Unit = 0.05
    deprecate_by_confidence: Unit = 0.15
    archive_min_confidence: Unit = 0.40

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.force_archive <= self.archive <= self.warning:
            raise ValueError(
                f"out of order: force_archive {self.force_archive:g} ≤ archive {self.archive:g} ≤ "
                f"warning {self.warning:g} must hold"
            )
        return self


class Guard(_Strict):
    """A slot whose transitions exceed both limits is held for an operator."""

    max_fraction: Unit = 0.25
    min_objects: Annotated[int, _number(0, 1_000_000_000, whole=True)] = 20


class RetentionMatch(_Strict):
    """What a retention rule speaks of: objects by type, or events by role or stream. Empty lists match all."""

    object_types: tuple[ObjectType, ...] = ()
    epistemic_types: tuple[EpistemicType, ...] = ()
    events: Annotated[bool, Field(strict=True)] = False
    roles: tuple[Role, ...] = ()
    streams: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.events and (self.object_types or self.epistemic_types):
            raise ValueError("a rule speaks of objects or of events, not of both")
        if not self.events and (self.roles or self.streams):
            raise ValueError("roles and streams are of events: say events = true")
        return self


class RetentionRule(_Strict):
    """Expired at clock + ttl_days, an instant; the first rule that matches counts."""

    match: RetentionMatch = RetentionMatch()
    ttl_days: Days
    clock: Clock = Clock.CREATED
    action: Expiry = Expiry.ARCHIVE


class Reinforcement(_Strict):
    """RFC-0008's numbers: what a signal is worth, and the limits of what it may do."""

    gamma: dict[ReinforceSignal, Unit] = {
        ReinforceSignal.REFERENCED: 0.08,
        ReinforceSignal.CONFIRMED: 0.15,
        ReinforceSignal.TASK_COMPLETED_WITH: 0.12,
        ReinforceSignal.CORROBORATED_BY_EXTERNAL: 0.10,
    }
    delta: dict[PenaltySignal, Unit] = {
        PenaltySignal.CORRECTED: 0.25,
        PenaltySignal.CONTRADICTED_BY_OBSERVATION: 0.20,
        PenaltySignal.TASK_FAILED_WITH: 0.10,
        PenaltySignal.IGNORED_REPEATEDLY: 0.05,
        PenaltySignal.UNUSED: 0.0,
    }
    ceiling: dict[EpistemicType, Unit] = {
        EpistemicType.OBSERVED: 0.97,
        EpistemicType.ASSERTED: 0.92,
        EpistemicType.INFERRED: 0.85,
        EpistemicType.HYPOTHETICAL: 0.65,
        EpistemicType.CONDITIONAL: 0.85,
        EpistemicType.UNVERIFIED: 0.50,
    }
    boost_cap: Unit = 0.40
    session_cap: Unit = 0.40
    independence_discount: Unit = 0.40
    baseline_gain: Unit = 0.50
    penalty_share: Unit = 0.30
    corrected_floor: Unit = 0.05

    @field_validator("gamma", "delta", "ceiling", mode="after")
    @classmethod
    def _complete(cls, given: dict[Any, float], info: Any) -> dict[Any, float]:
        return {**cls.model_fields[info.field_name].default, **given}


class Dedup(_Strict):
    """When a memory is another one's rewording: from what cosine of their embeddings on."""

    cosine: Annotated[float, _number(0.5, 1)] = 0.95


class Rank(_Strict):
    """How `rank` combines a caller's similarity with effective salience."""

    formula: Literal["product", "weighted_sum"] = "product"
    alpha: Unit = 0.5
    beta: Unit = 0.5
    recency_base_per_hour: Annotated[float, _number(0.001, 1)] = 1.0


class Centrality(_Strict):
    """What being referred to by others adds to salience: κ = weight · in-degree / largest in-degree."""

    weight: Unit = 0.05


class Summarise(_Strict):
    """Which event windows are summarised by themselves: of a stream and subject, spans of so many hours in UTC."""

    enabled: Annotated[bool, Field(strict=True)] = False
    window_hours: Annotated[int, _number(1, 8766, whole=True)] = 24
    min_events: Annotated[int, _number(1, 1_000_000, whole=True)] = 5
    max_sentences: Annotated[int, _number(1, 1000, whole=True)] = 5


_HOURS = instant.HOUR
DEFAULT_INTERVALS: dict[str, float] = {
    "lifecycle": 24,
    "decay_rapid_fast": 6,
    "decay_medium": 24,
    "decay_slow": 168,
    "retention": 24,
    "centrality": 168,
    "dedup": 168,
    "summarise": 24,
}

DEFAULT_MAPPING: dict[EpistemicType, DecayProfile] = {
    EpistemicType.OBSERVED: DecayProfile.SLOW,
    EpistemicType.ASSERTED: DecayProfile.MEDIUM,
    EpistemicType.INFERRED: DecayProfile.FAST,
    EpistemicType.HYPOTHETICAL: DecayProfile.RAPID,
    EpistemicType.CONDITIONAL: DecayProfile.MEDIUM,
    EpistemicType.UNVERIFIED: DecayProfile.RAPID,
}


class Params(_Strict):
    """All parameters of a policy. What is not given has the RFC's value."""

    profiles: dict[DecayProfile, Profile] = {}
    mapping: dict[EpistemicType, DecayProfile] = {}
    conditional_while_unknown: DecayProfile = DecayProfile.RAPID
    mu_multiplier: Annotated[float, _number(0, 10)] = 0.5
    rho: Rate = 0.10
    observed_grace_days: Annotated[float, _number(0, 36_525)] = 180
    tier_thresholds: TierThresholds = TierThresholds()
    on_reinforce: OnReinforce = OnReinforce.RESTORE
    restore_grace_days: Annotated[float, _number(0, 36_525)] = 7
    schedule: dict[str, Annotated[float, _number(1 / 60, 8766)]] = {}
    guard: Guard = Guard()
    retention: tuple[RetentionRule, ...] = ()
    reinforcement: Reinforcement = Reinforcement()
    dedup: Dedup = Dedup()
    rank: Rank = Rank()
    centrality: Centrality = Centrality()
    summarise: Summarise = Summarise()

    @model_validator(mode="before")
    @classmethod
    def _rfc_shape(cls, data: Any) -> Any:
        """Takes the RFC's `lambda_by_profile` as profiles that give only their rate."""
        if not isinstance(data, dict) or "lambda_by_profile" not in data:
            return data
        if "profiles" in data:
            raise ValueError("give lambda_by_profile or profiles, not both")
        rates = data["lambda_by_profile"]
        if not isinstance(rates, dict):
            raise ValueError("lambda_by_profile is a table of rates by profile")
        rest = {key: value for key, value in data.items() if key != "lambda_by_profile"}
        return {**rest, "profiles": {name: {"lambda": rate} for name, rate in rates.items()}}

    @field_validator("profiles", mode="after")
    @classmethod
    def _all_profiles(cls, given: dict[DecayProfile, Profile]) -> dict[DecayProfile, Profile]:
        permanent = given.get(DecayProfile.PERMANENT)
        if permanent is not None and permanent.rate != 0:
            raise ValueError("PERMANENT never decays: its lambda is 0")
        return {
            name: given.get(name) or Profile.model_validate({"lambda": rate}) for name, rate in DEFAULT_RATES.items()
        }

    @field_validator("mapping", mode="after")
    @classmethod
    def _all_types(cls, given: dict[EpistemicType, DecayProfile]) -> dict[EpistemicType, DecayProfile]:
        if EpistemicType.DEPRECATED in given:
            raise ValueError("DEPRECATED is never asserted and has no profile")
        return {**DEFAULT_MAPPING, **given}

    @field_validator("schedule", mode="after")
    @classmethod
    def _known_tasks(cls, given: dict[str, float]) -> dict[str, float]:
        for task, hours in given.items():
            if task not in DEFAULT_INTERVALS:
                raise ValueError(f"{task!r} is no task: one of {', '.join(DEFAULT_INTERVALS)}")
            if hours * 3600 != math.floor(hours * 3600):
                raise ValueError(f"{task}: the interval in hours must be a whole number of seconds")
        return {**DEFAULT_INTERVALS, **given}

    @model_validator(mode="after")
    def _defaults_pass_too(self) -> Self:
        """Fills what was left out; pydantic does not run field validators on defaults."""
        object.__setattr__(self, "profiles", type(self)._all_profiles(self.profiles))
        object.__setattr__(self, "mapping", type(self)._all_types(self.mapping))
        object.__setattr__(self, "schedule", {**DEFAULT_INTERVALS, **self.schedule})
        return self


class Policy(_Strict):
    """A named, versioned, immutable set of parameters; every decision names its id and version."""

    id: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Annotated[str, Field(pattern=SEMANTIC_VERSION, max_length=50)]
    note: Annotated[str, Field(max_length=2000)] = ""
    params: Params = Params()

    @property
    def name(self) -> str:
        """`id@version`."""
        return f"{self.id}@{self.version}"

    def canonical(self) -> str:
        """The whole document as JSON with sorted keys: what the log keeps, and what two versions are compared by."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical document."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    def profile_for(self, epistemic: EpistemicType, condition: str | None, override: str | None) -> DecayProfile:
        """The profile of an object: its own, else by its epistemic type (RAPID while a condition is UNKNOWN)."""
        if override:
            return DecayProfile(override)
        if epistemic == EpistemicType.CONDITIONAL and condition == Condition.UNKNOWN:
            return self.params.conditional_while_unknown
        return self.params.mapping[epistemic]

    def scheduled(self) -> tuple[Task, ...]:
        """The tasks that run by themselves; the others only where they are named."""
        return tuple(task for task in Task if task != Task.SUMMARISE or self.params.summarise.enabled)

    def interval(self, task: Task) -> int:
        """Microseconds between two starts of a task."""
        return round(self.params.schedule[task] * 3600) * instant.SECOND


def split_name(name: str) -> tuple[str, str]:
    """`id@version` in its two parts, or a refusal."""
    policy_id, at, version = name.partition("@")
    if not (policy_id and at and version):
        raise BadInput(f"{name!r} is not a policy: write it as id@version, for example default@1.0.0")
    return policy_id, version


def policy_from(data: Any, file: str | None = None) -> Policy:
    """Validates a document; a bad value is refused with its field and the allowed range."""
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        message = str(first["msg"]).removeprefix("Value error, ")
        given = first.get("input")
        shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
        raise BadInput(f"{message}{shown}", file=file, field=place or None) from error
