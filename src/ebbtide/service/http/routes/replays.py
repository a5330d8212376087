"""Corrections: what a corrected policy would have done, and writing exactly that."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter

from ebbtide.access.tokens import Principal
from ebbtide.api import Ebbtide
from ebbtide.model.errors import Conflict
from ebbtide.replay.plan import Plan
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Auditor, Ebb, Operator, own
from ebbtide.service.http.answers import AppliedShown, PlanShown

router = APIRouter(prefix="/v1/replays", tags=["corrections"])


@router.post("/plan")
def plan(body: bodies.Correction, who: Auditor, ebb: Ebb) -> PlanShown:
    """What would be had one policy version been another. Nothing is written."""
    return PlanShown.of(_plan(body, who, ebb))


@router.post("/apply")
def apply(body: bodies.Apply, who: Operator, ebb: Ebb) -> AppliedShown:
    """Writes what a plan said; 409 where it would say something else by now. Asked again, it goes on."""
    found = _plan(body, who, ebb)
    if found.digest() != body.digest:
        raise Conflict("the plan would be another one by now: look at it again", rule="plan_outdated")
    done = ebb.apply_replay(found, actor=who.actor, actor_type=who.actor_type)
    return AppliedShown(**dataclasses.asdict(done))


def _plan(body: bodies.Correction, who: Principal, ebb: Ebbtide) -> Plan:
    return ebb.plan_replay(body.replace, body.by, namespace=own(who, body.namespace), begins=body.begins)
