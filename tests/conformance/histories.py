"""Random histories of a namespace: what is believed, what is asked about it on which day, under which policies.

Everything is asked at a midnight (UTC) and right after a pass, so no fact lies between a rule's instant and the run
that executes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ebbtide import Ebbtide, NotFound, Refused
from ebbtide.model import instant
from ebbtide.model.words import DecayProfile, EpistemicType, ObjectType, SourceType

BEGIN = instant.parse("2026-03-02T00:00:00Z")
"""A Monday, so that weekly slots start here too."""
POLICIES = [f"{name}@1.0.0" for name in ("default", "archivist", "fsrs", "permastore", "recency", "spaced")]
EPISTEMIC = [kind.value for kind in EpistemicType if kind != "DEPRECATED"]
GAINS = ("REFERENCED", "CONFIRMED", "TASK_COMPLETED_WITH", "CORROBORATED_BY_EXTERNAL")
LOSSES = ("CORRECTED", "CONTRADICTED_BY_OBSERVATION", "TASK_FAILED_WITH", "IGNORED_REPEATEDLY", "UNUSED")
ASKED = [
    *({"op": "REINFORCE", "signal": signal} for signal in GAINS),
    *({"op": "PENALTY", "signal": signal} for signal in LOSSES),
    *[{"op": "ACCESS"}] * 4,
    *[{"op": "PIN"}, {"op": "UNPIN"}] * 2,
    *[{"op": "RESTORE"}, {"op": "UNSUPPRESS"}] * 2,
    *({"op": "SUPPRESS", "freeze": True, "days": days} for days in (3, 30)),
    *({"op": op} for op in ("ARCHIVE", "HOLD", "RELEASE")),
    {"op": "CONDITION_SET", "condition": "TRUE"},
    {"op": "EPISTEMIC_TRANSITION", "to_type": "ASSERTED", "trigger_type": "user_correction"},
    {"op": "SUPPRESS", "freeze": True},
    {"op": "REINFORCE", "signal": "CONFIRMED", "restore": True},
]
"""What may be asked about one object, but for its name; `days` is until a freeze ends."""


@dataclass
class History:
    """`beliefs` are asserted on day 0 under `policy`; `asked` by day, object and request; `assigned` by day."""

    policy: str
    beliefs: list[dict[str, Any]]
    asked: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    assigned: list[tuple[int, str]] = field(default_factory=list)

    def days(self) -> list[int]:
        """The days on which something is asked or assigned."""
        return sorted({day for day, *_ in (*self.asked, *self.assigned)})


def _nine(x: float) -> float:
    return round(x, 9)


scores = st.none() | st.floats(0.02, 1).map(_nine)


@st.composite
def beliefs(draw: st.DrawFn) -> dict[str, Any]:
    """What an ASSERT says, but for its name and value."""
    said = {
        "object_type": draw(st.sampled_from([kind.value for kind in ObjectType])),
        "epistemic_type": draw(st.sampled_from(EPISTEMIC)),
        "source_type": draw(st.sampled_from([source.value for source in SourceType])),
        "salience": draw(scores),
        "confidence": draw(scores),
        "decay_profile": draw(st.none() | st.sampled_from([profile.value for profile in DecayProfile])),
    }
    if said["source_type"] == "IMPORTED" and said["confidence"] is None:
        said["confidence"] = 0.7
    return {name: value for name, value in said.items() if value is not None}


@st.composite
def histories(draw: st.DrawFn, *, last_day: int = 90, objects: int = 16) -> History:
    """A namespace with every epistemic type in it, and up to 30 requests on up to six of its first days."""
    believed = draw(st.lists(beliefs(), min_size=objects, max_size=objects))
    for belief, kind in zip(believed, EPISTEMIC, strict=False):
        belief["epistemic_type"] = kind
    days = st.sampled_from(draw(st.lists(st.integers(0, last_day), min_size=2, max_size=6)))
    asked = st.tuples(days, st.integers(0, objects - 1), st.sampled_from(ASKED))
    return History(
        policy=draw(st.sampled_from(POLICIES)),
        beliefs=believed,
        asked=sorted(draw(st.lists(asked, min_size=8, max_size=30)), key=lambda one: one[0]),
        assigned=sorted(draw(st.lists(st.tuples(days, st.sampled_from(POLICIES)), max_size=2))),
    )


def play(ebb: Ebbtide, clock: Any, namespace: str, history: History, passes: Iterable[int], end: int) -> None:
    """Lives through a history: a pass before every day on which something is asked, at `passes`, and at the end.

    Without the guard: what the rules say is compared, however much leaves at once.
    """
    clock.now = BEGIN
    ebb.assign_policy(history.policy, namespace=namespace)
    ebb.ask(
        *(
            {"op": "ASSERT", "namespace": namespace, "ref": f"m{n}", "value": n} | belief
            for n, belief in enumerate(history.beliefs)
        )
    )
    days = {BEGIN + day * instant.DAY: day for day in history.days()}
    for at in sorted({at for at in passes if BEGIN <= at < end} | set(days) | {end}):
        clock.now = at
        ebb.organise(namespace=namespace, no_guard=True)
        if at in days:
            _ask(ebb, namespace, history, days[at])


def _ask(ebb: Ebbtide, namespace: str, history: History, day: int) -> None:
    for when, policy in history.assigned:
        if when == day:
            ebb.assign_policy(policy, namespace=namespace)
    for place, (when, number, request) in enumerate(history.asked):
        if when == day:
            asked = request | {"namespace": namespace, "object": f"m{number}", "ref": f"asked-{place}"}
            if (until := asked.pop("days", None)) is not None:
                asked["expires_at"] = instant.iso(BEGIN + (day + until) * instant.DAY)
            with suppress(Refused, NotFound):
                ebb.ask(asked)
