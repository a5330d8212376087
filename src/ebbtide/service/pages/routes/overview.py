"""The overview of a namespace: counts over time, what is due, what ran, what is held, where the log stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ebbtide.access.rights import Right
from ebbtide.audit.ahead import Ahead
from ebbtide.audit.over_time import CountsAt
from ebbtide.model.words import DecayProfile, RunStatus
from ebbtide.organise.ledger import Run
from ebbtide.service.pages import pictures
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit

SPANS = {7: 1, 30: 1, 90: 1, 365: 5}
"""How far back one can look, and how many days there are from one point to the next."""
WITHIN = ((0, "overdue"), (1, "within a day"), (7, "within a week"), (30, "within 30 days"))
RUNS = 200
"""So many runs are looked through for held ones."""


def add(pages: Pages) -> None:
    """Adds the routes."""

    @pages.get("/")
    def overview(visit: Visit) -> Answer:
        ebb, namespace = visit.ebb, visit.namespace
        if namespace not in visit.namespaces:
            return Page("empty.html")
        days = next((span for span in SPANS if str(span) == visit.asked("days")), 30)
        counted = ebb.over_time(namespace=namespace, days=days, every=SPANS[days])
        ahead = ebb.ahead(namespace=namespace, within=[within for within, _ in WITHIN], limit=8)
        context: dict[str, Any] = {
            "days": days,
            "spans": list(SPANS),
            "ahead": ahead,
            "within": [(said, _total(ahead, place)) for place, (_, said) in enumerate(WITHIN)],
            **_pictures(counted, days),
        }
        if visit.may(Right.AUDIT):
            runs = ebb.runs(namespace=namespace, limit=RUNS)
            context |= {
                "tasks": ebb.status(namespace=namespace).tasks,
                "held": held(runs),
                "aside": [run for run in runs if run.status == RunStatus.QUARANTINED],
                "head": next(iter(ebb.digest(namespace=namespace).heads), None),
                "check": ebb.last_check(namespace=namespace),
            }
        return Page("overview.html", context)

    @pages.post("/verify", Right.OPERATE)
    def verify(visit: Visit) -> Answer:
        found = visit.ebb.verify(namespace=visit.namespace, record=True)
        if found.ok:
            visit.note(
                "done", f"Verified: {found.entries} entries in {found.batches} batches, all as they were written."
            )
        else:
            bad = found.first_bad
            where = "" if bad is None else f" First at seq {bad.seq} of {bad.namespace_id}: {bad.what}."
            visit.note("refused", f"The log is not what it was.{where}")
        return visit.link("/")


def held(runs: Sequence[Run]) -> list[Run]:
    """The runs that wait for an operator: of each task the newest, where that is held."""
    newest: dict[str, Run] = {}
    for run in runs:
        newest.setdefault(run.task, run)
    return [run for run in newest.values() if run.status == RunStatus.HELD]


def _total(ahead: Ahead, place: int) -> int:
    return sum(one.memories for one in ahead.counts[place :: len(WITHIN)])


def _pictures(counted: Sequence[CountsAt], days: int) -> dict[str, Any]:
    """All together large, and each profile that has memories small."""
    if not counted:
        return {"all": None, "profiles": [], "tiles": []}
    last, first = counted[-1].at, counted[0].at
    tiles = []
    for place, name in enumerate(pictures.COUNTED):
        now, then = (sum(getattr(one, name) for one in counted if one.at == at) for at in (last, first))
        tiles.append((f"s{place}", name, now, now - then if first != last else None))
    used = [p.value for p in DecayProfile if any(one.decay_profile == p.value for one in counted)]
    return {
        "all": pictures.over_time(counted, f"All memories, {days} days", pictures.BIG),
        "profiles": [pictures.over_time(counted, f"Profile {p}", pictures.SMALL_ONLY, p) for p in used],
        "tiles": tiles,
    }
