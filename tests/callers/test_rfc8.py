"""RFC-0008's five checks of reinforcement, on both databases, with its numbers written down a second time."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from sqlalchemy import text

from ebbtide.model.identity import id_of_ref

GAMMA = {"REFERENCED": 0.08, "CONFIRMED": 0.15, "TASK_COMPLETED_WITH": 0.12, "CORROBORATED_BY_EXTERNAL": 0.10}
DELTA = {
    "CORRECTED": 0.25,
    "CONTRADICTED_BY_OBSERVATION": 0.20,
    "TASK_FAILED_WITH": 0.10,
    "IGNORED_REPEATEDLY": 0.05,
    "UNUSED": 0.0,
}
CEILING = {
    "OBSERVED": 0.97,
    "ASSERTED": 0.92,
    "INFERRED": 0.85,
    "HYPOTHETICAL": 0.65,
    "CONDITIONAL": 0.85,
    "UNVERIFIED": 0.50,
}
SESSION_CAP, DISCOUNT, FLOOR = 0.40, 0.4, 0.05


def believe(ebb, ref="belief", **said):
    kind = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED", "object_type": "FACT", "value": ref}
    asker = {"actor_id": "assistant", "actor_type": "AI_AGENT"}
    ebb.ask({"op": "ASSERT", "ref": ref} | asker | kind | said)


def signal(name="CONFIRMED", ref="belief", actor="maya", actor_type="HUMAN_USER", **said):
    op = "REINFORCE" if name in GAMMA else "PENALTY"
    return {"op": op, "object": ref, "signal": name, "actor_id": actor, "actor_type": actor_type} | said


def payloads(ebb, ref="belief", op="REINFORCE"):
    return [entry.payload for entry in ebb.history(ref) if entry.op_type == op]


@pytest.mark.parametrize("kind", CEILING)
def test_a_thousand_confirmations_never_pass_the_ceiling(ebb, kind):
    """Each from another person, so that none is divided. Every single entry is below; the last ones are at it."""
    believe(ebb, epistemic_type=kind, source_type="IMPORTED", confidence=0.1)
    if kind == "CONDITIONAL":
        ebb.set_condition("belief", "TRUE")
    ebb.ask(*(signal(actor=f"person-{number}") for number in range(1000)))
    signals = [entry for entry in ebb.history("belief") if entry.op_type == "REINFORCE"]
    assert len(signals) == 1000
    left = [entry.confidence for entry in signals if entry.confidence is not None]  # null where it is unchanged
    assert left == sorted(left)
    assert (left[0], left[-1]) == (pytest.approx(0.1 + 0.15 * 0.9), CEILING[kind])
    assert ebb.memory("belief").confidence == CEILING[kind]


def test_a_session_gives_an_object_040_whoever_signals_what(ebb):
    """Per object and session: another session, and another object in the same one, have a share of their own."""
    believe(ebb)
    believe(ebb, "other")
    names = list(GAMMA)
    ebb.ask(*(signal(names[n % 4], actor=f"person-{n}", session_id="s1") for n in range(20)))
    found = payloads(ebb)
    given = [one["gamma_effective"] for one in found]
    assert given[:4] == [0.08, 0.15, 0.12, pytest.approx(SESSION_CAP - 0.35)]
    assert given[4:] == [0.0] * 16
    assert sum(given) == pytest.approx(SESSION_CAP)
    assert [one["session_gamma_total"] for one in found][3:] == [SESSION_CAP] * 17
    assert {reason["reason"] for one in found[3:] for reason in one["reductions"]} == {"session_cap"}
    before = ebb.memory("belief").confidence
    ebb.reinforce("belief", signal="CONFIRMED", session_id="s2", actor="tom", actor_type="HUMAN_USER")
    ebb.reinforce("other", signal="CONFIRMED", session_id="s1", actor="tom", actor_type="HUMAN_USER")
    assert payloads(ebb)[-1]["gamma_effective"] == payloads(ebb, "other")[-1]["gamma_effective"] == 0.15
    assert ebb.memory("belief").confidence > before


CASES = {
    "an agent that shows nothing": ({"actor": "other", "actor_type": "AI_AGENT"}, True),
    "an agent that saw the same": ({"actor": "other", "actor_type": "AI_AGENT", "evidence": ["seen"]}, True),
    "an agent that saw that too": ({"actor": "other", "actor_type": "AI_AGENT", "evidence": ["seen", "heard"]}, True),
    "an agent that saw something else": ({"actor": "other", "actor_type": "AI_AGENT", "evidence": ["heard"]}, False),
    "a connector that shows nothing": ({"actor": "crawler", "actor_type": "EXTERNAL_CONNECTOR"}, True),
    "the asserter itself": ({"actor": "assistant", "actor_type": "AI_AGENT"}, False),
    "a person": ({"actor": "maya", "actor_type": "HUMAN_USER"}, False),
    "a system": ({"actor": "cron", "actor_type": "SYSTEM_PROCESS"}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_the_independence_discount_with_and_without(ebb, case):
    """γ × 0.4 for who depends on what it confirms, and the confidence that comes of it."""
    said, dependent = CASES[case]
    for name in ("seen", "heard"):
        ebb.event(name, ref=name)
    believe(ebb, evidence=["seen"])
    ebb.ask(signal("CONFIRMED", **said))
    (found,) = payloads(ebb)
    gamma = 0.15 * DISCOUNT if dependent else 0.15
    assert (found["gamma"], found["gamma_effective"]) == (0.15, pytest.approx(gamma))
    assert found["correlation_discount_applied"] is dependent
    assert ebb.memory("belief").confidence == pytest.approx(0.80 + gamma * 0.20)


def test_corrections_stop_at_the_floor(ebb):
    """Below it, one changes nothing: no correction ever raises confidence. Other penalties know no floor."""
    believe(ebb)
    believe(ebb, "doubtful", confidence=0.04)
    ebb.ask(*(signal("CORRECTED", actor=f"person-{number}") for number in range(40)))
    left = [entry.confidence for entry in ebb.history("belief") if entry.confidence is not None]
    assert left[:3] == [0.80, pytest.approx(0.60), pytest.approx(0.45)]
    assert left == sorted(left, reverse=True)
    assert left[-1] == FLOOR
    ebb.ask(signal("CORRECTED", "doubtful"))
    assert ebb.memory("doubtful").confidence == 0.04
    ebb.ask(signal("TASK_FAILED_WITH"))
    assert ebb.memory("belief").confidence == pytest.approx(FLOOR * 0.9)


# Confidence of a hundred objects, from the log alone

RATES = {"SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
PROFILES = {
    "OBSERVED": "SLOW",
    "ASSERTED": "MEDIUM",
    "INFERRED": "FAST",
    "HYPOTHETICAL": "RAPID",
    "UNVERIFIED": "RAPID",
}
GRACE = 180 * 86_400_000_000
KINDS = [("OBSERVED", "USER_STATED"), ("ASSERTED", "TOOL_OUTPUT"), ("INFERRED", "SYSTEM_INFERRED"),
         ("HYPOTHETICAL", "USER_STATED"), ("CONDITIONAL", "USER_STATED"), ("UNVERIFIED", "TOOL_OUTPUT")]  # fmt: skip
ACTORS = [("maya", "HUMAN_USER"), ("assistant", "AI_AGENT"), ("other", "AI_AGENT"), ("crawler", "EXTERNAL_CONNECTOR")]


def nine(x: float) -> float:
    return math.floor(x * 1e9 + 0.5) / 1e9


@dataclass
class Told:
    """What the entries of one object tell of its confidence: `c` at `since`, ageing from `ages`; instants in µs."""

    kind: str = ""
    condition: str | None = None
    c: float = 0.0
    ages: int = 0
    asserter: str = ""
    evidence: frozenset[str] = frozenset()
    signals: Counter = field(default_factory=Counter)
    sessions: dict = field(default_factory=lambda: defaultdict(float))

    def at(self, when: int) -> float:
        profile = PROFILES.get(self.kind) or ("RAPID" if self.condition == "UNKNOWN" else "MEDIUM")
        days = max(0, when - self.ages) / 86_400_000_000
        return nine(self.c * math.exp(-0.5 * RATES[profile] * days))

    def hear(self, op: str, when: int, actor: tuple[str, str], said: dict[str, Any]) -> None:
        if op == "ASSERT":
            self.kind, self.c, self.asserter = said["epistemic_type"], said["confidence"], actor[0]
            self.evidence = frozenset(said["evidence_ids"])
            self.condition = "UNKNOWN" if self.kind == "CONDITIONAL" else None
            self.ages = when + (GRACE if self.kind == "OBSERVED" else 0)
        elif op == "REINFORCE":
            self.confirm(when, actor, said)
        elif op == "PENALTY" and (delta := DELTA[said["signal_type"]]):
            c = self.at(when)
            lowered = min(c, max(FLOOR, c * (1 - delta))) if said["signal_type"] == "CORRECTED" else c * (1 - delta)
            self.begin(when, lowered)
        elif op == "ACCESS" and self.kind == "OBSERVED":
            self.begin(when, self.at(when), keeps=when + GRACE)
        elif op == "CONDITION_SET":
            self.begin(when, self.at(when))
            self.condition = said["condition"]
        elif op == "EPISTEMIC_TRANSITION":
            self.begin(when, self.at(when))
            self.kind, self.condition = said["to_type"], None

    def begin(self, when: int, confidence: float, keeps: int = 0) -> None:
        self.c, self.ages = nine(confidence), keeps or max(when, self.ages)

    def confirm(self, when: int, actor: tuple[str, str], said: dict[str, Any]) -> None:
        gamma = GAMMA[said["signal_type"]]
        if self.kind == "CONDITIONAL" and self.condition != "TRUE":
            gamma = 0.0
        self.signals[actor[0], said["signal_type"]] += 1
        gamma /= self.signals[actor[0], said["signal_type"]]
        shown = set(said["evidence_ids"])
        if actor[1] in ("AI_AGENT", "EXTERNAL_CONNECTOR") and actor[0] != self.asserter:
            gamma *= DISCOUNT if not shown or shown & self.evidence else 1.0
        if (session := said.get("session_id")) is not None:
            gamma = max(0.0, min(gamma, SESSION_CAP - self.sessions[session]))
            self.sessions[session] += nine(gamma)
        assert said["gamma_effective"] == pytest.approx(gamma, abs=2e-9)
        if nine(gamma) > 0:
            c = self.at(when)
            self.begin(when, max(c, min(CEILING[self.kind], c + gamma * (1 - c))))


def live(ebb, clock, rng: Random) -> None:
    """A hundred memories, used, shown, doubted and known better over days; under a policy that deprecates none."""
    ebb.assign_policy("archivist@1.0.0")
    for name in ("seen", "heard"):
        ebb.event(name, ref=name)
    for number in range(100):
        kind, source = KINDS[number % len(KINDS)]
        said = {"epistemic_type": kind, "source_type": source, "evidence": rng.choice([[], ["seen"]])}
        believe(ebb, f"m{number}", salience=0.9, **said)
    for _ in range(10):
        clock.forward(hours=rng.randint(1, 14))
        asked = []
        for number in rng.sample(range(100), 60):
            name, (actor, actor_type) = rng.choice([*GAMMA, *DELTA]), rng.choice(ACTORS)
            shown = {"session_id": rng.choice(["s1", "s2"]), "evidence": rng.choice([[], ["seen"], ["heard"]])}
            asked.append(signal(name, f"m{number}", actor, actor_type, **shown))
        asked += [{"op": "ACCESS", "object": f"m{number}"} for number in rng.sample(range(100), 20)]
        conditional = rng.sample(range(4, 100, 6), 4)
        asked += [{"op": "CONDITION_SET", "object": f"m{number}", "condition": "TRUE"} for number in conditional]
        ebb.ask(*asked)
        ebb.organise()
    better = {"op": "EPISTEMIC_TRANSITION", "to_type": "ASSERTED", "trigger_type": "user_correction"}
    ebb.ask(*(better | {"object": f"m{number}"} for number in range(2, 60, 6)))
    clock.forward(days=1)


def test_confidence_of_a_hundred_objects_is_reproduced_from_the_log_alone(ebb, clock):
    """From payloads and the formulas, nothing of `after`: γ with each reduction, and c at every entry and now."""
    with ebb.store.db.connect():
        live(ebb, clock, Random(8))
        with ebb.store.begin() as connection:
            log = connection.execute(
                text(
                    "SELECT stream_id, op_type, effective_at, actor_id, actor_type, payload "
                    "FROM event_log WHERE stream_type = 'object' ORDER BY seq"
                )
            ).all()
        told = defaultdict(Told)
        for entry in log:
            stream = str(entry.stream_id)
            told[stream].hear(
                entry.op_type, entry.effective_at, (entry.actor_id, entry.actor_type), json.loads(entry.payload)
            )
        assert len(told) == 100
        shown = {str(memory.id): memory for memory in ebb.memories(everything=True)}
    assert str(id_of_ref("default", "m0")) in shown
    for stream, one in told.items():
        assert shown[stream].lifecycle_state == "ACTIVE"
        assert shown[stream].confidence == pytest.approx(one.at(clock.now), abs=5e-9), shown[stream].ref
