"""What a fit reads of a store, and that it writes nothing, on both databases."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ledger import check

from ebbtide import BadInput, CheckFailed, Ebbtide, NotFound
from ebbtide.fit import exposures
from ebbtide.model import instant

BEGIN = instant.parse("2026-01-05T00:00:00Z")
KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
GAINS, LOSSES = ("REFERENCED", "CONFIRMED"), ("CORRECTED", "UNUSED", "IGNORED_REPEATEDLY")
OBJECTS, SIGNALS = 60, 4


def lived(ebb: Ebbtide, clock: Any) -> list[dict[str, Any]]:
    """Sixty memories with four signals each, some shown in between, one pinned; and one of another namespace."""
    clock.now = BEGIN + 365 * instant.DAY
    dice, asked = random.Random(5), list[dict[str, Any]]()
    for n in range(OBJECTS):
        at = BEGIN + n * instant.HOUR
        asked.append(KNOWN | {"ref": f"m{n:02}", "value": n, "at": at})
        for _ in range(SIGNALS):
            if dice.random() < 0.3:
                asked.append({"op": "ACCESS", "object": f"m{n:02}", "at": at + instant.DAY // 2})
            gap = dice.choice([1, 3, 9]) * instant.DAY
            at += gap
            gains = dice.random() < (1 + gap / instant.DAY) ** -0.4
            signal = dice.choice(GAINS if gains else LOSSES)
            op = "REINFORCE" if gains else "PENALTY"
            asked.append({"op": op, "object": f"m{n:02}", "signal": signal, "actor_id": str(len(asked)), "at": at})
    asked.append({"op": "PIN", "object": "m07", "at": at + 40 * instant.DAY})
    asked.append({"op": "PENALTY", "object": "m07", "signal": "UNUSED", "at": at + 50 * instant.DAY})
    ebb.ask(*({k: v for k, v in one.items() if k != "at"} | {"effective_at": instant.iso(one["at"])} for one in asked))
    ebb.ask(KNOWN | {"ref": "x", "value": 1, "namespace": "other"})
    ebb.ask({"op": "PENALTY", "object": "x", "signal": "UNUSED", "namespace": "other"})
    return asked


def slowly(asked: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of each signal, by its object's ref: recall, ages by the three clocks, idle days, uses and accesses before."""
    rows = []
    for ref in sorted({one["object"] for one in asked if "object" in one}):
        mine = [one for one in asked if ref in (one.get("ref"), one.get("object"))]
        created = reinforced = accessed = signalled = mine[0]["at"]
        uses = accesses = 0
        stood = False
        for one in mine[1:]:
            at, op = one["at"], one["op"]
            if op in ("REINFORCE", "PENALTY"):
                ages = tuple((at - then) / instant.DAY for then in (created, reinforced, accessed, signalled))
                rows.append((ref, op == "REINFORCE", *ages, uses, accesses, stood))
                signalled = at
            if op == "REINFORCE":
                reinforced = accessed = at
                uses += 1
            if op == "ACCESS":
                accessed, accesses = at, accesses + 1
            stood = stood or op == "PIN"
    return rows


def test_exposures_are_read_as_they_happened_and_nothing_is_written(ebb, clock):
    asked = lived(ebb, clock)
    before = check(ebb).entries
    now = clock()
    with ebb.store.begin() as connection:
        found = exposures.read(ebb.store.db, connection, "default", now, now)
        early = exposures.read(ebb.store.db, connection, "default", BEGIN + 9 * instant.DAY, now)
        unknown = exposures.read(ebb.store.db, connection, "default", now, BEGIN)
    refs = {str(memory.id): memory.ref for memory in ebb.memories(everything=True)}
    order = [refs[id_] for id_ in sorted(refs)]
    columns = ("recalled", "since_created", "since_reinforced", "since_accessed", "idle", "reinforcements", "accesses")
    read = [
        (order[of - 1], *values)
        for of, *values in zip(
            found.object, *(getattr(found, name).tolist() for name in (*columns, "stood")), strict=True
        )
    ]
    assert sorted(read, key=lambda row: row[:3:2]) == sorted(slowly(asked), key=lambda row: row[:3:2])
    assert set(found.profile) == {"MEDIUM"}
    assert set(found.kind) == {"ASSERTED//"}
    signals = [one["at"] for one in asked if one["op"] in ("REINFORCE", "PENALTY")]
    assert 0 < len(early) == sum(at <= BEGIN + 9 * instant.DAY for at in signals)
    assert len(unknown) == 0

    fit = ebb.fit_policy(curves=["power_law"], resamples=20)
    (profile,) = fit.profiles
    assert (profile.objects, profile.recalls + profile.misses) == (OBJECTS, OBJECTS * SIGNALS)
    assert (fit.current, fit.policy.name) == ("default@1.0.0", "fitted@1.0.0")
    assert ebb.register_policy(fit.policy)
    assert ebb.fit_policy(curves=["power_law"], resamples=20).policy.name == "fitted@1.1.0"
    assert check(ebb).entries == before, "nothing is written"
    assert ebb.assign_policy("fitted@1.0.0") == OBJECTS


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"namespace": "nowhere"}, "there is no namespace"),
        ({"curves": ["sigmoid"]}, "'sigmoid' is no curve"),
        ({"min_days": -1}, "from 0 to 36525"),
        ({"min_days": float("nan")}, "from 0 to 36525"),
        ({"resamples": 0}, "from 1 to"),
        ({"seed": -1}, "0 or more"),
        ({"as_of": "2026-01-05"}, "as-of: "),
    ],
)
def test_bad_input_is_refused(ebb, given, what):
    ebb.ask(KNOWN | {"ref": "x", "value": 1})
    with pytest.raises((BadInput, NotFound), match=what):
        ebb.fit_policy(**given)


def test_too_little_says_what_is_missing(ebb):
    ebb.ask(KNOWN | {"ref": "x", "value": 1})
    with pytest.raises(CheckFailed, match="no REINFORCE and no PENALTY"):
        ebb.fit_policy()
