"""A small namespace in which everything happened that can happen to a memory, for tests of what the log proves."""

from __future__ import annotations

from typing import Any

from ebbtide import Ebbtide
from ebbtide.policy.document import Policy

KNOWN = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
RETENTION = {
    "id": "keeping",
    "version": "1.0.0",
    "params": {
        "retention": [
            {"match": {"object_types": ["TASK"]}, "ttl_days": 20, "clock": "created", "action": "archive"},
            {"match": {"object_types": ["INTENT"]}, "ttl_days": 30, "clock": "last_accessed", "action": "erase"},
            {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 10, "clock": "created", "action": "archive"},
            {"match": {"events": True, "roles": ["SYSTEM"]}, "ttl_days": 15, "clock": "created", "action": "erase"},
        ]
    },
}


def belief(ref: str, **more: Any) -> dict[str, Any]:
    return {"op": "ASSERT", "ref": ref, "value": f"what {ref} says", **KNOWN, **more}


def live(ebb: Ebbtide, clock: Any) -> None:
    """Lives through some 200 days in namespace `default`, and a little in `other`."""
    ebb.ask({"op": "EVENT", "ref": "m0", "content": "the first", "namespace": "other"}, belief("x", namespace="other"))
    ebb.ask(
        *(
            {"op": "EVENT", "ref": f"m{n}", "stream": f"chat-{n % 2}", "content": f"message {n}", **_SAID}
            for n in range(4)
        ),
        {"op": "EVENT", "ref": "tool", "role": "TOOL", "content": "printed"},
        {"op": "EVENT", "ref": "sys", "role": "SYSTEM", "content": "booted", "actor_type": "SYSTEM_PROCESS"},
        belief(
            "home", evidence=["m0", "m1"], subject="maya", salience=0.9, embedding=[0.6, 0.8], embedding_model="two"
        ),
        belief("work", evidence=["m1"], subject="maya"),
        *(belief(f"n{n}", salience=0.2 + n / 20) for n in range(12)),
        belief("seen", epistemic_type="OBSERVED", source_type="USER_DEMONSTRATED"),
        belief("guess", epistemic_type="INFERRED", source_type="SYSTEM_INFERRED", confidence=0.3),
        belief("maybe", epistemic_type="HYPOTHETICAL"),
        belief("if", epistemic_type="CONDITIONAL"),
        belief("todo", object_type="TASK"),
        belief("plan", object_type="INTENT", evidence=["m3"]),
        belief("secret", evidence=["m2"], subject="zoe"),
        belief("said-again", value="what n5 says"),
        {"op": "ENTITY_CREATE", "ref": "maya", "entity_type": "PERSON", "canonical_name": "Maya", "aliases": ["M"]},
        {"op": "ENTITY_CREATE", "ref": "maya2", "entity_type": "PERSON", "canonical_name": "Maya B."},
        {"op": "RELATE", "edge_type": "ABOUT", "source": "home", "target": "maya", "confidence": 0.7},
    )
    ebb.register_policy(Policy.model_validate(RETENTION))
    ebb.assign_policy("keeping@1.0.0", namespace="default", actor="ops")
    for day in range(1, 60):
        clock.forward(days=1, seconds=day)
        _day(ebb, clock, day)
        if day % 6 == 0:
            ebb.organise()
    clock.forward(days=90)
    ebb.organise()
    ebb.ask({"op": "ACCESS", "object": "home"})
    ebb.assign_policy("archivist@1.0.0", namespace="default", actor="ops")
    clock.forward(days=30)
    ebb.organise()


def _day(ebb: Ebbtide, clock: Any, day: int) -> None:
    mine = {"actor_id": "agent", "actor_type": "AI_AGENT", "session_id": f"s{day // 5}"}
    asked: dict[int, list[dict[str, Any]]] = {
        1: [
            {"op": "CONDITION_SET", "object": "if", "condition": "TRUE"},
            {"op": "EPISTEMIC_TRANSITION", "object": "maybe", "to_type": "ASSERTED", **_TRIGGERED},
        ],
        2: [{"op": "REINFORCE", "object": "n1", "signal": "CONFIRMED", **mine}, {"op": "ACCESS", "object": "seen"}],
        3: [{"op": "PIN", "object": "n2"}, {"op": "HOLD", "object": "n3"}],
        4: [{"op": "SUPPRESS", "object": "n4", "expires_at": later(clock, 9)}],
        5: [{"op": "SUPPRESS", "object_type": "FACT", "subject": "zoe"}, {"op": "ENTITY_MERGE", **_MERGE}],
        6: [{"op": "SUPPRESS", "object": "n5", "freeze": True, "expires_at": later(clock, 5)}],
        7: [{"op": "SUPPRESS", "object": "n6", "freeze": True}],
        8: [{"op": "PENALTY", "object": "n1", "signal": "CORRECTED"}],
        9: [{"op": "SUPERSEDE", "object": "work", "ref": "work2", "value": "elsewhere", "source_type": "USER_STATED"}],
        11: [{"op": "UNSUPPRESS", "object_type": "FACT", "subject": "zoe"}, {"op": "UNSUPPRESS", "object": "n6"}],
        12: [{"op": "UNPIN", "object": "n2"}, {"op": "RELEASE", "object": "n3"}],
        16: [
            {"op": "CONTRADICTION_NOTED", "object_a": "home", "object_b": "work2", "conflict_description": "two places"}
        ],
        18: [{"op": "ARCHIVE", "object": "n7", "reason": "old"}, {"op": "DEPRECATE", "object": "n8"}],
        20: [{"op": "RESTORE", "object": "n7"}, {"op": "EPISTEMIC_TRANSITION", "object": "if", **_DEPRECATED}],
    }
    ebb.ask(*asked.get(day, []))
    if day == 25:
        ebb.erase(subject="zoe", scrub=False)


_SAID = {"actor_id": "maya", "actor_type": "HUMAN_USER"}
_MERGE = {"primary": "maya", "merged": "maya2"}
_TRIGGERED = {"trigger_type": "user_correction"}
_DEPRECATED = {"to_type": "DEPRECATED", **_TRIGGERED}


def later(clock: Any, days: int) -> str:
    moved = type(clock)()
    moved.now = clock.now
    moved.forward(days=days)
    return moved.iso
