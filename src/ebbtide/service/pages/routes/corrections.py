"""Corrections: what a corrected policy would have made of memories, and writing it."""

from __future__ import annotations

from typing import Any

from ebbtide.access.rights import Right
from ebbtide.model.errors import Conflict
from ebbtide.replay.plan import Plan
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit

SHOWN = 50


def add(pages: Pages) -> None:
    """Adds the routes."""

    @pages.get("/corrections", Right.AUDIT)
    def corrections(visit: Visit) -> Answer:
        asked = {name: visit.asked(name) for name in ("replaced", "by", "begins")}
        tasks = visit.ebb.status(namespace=visit.namespace).tasks
        context: dict[str, Any] = {
            "asked": asked,
            "used": tasks[0].policy if tasks else "",
            "policies": [policy.name for policy in visit.ebb.policies()],
            "plan": None,
        }
        if asked["replaced"] and asked["by"]:
            plan = _planned(visit)
            context |= {"plan": plan, "moves": plan.by_transition(), "changes": plan.largest(SHOWN)}
        return Page("corrections.html", context)

    @pages.post("/corrections", Right.OPERATE)
    def apply(visit: Visit) -> Answer:
        plan = _planned(visit)
        if plan.digest() != visit.asked("digest"):
            raise Conflict("the plan has changed since it was shown: look at it again", rule="plan")
        found = visit.ebb.apply_replay(plan, **visit.actor)
        left = f" {len(found.meanwhile)} got a fact meanwhile and are in the next plan." if found.meanwhile else ""
        visit.note("done", f"Applied: {found.changed} memories corrected by {found.entries} entries.{left}")
        return visit.link("/corrections")


def _planned(visit: Visit) -> Plan:
    begins = visit.asked("begins")
    return visit.ebb.plan_replay(
        visit.asked("replaced"),
        visit.asked("by"),
        namespace=visit.namespace,
        begins=f"{begins}T00:00:00Z" if begins else None,
    )
