"""Suppression filters retrieval and touches no score, unless one memory is frozen; on both databases."""

import pytest

from ebbtide import BadInput, NotFound, Refused

NS = "maya"


@pytest.fixture
def three(ebb):
    for ref, kind, subject in (("a", "FACT", "maya"), ("b", "TASK", "maya"), ("c", "FACT", "tom")):
        ebb.assert_memory(
            ref,
            ref=ref,
            object_type=kind,
            subject=subject,
            namespace=NS,
            epistemic_type="ASSERTED",
            source_type="USER_STATED",
            salience=0.9,
        )
    return ebb


def eligible(ebb):
    return sorted(memory.ref for memory in ebb.memories(namespace=NS))


@pytest.mark.parametrize(
    ("what", "left"),
    [
        ({"obj": "a"}, ["b", "c"]),
        ({"object_type": "FACT"}, ["b"]),
        ({"subject": "maya"}, ["c"]),
        ({"object_type": "FACT", "subject": "maya"}, ["b", "c"]),
        ({"epistemic_type": "ASSERTED"}, []),
        ({"epistemic_type": "OBSERVED"}, ["a", "b", "c"]),
    ],
)
def test_what_is_suppressed_is_not_retrieved_until_it_ends(three, what, left):
    three.suppress(namespace=NS, reason="out of office", **what)
    assert eligible(three) == left
    three.unsuppress(namespace=NS, **what)
    assert eligible(three) == ["a", "b", "c"]


def test_a_filter_also_speaks_of_what_comes_later(three):
    three.suppress(subject="tom", namespace=NS)
    three.assert_memory("d", ref="d", subject="tom", namespace=NS, epistemic_type="ASSERTED", source_type="USER_STATED")
    assert eligible(three) == ["a", "b"]


def test_it_ends_at_its_instant_by_the_clock_and_scores_have_gone_on(three, clock):
    three.suppress("a", expires_at="2026-03-12T00:00:00Z", namespace=NS)
    clock.set("2026-03-11T23:59:59.999999Z")
    assert eligible(three) == ["b", "c"]
    clock.set("2026-03-12T00:00:00Z")
    assert eligible(three) == ["a", "b", "c"]
    assert three.memory("a", namespace=NS).salience == three.memory("b", namespace=NS).salience


def test_frozen_until_an_instant_goes_on_by_itself_from_there(three, clock):
    three.suppress("a", expires_at="2026-03-12T00:00:00Z", freeze=True, namespace=NS)
    clock.set("2026-03-12T00:00:00Z")
    three.organise()
    assert three.memory("a", namespace=NS).salience == 0.9
    clock.set("2026-03-22T00:00:00Z")
    three.organise()
    assert three.memory("a", namespace=NS).salience == pytest.approx(0.9 * 2.718281828**-0.2, abs=1e-7)


def test_frozen_without_an_end_stands_until_unsuppressed(three, clock):
    clock.forward(days=10)
    three.suppress("a", freeze=True, namespace=NS)
    stood = three.memory("a", namespace=NS)
    clock.forward(days=500)
    three.organise()
    assert (three.memory("a", namespace=NS).salience, three.memory("a", namespace=NS).due_at) == (stood.salience, None)
    three.unsuppress("a", namespace=NS)
    clock.forward(days=10)
    assert three.memory("a", namespace=NS).salience == pytest.approx(0.9 * 2.718281828**-0.4, abs=1e-7)


def test_reinforced_while_frozen_works_on_the_standing_values(three, clock):
    """Frozen at once for ten days; reinforced on day five: the clock still starts at the thaw."""
    three.suppress("a", expires_at="2026-03-12T00:00:00Z", freeze=True, namespace=NS)
    clock.forward(days=5)
    reinforced = three.reinforce("a", signal="CONFIRMED", namespace=NS)
    assert reinforced.confidence == 0.83
    clock.set("2026-03-12T00:00:00Z")
    assert three.memory("a", namespace=NS).confidence == 0.83
    clock.forward(days=10)
    assert three.memory("a", namespace=NS).confidence == pytest.approx(0.83 * 2.718281828**-0.1, abs=1e-7)


def test_pinned_and_frozen_stands_until_both_have_ended(three, clock):
    three.pin("a", namespace=NS)
    three.suppress("a", freeze=True, namespace=NS)
    clock.forward(days=30)
    three.unpin("a", namespace=NS)
    clock.forward(days=30)
    assert three.memory("a", namespace=NS).salience == 0.9
    three.unsuppress("a", namespace=NS)
    clock.forward(days=10)
    assert three.memory("a", namespace=NS).salience == pytest.approx(0.9 * 2.718281828**-0.2, abs=1e-7)


def test_bad_suppressions_are_refused(three, clock):
    with pytest.raises(BadInput, match="name an object, or a filter"):
        three.suppress(namespace=NS)
    with pytest.raises(BadInput, match="name an object, or a filter"):
        three.suppress("a", subject="maya", namespace=NS)
    with pytest.raises(BadInput, match="single object"):
        three.suppress(subject="maya", freeze=True, namespace=NS)
    with pytest.raises(BadInput, match="not after"):
        three.suppress("a", expires_at=clock.iso, namespace=NS)
    with pytest.raises(NotFound, match="nothing suppresses"):
        three.unsuppress("a", namespace=NS)
    three.archive("a", namespace=NS)
    with pytest.raises(Refused, match="stands already"):
        three.suppress("a", freeze=True, namespace=NS)
