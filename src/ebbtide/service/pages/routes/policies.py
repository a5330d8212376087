"""Policies: those at hand with their curves, two side by side, and one over the real store."""

from __future__ import annotations

from ebbtide.access.rights import Right
from ebbtide.charts.curves import lines_of
from ebbtide.charts.simulated import chart_of
from ebbtide.decay.compare import compare
from ebbtide.policy.document import Policy
from ebbtide.service.pages import pictures
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit


def add(pages: Pages) -> None:
    """Adds the routes."""

    @pages.get("/policies")
    def policies(visit: Visit) -> Answer:
        found = visit.ebb.policies()
        tasks = visit.ebb.status(namespace=visit.namespace).tasks
        used = tasks[0].policy if tasks else None
        context = {"policies": found, "used": used, "a": visit.asked("a"), "b": visit.asked("b")}
        return Page("policies.html", context)

    @pages.get("/policies/diff")
    def diff(visit: Visit) -> Answer:
        a, b = (visit.ebb.policy(visit.asked(name)) for name in ("a", "b"))
        found = compare(a, b)
        differ = [one for one in found.profiles if one.a != one.b]
        lines = lines_of([a, b] if a.name != b.name else [a])
        picture = pictures.courses(lines, [a, b], "What is asserted, unused")
        return Page("diff.html", {"found": found, "differ": differ, "picture": picture, "policies": _names(visit)})

    @pages.get("/policies/simulate", Right.AUDIT)
    def simulate(visit: Visit) -> Answer:
        policy, against, until = (visit.asked(name) for name in ("policy", "against", "until"))
        found = visit.ebb.simulate(
            policy, against or None, until=f"{until}T00:00:00Z" if until else None, namespace=visit.namespace
        )
        picture = pictures.counts(chart_of(found))
        asked = {"policy": policy, "against": against, "until": until}
        return Page("simulate.html", {"found": found, "picture": picture, "asked": asked, "policies": _names(visit)})

    @pages.get("/policies/{name}")
    def policy(visit: Visit, name: str) -> Answer:
        found = visit.ebb.policy(name)
        lines = lines_of([found])
        picture = pictures.courses(lines, [found], "Salience by age, unused")
        return Page("policy.html", {"policy": found, "lines": lines, "picture": picture, "rules": _rules(found)})


def _names(visit: Visit) -> list[str]:
    return [policy.name for policy in visit.ebb.policies()]


def _rules(policy: Policy) -> list[tuple[str, str]]:
    tiers, params = policy.params.tier_thresholds, policy.params
    return [
        ("warning", f"salience below {tiers.warning:g}"),
        ("archive", f"salience below {tiers.archive:g}"),
        ("force archive", f"salience below {tiers.force_archive:g}"),
        ("deprecate by confidence", f"confidence below {tiers.deprecate_by_confidence:g}"),
        ("deprecated, not archived", f"with confidence below {tiers.archive_min_confidence:g}"),
        ("on reinforcement", str(params.on_reinforce)),
        ("grace after a restore", f"{params.restore_grace_days:g} days"),
        ("guard", f"above {params.guard.max_fraction:.0%} of the memories and {params.guard.min_objects} of them"),
        ("retention rules", str(len(params.retention))),
    ]
