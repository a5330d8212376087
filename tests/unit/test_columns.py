"""Whole columns give what one object after the other gives, bit for bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.unit.beliefs import T0, belief, own, shipped

from ebbtide.decay import facts
from ebbtide.decay.columns import COLUMNS, NONE
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY, SECOND
from ebbtide.model.state import MemoryState
from ebbtide.model.words import Condition, DecayProfile, EpistemicType, LifecycleState, PenaltySignal

TERMS = {
    **{name: shipped(name) for name in ("default", "archivist", "fsrs", "permastore", "recency", "spaced")},
    "continue": own(on_reinforce="continue", restore_grace_days=3),
    "used": own(
        profiles={
            "MEDIUM": {"rate": 0.02, "clock": "last_accessed", "by_use": {"kind": "logarithmic", "alpha": 0.5}},
            "FAST": {"rate": 0.3, "curve": "power_law", "scale_days": 2, "salience_floor": 0.2, "floor_after": 3},
        },
        retention=[{"match": {"object_types": ["FACT"]}, "ttl_days": 70, "clock": "last_accessed", "action": "erase"}],
    ),
}
MAYBE_REAL = {"stability", "difficulty"}


def columns_of(states: Sequence[MemoryState]) -> MemoryState:
    """Many states as one, whose fields are arrays."""
    made: dict[str, Any] = {}
    for field in fields(MemoryState):
        values = [getattr(state, field.name) for state in states]
        if field.name in MAYBE_REAL:
            made[field.name] = np.array([math.nan if value is None else value for value in values])
        elif any(isinstance(value, bool | float) for value in values):
            made[field.name] = np.array(values)
        elif "int" in str(field.type):
            made[field.name] = np.array([NONE if value is None else value for value in values], dtype=np.int64)
        else:
            made[field.name] = np.array([None if value is None else str(value) for value in values], dtype=object)
    return MemoryState(**made)


def row(columns: MemoryState, place: int, size: int) -> dict[str, Any]:
    """One object of a state made of columns, as plain values."""
    found: dict[str, Any] = {}
    for field in fields(MemoryState):
        value = getattr(columns, field.name)
        value = np.broadcast_to(np.asarray(value, dtype=object if value is None else None), size)[place]
        value = value.item() if hasattr(value, "item") else value
        lost = value == NONE or (isinstance(value, float) and math.isnan(value))
        found[field.name] = None if lost else value
    return found


def plain(state: MemoryState) -> dict[str, Any]:
    made = {field.name: getattr(state, field.name) for field in fields(MemoryState)}
    return {n: str(v) if v is not None and not isinstance(v, bool | int | float) else v for n, v in made.items()}


Step = Callable[[random.Random], tuple[str, tuple[Any, ...]]]
STEPS: dict[str, Step] = {
    "accessed": lambda r: ("accessed", ()),
    "reinforced": lambda r: ("reinforced", (r.choice([0.0, 0.04, 0.15, 0.1]),)),
    "penalised": lambda r: ("penalised", (r.choice([*PenaltySignal]).value, r.choice([0.0, 0.05, 0.25]))),
    "pinned": lambda r: ("pinned", ()),
    "unpinned": lambda r: ("unpinned", ()),
    "held": lambda r: ("held", ()),
    "released": lambda r: ("released", ()),
    "thawed": lambda r: ("thawed", ()),
    "frozen": lambda r: ("frozen", (r.choice([None, 5, 40]),)),
    "restored": lambda r: ("restored", ()),
    "left": lambda r: ("left", (r.choice([LifecycleState.ARCHIVED, LifecycleState.DEPRECATED]),)),
    "tombstoned": lambda r: ("tombstoned", (r.choice([True, False]),)),
}


def begun(r: random.Random, terms: Terms) -> MemoryState:
    kind = r.choice([kind for kind in EpistemicType if kind != EpistemicType.DEPRECATED])
    return belief(
        terms,
        salience=r.choice([0.02, 0.07, 0.3, 0.5, 0.9, 1.0, round(r.random(), 9)]),
        confidence=r.choice([0.1, 0.2, 0.5, 0.9, round(r.random(), 9)]),
        at=T0 + r.randrange(40 * DAY),
        epistemic_type=kind.value,
        condition=r.choice([*Condition]).value if kind == EpistemicType.CONDITIONAL else None,
        profile_override=r.choice([None, None, *(name.value for name in DecayProfile)]),
    )


def applied(state: MemoryState, name: str, given: tuple[Any, ...], terms: Terms, at: int) -> MemoryState:
    if name == "frozen":
        given = tuple(None if days is None else at + days * DAY for days in given)
    new: MemoryState = getattr(facts, name)(state, terms, at, *given)
    return replace(new, fact_at=max(at, new.fact_at))


def together(states: Sequence[MemoryState], name: str, given: Any, terms: Terms, at: Any) -> MemoryState:
    columns = columns_of(states)
    if name == "frozen":
        days = np.array([NONE if one is None else one for (one,) in given])
        given = [np.where(days == NONE, NONE, at + days * DAY)]
    else:
        given = [np.array([str(g) if isinstance(g, str) else g for g in col]) for col in zip(*given, strict=True)]
        given = [col.astype(object) if col.dtype.kind == "U" else col for col in given]
    return getattr(facts, name)(columns, terms, at, *given, m=COLUMNS)


def differing(new: MemoryState, expected: Sequence[MemoryState]) -> list[tuple[int, str, Any, Any]]:
    found = []
    for place, one in enumerate(expected):
        got, want = row(new, place, len(expected)), plain(one)
        found += [(place, n, got[n], want[n]) for n in want if n != "fact_at" and got[n] != want[n]]
    return found


@pytest.mark.parametrize("policy", TERMS)
@pytest.mark.parametrize("step", STEPS)
def test_a_fact_on_columns_is_the_fact_on_each_object(policy: str, step: str) -> None:
    r, terms = random.Random(f"{policy} {step}"), TERMS[policy]
    states = []
    for _ in range(60):
        state, at = begun(r, terms), T0 + 40 * DAY
        for _ in range(r.randrange(4)):
            at += r.choice([0, SECOND, r.randrange(60 * DAY)])
            state = applied(state, *STEPS[r.choice([*STEPS])](r), terms, at)
        states.append(state)
    at = np.array([state.fact_at + r.choice([0, r.randrange(90 * DAY)]) for state in states])
    asked = [STEPS[step](r) for _ in states]
    expected = [applied(s, *one, terms, int(t)) for s, one, t in zip(states, asked, at, strict=True)]
    new = together(states, step, [given for _, given in asked], terms, at)
    assert differing(new, expected) == []


@pytest.mark.parametrize("policy", TERMS)
@pytest.mark.parametrize("step", ["asserted", "assigned", "warned", "departed", "known_as"])
def test_what_begins_or_ends_on_columns(policy: str, step: str) -> None:
    r, terms = random.Random(f"{policy} {step}"), TERMS[policy]
    other = TERMS[r.choice([*TERMS])]
    states, at = [], np.array([T0 + 50 * DAY + r.randrange(80 * DAY) for _ in range(80)])
    for _ in at:
        state = begun(r, terms)
        for name in r.sample(["reinforced", "accessed", "pinned", "frozen", "penalised", "left"], r.randrange(3)):
            state = applied(state, *STEPS[name](r), terms, T0 + 41 * DAY)
        if step == "departed" and state.exit_at is None:
            state = replace(belief(terms, salience=0.3), stability=state.stability)
        states.append(state)
    states = [s for s in states if step != "departed" or s.exit_at is not None]
    at = at[: len(states)]
    columns = columns_of(states)
    if step == "asserted":
        expected = [facts.asserted(s, terms, int(t)) for s, t in zip(states, at, strict=True)]
        new = facts.asserted(columns, terms, at, COLUMNS)
    elif step == "assigned":
        expected = [facts.assigned(s, terms, other, int(t)) for s, t in zip(states, at, strict=True)]
        new = facts.assigned(columns, terms, other, at, COLUMNS)
    elif step == "warned":
        expected, new = [facts.warned(s) for s in states], facts.warned(columns, COLUMNS)
    elif step == "departed":
        expected, new = [facts.departed(s, terms) for s in states], facts.departed(columns, terms, COLUMNS)
    else:
        changed = [replace(s, epistemic_type="OBSERVED", condition=None) for s in states]
        expected = [facts.known_as(c, s, terms, int(t)) for c, s, t in zip(changed, states, at, strict=True)]
        new = facts.known_as(columns_of(changed), columns, terms, at, COLUMNS)
    assert states, "nothing tested"
    assert differing(new, expected) == []
