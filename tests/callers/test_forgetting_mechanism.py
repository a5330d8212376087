"""The ForgettingMechanism's whole surface under `spaced`, and each defect listed of it gone; on both databases.

What it computes is in tests/unit/test_built_in_pages.py, against the mechanism's own algorithm.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import log
from typing import Any

import pytest
from tests.conftest import Clock

from ebbtide import BadInput, Ebbtide
from ebbtide.policy.document import policy_from

HALF_LIFE_HOURS = 160
THRESHOLD = 0.05
KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


def importance(original: float, hours: float, accesses: int = 0) -> float:
    """What the mechanism means an entry to have, so many hours after its last access, unfloored."""
    return original * 0.5 ** (hours / HALF_LIFE_HOURS / min(2.0, 1 + 0.05 * accesses))


def near(expected: float) -> Any:
    return pytest.approx(expected, abs=2e-9)


@pytest.fixture
def spaced(ebb: Ebbtide) -> Ebbtide:
    for namespace in ("default", "other"):
        ebb.assign_policy("spaced@1.0.0", namespace=namespace)
    return ebb


def remember(ebb: Ebbtide, *refs: str, **more: Any) -> None:
    ebb.ask(*(KNOWN | {"ref": ref, "value": f"what {ref} says", "salience": 0.5} | more for ref in refs))


# Defects


def test_compounding_is_gone(spaced, clock):
    """Passes back to back take nothing twice: after eight in two days the scores are those of one, and of none."""
    remember(spaced, "often")
    remember(spaced, "once", namespace="other")
    for _ in range(8):
        clock.forward(hours=6)
        spaced.organise(namespace="default")
        assert spaced.organise(namespace="default") == [], "a slot is done once"
    spaced.organise(namespace="other")
    often, once = spaced.memory("often"), spaced.memory("once", namespace="other")
    assert often.salience == often.stored_salience == once.salience == once.stored_salience == near(importance(0.5, 48))
    twice = importance(importance(0.5, 48), 48)
    assert importance(0.5, 48) - twice > 0.07, "what two of the mechanism's passes would have come to"


@pytest.mark.lets_go
def test_an_empty_list_is_an_empty_list(spaced):
    """`apply([])` gave a text, which two names could not be unpacked from."""
    runs = spaced.organise()
    assert ({run.entries for run in runs}, {run.status for run in runs}) == ({0}, {"nothing_due"})
    assert spaced.memories() == spaced.memories(everything=True) == []
    assert spaced.audit("at_risk").rows == []


@pytest.mark.parametrize(
    ("params", "field", "says"),
    [
        ({"profiles": {"MEDIUM": {"lambda": -0.15}}}, "params.profiles.MEDIUM.lambda", "from 0 to 100"),
        ({"profiles": {"MEDIUM": {"lambda": float("nan")}}}, "params.profiles.MEDIUM.lambda", "from 0 to 100"),
        ({"tier_thresholds": {"archive": 1.5}}, "params.tier_thresholds.archive", "from 0 to 1"),
        ({"tier_thresholds": {"warning": 0.05, "archive": 0.2}}, "params.tier_thresholds", "out of order"),
        ({"profiles": {"MEDIUM": {"lambda": 0.1, "salience_floor": -0.05}}}, None, "from 0 to 1"),
        (
            {"profiles": {"MEDIUM": {"lambda": 0.1, "by_use": {"kind": "linear_capped", "beta": -0.05}}}},
            None,
            "from 0 to 100",
        ),
        (
            {"profiles": {"MEDIUM": {"lambda": 0.1, "by_use": {"kind": "linear_capped", "cap": 0.5}}}},
            None,
            "from 1 to 1000",
        ),
    ],
)
def test_settings_are_validated(params, field, says):
    """Negative rates and thresholds above 1 were accepted silently."""
    with pytest.raises(BadInput, match=says) as refusal:
        policy_from({"id": "own", "version": "1.0.0", "params": params})
    assert field is None or refusal.value.field == field


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"high_frequency_threshold": 5}, "not permitted"),
        ({"apply_decay_on_read": True}, "not permitted"),
        ({"profiles": {"MEDIUM": {"lambda": 0.1, "scale_days": 2}}}, "would not be read"),
        ({"profiles": {"MEDIUM": {"lambda": 0.1, "by_use": {"kind": "linear_capped", "alpha": 1}}}}, "not be read"),
    ],
)
def test_no_setting_is_declared_and_not_read(params, says):
    with pytest.raises(BadInput, match=says):
        policy_from({"id": "own", "version": "1.0.0", "params": params})


@pytest.mark.lets_go
def test_passes_at_the_same_time_decay_once(spaced, clock, url):
    """Entries were changed in place, unsynchronised."""
    remember(spaced, *(f"n{n}" for n in range(5)))
    clock.forward(hours=48)

    def one(_: int) -> int:
        with Ebbtide(url, clock=clock) as ebb:
            return sum(run.decayed for run in ebb.organise(tasks=["decay_medium"]))

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(one, range(2))) == 5
    (stored,) = {memory.stored_salience for memory in spaced.memories()}
    assert stored == near(importance(0.5, 48))


@pytest.mark.lets_go
def test_the_report_names_all_at_risk_not_the_first_ten(spaced, clock):
    """At risk is what is below 0.2: under `spaced` what was warned or is to be, and leaves within 22 days."""
    remember(spaced, *(f"low{n:02}" for n in range(12)), salience=0.15)
    remember(spaced, "high", salience=0.9)
    remember(spaced, "middle", salience=0.25)
    clock.forward(days=1)
    spaced.organise()
    before = spaced.memories(everything=True)
    below = {memory.ref for memory in before if importance(memory.salience, 0) < 0.2}
    assert len(below) == 12
    found = spaced.audit("at_risk", days=22)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    warnings = {row["ref"] for row in rows if row["rule"] == "warning"}
    leaving = {row["ref"] for row in rows if row["rule"] != "warning"}
    assert (warnings, leaving) == ({"middle", "high"}, below | {"middle"})
    assert spaced.memories(everything=True) == before, "it changes nothing"
    asserted = before[0].created_at
    for row in rows:
        original = {"high": 0.9, "middle": 0.25}.get(row["ref"], 0.15)
        to = 0.20 if row["rule"] == "warning" else THRESHOLD
        hours = (row["due_at"] - asserted).total_seconds() / 3600
        assert hours == pytest.approx(HALF_LIFE_HOURS * log(original / to) / log(2), abs=1.01 / 3600)
        assert row["salience"] == near(importance(original, 24))


# The surface


def ago(clock: Clock, days: int) -> str:
    moved = Clock()
    moved.now = clock.now
    moved.forward(days=-days)
    return moved.iso


def test_a_set_is_kept_or_forgotten_and_one_entry_fares_as_in_the_set(spaced, clock):
    """`apply` and `apply_to_single`: the example of ten notes, each a day older than the one before."""
    for days in range(10):
        remember(spaced, f"n{days}", salience=0.06, effective_at=ago(clock, days))
    kept = {f"n{days}" for days in range(10) if importance(0.06, days * 24) > THRESHOLD}
    assert len(kept) == 2
    (gone,) = [step.at for step in spaced.explain("n1").forecast if step.to_state == "ARCHIVED"]
    assert (gone - spaced.memory("n1").created_at).total_seconds() == pytest.approx(
        HALF_LIFE_HOURS * 3600 * log(0.06 / THRESHOLD) / log(2), abs=1
    )
    spaced.organise(no_guard=True)
    assert {memory.ref for memory in spaced.memories()} == kept
    assert {memory.lifecycle_state for memory in spaced.memories(everything=True)} == {"ACTIVE", "ARCHIVED"}
    assert spaced.restore("n9").lifecycle_state == "ACTIVE", "what was forgotten can be brought back"


def test_a_preview_changes_nothing_and_is_what_comes(spaced, clock):
    """`score_retention`; and decay on read, which `apply_decay_on_read` only promised."""
    remember(spaced, "a")
    clock.forward(days=7)
    before = spaced.history("a")
    preview = spaced.memory("a")
    assert (preview.salience, preview.stored_salience) == (near(importance(0.5, 7 * 24)), 0.5)
    rehearsed = spaced.organise(dry_run=True)
    assert (spaced.memory("a"), spaced.history("a")) == (preview, before)
    done = spaced.organise()
    assert [(run.task, run.decayed) for run in rehearsed] == [(run.task, run.decayed) for run in done]
    assert spaced.memory("a").stored_salience == preview.salience


def test_every_access_slows_the_curve_and_age_is_counted_from_the_last(spaced, clock):
    """Up to half the rate; by the last access everywhere, where the mechanism's neighbours went by the timestamp."""
    remember(spaced, "once", "often")
    clock.forward(hours=100)
    spaced.ask({"op": "ACCESS", "object": "once"}, *[{"op": "ACCESS", "object": "often"}] * 25)
    assert (spaced.memory("once").salience, spaced.memory("often").salience) == (0.5, 0.5)
    clock.forward(hours=320)
    assert spaced.memory("once").salience == near(importance(0.5, 320, accesses=1))
    assert spaced.memory("often").salience == near(importance(0.5, 320, accesses=25)) == near(0.25)
