"""The named queries: their headers are true, and their answers are right and the same on both databases."""

from __future__ import annotations

import lived
import pytest
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.audit.queries import library
from ebbtide.model.errors import Refused

QUERIES = library()
LONG = {"days": 1000}
"""More than any of the histories lasts."""


def asked(ebb: Ebbtide, name: str, **given):
    """A query's answer, as far back as there is anything."""
    known = {parameter.name for parameter in QUERIES[name].parameters}
    return ebb.audit(name, **{key: value for key, value in LONG.items() if key in known} | given)


@pytest.fixture(scope="module")
def rich(make_url_for_module):
    """The same rich history in a store of each database."""
    made = {}
    for kind in DATABASES:
        clock = Clock()
        ebb = made[kind] = Ebbtide.open(make_url_for_module(kind), clock=clock, entropy=counted_entropy())
        lived.live(ebb, clock)
        for refused in ({"op": "RESTORE", "object": "n8"}, {"op": "PIN", "object": "home", "expected_version": 1}):
            with pytest.raises(Refused):
                ebb.ask({**refused, "actor_id": "maya", "actor_type": "HUMAN_USER"})
        ebb.apply_replay(ebb.plan_replay("keeping@1.0.0", "permastore@1.0.0", namespace="default"), actor="ops")
        clock.forward(days=8)
        ebb.organise()
    yield made
    for ebb in made.values():
        ebb.close()


@pytest.fixture(scope="module")
def empty(make_url_for_module):
    return {kind: Ebbtide.open(make_url_for_module(kind), clock=Clock()) for kind in DATABASES}


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_equal_on_both_databases_and_have_the_columns_of_the_header(rich, name):
    ours, theirs = (asked(rich[kind], name) for kind in DATABASES)
    assert ours.columns == theirs.columns == [column.name for column in QUERIES[name].columns]
    assert ours.rows == theirs.rows
    assert [[type(value) for value in row] for row in ours.rows] == [
        [type(value) for value in row] for row in theirs.rows
    ]
    assert ours.rows


@pytest.mark.parametrize("name", QUERIES)
def test_an_empty_store_has_no_rows(empty, name):
    for ebb in empty.values():
        assert asked(ebb, name).rows == []
