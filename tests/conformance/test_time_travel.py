"""As of an instant, and as known at one: what a store says that only ever saw the entries up to then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select
from tests.conformance import ledger, lived
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.store.tables import event_log


@pytest.fixture(scope="module", params=DATABASES)
def lived_in(request: pytest.FixtureRequest, make_url_for_module) -> Iterator[Ebbtide]:
    clock = Clock()
    with Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy()) as ebb:
        with ebb.store.session():
            lived.live(ebb, clock)
        yield ebb


def instants(ebb: Ebbtide, column: str) -> list[int]:
    """Some of the instants at which something changed, and the moments right before them."""
    with ebb.store.begin() as connection:
        query = select(event_log.c[column]).where(event_log.c.namespace_id == "default").distinct()
        found = sorted(connection.execute(query).scalars())
    return [at - before for at in found[:: max(1, len(found) // 6)] for before in (0, 1) if at - before >= found[0]]


def folded(ebb: Ebbtide, column: str, at: int) -> dict[str, Any]:
    """The states that the pure fold gives of the entries up to an instant, by id."""
    entries = [entry for entry in ledger.entries_of(ebb) if getattr(entry, column) <= at]
    return {str(key): state for key, state in ledger.fold(entries).items()}


@pytest.mark.parametrize(("column", "option"), [("effective_at", "as_of"), ("recorded_at", "known_at")])
def test_every_reader_says_what_held_then(lived_in, column, option):
    for at in instants(lived_in, column):
        when = {option: instant.iso(at)}
        wanted = folded(lived_in, column, at)
        if option == "known_at":
            # As of then, too: what was recorded by then and takes effect later has not happened yet.
            wanted = {k: v for k, v in folded(lived_in, column, at).items() if v.created_at <= at}
        found = {str(memory.id): memory for memory in lived_in.memories(everything=True, **when)}
        assert found.keys() == wanted.keys()
        for key, state in wanted.items():
            assert found[key].lifecycle_state == state.lifecycle_state
            assert (found[key].version, found[key].fact_version) == (state.version, state.fact_version)
            assert (found[key].stored_salience, found[key].stored_confidence) == (state.salience, state.confidence)
            assert found[key].policy == f"{state.policy_id}@{state.policy_version}"
        counts = lived_in.status(namespace="default", **when).counts
        by_state: dict[str, int] = {}
        for one in counts:
            by_state[one.lifecycle_state] = by_state.get(one.lifecycle_state, 0) + one.objects
        expected: dict[str, int] = {}
        for state in wanted.values():
            expected[state.lifecycle_state] = expected.get(state.lifecycle_state, 0) + 1
        assert by_state == expected
        some = sorted(wanted)[len(wanted) // 2] if wanted else None
        if some is not None:
            assert lived_in.memory(some, **when) == found[some]
