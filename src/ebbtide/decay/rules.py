"""Which rule strikes next, and when: computed once, when a segment begins, and kept with it.

A rule is judged at the first whole second at which its condition holds, not when the organiser happens to wake, so
an outage can delay a decision but never change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ebbtide.decay.maths import Engine, Maths
from ebbtide.decay.segment import (
    age_when_faded,
    confidence,
    evaluate,
    fading,
    parts,
    salience,
    uses_of,
)
from ebbtide.model.instant import DAY
from ebbtide.model.words import Rule


@dataclass(frozen=True, slots=True)
class Future:
    """What comes next if nothing touches the object: the group `due` of the state.

    `exit_at` and `exit_rule` tell when decay would move it out of ACTIVE; `due_at` and `due_rule` the earliest of
    that, the warning and the ttl. `warned` is kept until a segment begins at or above the warning threshold.
    """

    due_at: Any
    due_rule: Any
    exit_at: Any
    exit_rule: Any
    expires_at: Any
    warned: Any


def _sunk(threshold: str) -> Callable[..., Any]:
    def holds(m: Maths, p: Any, s: Any, at: Any) -> Any:
        return salience(m, p, s, *parts(m, p, s, at)) < getattr(p, threshold)

    return holds


_WARNS, _SINKS = _sunk("warning"), _sunk("archive")


def _doubted(m: Maths, p: Any, s: Any, at: Any) -> Any:
    return confidence(m, p, s, at) < p.deprecate_by_confidence


def _when_sunk(m: Maths, p: Any, s: Any, threshold: Any, begin: Any) -> Any:
    """About when the decaying part alone is down at a threshold."""
    stability, uses = m.known(s.stability, 1.0), uses_of(m, p, s)
    ratio = m.greatest(s.decaying, _SMALL) / m.greatest(threshold, _SMALL)
    faded = fading(m, p, stability, uses, m.days(s.segment_age)) + m.ln(ratio)
    near = s.segment_at - s.segment_age + age_when_faded(m, p, stability, uses, faded) * DAY
    return m.where((threshold > 0) & (threshold < s.decaying), near, m.real(begin))


def _when_doubted(m: Maths, p: Any, s: Any, begin: Any) -> Any:
    """When confidence is down at its threshold."""
    threshold = p.deprecate_by_confidence
    ratio = m.greatest(s.confidence_base, _SMALL) / m.greatest(threshold, _SMALL)
    near = s.confidence_from + m.ln(ratio) / m.greatest(p.mu, _SMALL) * DAY
    return m.where((threshold > 0) & (threshold < s.confidence_base), near, m.real(begin))


_SMALL = 1e-12
"""Stands for zero where its logarithm or its inverse is only a guess of where to search."""


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


def future(
    m: Engine, p: Any, s: Any, *, begin: Any, running: Any, warned: Any, keep_until: Any, expires_at: Any
) -> Future:
    """The rules' instants from `begin` (µs) on; for what is not `running`, ACTIVE with time going on, only the ttl's.

    `warned` says that the object was warned and began no segment at or above the threshold since; `keep_until` is
    the end of a restore's grace, before which nothing but the ttl moves it out of ACTIVE.
    """
    warning_at = m.first_second(_WARNS, p, s, begin, _when_sunk(m, p, s, p.warning, begin), running & m.no(warned))
    sunk_at = m.first_second(_SINKS, p, s, begin, _when_sunk(m, p, s, p.archive, begin), running)
    doubted_at = m.first_second(_doubted, p, s, begin, _when_doubted(m, p, s, begin), running)
    first = m.least(m.known(sunk_at, FAR), m.known(doubted_at, FAR))
    exits = first < FAR
    kept = m.greatest(first, m.whole_second(m.known(keep_until, 0)))
    there = evaluate(m, p, s, m.where(exits, kept, s.segment_at))
    rule = m.where(exits, exit_rule(m, p, there.salience, there.confidence), None)
    return earliest(m, warning_at, m.where(exits, kept, m.null), rule, expires_at, warned)


FAR = 1 << 62
"""Later than any instant: stands for "never" where the earliest of several is sought."""


def next_due(m: Maths, *, warning_at: Any, exit_at: Any, exit_rule: Any, expires_at: Any) -> tuple[Any, Any]:
    """The next instant and its rule; at one and the same, ttl goes before what decay does, that before a warning."""
    expires, exits = m.known(expires_at, FAR), m.known(exit_at, FAR)
    first = m.least(expires, exits, m.known(warning_at, FAR))
    rule = m.where(expires <= first, Rule.TTL.value, m.where(exits <= first, exit_rule, Rule.WARNING.value))
    return m.where(first >= FAR, m.null, first), m.where(first >= FAR, None, rule)


def earliest(m: Maths, warning_at: Any, exit_at: Any, rule: Any, expires_at: Any, warned: Any) -> Future:
    """What comes next, of the instants that are known."""
    due_at, due_rule = next_due(m, warning_at=warning_at, exit_at=exit_at, exit_rule=rule, expires_at=expires_at)
    return Future(due_at, due_rule, exit_at, rule, expires_at, warned)
