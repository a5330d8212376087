"""Rank: a caller's similarities in, what may be retrieved out, best first; on both databases."""

import pytest

from ebbtide import BadInput

NS = "maya"


@pytest.fixture
def homes(ebb):
    """Five addresses, of which four are stale."""
    ebb.assert_memory(
        "Maya lives in Bristol.",
        ref="home-1",
        namespace=NS,
        epistemic_type="ASSERTED",
        source_type="USER_STATED",
        salience=0.8,
    )
    for number, town in enumerate(["Lisbon", "London", "Rome", "Paris"], 2):
        ebb.supersede(f"home-{number - 1}", f"Maya lives in {town}.", ref=f"home-{number}", namespace=NS)
    return ebb


def test_the_one_current_address_is_found_among_five_alike(homes):
    similar = [("home-3", 0.89), ("home-5", 0.88), ("home-1", 0.88), ("home-2", 0.87), ("home-4", 0.86)]
    found = homes.rank(similar, namespace=NS, limit=3)
    assert [one.memory.value for one in found.ranked] == ["Maya lives in Paris."]
    assert {one.object: one.reason for one in found.withheld} == dict.fromkeys(
        ["home-1", "home-2", "home-3", "home-4"], "superseded"
    )


def test_similarity_times_salience_orders_and_the_limit_comes_last(ebb):
    for ref, salience in (("dim", 0.4), ("bright", 0.9), ("guess", 0.9)):
        kind = "HYPOTHETICAL" if ref == "guess" else "ASSERTED"
        ebb.assert_memory(ref, ref=ref, namespace=NS, epistemic_type=kind, source_type="USER_STATED", salience=salience)
    found = ebb.rank([("guess", 1.0), ("dim", 0.9), ("bright", 0.5)], namespace=NS, limit=2)
    assert [(one.memory.ref, one.score) for one in found.ranked] == [
        ("bright", pytest.approx(0.45)),
        ("dim", pytest.approx(0.36)),
    ]
    assert [(one.object, one.reason) for one in found.withheld] == [("guess", "hypothetical")]


def test_recency_halves_by_the_hour_as_the_policy_says(ebb, clock):
    """0.995 per hour since the last use: 0.887 after a day, 0.431 after a week, 0.027 after a month."""
    ebb.assign_policy("recency@1.0.0", namespace=NS)
    ebb.assert_memory("x", ref="x", namespace=NS, epistemic_type="ASSERTED", source_type="USER_STATED", salience=1.0)
    for hours, recency in ((1, 0.995), (24, 0.887), (168, 0.431), (720, 0.027)):
        at = clock.now
        clock.forward(hours=hours)
        assert ebb.rank([("x", 1.0)], namespace=NS).ranked[0].score == pytest.approx(recency, abs=5e-4)
        clock.now = at


def test_unknown_twice_and_unreadable_candidates(ebb):
    ebb.event("hello", namespace=NS)
    assert ebb.rank([("nobody", 0.5)], namespace=NS).withheld[0].reason == "unknown"
    with pytest.raises(BadInput, match="twice"):
        ebb.rank([("x", 0.5), ("x", 0.6)], namespace=NS)
    with pytest.raises(BadInput, match="less than or equal to 1"):
        ebb.rank([("x", 1.5)], namespace=NS)
