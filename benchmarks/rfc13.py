"""RFC-0007, section 13: decay correctness, lifecycle transitions, the tombstone round trip.

The fourth, the time of a decay cycle, is in benchmarks/run.py, the long-horizon test in benchmarks/horizon.py.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from ebbtide import Ebbtide
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import evaluate, parameters
from ebbtide.model import instant
from ebbtide.model.words import Curve, DecayProfile
from ebbtide.policy.document import Policy, Profile, policy_from

BEGIN = instant.parse("2026-01-01T00:00:00Z")
KNOWN = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


# Decay correctness


@dataclass(frozen=True)
class Segment:
    """A memory that nobody used, as the formula sees it."""

    decaying: float
    confidence_base: float
    stability: float
    boost: float = 0.0
    segment_at: int = 0
    segment_age: int = 0
    confidence_from: int = 0
    access_count: int = 0
    reinforce_count: int = 0


def exact(profile: Profile, grade: int, begin: float, days: Decimal) -> Decimal:
    """The salience of a memory that nobody used, by the curve as its source has it, with 50 digits."""
    rate, one = Decimal(str(profile.rate)), Decimal(1)
    if profile.curve == Curve.EXPONENTIAL:
        kept = (-rate * days).exp()
    elif profile.curve == Curve.POWER_LAW:
        kept = (-rate * (one + days / Decimal(str(profile.scale_days))).ln()).exp()
    else:
        assert profile.weights is not None
        bend, stability = Decimal(repr(profile.weights[20])), Decimal(repr(profile.weights[grade]))
        factor = (-(Decimal("0.9").ln()) / bend).exp() - one
        kept = (-bend * (one + factor * days / stability).ln()).exp()
    floor = Decimal(str(profile.salience_floor)) if profile.floor_after == 0 else Decimal(0)
    return max(floor, Decimal(str(begin)) * kept)


def half_life(profile: Profile, grade: int) -> Decimal | None:
    """The age in days at which the curve is down to half, by the inverse of the curve as its source has it."""
    half, one = Decimal(2).ln(), Decimal(1)
    if profile.curve == Curve.FSRS:
        assert profile.weights is not None
        bend, stability = Decimal(repr(profile.weights[20])), Decimal(repr(profile.weights[grade]))
        return ((half / bend).exp() - one) * stability / ((-(Decimal("0.9").ln()) / bend).exp() - one)
    rate = Decimal(str(profile.rate))
    if rate == 0:
        return None
    if profile.curve == Curve.EXPONENTIAL:
        return half / rate
    return ((half / rate).exp() - one) * Decimal(str(profile.scale_days))


GRADES = ("again", "hard", "good", "easy")
AGES = 2_000


def decay_correctness(policies: list[Policy]) -> Iterator[dict[str, Any]]:
    """Per policy and profile: what is left of 0.9 at the half-life, and the largest error from a microsecond to a
    hundred years, of numbers that are kept with 9 decimals."""
    getcontext().prec = 50
    for policy in policies:
        for name in DecayProfile:
            profile = policy.params.profiles[name]
            grade = GRADES.index(profile.initial_grade or "good")
            numbers = parameters(policy.params, name)
            segment = Segment(0.9, 0.8, profile.weights[grade] if profile.weights else 1.0)
            worst = Decimal(0)
            for step in range(AGES + 1):
                at = round(10 ** (step / AGES * math.log10(36_525 * instant.DAY)))
                days = Decimal(at) / instant.DAY
                found = evaluate(SCALAR, numbers, segment, at)
                mu = Decimal(str(policy.params.mu_multiplier)) * Decimal(str(profile.rate))
                sure = Decimal("0.8") * (-mu * days).exp()
                worst = max(worst, abs(Decimal(found.salience) - exact(profile, grade, 0.9, days)))
                worst = max(worst, abs(Decimal(found.confidence) - sure))
            days_ = half_life(profile, grade)
            there = None
            if days_ is not None and days_ < 1_000_000:
                there = evaluate(SCALAR, numbers, segment, round(days_ * instant.DAY)).salience / 0.9
            yield {
                "policy": policy.name,
                "profile": name.value,
                "half_life_days": None if days_ is None else float(days_),
                "left_at_half_life": there,
                "largest_error": float(worst),
            }


def half_lives_of_a_store(url: str) -> dict[str, float]:
    """What is left of 0.8 at the half-life of each profile of `default` that decays, as a store reads it."""
    clock = Clock()
    rates = {"SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
    with Ebbtide.open(url, clock=clock) as ebb:
        for name in rates:
            ebb.assert_memory(name, ref=name, salience=0.8, decay_profile=name, **KNOWN)
        found = {}
        for name, rate in rates.items():
            clock.now = BEGIN + round(math.log(2) / rate * instant.DAY)
            found[name] = ebb.memory(name).salience / 0.8
        return found


# Lifecycle transitions

ALLOWED = {
    ("ACTIVE", "ARCHIVED"),
    ("ACTIVE", "DEPRECATED"),
    ("ACTIVE", "SUPERSEDED"),
    ("ARCHIVED", "ACTIVE"),
    ("DEPRECATED", "ARCHIVED"),
    ("SUPERSEDED", "ARCHIVED"),
}
"""RFC-0007, section 6, with what retention and erasure may do to what is out of use."""
BY_OPERATION = {
    "ARCHIVED": {"ARCHIVE", "TOMBSTONE"},
    "DEPRECATED": {"DEPRECATE"},
    "SUPERSEDED": {"SUPERSEDE"},
    "ACTIVE": {"RESTORE"},
}
RULES = {
    "warning": lambda s, c: s < 0.30,
    "archive": lambda s, c: 0.05 <= s < 0.10 and c >= 0.15,
    "force_archive": lambda s, c: s < 0.05 and c >= 0.15,
    "deprecate_by_confidence": lambda s, c: c < 0.15,
}
LEADS_TO = {
    "archive": lambda c: "DEPRECATED" if c < 0.40 else "ARCHIVED",
    "force_archive": lambda c: "ARCHIVED",
    "deprecate_by_confidence": lambda c: "DEPRECATED",
}
KINDS = ("OBSERVED", "ASSERTED", "INFERRED", "HYPOTHETICAL", "CONDITIONAL", "UNVERIFIED")
ASKS: tuple[dict[str, Any], ...] = (
    *({"op": "ACCESS"},) * 4,
    *({"op": "REINFORCE", "signal": signal} for signal in ("REFERENCED", "CONFIRMED")),
    *({"op": "PENALTY", "signal": signal} for signal in ("CORRECTED", "CONTRADICTED_BY_OBSERVATION")),
    *({"op": op} for op in ("PIN", "UNPIN", "UNPIN", "HOLD", "RELEASE", "ARCHIVE", "RESTORE", "RESTORE", "DEPRECATE")),
    {"op": "SUPERSEDE"},
)
WARM = 60
"""So many of the newest memories are asked about."""


def transitions(url: str, steps: int = 10_000, seed: int = 1) -> dict[str, Any]:
    """A random walk of requests and passes under `default`, and what its log says of every transition."""
    clock, random = Clock(), Random(seed)
    counts: Counter[str] = Counter()
    with Ebbtide.open(url, clock=clock) as ebb:
        with ebb.store.session():
            refs: list[str] = []
            lines: list[dict[str, Any]] = []
            for step in range(steps):
                drawn = random.random()
                if drawn < 0.05:
                    counts.update(_taken(ebb, lines))
                    clock.now += round(random.expovariate(1 / 3) * instant.DAY)
                    ebb.organise(tasks=["lifecycle"], no_guard=True)
                    counts["passes"] += 1
                    lines = []
                    continue
                clock.now += instant.SECOND
                if not refs or drawn < 0.15:
                    refs.append(f"m{step}")
                    line = _belief(random, refs[-1])
                else:
                    line = _request(random, refs[-WARM:], step)
                lines.append(line | {"effective_at": instant.iso(clock.now)})
            counts.update(_taken(ebb, lines))
            clock.now += 400 * instant.DAY
            ebb.organise(tasks=["lifecycle"], no_guard=True)
        return {"steps": steps, "seed": seed, **counts, **_judged(ebb)}


def _belief(random: Random, ref: str) -> dict[str, Any]:
    chosen = {"epistemic_type": random.choice(KINDS), "salience": round(random.uniform(0.02, 1), 3)}
    sure = {"confidence": round(random.uniform(0.1, 1), 3)}
    return {"op": "ASSERT", "ref": ref, "value": ref, **KNOWN, "subject": ref, **chosen, **sure}


def _request(random: Random, refs: list[str], step: int) -> dict[str, Any]:
    line = {**random.choice(ASKS), "object": random.choice(refs)}
    return line | {"value": f"new {step}"} if line["op"] == "SUPERSEDE" else line


def _taken(ebb: Ebbtide, lines: list[dict[str, Any]]) -> dict[str, int]:
    """Asks what was asked between two passes; what a rule refuses is left out, and counted."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    refused = len(ebb.ingest(io.BytesIO(text.encode()), "walk", keep_going=True).refused)
    return {"requests": len(lines) - refused, "refused": refused}


def _judged(ebb: Ebbtide) -> dict[str, Any]:
    states = ebb.sql(
        "SELECT CAST(object_id AS text), op_type, lifecycle_state FROM entries "
        "WHERE lifecycle_state IS NOT NULL ORDER BY object_id, version",
        limit=10_000_000,
    ).rows
    moves, wrong, before = Counter[str](), list[str](), dict[str, str]()
    for object_id, op_type, state in states:
        old = before.get(object_id)
        before[object_id] = state
        if old is None:
            good = state == "ACTIVE"
        else:
            good = old == state or ((old, state) in ALLOWED and op_type in BY_OPERATION[state])
            if old != state:
                moves[f"{old} → {state}"] += 1
        if not good:
            wrong.append(f"{object_id}: {old} → {state} by {op_type}")
    rules = Counter[str]()
    decided = ebb.sql(
        "SELECT t.rule, t.to_state, t.salience, coalesce(t.confidence, 1) AS confidence, t.object_id "
        "FROM lifecycle_transitions t WHERE t.rule IS NOT NULL ORDER BY t.seq",
        limit=10_000_000,
    ).rows
    for rule, state, salience, confidence, object_id in decided:
        rules[rule] += 1
        if not RULES[rule](salience, confidence):
            wrong.append(f"{object_id}: {rule} at {salience}, {confidence}")
        if rule in LEADS_TO and LEADS_TO[rule](confidence) != state:
            wrong.append(f"{object_id}: {rule} at {confidence} led to {state}")
    overdue = [
        str(one.id)
        for one in ebb.memories(everything=True, limit=None)
        if one.lifecycle_state == "ACTIVE" and not one.pinned and (one.salience < 0.10 or one.confidence < 0.15)
    ]
    return {
        "moves": dict(sorted(moves.items())),
        "rules": dict(sorted(rules.items())),
        "wrong": wrong[:20],
        "left_behind": overdue[:20],
        "verified": ebb.verify().ok,
        "rebuilt_equal": ebb.rebuild().equal,
    }


# The tombstone round trip

SECRETS = ("the key lies under the mat", "the alarm is 4711", "the dentist is on Friday")
KEPT = "the door is green"
KEEPING = policy_from(
    {
        "id": "keeping",
        "version": "1.0.0",
        "params": {
            "retention": [
                {"match": {"object_types": ["TASK"]}, "ttl_days": 10, "clock": "created", "action": "archive"},
                {"match": {"object_types": ["INTENT"]}, "ttl_days": 20, "clock": "created", "action": "erase"},
            ]
        },
    }
)


def tombstones(folder: Path) -> dict[str, bool]:
    """Expire, erase, verify, rebuild, export, import: what holds of each of the two stores and of the pack."""
    clock = Clock()
    with Ebbtide.open(f"duckdb:///{folder / 'here.duckdb'}", clock=clock) as ebb:
        ebb.register_policy(KEEPING)
        ebb.assign_policy(KEEPING.name)
        said = ebb.event(SECRETS[2], ref="said", subject="maya")
        known = {key: value for key, value in KNOWN.items() if key != "object_type"}
        ebb.assert_memory(KEPT, ref="expires", object_type="TASK", **known)
        ebb.assert_memory(SECRETS[0], ref="goes", object_type="INTENT", **known)
        ebb.assert_memory(SECRETS[1], ref="asked", object_type="FACT", **known)
        ebb.assert_memory(SECRETS[2], ref="hers", object_type="FACT", subject="maya", evidence=[str(said)], **known)
        clock.now += 30 * instant.DAY
        ebb.organise(no_guard=True)
        ebb.erase("asked")
        ebb.erase(subject="maya")
        here = _holds(ebb, "here")
        ebb.export_pack(folder / "pack")
    with Ebbtide.open(f"duckdb:///{folder / 'there.duckdb'}", clock=clock) as ebb:
        ebb.import_pack(folder / "pack")
        again = ebb.import_pack(folder / "pack")
        there = _holds(ebb, "there")
    packed = "".join(str(pq.read_table(file).to_pylist()) for file in sorted((folder / "pack").rglob("*.parquet")))
    return {
        **here,
        "what was erased is in no file of the pack": not any(secret in packed for secret in SECRETS),
        "what was archived is in the pack": KEPT in packed,
        "the pack imports, and imported again changes nothing": not again.operations and not again.contents,
        **there,
    }


def _holds(ebb: Ebbtide, where: str) -> dict[str, bool]:
    found = {str(one.ref): one for one in ebb.memories(everything=True, limit=None)}
    rows = ebb.sql("SELECT ref, action, reason FROM tombstones WHERE target_type = 'memory_object'").rows
    stones = {ref: (action, reason) for ref, action, reason in rows}
    by_ttl = "retention_policy_expiry"
    wanted = {"expires": ("archive", by_ttl), "goes": ("erase", by_ttl)}
    wanted |= dict.fromkeys(("asked", "hers"), ("erase", "user_request"))
    return {
        f"{where}: each has its tombstone, with action and reason": stones == wanted,
        f"{where}: erased memories have no value, the archived one keeps its own": (
            [found[ref].value for ref in ("goes", "asked", "hers")] == [None] * 3 and found["expires"].value == KEPT
        ),
        f"{where}: none is eligible for retrieval": not ebb.memories(),
        f"{where}: the log verifies": ebb.verify().ok,
        f"{where}: a rebuild gives the same state": ebb.rebuild().equal,
    }
