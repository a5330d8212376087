"""A history in which everything happens: every operation, tombstones, erased content, suppressions, entities, runs.

Two namespaces, `home` and `work`. The clock is the test's; every step is asked at an instant of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ebbtide import Ebbtide, Refused
from ebbtide.policy.document import Policy
from ebbtide.policy.files import library

HOME, WORK = "home", "work"
CANARY = "CANARY-7f3a"
"""Stands in every text that is erased in the course of the history."""

KINDS = ("OBSERVED", "ASSERTED", "INFERRED", "HYPOTHETICAL", "CONDITIONAL", "UNVERIFIED")
BEGIN = "2026-03-02T00:00:00Z"


def brief(version: str = "1.0.0", **params: Any) -> Policy:
    """A policy of the caller's own, under which events and hypotheses expire."""
    document = library()["default@1.0.0"][0].model_dump(mode="json", by_alias=True)
    document |= {"id": "brief", "version": version, "note": "of the tests"}
    document["params"]["retention"] = [
        {"match": {"epistemic_types": ["HYPOTHETICAL"]}, "ttl_days": 20, "clock": "created", "action": "erase"},
        {"match": {"object_types": ["TASK"]}, "ttl_days": 30, "clock": "created", "action": "archive"},
    ]
    document["params"] |= params
    return Policy.model_validate(document)


def live(ebb: Ebbtide, clock: Any) -> None:
    """Lives through the first half of the history."""
    clock.set(BEGIN)
    ebb.register_policy(brief())
    ebb.assign_policy("brief@1.0.0", namespace=HOME)
    _begin(ebb, HOME)
    _begin(ebb, WORK)
    clock.forward(days=1)
    _people(ebb)
    _signals(ebb)
    clock.forward(days=7)
    ebb.organise()
    _marks(ebb, clock)
    clock.forward(days=25)
    ebb.organise()
    ebb.assign_policy("archivist@1.0.0", namespace=WORK)
    with suppress(Refused):
        ebb.restore("m1", namespace=HOME)


def erase(ebb: Ebbtide, clock: Any) -> None:
    """What is erased on request: one memory, a subject, and with it what only it was evidence of."""
    clock.forward(days=1)
    ebb.erase("secret", namespace=HOME, scrub=False)
    ebb.erase(subject="tom", namespace=HOME, scrub=False)


def go_on(ebb: Ebbtide, clock: Any) -> None:
    """The second half."""
    clock.forward(days=40)
    ebb.organise()
    ebb.reinforce("m0", signal="CONFIRMED", namespace=HOME, actor="maya", actor_type="HUMAN_USER")
    ebb.event("Later on.", namespace=HOME, ref="late", stream="chat", actor="maya", actor_type="HUMAN_USER")
    ebb.assert_memory(
        "It went on.",
        ref="late-1",
        namespace=HOME,
        epistemic_type="ASSERTED",
        source_type="USER_STATED",
        evidence=["late"],
    )
    clock.forward(days=60)
    ebb.organise()
    ebb.register_policy(brief("1.0.1", mu_multiplier=0.2))
    ebb.apply_replay(ebb.plan_replay("brief@1.0.0", "brief@1.0.1"))


def _begin(ebb: Ebbtide, namespace: str) -> None:
    ebb.event("I moved to London; naïve, 東京 🌊.", namespace=namespace, ref="e0", stream="chat", actor="maya")
    ebb.event(
        f"{CANARY} said Tom.", namespace=namespace, ref="e-tom", stream="chat", actor="tom", actor_type="HUMAN_USER"
    )
    ebb.ask({"op": "EVENT", "namespace": namespace, "content": {"no": "ref"}, "role": "TOOL"})
    for place, kind in enumerate(KINDS):
        ebb.assert_memory(
            {"place": place, "text": f"belief {place} ‘quoted’"} if place % 2 else f"belief {place}",
            ref=f"m{place}",
            namespace=namespace,
            object_type=("FACT", "TASK", "PREFERENCE")[place % 3],
            epistemic_type=kind,
            source_type="USER_STATED",
            subject="maya",
            evidence=["e0"],
            metadata={"from": "a test"},
        )
    ebb.assert_memory(
        "not much",
        ref="faint",
        namespace=namespace,
        epistemic_type="INFERRED",
        source_type="TOOL_OUTPUT",
        salience=0.12,
    )
    ebb.assert_memory(
        f"{CANARY} is secret", ref="secret", namespace=namespace, epistemic_type="ASSERTED", source_type="USER_STATED"
    )
    ebb.assert_memory(
        f"{CANARY} of Tom",
        ref="of-tom",
        namespace=namespace,
        epistemic_type="ASSERTED",
        source_type="USER_STATED",
        subject="tom",
        evidence=["e-tom"],
    )


def _people(ebb: Ebbtide) -> None:
    for ref, name in (("maya", "Maya"), ("maya-2", "M. Ito")):
        ebb.ask(
            {
                "op": "ENTITY_CREATE",
                "namespace": HOME,
                "ref": ref,
                "entity_type": "PERSON",
                "canonical_name": name,
                "aliases": [name.lower()],
            }
        )
    ebb.ask(
        {"op": "RELATE", "namespace": HOME, "edge_type": "ABOUT", "source": "m0", "target": "maya", "confidence": 0.8},
        {"op": "ENTITY_MERGE", "namespace": HOME, "primary": "maya", "merged": "maya-2"},
        {
            "op": "CONTRADICTION_NOTED",
            "namespace": HOME,
            "object_a": "m0",
            "object_b": "m1",
            "conflict_description": "They cannot both be so.",
        },
    )


def _signals(ebb: Ebbtide) -> None:
    ebb.access("m0", namespace=HOME)
    ebb.reinforce("m0", signal="REFERENCED", session_id="s1", namespace=HOME, actor="bot", actor_type="AI_AGENT")
    ebb.reinforce("m1", signal="CONFIRMED", namespace=HOME, actor="maya", actor_type="HUMAN_USER", reason="yes")
    ebb.penalise("m2", signal="CORRECTED", namespace=HOME, actor="maya", actor_type="HUMAN_USER", reason="no")
    ebb.set_condition("m4", "TRUE", namespace=HOME)
    ebb.transition("m5", "ASSERTED", trigger_type="user_correction", namespace=HOME, reason="It was so.")
    ebb.supersede("m2", "belief 2, mended", ref="m2-new", namespace=WORK, reason="better")


def _marks(ebb: Ebbtide, clock: Any) -> None:
    ebb.pin("m4", namespace=HOME)
    ebb.unpin("m4", namespace=HOME)
    ebb.pin("m5", namespace=HOME)
    ebb.hold("m0", namespace=HOME, reason="Case 12.")
    ebb.release("m0", namespace=HOME)
    ebb.hold("m1", namespace=WORK)
    ebb.suppress("m0", namespace=HOME, freeze=True, reason="not now", expires_at=clock.iso.replace("-03-", "-05-"))
    ebb.suppress("m1", namespace=HOME, reason="later")
    ebb.unsuppress("m1", namespace=HOME)
    ebb.suppress(subject="tom", namespace=HOME, reason=f"{CANARY} away")
    ebb.suppress(object_type="TASK", namespace=WORK)
    ebb.archive("m0", namespace=WORK, reason="done with it")
    ebb.restore("m0", namespace=WORK)
    ebb.deprecate("m2-new", namespace=WORK, reason="wrong")
    with suppress(Refused):
        ebb.restore("m3", namespace=WORK)
