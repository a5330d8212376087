"""Memories: finding and reading them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from ebbtide.api.finding import Page
from ebbtide.memory.find import Filter
from ebbtide.memory.read import Memory
from ebbtide.model.words import DecayProfile, EpistemicType, LifecycleState, ObjectType
from ebbtide.service.http.access import Ebb, Reader
from ebbtide.service.http.fields import AsOf, Instant, KnownAt, Limit, Name, Namespace, Obj, etag

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


@router.get("/{obj:name}")
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
