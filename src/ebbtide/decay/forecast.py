"""What happens to an object if nothing touches it: the rules that strike, in order, and the curve that leads there.

Nothing is searched for here: a state holds the instants of its next rules, and each step takes the next one, as the
organiser does. So a forecast is what the organiser then writes, whenever it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np

from ebbtide.decay import facts
from ebbtide.decay.columns import COLUMNS, NONE
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import SEGMENT, Parameters, Terms, evaluate
from ebbtide.model.state import MemoryState
from ebbtide.model.words import Expiry, Rule


@dataclass(frozen=True, slots=True)
class Step:
    """A rule that strikes at an instant (µs), the scores there, and the state it leaves.

    `action` is what a ttl does: archive or erase.
    """

    at: int
    rule: Rule
    salience: float
    confidence: float
    state: MemoryState
    action: Expiry | None = None


def forecast(state: MemoryState, terms: Terms) -> Iterator[Step]:
    """All rules that strike from a state on, until none is due any more.

    What is due already and not executed comes first, at its own instant.
    """
    while state.due_at is not None:
        at, rule = state.due_at, Rule(state.due_rule or "")
        salience, confidence = facts.shown(state, terms, at)
        action = None
        if rule == Rule.WARNING:
            state = facts.warned(state)
        elif rule == Rule.TTL:
            action = Expiry(facts.on_expiry(SCALAR, terms.policy.params.retention, state))
            state = facts.tombstoned(state, terms, at, action == Expiry.ERASE)
        else:
            state = facts.departed(state, terms)
        yield Step(at, rule, salience, confidence, state, action)


@dataclass(frozen=True, slots=True)
class Piece:
    """A state that holds from an instant on, under the terms of its policy."""

    begins: int
    state: MemoryState
    terms: Terms


@dataclass(frozen=True, slots=True)
class Curve:
    """Scores over time, as whole columns: instants in µs, ascending, and what the object shows at each."""

    at: Any
    salience: Any
    confidence: Any


_SHOWN = (*SEGMENT, "stopped_at", "pinned")


def curve(pieces: Sequence[Piece], end: int, points: int = 160) -> Curve:
    """The curve from the first piece's begin to an instant, at even distances and on both sides of each begin."""
    begins = np.array([piece.begins for piece in pieces], dtype=np.int64)
    even = np.linspace(0, end - begins[0], points).round().astype(np.int64) + begins[0]
    at = np.unique(np.concatenate([even, begins, begins[begins > begins[0]] - 1]))
    at = at[at <= end]
    which = np.searchsorted(begins, at, side="right") - 1
    numbers = [piece.terms.by_profile[piece.state.decay_profile] for piece in pieces]
    p = SimpleNamespace(**{f.name: np.array([getattr(n, f.name) for n in numbers])[which] for f in fields(Parameters)})
    s = SimpleNamespace(**{name: _column([getattr(one.state, name) for one in pieces])[which] for name in _SHOWN})
    scores = evaluate(COLUMNS, p, s, COLUMNS.known(s.stopped_at, at))
    return Curve(at, np.where(s.pinned, 1.0, scores.salience), scores.confidence)


def _column(values: list[Any]) -> Any:
    if all(value is None or isinstance(value, float) for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array([NONE if value is None else value for value in values])
