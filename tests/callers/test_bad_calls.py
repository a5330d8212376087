"""What no call can mean is refused in one line that names the field, before anything is written; on both databases."""

import pytest
from sqlalchemy import select

from ebbtide import BadInput
from ebbtide.store.tables import contents, event_log, refusals

pytestmark = pytest.mark.lets_go

KNOWN = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def nested(depth):
    made = []
    for _ in range(depth):
        made = [made]
    return made


def itself():
    made = []
    made.append(made)
    return made


VALUES = {
    "no value": None,
    "NaN": float("nan"),
    "infinity, deep down": {"a": [float("inf")]},
    "more digits than can be read back": 10**5000,
    "nested without end": nested(5000),
    "nested too deeply": nested(900),
    "holding itself": itself(),
    "U+0000": "a\x00b",
    "U+0000 in a key": {"a\x00b": 1},
    "half a surrogate pair": "\ud800",
    "a number as a key": {1: 2},
    "bytes": b"abc",
    "a set": {1, 2},
}
CALLS = {
    "limit": lambda ebb: ebb.memories(limit=-1),
    "limit ": lambda ebb: ebb.memories(limit=10**30),
    "limit  ": lambda ebb: ebb.rank([("a", 0.5)], limit=-1),
    "limit   ": lambda ebb: ebb.runs(limit=-1),
    "expected_version": lambda ebb: ebb.pin("a", expected_version=10**5000),
    "confidence": lambda ebb: ebb.assert_memory("x", confidence=10**5000, **KNOWN),
    "salience": lambda ebb: ebb.assert_memory("x", salience=True, **KNOWN),
    "expires_at": lambda ebb: ebb.suppress("a", freeze=True, expires_at="9999-12-31T23:59:59Z"),
    "object": lambda ebb: ebb.pin("a", object="b"),
    "op": lambda ebb: ebb.pin("a", op="HOLD"),
    "colour": lambda ebb: ebb.pin("a", colour="red"),
    "canonical_name": lambda ebb: ebb.create_entity(" ", entity_type="PERSON"),
    "aliases.1": lambda ebb: ebb.create_entity("Tom", entity_type="PERSON", aliases=["T.", ""]),
    "evidence": lambda ebb: ebb.assert_memory("x", evidence="a", **KNOWN),
    "effective_at": lambda ebb: ebb.pin("a", at="2026-03-02T00:05:00.000001Z"),
}
ERASURES = {
    "nothing": {},
    "an empty list of memories": {"objects": []},
    "memories and a subject": {"objects": ["a"], "subject": "maya"},
    "memories and everything": {"objects": ["a"], "everything": True},
    "a subject and everything": {"subject": "maya", "everything": True},
}


@pytest.fixture
def ebb(ebb):
    with ebb.store.db.connect():
        for ref in ("a", "b"):
            ebb.assert_memory(ref, ref=ref, subject="maya", **KNOWN)
        yield ebb


def everything(ebb):
    with ebb.store.begin() as connection:
        return [connection.execute(select(table)).all() for table in (event_log, contents, refusals)]


def refused(ebb, call):
    before = everything(ebb)
    with pytest.raises(BadInput) as error:
        call()
    assert everything(ebb) == before
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 400
    return error.value.field or ""


@pytest.mark.parametrize("what", VALUES)
def test_a_value_that_is_no_json_is_refused_wherever_it_stands(ebb, what):
    value = VALUES[what]
    assert refused(ebb, lambda: ebb.assert_memory(value, **KNOWN)).startswith("value")
    assert refused(ebb, lambda: ebb.event(value)).startswith("content")
    assert refused(ebb, lambda: ebb.supersede("a", value)).startswith("value")
    assert refused(ebb, lambda: ebb.access("a", metadata={"tag": value})).startswith("metadata")


@pytest.mark.parametrize("field", CALLS)
def test_a_field_that_means_nothing_is_named(ebb, field):
    assert refused(ebb, lambda: CALLS[field](ebb)) == field.strip()


@pytest.mark.parametrize("what", ERASURES)
def test_an_erasure_says_what_goes(ebb, what):
    """A caller whose list of memories happens to be empty does not lose the namespace."""
    said = dict(ERASURES[what])
    objects = said.pop("objects", [])
    assert refused(ebb, lambda: ebb.erase(*objects, **said)) == "object"
    assert len(ebb.memories()) == 2


def test_a_freeze_of_a_hundred_years_can_still_be_read(ebb, clock):
    """What is due after it lies within what a date can say."""
    ebb.suppress("a", freeze=True, expires_at="2126-02-01T00:00:00Z")
    assert ebb.memory("a").due_at.year == 2126
    assert len(ebb.memories(everything=True)) == 2
