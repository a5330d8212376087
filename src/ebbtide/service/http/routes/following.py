"""For those who keep copies, and those who search by themselves: evictions and ranking."""

from __future__ import annotations

from fastapi import APIRouter

from ebbtide.audit.evictions import Evictions
from ebbtide.memory.ranking import Ranking
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Reader, Writer
from ebbtide.service.http.fields import Consumer, Namespace

router = APIRouter(prefix="/v1/namespaces/{namespace:name}", tags=["following"])


@router.post("/rank")
def rank(namespace: Namespace, body: bodies.Candidates, who: Reader, ebb: Ebb) -> Ranking:
    """Orders what your own search found: what may be retrieved, best first, and why the rest may not."""
    given = [(one.object, one.similarity) for one in body.candidates]
    return ebb.rank(given, namespace=namespace, as_of=body.as_of, limit=body.limit)


@router.get("/evictions/{consumer:name}")
def evictions(namespace: Namespace, consumer: Consumer, who: Reader, ebb: Ebb) -> Evictions:
    """What left retrieval since a consumer's place: the same again until its position is acknowledged."""
    return ebb.evictions(consumer, namespace=namespace)


@router.post("/evictions/{consumer:name}", status_code=204)
def acknowledge(namespace: Namespace, consumer: Consumer, body: bodies.Acknowledgement, who: Writer, ebb: Ebb) -> None:
    """Says that everything up to a position is dealt with."""
    ebb.acknowledge(consumer, body.position, namespace=namespace)
