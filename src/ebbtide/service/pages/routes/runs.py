"""Runs: one of the ledger, what a held one would do, and approving it."""

from __future__ import annotations

from ebbtide.access.rights import Right
from ebbtide.model.errors import NotFound
from ebbtide.organise.ledger import Run
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit

LISTED = 100


def add(pages: Pages) -> None:
    """Adds the routes."""

    @pages.get("/runs", Right.AUDIT)
    def ledger(visit: Visit) -> Answer:
        return Page("runs.html", {"runs": visit.ebb.runs(namespace=visit.namespace, limit=LISTED)})

    @pages.get("/runs/{run_id}", Right.AUDIT)
    def run(visit: Visit, run_id: str) -> Answer:
        found = _mine(visit, run_id)
        return Page("run.html", {"run": found, "verdict": found.verdict, "held": visit.ebb.held(run_id, limit=LISTED)})

    @pages.post("/runs/{run_id}/approve", Right.OPERATE)
    def approve(visit: Visit, run_id: str) -> Answer:
        _mine(visit, run_id)
        run = visit.ebb.approve(run_id, **visit.actor)
        gone = f"{run.archived} archived, {run.deprecated} deprecated, {run.expired} expired"
        visit.note("done", f"Approved: the {run.task} slot is {run.status}; {gone}.")
        return visit.link(f"/runs/{run.run_id}")


def _mine(visit: Visit, run_id: str) -> Run:
    """A run of the visit's namespace. Those of others are not there."""
    found = visit.ebb.run(run_id)
    if found.namespace_id != visit.namespace:
        raise NotFound(f"there is no run {run_id}")
    return found
