"""Which rule strikes next, and when: computed once, when a segment begins, and kept with it.

A rule is judged at the first whole second at which its condition holds, not when the organiser happens to wake, so
an outage can delay a decision but never change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ebbtide.decay.maths import SCALAR, Maths
from ebbtide.decay.segment import (
    Parameters,
    age_when_faded,
    confidence,
    evaluate,
    fading,
    parts,
    salience,
    uses_of,
)
from ebbtide.model.instant import DAY, HORIZON, SECOND, first_whole_second
from ebbtide.model.words import Rule


@dataclass(frozen=True, slots=True)
class Future:
    """What comes next if nothing touches the object: the group `due` of the state.

    `exit_at` and `exit_rule` tell when decay would move it out of ACTIVE; `due_at` and `due_rule` the earliest of
    that, the warning and the ttl. `warned` is kept until a segment begins at or above the warning threshold.
    """

    due_at: int | None
    due_rule: Rule | None
    exit_at: int | None
    exit_rule: Rule | None
    expires_at: int | None
    warned: bool

    def group(self) -> dict[str, Any]:
        return {
            "due_at": self.due_at,
            "due_rule": self.due_rule,
            "exit_at": self.exit_at,
            "exit_rule": self.exit_rule,
            "expires_at": self.expires_at,
            "warned": self.warned,
        }


def first_second(holds: Callable[[int], bool], begin: int, near: float) -> int | None:
    """The first whole second at or after `begin` at which a condition holds that stays once it holds.

    None if it does not hold within 100 years. `near` is a guess (µs, may be infinite) from which the search sets out;
    the second found does not depend on it.
    """
    low = first_whole_second(begin)
    if holds(low):
        return low
    last = low + HORIZON
    high = int(max(min(near, float(last)) // SECOND * SECOND, low + SECOND))
    step = SECOND
    if holds(high):
        while high - step > low and holds(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        while not holds(high):
            if high == last:
                return None
            low, high, step = high, min(high + step, last), 2 * step
    while high - low > SECOND:
        middle = low + (high - low) // (2 * SECOND) * SECOND
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def sinks_below(p: Parameters, s: Any, threshold: float, begin: int) -> int | None:
    """The first whole second from `begin` on at which salience is below a threshold."""

    def holds(at: int) -> bool:
        return bool(salience(SCALAR, p, s, *parts(SCALAR, p, s, at)) < threshold)

    stability, uses = SCALAR.known(s.stability, 1.0), uses_of(SCALAR, p, s)
    near = float(begin)
    if 0 < threshold < s.decaying:
        faded = fading(SCALAR, p, stability, uses, SCALAR.days(s.segment_age)) + math.log(s.decaying / threshold)
        near = s.segment_at - s.segment_age + age_when_faded(p, stability, uses, faded) * DAY
    return first_second(holds, begin, near)


def doubted_below(p: Parameters, s: Any, threshold: float, begin: int) -> int | None:
    """The first whole second from `begin` on at which confidence is below a threshold."""
    near = float(begin)
    if 0 < threshold < s.confidence_base:
        near = s.confidence_from + (math.log(s.confidence_base / threshold) / p.mu * DAY if p.mu > 0 else math.inf)
    return first_second(lambda at: bool(confidence(SCALAR, p, s, at) < threshold), begin, near)


def exit_rule(m: Maths, p: Any, sunk: Any, doubted: Any) -> Any:
    """The rule that moves an object out of ACTIVE at a salience and a confidence at which one does: by confidence
    first, then the deeper."""
    return m.where(
        doubted < p.deprecate_by_confidence,
        Rule.DEPRECATE_BY_CONFIDENCE.value,
        m.where(sunk < p.force_archive, Rule.FORCE_ARCHIVE.value, Rule.ARCHIVE.value),
    )


def leaves_for(m: Maths, p: Any, rule: Any, doubted: Any) -> Any:
    """The state a rule of decay leads to, with the confidence the object has at the rule's instant.

    `archive` of what was hardly believed deprecates; `force_archive` archives whatever the confidence.
    """
    return m.where(
        rule == Rule.DEPRECATE_BY_CONFIDENCE.value,
        "DEPRECATED",
        m.where(
            rule == Rule.FORCE_ARCHIVE.value,
            "ARCHIVED",
            m.where(doubted < p.archive_min_confidence, "DEPRECATED", "ARCHIVED"),
        ),
    )


STANDSTILL = Future(None, None, None, None, None, False)


def future(
    p: Parameters, s: Any, *, begin: int, warned: bool, keep_until: int | None, expires_at: int | None
) -> Future:
    """The rules' instants for an ACTIVE object whose time runs on from `begin` (µs).

    `warned` says that this object was warned and began no segment at or above the threshold since; `keep_until` is
    the end of a restore's grace, before which nothing but the ttl moves it out of ACTIVE.
    """
    warning_at = None if warned else sinks_below(p, s, p.warning, begin)
    sunk_at = sinks_below(p, s, p.archive, begin)
    doubted_at = doubted_below(p, s, p.deprecate_by_confidence, begin)
    exits = [at for at in (sunk_at, doubted_at) if at is not None]
    exit_at = max(min(exits), first_whole_second(keep_until or 0)) if exits else None
    rule: Rule | None = None
    if exit_at is not None:
        there = evaluate(SCALAR, p, s, exit_at)
        rule = Rule(exit_rule(SCALAR, p, there.salience, there.confidence))
    return earliest(warning_at, exit_at, rule, expires_at, warned)


FAR = 1 << 62
"""Later than any instant: stands for "never" where the earliest of several is sought."""


def next_due(m: Maths, *, warning_at: Any, exit_at: Any, exit_rule: Any, expires_at: Any) -> tuple[Any, Any]:
    """The next instant and its rule; at one and the same, ttl goes before what decay does, that before a warning."""
    expires, exits = m.known(expires_at, FAR), m.known(exit_at, FAR)
    first = m.least(expires, exits, m.known(warning_at, FAR))
    rule = m.where(expires <= first, Rule.TTL.value, m.where(exits <= first, exit_rule, Rule.WARNING.value))
    return m.where(first >= FAR, None, first), m.where(first >= FAR, None, rule)


def earliest(
    warning_at: int | None, exit_at: int | None, rule: Rule | None, expires_at: int | None, warned: bool
) -> Future:
    """What comes next, of the instants that are known."""
    due_at, due_rule = next_due(SCALAR, warning_at=warning_at, exit_at=exit_at, exit_rule=rule, expires_at=expires_at)
    return Future(due_at, None if due_rule is None else Rule(due_rule), exit_at, rule, expires_at, warned)
