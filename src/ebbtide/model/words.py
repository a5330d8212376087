"""The fixed vocabulary. Spellings are part of the log's format: never change one, only add."""

from enum import StrEnum


class ObjectType(StrEnum):
    FACT = "FACT"
    PREFERENCE = "PREFERENCE"
    DECISION = "DECISION"
    TASK = "TASK"
    SUMMARY = "SUMMARY"
    INTENT = "INTENT"


class EpistemicType(StrEnum):
    """How a belief is known. DEPRECATED is reached by a transition, never asserted."""

    OBSERVED = "OBSERVED"
    ASSERTED = "ASSERTED"
    INFERRED = "INFERRED"
    HYPOTHETICAL = "HYPOTHETICAL"
    CONDITIONAL = "CONDITIONAL"
    UNVERIFIED = "UNVERIFIED"
    DEPRECATED = "DEPRECATED"


GUESSES = (EpistemicType.HYPOTHETICAL, EpistemicType.UNVERIFIED, EpistemicType.CONDITIONAL)
"""What is not, or not yet, retrieved as so: a belief of another kind that says the same is not one of these again."""


class SourceType(StrEnum):
    USER_STATED = "USER_STATED"
    USER_DEMONSTRATED = "USER_DEMONSTRATED"
    SYSTEM_INFERRED = "SYSTEM_INFERRED"
    EXTERNAL_DOCUMENT = "EXTERNAL_DOCUMENT"
    TOOL_OUTPUT = "TOOL_OUTPUT"
    IMPORTED = "IMPORTED"


class ActorType(StrEnum):
    HUMAN_USER = "HUMAN_USER"
    SYSTEM_PROCESS = "SYSTEM_PROCESS"
    AI_AGENT = "AI_AGENT"
    EXTERNAL_CONNECTOR = "EXTERNAL_CONNECTOR"


class Role(StrEnum):
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL = "TOOL"
    SYSTEM = "SYSTEM"
    ORGANISER = "ORGANISER"


class Condition(StrEnum):
    """Whether the condition of a CONDITIONAL belief holds."""

    UNKNOWN = "UNKNOWN"
    TRUE = "TRUE"
    FALSE = "FALSE"
    EXPIRED = "EXPIRED"


class LifecycleState(StrEnum):
    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    DEPRECATED = "DEPRECATED"
    SUPERSEDED = "SUPERSEDED"


class DecayProfile(StrEnum):
    PERMANENT = "PERMANENT"
    SLOW = "SLOW"
    MEDIUM = "MEDIUM"
    FAST = "FAST"
    RAPID = "RAPID"


class Curve(StrEnum):
    EXPONENTIAL = "exponential"
    POWER_LAW = "power_law"
    FSRS = "fsrs"


class Grade(StrEnum):
    """How a recall went, in FSRS's words; they stand for 1 to 4."""

    AGAIN = "again"
    HARD = "hard"
    GOOD = "good"
    EASY = "easy"


class RateByUse(StrEnum):
    """How use slows a curve down."""

    NONE = "none"
    LOGARITHMIC = "logarithmic"
    LINEAR_CAPPED = "linear_capped"


class Clock(StrEnum):
    """The clock that ages an object: what restarts it is in the name."""

    LAST_REINFORCED = "last_reinforced"
    LAST_ACCESSED = "last_accessed"
    CREATED = "created"


class OnReinforce(StrEnum):
    """What a restart of the clock does to the decaying part: back to the baseline, or on from where it is."""

    RESTORE = "restore"
    CONTINUE = "continue"


class Rule(StrEnum):
    """What moves or marks an object by itself. The order is the precedence at one and the same instant."""

    TTL = "ttl"
    DEPRECATE_BY_CONFIDENCE = "deprecate_by_confidence"
    FORCE_ARCHIVE = "force_archive"
    ARCHIVE = "archive"
    WARNING = "warning"


class Task(StrEnum):
    """The organiser's tasks, in the order in which slots of one start are run.

    Lifecycle goes before retention: what decay did before a ttl ended is done before, and the warning that may be
    overdue is written. At one and the same instant the ttl counts, which the object's `due_rule` says already.
    """

    LIFECYCLE = "lifecycle"
    RETENTION = "retention"
    DECAY_RAPID_FAST = "decay_rapid_fast"
    DECAY_MEDIUM = "decay_medium"
    DECAY_SLOW = "decay_slow"
    CENTRALITY = "centrality"
    DEDUP = "dedup"
    SUMMARISE = "summarise"


class RunStatus(StrEnum):
    """Where a slot of the run ledger stands; `quarantined` and `held` wait for an operator."""

    RUNNING = "running"
    DONE = "done"
    NOTHING_DUE = "nothing_due"
    HELD = "held"
    QUARANTINED = "quarantined"


class Ruling(StrEnum):
    """What became of a slot that the guard weighed; `off` where it was told not to."""

    PASSED = "passed"
    HELD = "held"
    APPROVED = "approved"
    OFF = "off"


class ReinforceSignal(StrEnum):
    REFERENCED = "REFERENCED"
    CONFIRMED = "CONFIRMED"
    TASK_COMPLETED_WITH = "TASK_COMPLETED_WITH"
    CORROBORATED_BY_EXTERNAL = "CORROBORATED_BY_EXTERNAL"


class PenaltySignal(StrEnum):
    CORRECTED = "CORRECTED"
    CONTRADICTED_BY_OBSERVATION = "CONTRADICTED_BY_OBSERVATION"
    TASK_FAILED_WITH = "TASK_FAILED_WITH"
    IGNORED_REPEATEDLY = "IGNORED_REPEATEDLY"
    UNUSED = "UNUSED"


class Expiry(StrEnum):
    """What becomes of what a retention rule lets expire: archived with its content, or erased."""

    ARCHIVE = "archive"
    ERASE = "erase"


class Resolution(StrEnum):
    """Why two memories count as one."""

    SAME_CONTENT = "same_content"
    SIMILAR_EMBEDDING = "similar_embedding"


class TombstoneReason(StrEnum):
    RETENTION = "retention_policy_expiry"
    USER_REQUEST = "user_request"
    COMPLIANCE = "compliance"


class StreamType(StrEnum):
    """What an entry's stream is: one memory object, one stream of events (an event's own for its tombstone), or the
    namespace itself."""

    OBJECT = "object"
    EVENTS = "events"
    NAMESPACE = "namespace"


class OpType(StrEnum):
    EVENT = "EVENT"
    ASSERT = "ASSERT"
    ACCESS = "ACCESS"
    REINFORCE = "REINFORCE"
    PENALTY = "PENALTY"
    PIN = "PIN"
    UNPIN = "UNPIN"
    HOLD = "HOLD"
    RELEASE = "RELEASE"
    SUPPRESS = "SUPPRESS"
    UNSUPPRESS = "UNSUPPRESS"
    SUPERSEDE = "SUPERSEDE"
    ARCHIVE = "ARCHIVE"
    RESTORE = "RESTORE"
    DEPRECATE = "DEPRECATE"
    CONDITION_SET = "CONDITION_SET"
    EPISTEMIC_TRANSITION = "EPISTEMIC_TRANSITION"
    CONTRADICTION_NOTED = "CONTRADICTION_NOTED"
    RELATE = "RELATE"
    ENTITY_CREATE = "ENTITY_CREATE"
    ENTITY_MERGE = "ENTITY_MERGE"
    DEDUP_RESOLVED = "DEDUP_RESOLVED"
    SUMMARY_CREATED = "SUMMARY_CREATED"
    DECAY_APPLIED = "DECAY_APPLIED"
    DECAY_WARNING = "DECAY_WARNING"
    CENTRALITY_BOOST = "CENTRALITY_BOOST"
    TOMBSTONE = "TOMBSTONE"
    POLICY_ASSIGNED = "POLICY_ASSIGNED"
    POLICY_CORRECTED = "POLICY_CORRECTED"
    CORRECTED = "CORRECTED"
    ORGANISER_RUN = "ORGANISER_RUN"
    INTEGRITY_CHECK = "INTEGRITY_CHECK"


# Section 2 of the rules: λ per day, and which profile a belief gets by how it is known.
DEFAULT_RATES: dict[DecayProfile, float] = {
    DecayProfile.PERMANENT: 0.0,
    DecayProfile.SLOW: 0.005,
    DecayProfile.MEDIUM: 0.020,
    DecayProfile.FAST: 0.070,
    DecayProfile.RAPID: 0.200,
}

INITIAL_SALIENCE = 0.5

# Initial confidence by (epistemic type, source type). A missing pair is accepted with a warning
# and takes the lowest of its row; CONDITIONAL is 0.50 whatever the source.
INITIAL_CONFIDENCE: dict[EpistemicType, dict[SourceType, float]] = {
    EpistemicType.OBSERVED: {
        SourceType.USER_STATED: 0.90,
        SourceType.USER_DEMONSTRATED: 0.85,
        SourceType.EXTERNAL_DOCUMENT: 0.75,
        SourceType.TOOL_OUTPUT: 0.80,
    },
    EpistemicType.ASSERTED: {
        SourceType.USER_STATED: 0.80,
        SourceType.USER_DEMONSTRATED: 0.75,
        SourceType.SYSTEM_INFERRED: 0.60,
        SourceType.EXTERNAL_DOCUMENT: 0.65,
        SourceType.TOOL_OUTPUT: 0.70,
    },
    EpistemicType.INFERRED: {
        SourceType.USER_DEMONSTRATED: 0.60,
        SourceType.SYSTEM_INFERRED: 0.55,
        SourceType.EXTERNAL_DOCUMENT: 0.50,
        SourceType.TOOL_OUTPUT: 0.55,
    },
    EpistemicType.HYPOTHETICAL: {
        SourceType.USER_STATED: 0.35,
        SourceType.SYSTEM_INFERRED: 0.25,
        SourceType.EXTERNAL_DOCUMENT: 0.30,
    },
    EpistemicType.UNVERIFIED: {
        SourceType.SYSTEM_INFERRED: 0.20,
        SourceType.EXTERNAL_DOCUMENT: 0.25,
        SourceType.TOOL_OUTPUT: 0.30,
    },
    EpistemicType.CONDITIONAL: {source: 0.50 for source in SourceType if source != SourceType.IMPORTED},
}


def initial_confidence(epistemic: EpistemicType, source: SourceType) -> tuple[float, bool]:
    """The confidence a new belief starts with, and whether the table has that pair (else its row's lowest)."""
    row = INITIAL_CONFIDENCE[epistemic]
    return (row[source], True) if source in row else (min(row.values()), False)
