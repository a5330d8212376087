"""What happened, batches of requests, the log, and what concerns more than one memory."""

from __future__ import annotations

import io
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from ebbtide.api import Ebbtide
from ebbtide.model.words import OpType
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Reader, Writer
from ebbtide.service.http.answers import Batch, Entries, Taken
from ebbtide.service.http.asking import request
from ebbtide.service.http.fields import Cursor, Key, Limit, Namespace, body_as_sent, place

router = APIRouter(prefix="/v1/namespaces/{namespace:name}", tags=["events"])

_EXAMPLE = (
    '{"op":"EVENT","ref":"m1","content":"I moved to London."}\n'
    '{"op":"ASSERT","ref":"home-1","object_type":"FACT","epistemic_type":"ASSERTED","source_type":"USER_STATED",'
    '"value":"Maya lives in London.","evidence":["m1"]}\n'
)


def _made(ebb: Ebbtide, asked: dict[str, Any], key: str | None) -> Taken:
    (taken,) = ebb.ask(asked, key=key)
    return Taken(id=taken.target, unchanged=taken.unchanged)


@router.post("/events", status_code=201)
def event(namespace: Namespace, body: bodies.Event, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Records something that happened; its id serves as evidence."""
    return _made(ebb, request(who, namespace, OpType.EVENT, body), key)


@router.post(
    "/batches",
    openapi_extra={
        "requestBody": {
            "description": "JSON Lines, as `application/x-ndjson` or plain text",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        }
    },
)
def batch(
    namespace: Namespace,
    who: Writer,
    lines: Annotated[bytes, Depends(body_as_sent)],
    ebb: Ebb,
    keep_going: Annotated[bool, Query(description="Leave out what cannot be taken, and say so")] = False,
) -> Batch:
    """Takes requests as JSON Lines, all or none of them. The same lines again change nothing.

    Every line has a `ref`, an `effective_at` or both; whose memory and who asks need not be said.
    """
    fixed = {"namespace": namespace, "actor_id": who.actor, "actor_type": who.actor_type.value}
    found = ebb.ingest(io.BytesIO(lines), "body", keep_going=keep_going, fixed=fixed)
    refused = [error.document()["error"] for error in found.refused]
    return Batch(appended=found.appended, unchanged=found.unchanged, refused=refused)


@router.get("/log")
def log(
    namespace: Namespace,
    who: Reader,
    ebb: Ebb,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Entries:
    """The entries of the namespace in their order. `next` is always there: a later page has what came since."""
    after = place(cursor)
    found = list(islice(ebb.follow(namespace, after), limit))
    return Entries(entries=found, next=str(found[-1].seq if found else after))


@router.post("/suppressions", status_code=201)
def suppress(namespace: Namespace, body: bodies.SuppressAll, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Keeps all memories that meet a filter out of retrieval, those to come among them."""
    return _made(ebb, request(who, namespace, OpType.SUPPRESS, body), key)


@router.post("/suppressions/end", status_code=201)
def unsuppress(namespace: Namespace, body: bodies.Filtered, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Ends the suppressions made by the same filter."""
    return _made(ebb, request(who, namespace, OpType.UNSUPPRESS, body), key)


@router.post("/entities", status_code=201)
def entity(namespace: Namespace, body: bodies.Entity, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Says that there is somebody or something that memories are about."""
    return _made(ebb, request(who, namespace, OpType.ENTITY_CREATE, body), key)


@router.post("/entities/merge", status_code=201)
def merge(namespace: Namespace, body: bodies.Merge, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Says that two entities are one, for good."""
    return _made(ebb, request(who, namespace, OpType.ENTITY_MERGE, body), key)


@router.post("/relations", status_code=201)
def relate(namespace: Namespace, body: bodies.Relation, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Draws an edge from one memory or entity to another."""
    return _made(ebb, request(who, namespace, OpType.RELATE, body), key)


@router.post("/contradictions", status_code=201)
def contradict(namespace: Namespace, body: bodies.Contradiction, who: Writer, ebb: Ebb, key: Key = None) -> Taken:
    """Says that two memories cannot both be so: both stay, an edge joins them."""
    return _made(ebb, request(who, namespace, OpType.CONTRADICTION_NOTED, body), key)
