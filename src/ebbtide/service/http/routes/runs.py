"""The organiser's runs: the ledger, letting time pass, and what waits for an operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ebbtide.audit.status import Status
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Auditor, Ebb, Operator, Reader, own
from ebbtide.service.http.answers import HeldShown, OneRun, Runs, RunShown
from ebbtide.service.http.fields import AsOf, KnownAt, Limit, Name, Namespace, RunId

router = APIRouter(tags=["runs"])
Of = Annotated[Name | None, Query(description="Only this namespace")]


@router.get("/v1/status")
def status(who: Reader, ebb: Ebb, namespace: Of = None, as_of: AsOf = None, known_at: KnownAt = None) -> Status:
    """Memories by state and profile, and each task's last and next run."""
    return ebb.status(namespace=own(who, namespace), as_of=as_of, known_at=known_at)


@router.get("/v1/runs")
def runs(
    who: Auditor,
    ebb: Ebb,
    namespace: Of = None,
    cursor: Annotated[
        str | None, Query(description="The `next` of the page before", json_schema_extra={"format": "uuid"})
    ] = None,
    limit: Limit = 50,
) -> Runs:
    """The run ledger, newest slot first; on the first page before them the runs of namespaces that are set aside."""
    found = ebb.runs(namespace=own(who, namespace), limit=limit, after=cursor)
    following = str(found[-1].run_id) if len(found) == limit else None
    return Runs(runs=[RunShown.of(run) for run in found], next=following)


@router.post("/v1/runs")
def organise(body: bodies.Passing, who: Operator, ebb: Ebb) -> Runs:
    """Runs what is due now, each task once; what the guard holds waits to be approved."""
    namespace = own(who, body.namespace)
    found = ebb.organise(tasks=body.tasks, namespace=namespace, dry_run=body.dry_run, no_guard=body.no_guard)
    return Runs(runs=[RunShown.of(run) for run in found])


@router.get("/v1/runs/{run:name}")
def one(run: RunId, who: Auditor, ebb: Ebb, limit: Annotated[int, Query(ge=0, le=1000)] = 50) -> OneRun:
    """One run; of a held one also what it would do, at most so much of it."""
    found, held = ebb.run(run, namespace=who.namespace), ebb.held(run, namespace=who.namespace, limit=limit)
    shown = None if held is None else HeldShown.of(held)
    return OneRun(**dict(RunShown.of(found)), held=shown)


@router.post("/v1/runs/{run:name}/approve")
def approve(run: RunId, who: Operator, ebb: Ebb) -> RunShown:
    """Does what a held run lists; 409 if any of it got a fact since, or the policy changed."""
    done = ebb.approve(run, namespace=who.namespace, actor=who.actor, actor_type=who.actor_type)
    return RunShown.of(done)


@router.post("/v1/namespaces/{namespace:name}/retry", status_code=204)
def retry(namespace: Namespace, who: Operator, ebb: Ebb) -> None:
    """Lets a namespace that failed and is set aside be tried again by the next pass."""
    ebb.retry(namespace)
