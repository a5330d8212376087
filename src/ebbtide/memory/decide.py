"""Which request is decided where: from the state of its object and the terms of its policy to the entries to append.

A decider yields a draft and goes on once the writer has appended it, so that it sees the state which that one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ebbtide.memory import beliefs, graph, marks, requests, signals, suppression
from ebbtide.memory.case import Case
from ebbtide.memory.requests import AnyRequest
from ebbtide.model.entry import Draft

DECIDERS: dict[type[requests.Line], Callable[[Case, Any], Iterator[Draft]]] = {
    requests.Event: beliefs.event,
    requests.Assert: beliefs.asserted,
    requests.Supersede: beliefs.supersede,
    requests.Access: signals.accessed,
    requests.Reinforce: signals.signalled,
    requests.Penalty: signals.signalled,
    requests.Pin: marks.pinned,
    requests.Unpin: marks.unpinned,
    requests.Hold: marks.held,
    requests.Release: marks.released,
    requests.Suppress: suppression.suppressed,
    requests.Unsuppress: suppression.unsuppressed,
    requests.Restore: marks.restored,
    requests.Archive: marks.archived,
    requests.Deprecate: marks.deprecated,
    requests.ConditionSet: marks.condition_set,
    requests.EpistemicTransition: marks.known_better,
    requests.ContradictionNoted: graph.contradicted,
    requests.Relate: graph.related,
    requests.EntityCreate: graph.entity_created,
    requests.EntityMerge: graph.entities_merged,
}


def decide(case: Case, line: AnyRequest) -> Iterator[Draft]:
    """The entries that a request writes."""
    return DECIDERS[type(line)](case, line)
