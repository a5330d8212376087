"""Ranking: a caller's own search gives (memory, similarity); what may be retrieved comes back, best first.

Eligibility comes before any limit, and each memory that is withheld comes back with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection

from ebbtide.decay import rank
from ebbtide.memory.case import ids_of
from ebbtide.memory.read import Memory, memories
from ebbtide.memory.requests import Name
from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.policy.document import split_name
from ebbtide.project.shelf import Shelf
from ebbtide.store.database import Database


class Candidate(BaseModel):
    """What a caller's search found: a memory, by id or ref, and its similarity to the question in [-1, 1]."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    object: Name
    similarity: Annotated[float, Field(ge=-1, le=1, strict=True)]


class Ranked(BaseModel):
    """A memory that may be retrieved, with the score it is ordered by."""

    memory: Memory
    similarity: float
    score: float


class Withheld(BaseModel):
    """A memory that may not be retrieved, and why; `unknown` is none of this namespace."""

    object: str
    reason: str


class Ranking(BaseModel):
    """The memories that may be retrieved, best first, and those that may not."""

    ranked: list[Ranked]
    withheld: list[Withheld]


def candidate(given: Any) -> Candidate:
    """A candidate from a mapping, a JSON text, or (object, similarity); a bad one is refused with its field."""
    try:
        if isinstance(given, bytes):
            return Candidate.model_validate_json(given)
        if isinstance(given, tuple):
            given = {"object": str(given[0]), "similarity": given[1]}
        return Candidate.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(first["msg"], field=".".join(str(part) for part in first["loc"]) or None) from error


def read_candidates(source: BinaryIO, file: str) -> Iterator[Candidate]:
    """Reads candidates from JSON Lines; a bad one is refused with its line and field."""
    for number, line in enumerate(source, 1):
        if line.strip():
            try:
                yield candidate(line)
            except BadInput as error:
                raise error.at(file, number) from error


def ranked(
    db: Database,
    connection: Connection,
    namespace: str,
    candidates: Sequence[Candidate],
    *,
    now: int,
    as_of: int | None,
    limit: int | None,
) -> Ranking:
    """Ranks candidates by the policy of each memory, as of an instant. Naming one twice is refused."""
    ids = ids_of(db, connection, namespace, [candidate.object for candidate in candidates])
    if len(set(ids)) < len(ids):
        twice = next(c.object for c, i in zip(candidates, ids, strict=True) if ids.count(i) > 1)
        raise BadInput(f"{twice!r} is there twice: give each memory one similarity", field="object")
    found = {
        memory.id: memory
        for memory in memories(db, connection, namespace, now=now, as_of=as_of, only=ids, everything=True)
    }
    shelf, at = Shelf(connection), now if as_of is None else as_of
    best, others = [], []
    for candidate, object_id in zip(candidates, ids, strict=True):
        memory = found.get(object_id)
        if memory is None or memory.withheld is not None:
            reason = "unknown" if memory is None else memory.withheld
            others.append(Withheld(object=candidate.object, reason=reason or ""))
            continue
        rules = shelf.terms(namespace, *split_name(memory.policy)).policy.params.rank
        used = max(t for t in (memory.created_at, memory.accessed_at, memory.reinforced_at) if t is not None)
        recent = rank.recency(rules, instant.to_micros(used), at)
        value = rank.score(rules, candidate.similarity, memory.salience, recent)
        best.append(Ranked(memory=memory, similarity=candidate.similarity, score=value))
    best.sort(key=lambda one: (-one.score, str(one.memory.id)))
    return Ranking(ranked=best[:limit], withheld=others)
