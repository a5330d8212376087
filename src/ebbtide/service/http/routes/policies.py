"""Policies: at hand, compared, simulated, registered and assigned."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query

from ebbtide.charts.curves import DAYS, SALIENCE, lines_of
from ebbtide.decay.compare import Comparison, compare
from ebbtide.fit.fitting import Fit
from ebbtide.model.errors import CheckFailed
from ebbtide.policy.document import Policy
from ebbtide.replay.simulate import Simulation
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Auditor, Ebb, Operator, Reader, needs_every_namespace, own
from ebbtide.service.http.answers import Assigned, Curves, PolicyList, PolicyShown, Registered
from ebbtide.service.http.fields import Namespace, PolicyName

router = APIRouter(tags=["policies"])
Which = Annotated[PolicyName, Path(description="`id@version`", examples=["default@1.0.0"])]
Document = Annotated[
    Policy, Body(examples=[{"id": "mine", "version": "1.0.0", "note": "", "params": {"mu_multiplier": 0.4}}])
]


@router.get("/v1/policies")
def policies(who: Reader, ebb: Ebb) -> PolicyList:
    """All policy versions at hand."""
    found = ebb.policies()
    return PolicyList(policies=[PolicyShown(policy=p.name, note=p.note, digest=p.digest()) for p in found])


@router.get("/v1/policies/{policy:name}")
def policy(policy: Which, who: Reader, ebb: Ebb) -> Policy:
    """A policy version with all its numbers."""
    return ebb.policy(policy)


@router.get("/v1/policies/{policy:name}/diff")
def diff(
    policy: Which, who: Reader, ebb: Ebb, to: Annotated[PolicyName, Query(description="`id@version`")]
) -> Comparison:
    """Two versions, parameter by parameter, with half-lives in days and where their curves cross."""
    return compare(ebb.policy(policy), ebb.policy(to))


@router.get("/v1/policies/{policy:name}/curves")
def curves(
    policy: Which,
    who: Reader,
    ebb: Ebb,
    days: Annotated[int, Query(ge=1, le=36_500, description="From 0 to this age")] = DAYS,
    salience: Annotated[float, Query(ge=0.01, le=1, description="What a memory begins with")] = SALIENCE,
) -> Curves:
    """What is left of a memory's salience that nobody uses, by its age, of each profile in use."""
    return Curves(lines=lines_of([ebb.policy(policy)], days=days, salience=salience))


@router.post("/v1/policies/check")
def check(document: Document, who: Reader, ebb: Ebb) -> PolicyShown:
    """Whether a policy holds and its version is free, or taken by the same; nothing is registered."""
    if any(known.name == document.name and known != document for known in ebb.policies()):
        raise CheckFailed(f"{document.name} is registered with other content")
    return PolicyShown(policy=document.name, note=document.note, digest=document.digest())


@router.post("/v1/policies")
def register(document: Document, who: Operator, ebb: Ebb) -> Registered:
    """Registers a version for good, for every namespace: the same again changes nothing, other content is refused."""
    needs_every_namespace(who)
    return Registered(policy=document.name, registered=ebb.register_policy(document))


@router.post("/v1/simulations")
def simulate(body: bodies.Simulate, who: Auditor, ebb: Ebb) -> Simulation:
    """What the organiser would do were a policy assigned now. Nothing is written."""
    namespace = own(who, body.namespace)
    return ebb.simulate(body.policy, body.against, until=body.until, namespace=namespace, limit=body.limit)


@router.post("/v1/namespaces/{namespace:name}/fit")
def fit(namespace: Namespace, body: bodies.Fitting, who: Auditor, ebb: Ebb) -> Fit:
    """A policy from what was recalled and missed here, beside every built-in one; neither registered nor assigned."""
    return ebb.fit_policy(namespace=namespace, **body.model_dump())


@router.post("/v1/namespaces/{namespace:name}/policy")
def assign(namespace: Namespace, body: bodies.Assigning, who: Operator, ebb: Ebb) -> Assigned:
    """Assigns a version to the namespace and each of its memories, from now on; twice changes nothing."""
    changed = ebb.assign_policy(body.policy, namespace=namespace, actor=who.actor, actor_type=who.actor_type)
    return Assigned(policy=body.policy, namespace_id=namespace, changed=changed)
