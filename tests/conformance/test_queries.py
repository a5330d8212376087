"""The named queries: their headers are true, and their answers are the same on both databases."""

from __future__ import annotations

import lived
import pytest
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.audit.queries import library

QUERIES = library()


@pytest.fixture(scope="module")
def rich(make_url_for_module):
    """The same rich history in a store of each database."""
    made = {}
    for kind in DATABASES:
        clock = Clock()
        made[kind] = Ebbtide.open(make_url_for_module(kind), clock=clock, entropy=counted_entropy())
        lived.live(made[kind], clock)
    yield made
    for ebb in made.values():
        ebb.close()


@pytest.fixture(scope="module")
def empty(make_url_for_module):
    return {kind: Ebbtide.open(make_url_for_module(kind), clock=Clock()) for kind in DATABASES}


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_equal_on_both_databases_and_have_the_columns_of_the_header(rich, name):
    ours, theirs = (rich[kind].audit(name) for kind in DATABASES)
    assert ours.columns == theirs.columns == [column.name for column in QUERIES[name].columns]
    assert ours.rows == theirs.rows
    assert ours.rows
