"""Evidence is an event or a memory of the namespace, from an earlier call or this one, for whatever takes evidence."""

from typing import get_args
from uuid import uuid5

import pytest

from ebbtide import NotFound
from ebbtide.memory.requests import AnyRequest

NS = "maya"
KNOWN = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
TAKING = sorted(kind.model_fields["op"].default for kind in get_args(AnyRequest) if "evidence" in kind.model_fields)
SAID = {
    "ASSERT": {"object_type": "FACT", "value": 2, **KNOWN},
    "SUPERSEDE": {"object": "old", "value": 2},
    "REINFORCE": {"object": "old", "signal": "CONFIRMED"},
    "PENALTY": {"object": "old", "signal": "CORRECTED"},
    "EPISTEMIC_TRANSITION": {"object": "old", "to_type": "OBSERVED", "trigger_type": "user_correction"},
}


@pytest.fixture
def before(ebb):
    ebb.event("said", ref="event", namespace=NS)
    for ref in ("old", "memory"):
        ebb.assert_memory(ref, ref=ref, namespace=NS, **KNOWN)
    return ebb


def ids_of(taken):
    for entry in taken.entries:
        if '"evidence_ids"' in entry.payload:
            return entry.payload
    raise AssertionError("no entry names evidence")


@pytest.mark.parametrize("op", TAKING)
def test_an_event_and_a_memory_serve_from_before_and_from_this_call(before, op):
    event, memory = before.event("said", ref="event-2", namespace=NS), before.memory("memory", namespace=NS).id
    *_, taken = before.ask(
        {"op": "EVENT", "namespace": NS, "ref": "event-3", "content": "said just now"},
        {"op": op, "namespace": NS, "evidence": ["event", event, str(memory), "event-3"], **SAID[op]},
    )
    for one in (event, memory):
        assert str(one) in ids_of(taken)


@pytest.mark.parametrize("op", TAKING)
def test_what_is_not_there_serves_as_nothing(before, op):
    before.event("elsewhere", ref="elsewhere", namespace="other")
    for nothing in ("nothing", "elsewhere", uuid5(before.memory("old", namespace=NS).id, "nothing")):
        with pytest.raises(NotFound, match="serve as evidence"):
            before.ask({"op": op, "namespace": NS, "evidence": ["event", nothing], **SAID[op]})
