"""Memories: finding, reading, explaining and asserting them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from ebbtide.api.finding import Page
from ebbtide.audit.explanation import Explanation
from ebbtide.memory.find import Filter
from ebbtide.memory.read import Memory, Stored
from ebbtide.model.words import DecayProfile, EpistemicType, LifecycleState, ObjectType, OpType
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Reader, Writer
from ebbtide.service.http.answers import Entries
from ebbtide.service.http.asking import request
from ebbtide.service.http.fields import (
    WITH_ETAG,
    AsOf,
    Cursor,
    Instant,
    Key,
    KnownAt,
    Limit,
    Name,
    Namespace,
    Obj,
    etag,
    place,
)

router = APIRouter(prefix="/v1/namespaces/{namespace:name}/memories", tags=["memories"])


class Listing(BaseModel):
    """Which memories, and as of when. Filters come before the limit."""

    model_config = ConfigDict(extra="forbid")

    all: bool = False
    object_type: ObjectType | None = None
    epistemic_type: EpistemicType | None = None
    lifecycle_state: LifecycleState | None = None
    decay_profile: DecayProfile | None = None
    subject: Name | None = None
    text: Name | None = None
    pinned: bool | None = None
    held: bool | None = None
    warned: bool | None = None
    as_of: Instant | None = None
    known_at: Instant | None = None
    cursor: str | None = None
    limit: Limit = 50


@router.get("")
def find(namespace: Namespace, asked: Annotated[Listing, Query()], who: Reader, ebb: Ebb) -> Page:
    """The memories eligible for retrieval, or with `all` every one, most salient first, a page at a time.

    `next` is the `cursor` of the page after; all pages speak of the instant of the first.
    """
    wanted = Filter(**asked.model_dump(include=set(Filter.__dataclass_fields__)))
    return ebb.find(
        wanted,
        namespace=namespace,
        everything=asked.all,
        as_of=asked.as_of,
        known_at=asked.known_at,
        cursor=asked.cursor,
        limit=asked.limit,
    )


@router.get("/{obj:name}", responses=WITH_ETAG)
def one(
    namespace: Namespace,
    obj: Obj,
    who: Reader,
    ebb: Ebb,
    response: Response,
    as_of: AsOf = None,
    known_at: KnownAt = None,
) -> Memory:
    """One memory by id or ref."""
    return etag(ebb.memory(obj, namespace=namespace, as_of=as_of, known_at=known_at), response)


@router.get("/{obj:name}/history")
def history(
    namespace: Namespace,
    obj: Obj,
    who: Reader,
    ebb: Ebb,
    known_at: KnownAt = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Entries:
    """The entries of one memory, oldest first."""
    after = place(cursor)
    found = ebb.history(obj, namespace=namespace, known_at=known_at, after_version=after, limit=limit)
    return Entries(entries=found, next=str(found[-1].version) if len(found) == limit else None)


@router.get("/{obj:name}/explain")
def explain(
    namespace: Namespace, obj: Obj, who: Reader, ebb: Ebb, as_of: AsOf = None, known_at: KnownAt = None
) -> Explanation:
    """Why a memory is as it is, and what the organiser does next, and when, if nothing touches it."""
    return ebb.explain(obj, namespace=namespace, as_of=as_of, known_at=known_at)


@router.post(
    "",
    status_code=201,
    responses={200: {"model": Stored, "description": "It was there already"}, 201: WITH_ETAG[200]},
)
def assert_memory(
    namespace: Namespace, body: bodies.Assert, who: Writer, ebb: Ebb, response: Response, key: Key = None
) -> Stored:
    """Stores a new memory. What an ACTIVE one says already is not stored twice: that one is the answer, with 200."""
    memory, taken = ebb.told(request(who, namespace, OpType.ASSERT, body), key=key)
    etag(memory, response)
    response.headers["Location"] = f"/v1/namespaces/{quote(namespace, safe='')}/memories/{memory.id}"
    response.status_code = 200 if taken.duplicate else 201
    return Stored(**dict(memory), duplicate=taken.duplicate)
