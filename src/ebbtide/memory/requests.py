"""The requests a caller may make, one model per operation: the lines of a JSON Lines file, and what Python and the
command line build. A bad value is refused with its field and what is allowed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ebbtide.model import instant
from ebbtide.model.entry import Embedding
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier
from ebbtide.model.words import (
    ActorType,
    Condition,
    DecayProfile,
    EpistemicType,
    ObjectType,
    PenaltySignal,
    ReinforceSignal,
    Role,
    SourceType,
)

MAX_LINE = 1 << 20
MAX_DIMENSIONS = 4096
LENGTHS = (1e-15, 1e15)
"""How long an embedding may be, as a vector: the squares of its numbers can be summed, also in single precision."""

DEEPEST = 4
"""How far an error follows a field into its members."""

DEFAULT_NAMESPACE = "default"
DEFAULT_ACTOR = "caller"
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class FieldError(ValueError):
    """What is wrong with a request as a whole, under the field to mend."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _identifier(value: str) -> str:
    _text(value)
    try:
        return identifier(value, "")
    except BadInput as error:
        raise ValueError(error.message) from error


def _as_text(value: Any) -> Any:
    """An id may also be given as a UUID."""
    return str(value) if isinstance(value, UUID) else value


def _instant(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return instant.parse(value)
        except BadInput as error:
            raise ValueError(error.message) from error
    if isinstance(value, datetime):
        return instant.to_micros(value)
    raise ValueError("is no time: write it as 2026-03-01T09:00:00Z")


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError("holds U+0000: leave it out")
    if _SURROGATE.search(value):
        raise ValueError("holds half a surrogate pair, which UTF-8 has no bytes for")
    return value


def _json(value: Any) -> Any:
    """Any JSON value but null, without U+0000, NaN or infinity."""
    if value is None:
        raise ValueError("is null: a memory says something")
    try:
        dumped = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    except ValueError as error:
        raise ValueError("holds NaN, infinity, itself, or a number of more digits than can be read back") from error
    except TypeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if _NUL.search(dumped):
        raise ValueError("holds U+0000: leave it out")
    if _SURROGATE.search(dumped):
        raise ValueError("holds half a surrogate pair, which UTF-8 has no bytes for")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> Any:
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def _embedding(value: Any) -> Any:
    """Finite numbers, not all of them zero; their count is that of a model's dimensions."""
    if not isinstance(value, list | tuple) or not all(_is_number(x) for x in value):
        raise ValueError("must be a list of numbers")
    if not 1 <= len(value) <= MAX_DIMENSIONS:
        raise ValueError(f"has {len(value)} numbers: 1 to {MAX_DIMENSIONS} are taken")
    shortest, longest = LENGTHS
    if not all(-longest <= x <= longest for x in value) or not shortest <= math.hypot(*value) <= longest:
        raise ValueError(f"must be finite and, as a vector, {shortest:g} to {longest:g} long: neither zero nor NaN")
    return value


Name = Annotated[str, BeforeValidator(_as_text), AfterValidator(_identifier)]
Micros = Annotated[int, BeforeValidator(_instant)]
TextLine = Annotated[str, AfterValidator(_text)]
Score = Annotated[float, BeforeValidator(_number)]
Version = Annotated[int, Field(ge=0, lt=1 << 63, strict=True)]
Value = Annotated[JsonValue, BeforeValidator(_json)]
Metadata = dict[TextLine, Annotated[JsonValue, BeforeValidator(_json)]]


class Line(BaseModel):
    """What every request has: whose memory, who asks, when it took effect (default: now), and its name."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    TEXT: ClassVar[tuple[str, ...]] = ("reason", "metadata")
    """Fields that hold text a caller wrote: they go to `contents`, not into the log."""

    namespace: Name = DEFAULT_NAMESPACE
    ref: Name | None = None
    effective_at: Micros | None = None
    actor_id: Name = DEFAULT_ACTOR
    actor_type: ActorType = ActorType.SYSTEM_PROCESS
    metadata: Metadata | None = None

    def canonical(self) -> str:
        """The request as sorted JSON: what a repeat under the same name must be equal to."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True, ensure_ascii=False)

    def content(self) -> dict[str, Any]:
        """The text of the request, by field."""
        return {field: value for field in self.TEXT if (value := getattr(self, field, None)) is not None}


class Event(Line):
    """Something that happened: a message, a tool's output."""

    TEXT = ("content", "metadata")
    op: Literal["EVENT"] = "EVENT"
    stream: Name = "events"
    role: Role | None = None
    content_: Annotated[Value, Field(alias="content")]
    subject: Name | None = None

    def content(self) -> dict[str, Any]:
        return {"content": self.content_} | ({"metadata": self.metadata} if self.metadata else {})


class Belief(Line):
    """The fields that say what is believed, how it is known and how it ages."""

    TEXT = ("value", "reason", "metadata")
    value: Value
    evidence: tuple[Name, ...] = ()
    salience: Score | None = None
    confidence: Score | None = None
    decay_profile: DecayProfile | None = None
    condition: Condition | None = None
    embedding: Annotated[tuple[float, ...], BeforeValidator(_embedding)] | None = None
    embedding_model: Name | None = None

    @property
    def vector(self) -> Embedding | None:
        """The embedding with its model's name."""
        return None if self.embedding is None else Embedding(self.embedding_model or "", self.embedding)

    def content(self) -> dict[str, Any]:
        """The text by field; of an embedding the hash of its numbers, which stand in a column of their own."""
        named = {} if self.embedding_model is None else {"embedding_model": self.embedding_model}
        vector = self.vector
        return super().content() | ({} if vector is None else {"embedding": vector.digest()} | named)

    def _check(self, epistemic: EpistemicType | None, source: SourceType | None) -> None:
        if epistemic == EpistemicType.DEPRECATED:
            raise FieldError("epistemic_type", "DEPRECATED is never asserted: it is what a belief becomes")
        if self.condition is not None and epistemic not in (None, EpistemicType.CONDITIONAL):
            raise FieldError("condition", "is of CONDITIONAL beliefs only: leave it out")
        if source == SourceType.IMPORTED and self.confidence is None:
            raise FieldError("confidence", "is missing: source_type IMPORTED keeps the confidence it came with")
        if self.embedding_model is not None and self.embedding is None:
            raise FieldError("embedding_model", "names the model of an embedding, which is missing")


class Assert(Belief):
    """A new memory object."""

    op: Literal["ASSERT"] = "ASSERT"
    object_type: ObjectType
    epistemic_type: EpistemicType
    source_type: SourceType
    subject: Name | None = None
    reasserts_erased: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self._check(self.epistemic_type, self.source_type)
        return self


class OfObject(Line):
    """A request about one object, by id or ref; `expected_version` is the fact_version the caller has seen."""

    object: Name
    expected_version: Version | None = None


class Supersede(Belief):
    """Closes an object and opens the one that takes its place; what is not given is as it was in the old one."""

    op: Literal["SUPERSEDE"] = "SUPERSEDE"
    object: Name
    expected_version: Version | None = None
    object_type: ObjectType | None = None
    epistemic_type: EpistemicType | None = None
    source_type: SourceType | None = None
    subject: Name | None = None
    reason: TextLine | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self._check(self.epistemic_type, self.source_type)
        return self


class Access(OfObject):
    """An object was shown, which confirms nothing."""

    op: Literal["ACCESS"] = "ACCESS"


class Reinforce(OfObject):
    """An object's use was confirmed. `restore` brings an archived one back first."""

    op: Literal["REINFORCE"] = "REINFORCE"
    signal: ReinforceSignal
    session_id: Name | None = None
    evidence: tuple[Name, ...] = ()
    restore: Annotated[bool, Field(strict=True)] = False
    reason: TextLine | None = None


class Penalty(OfObject):
    """An object was of no use, or wrong. `restore` brings an archived one back first."""

    op: Literal["PENALTY"] = "PENALTY"
    signal: PenaltySignal
    session_id: Name | None = None
    evidence: tuple[Name, ...] = ()
    restore: Annotated[bool, Field(strict=True)] = False
    reason: TextLine | None = None


class Pin(OfObject):
    """Stops an object's time: nothing automatic touches it."""

    op: Literal["PIN"] = "PIN"
    reason: TextLine | None = None


class Unpin(OfObject):
    """Lets a pinned object's time go on."""

    op: Literal["UNPIN"] = "UNPIN"
    reason: TextLine | None = None


class Restore(OfObject):
    """Brings an archived object back."""

    op: Literal["RESTORE"] = "RESTORE"
    reason: TextLine | None = None


class Hold(OfObject):
    """A legal hold: nothing may erase the object."""

    op: Literal["HOLD"] = "HOLD"
    reason: TextLine | None = None


class Release(OfObject):
    """Ends a legal hold."""

    op: Literal["RELEASE"] = "RELEASE"
    reason: TextLine | None = None


class Archive(OfObject):
    """Archives an object by hand; it can be restored."""

    op: Literal["ARCHIVE"] = "ARCHIVE"
    reason: TextLine | None = None


class Deprecate(OfObject):
    """Deprecates an object by hand, for good."""

    op: Literal["DEPRECATE"] = "DEPRECATE"
    reason: TextLine | None = None


class _Filtered(Line):
    """A request about one object, or about all that meet a filter, now and later."""

    object: Name | None = None
    object_type: ObjectType | None = None
    epistemic_type: EpistemicType | None = None
    subject: Name | None = None
    expected_version: Version | None = None
    reason: TextLine | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        filtered = self.object_type or self.epistemic_type or self.subject
        if bool(self.object) == bool(filtered):
            raise FieldError("object", "name an object, or a filter: object_type, epistemic_type, subject")
        return self


class Suppress(_Filtered):
    """Keeps memories out of retrieval, until an instant or until it is ended; `freeze` also stops one object's time."""

    op: Literal["SUPPRESS"] = "SUPPRESS"
    expires_at: Micros | None = None
    freeze: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _freezes_one(self) -> Self:
        if self.freeze and self.object is None:
            raise FieldError("freeze", "is for a single object: name it")
        return self


class Unsuppress(_Filtered):
    """Ends the suppressions of one object, or those made by the same filter; a frozen object's time goes on."""

    op: Literal["UNSUPPRESS"] = "UNSUPPRESS"


class ConditionSet(OfObject):
    """Says whether the condition of a CONDITIONAL belief holds."""

    op: Literal["CONDITION_SET"] = "CONDITION_SET"
    condition: Condition
    reason: TextLine | None = None


class EpistemicTransition(OfObject):
    """Says that a belief has come to be known in another way."""

    op: Literal["EPISTEMIC_TRANSITION"] = "EPISTEMIC_TRANSITION"
    to_type: EpistemicType
    trigger_type: Literal["user_correction", "system_evaluation", "feedback_signal", "policy"]
    evidence: tuple[Name, ...] = ()
    reason: TextLine | None = None


Code = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
"""A word of the caller's vocabulary that stands in the log: capitals, digits and underscores."""


def _called(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty: say the name")
    return value


Called = Annotated[TextLine, AfterValidator(_called)]
"""What somebody or something goes by."""


class ContradictionNoted(Line):
    """Two memories cannot both be so: both stay, and an edge says so."""

    TEXT = ("conflict_description", "metadata")
    op: Literal["CONTRADICTION_NOTED"] = "CONTRADICTION_NOTED"
    object_a: Name
    object_b: Name
    conflict_description: TextLine | None = None


class Relate(Line):
    """An edge between memories or entities."""

    op: Literal["RELATE"] = "RELATE"
    edge_type: Code
    source: Name
    target: Name
    confidence: Score = 1.0


class EntityCreate(Line):
    """Somebody or something that memories are about."""

    TEXT = ("canonical_name", "aliases", "metadata")
    op: Literal["ENTITY_CREATE"] = "ENTITY_CREATE"
    entity_type: Code
    canonical_name: Called
    aliases: tuple[Called, ...] = ()


class EntityMerge(Line):
    """Two entities are one: the merged one's edges count for the primary."""

    op: Literal["ENTITY_MERGE"] = "ENTITY_MERGE"
    primary: Name
    merged: Name


AnyRequest = (
    Event
    | Assert
    | Supersede
    | Access
    | Reinforce
    | Penalty
    | Pin
    | Unpin
    | Hold
    | Release
    | Suppress
    | Unsuppress
    | Restore
    | Archive
    | Deprecate
    | ConditionSet
    | EpistemicTransition
    | ContradictionNoted
    | Relate
    | EntityCreate
    | EntityMerge
)
_any: TypeAdapter[AnyRequest] = TypeAdapter(Annotated[AnyRequest, Field(discriminator="op")])


def request_from(data: Any) -> AnyRequest:
    """Validates one request given as a mapping; the error names the field."""
    try:
        return _any.validate_python(data)
    except ValidationError as error:
        raise _bad_input(error) from error


def request_from_json(line: bytes, fixed: Mapping[str, str] = MappingProxyType({})) -> AnyRequest:
    """Validates one line of JSON Lines; the error names the field. `fixed` are members that it has, said or not."""
    if len(line) > MAX_LINE:
        raise BadInput(f"is longer than {MAX_LINE} bytes: put large content elsewhere and refer to it")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"is not UTF-8 at byte {error.start + 1}: convert the file") from error
    try:
        data = json.loads(text, object_pairs_hook=_no_repeated_key)
    except RecursionError as error:
        raise BadInput("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise BadInput(f"is not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:
        raise BadInput("holds a number of more digits than anything here can mean") from error
    if not isinstance(data, dict):
        raise BadInput('is not an object: write {"op": …}')
    for name, value in fixed.items():
        if data.setdefault(name, value) != value:
            raise BadInput(f"is {value!r} for every line here: leave it out", field=name)
    return request_from(data)


def _no_repeated_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise BadInput("stands twice", field=next(name for name in names if names.count(name) > 1))
    return found


def _short(given: Any) -> str | None:
    """What was given, where a line can show it. Python writes no integer of more digits than it reads."""
    if not isinstance(given, str | int | float) or (isinstance(given, int) and given.bit_length() > 256):
        return None
    return repr(given) if len(str(given)) < 80 else None


def _bad_input(error: ValidationError) -> BadInput:
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"].startswith("union_tag"):
        ops = ", ".join(sorted(kind.model_fields["op"].default for kind in AnyRequest.__args__))
        given = first.get("ctx", {}).get("tag")
        return BadInput(
            f"{given!r} cannot be asked for: one of {ops}" if given else f"is missing: one of {ops}",
            field="op",
        )
    if place and place[0].isupper():
        place = place[1:]
    message = str(first["msg"]).removeprefix("Value error, ")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        return BadInput(message, field=cause.field)
    if len(place) > DEEPEST:
        place = [*place[:DEEPEST], "…"]
    if first["type"] == "extra_forbidden":
        message = "is not known: check the spelling, or leave it out"
    elif first["type"] == "missing":
        message = "is missing"
    given = _short(first.get("input"))
    shown = f" (given: {given})" if given else ""
    return BadInput(f"{message}{shown}", field=".".join(place) or None)
