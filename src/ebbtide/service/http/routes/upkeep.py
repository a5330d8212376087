"""Keeping a store well: is anything wrong with it, is its state what the log gives, is what was erased gone."""

from __future__ import annotations

from fastapi import APIRouter

from ebbtide.api.replaying import Rebuild
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Operator, needs_every_namespace, own
from ebbtide.service.http.answers import Health

router = APIRouter(tags=["upkeep"])


@router.get("/v1/doctor")
def doctor(who: Operator, ebb: Ebb) -> Health:
    """What is wrong with the store or its set-up, each with what to do."""
    needs_every_namespace(who)
    found = ebb.problems()
    return Health(ok=not found, problems=found)


@router.post("/v1/rebuild")
def rebuild(body: bodies.Rebuilding, who: Operator, ebb: Ebb) -> Rebuild:
    """Folds the log anew and mends the state where it differs; `equal` says that it did not."""
    return ebb.rebuild(namespace=own(who, body.namespace))


@router.post("/v1/scrub", status_code=204)
def scrub(who: Operator, ebb: Ebb) -> None:
    """Takes the bytes of what was erased out of the database's files."""
    needs_every_namespace(who)
    ebb.scrub()
