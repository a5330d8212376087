"""A namespace that has something for every page to show, a held run among it."""

from __future__ import annotations

from typing import Any

from ebbtide import Ebbtide
from ebbtide.policy.document import Policy

KNOWN = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
NAMESPACE = "maya"
SPOKEN = '<b>Maya</b> & Tolly said "hello" <script>alert(1)</script>'
"""What a memory says that no page may take for its own."""
SINKING = 60
CORRECTED = {
    "id": "slower",
    "version": "1.0.0",
    "note": "MEDIUM at half the rate.",
    "params": {"profiles": {"MEDIUM": {"rate": 0.01}}},
}


def furnish(ebb: Ebbtide, clock: Any) -> None:
    """Lives through 90 days. In the end the lifecycle slot is held: 60 memories sank below the threshold at once."""
    mine: dict[str, Any] = {"namespace": NAMESPACE}
    said = {**mine, "actor_id": "maya", "actor_type": "HUMAN_USER"}
    ebb.ask(
        {"op": "EVENT", "ref": "e1", "stream": "chat", "content": "I moved.", **said},
        {"op": "EVENT", "ref": "e2", "stream": "chat", "content": "I moved again.", **said},
        *({"op": "ASSERT", "ref": f"sinks-{n}", "value": f"It was day {n}.", **KNOWN, **mine} for n in range(SINKING)),
        {"op": "ASSERT", "ref": "home", "value": "Maya lives in Lisbon.", "evidence": ["e1"], **KNOWN, **mine},
        {"op": "ASSERT", "ref": "spoken", "value": SPOKEN, "subject": "tolly", **KNOWN, **mine},
        {"op": "ASSERT", "ref": "seen", "value": "Maya draws maps.", **KNOWN, "epistemic_type": "OBSERVED", **mine},
        {"op": "ASSERT", "ref": "maybe", "value": "A strike.", **KNOWN, "epistemic_type": "HYPOTHETICAL", **mine},
        {"op": "ASSERT", "ref": "rumour", "value": "Rain.", **KNOWN, "epistemic_type": "UNVERIFIED", **mine},
        {"op": "ASSERT", "ref": "elsewhere", "namespace": "other", "value": "A secret of another.", **KNOWN},
    )
    ebb.register_policy(Policy.model_validate(CORRECTED))
    for day in range(1, 79):
        clock.forward(days=1)
        if day == 10:
            ebb.ask({"op": "REINFORCE", "object": "home", "signal": "CONFIRMED", **said})
            ebb.ask({"op": "PIN", "object": "seen", **mine}, {"op": "SUPPRESS", "object": "spoken", **mine})
        if day == 20:
            ebb.ask({"op": "UNSUPPRESS", "object": "spoken", **mine}, {"op": "ACCESS", "object": "spoken", **mine})
        if day % 10 == 0:
            ebb.ask({"op": "REINFORCE", "object": "spoken", "signal": "REFERENCED", **said})
            ebb.organise()
    clock.forward(days=12)
    ebb.organise()
