"""Holds, states set by hand, and what a belief is known as, on both databases."""

import pytest

from ebbtide import Refused

NS = "maya"


@pytest.fixture
def make(ebb):
    def belief(ref="belief", **given):
        fields = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED", "salience": 0.9} | given
        return ebb.assert_memory(ref, ref=ref, namespace=NS, **fields)

    return belief


def test_a_hold_lasts_until_released_and_changes_no_score(ebb, clock, make):
    make(), make("other")
    ebb.hold("belief", namespace=NS, reason="litigation")
    clock.forward(days=20)
    ebb.organise()
    held, other = (ebb.memory(ref, namespace=NS) for ref in ("belief", "other"))
    assert (held.held, held.salience, held.due_at) == (True, other.salience, other.due_at)
    assert ebb.release("belief", namespace=NS).held is False


def test_a_ttl_does_not_end_while_held_and_ends_at_the_release(ebb, clock, make, tmp_path):
    make(object_type="TASK", epistemic_type="OBSERVED")
    ebb.assign_policy("recency@1.0.0", namespace=NS)
    ends = ebb.memory("belief", namespace=NS).expires_at
    assert (ends - ebb.memory("belief", namespace=NS).created_at).days == 90
    ebb.hold("belief", namespace=NS)
    assert ebb.memory("belief", namespace=NS).due_rule is None
    clock.forward(days=100)
    assert ebb.memory("belief", namespace=NS).withheld is None
    released = ebb.release("belief", namespace=NS)
    assert (released.due_rule, released.withheld) == ("ttl", "expired")
    assert released.expires_at.timestamp() == clock.now / 1e6


def test_archived_by_hand_stands_and_can_be_restored(ebb, clock, make):
    make()
    clock.forward(days=10)
    archived = ebb.archive("belief", namespace=NS)
    clock.forward(days=50)
    ebb.organise()
    assert ebb.memory("belief", namespace=NS).salience == archived.salience
    with pytest.raises(Refused):
        ebb.archive("belief", namespace=NS)
    restored = ebb.restore("belief", namespace=NS)
    assert (restored.lifecycle_state, restored.salience, restored.confidence) == ("ACTIVE", 0.9, archived.confidence)


def test_deprecated_by_hand_is_for_good(ebb, make):
    make()
    ebb.deprecate("belief", namespace=NS)
    for refused in (ebb.restore, ebb.archive, ebb.deprecate, ebb.pin):
        with pytest.raises(Refused):
            refused("belief", namespace=NS)


KNOWN = ["OBSERVED", "ASSERTED", "INFERRED", "HYPOTHETICAL", "CONDITIONAL", "UNVERIFIED"]
ALLOWED = {
    ("UNVERIFIED", "ASSERTED"),
    ("ASSERTED", "OBSERVED"),
    ("INFERRED", "ASSERTED"),
    ("HYPOTHETICAL", "ASSERTED"),
    ("CONDITIONAL", "ASSERTED"),
}


@pytest.mark.parametrize("was", KNOWN)
def test_a_belief_becomes_known_better_only_as_allowed(ebb, make, was):
    for to in [*KNOWN, "DEPRECATED"]:
        make(f"{was}-{to}", epistemic_type=was, source_type="EXTERNAL_DOCUMENT")
        if (was, to) in ALLOWED or to == "DEPRECATED":
            memory = ebb.transition(f"{was}-{to}", to, trigger_type="user_correction", namespace=NS)
            assert memory.epistemic_type == to
            assert memory.lifecycle_state == ("DEPRECATED" if to == "DEPRECATED" else "ACTIVE")
        else:
            with pytest.raises(Refused):
                ebb.transition(f"{was}-{to}", to, trigger_type="user_correction", namespace=NS)


def test_scores_go_on_without_a_jump_at_the_new_rate(ebb, clock, make):
    """INFERRED (λ 0.07) for ten days, then ASSERTED (λ 0.02): e^−0.7, then e^−0.2 for ten days more."""
    make(epistemic_type="INFERRED")
    clock.forward(days=10)
    before = ebb.memory("belief", namespace=NS)
    after = ebb.transition("belief", "ASSERTED", trigger_type="feedback_signal", namespace=NS)
    assert (after.salience, after.confidence) == (before.salience, before.confidence)
    clock.forward(days=10)
    assert ebb.memory("belief", namespace=NS).salience == pytest.approx(0.9 * 2.718281828**-0.9, abs=1e-7)


def test_an_unknown_condition_decays_fast_until_it_is_settled(ebb, make):
    assert make(epistemic_type="CONDITIONAL").decay_profile == "RAPID"
    settled = ebb.set_condition("belief", "TRUE", namespace=NS)
    assert (settled.decay_profile, settled.eligible) == ("MEDIUM", True)
    assert ebb.set_condition("belief", "EXPIRED", namespace=NS).withheld == "condition_not_true"
    make("fact")
    with pytest.raises(Refused, match="no condition"):
        ebb.set_condition("fact", "TRUE", namespace=NS)
