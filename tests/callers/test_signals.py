"""Reinforcement and penalty with their limits, on both databases; RFC-0008's own five checks are in test_rfc8.py."""

import json

import pytest

from ebbtide import Refused

NS = "maya"


def belief(ebb, ref="belief", **given):
    fields = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED", "object_type": "FACT", "value": ref} | given
    ebb.ask({"op": "ASSERT", "namespace": NS, "ref": ref, "actor_id": "assistant", "actor_type": "AI_AGENT", **fields})
    return ref


def reinforce(ebb, ref, signal="CONFIRMED", actor="maya", actor_type="HUMAN_USER", **given):
    return ebb.reinforce(ref, signal=signal, namespace=NS, actor=actor, actor_type=actor_type, **given)


def last(ebb, ref):
    return ebb.history(ref, namespace=NS)[-1].payload


def test_the_nth_same_signal_of_an_actor_is_worth_an_nth(ebb):
    belief(ebb)
    for nth in (1, 2, 3):
        reinforce(ebb, "belief")
        payload = last(ebb, "belief")
        assert payload["gamma"] == 0.15
        assert payload["gamma_effective"] == round(0.15 / nth, 9)
    assert payload["reductions"] == [{"reason": "repeated", "n": 3}]
    reinforce(ebb, "belief", signal="REFERENCED")
    assert last(ebb, "belief")["gamma_effective"] == 0.08
    reinforce(ebb, "belief", actor="tom")
    assert last(ebb, "belief")["gamma_effective"] == 0.15


def test_a_session_gives_an_object_no_more_than_its_share(ebb):
    """0.15 + 0.12 + 0.10 leave 0.03 of 0.40 for the fourth, and nothing for the fifth."""
    belief(ebb)
    signals = ["CONFIRMED", "TASK_COMPLETED_WITH", "CORROBORATED_BY_EXTERNAL", "REFERENCED"]
    worth = []
    for signal in signals:
        reinforce(ebb, "belief", signal=signal, session_id="s1")
        worth.append(last(ebb, "belief")["gamma_effective"])
    assert worth == [0.15, 0.12, 0.1, 0.03]
    assert last(ebb, "belief")["session_gamma_total"] == 0.4
    before = ebb.memory("belief", namespace=NS)
    reinforce(ebb, "belief", actor="tom", session_id="s1")
    after = ebb.memory("belief", namespace=NS)
    assert last(ebb, "belief")["gamma_effective"] == 0.0
    assert (after.salience, after.confidence, after.reinforced_at) == (
        before.salience,
        before.confidence,
        before.reinforced_at,
    )
    reinforce(ebb, "belief", actor="tom", session_id="s2")
    assert last(ebb, "belief")["gamma_effective"] == 0.075


def test_who_depends_on_what_it_confirms_counts_less(ebb):
    """× 0.4 for an agent or connector with shared or no evidence; not for people, nor for who asserted it."""
    for name in ("seen", "heard"):
        ebb.ask({"op": "EVENT", "namespace": NS, "ref": name, "content": name})
    belief(ebb, evidence=["seen"])
    cases = [
        ({"actor": "other", "actor_type": "AI_AGENT"}, True),
        ({"actor": "sharing", "actor_type": "AI_AGENT", "evidence": ["seen", "heard"]}, True),
        ({"actor": "crawler", "actor_type": "EXTERNAL_CONNECTOR"}, True),
        ({"actor": "independent", "actor_type": "AI_AGENT", "evidence": ["heard"]}, False),
        ({"actor": "assistant", "actor_type": "AI_AGENT"}, False),
        ({"actor": "maya", "actor_type": "HUMAN_USER"}, False),
    ]
    for given, dependent in cases:
        reinforce(ebb, "belief", **given)
        payload = last(ebb, "belief")
        assert payload["correlation_discount_applied"] is dependent
        assert payload["gamma_effective"] == (0.06 if dependent else 0.15)


def test_a_condition_that_is_not_true_confirms_nothing(ebb):
    belief(ebb, epistemic_type="CONDITIONAL")
    before = ebb.memory("belief", namespace=NS).confidence
    assert reinforce(ebb, "belief").confidence == before
    ebb.set_condition("belief", "TRUE", namespace=NS)
    assert reinforce(ebb, "belief", actor="tom").confidence > before


def test_corrections_stop_at_the_floor_other_penalties_do_not(ebb):
    belief(ebb, confidence=0.06)
    assert ebb.penalise("belief", signal="CORRECTED", namespace=NS).confidence == 0.05
    assert ebb.penalise("belief", signal="CORRECTED", namespace=NS).confidence == 0.05
    assert ebb.penalise("belief", signal="TASK_FAILED_WITH", namespace=NS).confidence == 0.045


def test_what_is_not_active_is_not_reinforced_unless_restored_first(ebb):
    belief(ebb)
    ebb.archive("belief", namespace=NS)
    with pytest.raises(Refused, match="say restore"):
        reinforce(ebb, "belief")
    assert reinforce(ebb, "belief", restore=True).lifecycle_state == "ACTIVE"
    kinds = [entry.op_type for entry in ebb.history("belief", namespace=NS)]
    assert kinds == ["ASSERT", "ARCHIVE", "RESTORE", "REINFORCE"]
    ebb.deprecate("belief", namespace=NS)
    with pytest.raises(Refused, match="assert it again"):
        reinforce(ebb, "belief", restore=True)
    assert json.dumps(last(ebb, "belief")) == '{"reason": "requested", "deprecated_by": "caller"}'
