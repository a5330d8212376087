"""What does not depend on when passes ran: with the same facts, and none between a rule's instant and the run that
executes it, scores, states and effective instants are the same bits, whatever the times and the number of passes.
Nor do they depend on the database.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import count
from typing import Any

from histories import BEGIN, History, histories, play
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ledger import Ledger, by_stream, check, entries_of, live_states
from sizes import HISTORIES

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.model.entry import Entry

DAY, WEEK = instant.DAY, 7 * instant.DAY
FEW = settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # an example takes a second or more: it is not shrunk
)
NAMES = ("namespace_id", "object_id", "content_seq", "version", "head_hash")
"""Columns that say where an entry stands, not what holds of the memory."""

pass_times = st.lists(st.integers(0, 60 * WEEK).map(lambda after: BEGIN + after), max_size=9)
outages = st.integers(0, 300).map(lambda day: BEGIN + day * DAY)
ends = st.integers(14, 60).map(lambda weeks: BEGIN + weeks * WEEK)
"""Mondays 00:00, at which every task has a slot."""


def without(outage: int, times: list[int]) -> list[int]:
    """Passes, but none for a month."""
    return [at for at in times if not outage <= at < outage + 31 * DAY]


def outcome(ebb: Ebbtide, ledger: Ledger, *instants: int) -> dict[str, Any]:
    """All that must not depend on the passes, by the name of the memory: state, decisions, and what is read."""
    names = {object_id: state.ref for object_id, state in ledger.live.items()}
    # decayed_at tells when a pass last wrote; the stored scores are left in: the last pass is at the same instant.
    state = {names[i]: asdict(s) | dict.fromkeys((*NAMES, "decayed_at")) for i, s in ledger.live.items()}
    decided = {names[i]: decisions(entries) for i, entries in by_stream(ledger.entries).items() if i in names}
    seen = {}
    for at in instants:
        for memory in ebb.memories(namespace=ledger.namespace, as_of=instant.to_datetime(at), everything=True):
            shown = (memory.salience, memory.confidence, memory.lifecycle_state, memory.withheld, memory.warned)
            seen[at, memory.ref] = shown
    return {"state": state, "decided": decided, "seen": seen}


def decisions(entries: list[Entry]) -> list[tuple[Any, ...]]:
    """The warnings and transitions of one memory: what, when effective, with which scores, why, by which policy.

    Of a TOMBSTONE not what it records of the pass that found it.
    """
    return [
        (
            e.op_type,
            e.effective_at,
            e.salience,
            e.confidence,
            e.lifecycle_state,
            e.payload,
            e.policy_id,
            e.policy_version,
        )
        for e in entries
        if e.op_type in ("DECAY_WARNING", "ARCHIVE", "DEPRECATE") or "thresholds_triggered" in json.loads(e.payload)
    ]


def test_any_set_of_passes_gives_what_one_pass_gives(ebb, clock) -> None:
    numbers = count(1)

    @FEW
    @given(history=histories(), times=pass_times, outage=outages, end=ends)
    def holds(history: History, times: list[int], outage: int, end: int) -> None:
        number = next(numbers)
        found = []
        for kind, passes in (("often", without(outage, times)), ("once", [])):
            play(ebb, clock, f"{kind}-{number}", history, passes, end)
            ledger = check(ebb, f"{kind}-{number}")
            found.append(outcome(ebb, ledger, end, outage, outage + 31 * DAY))
        assert found[0] == found[1]

    with ebb.store.db.connect():
        holds()


def test_passes_every_six_hours_for_three_weeks_give_what_one_pass_gives(ebb, clock) -> None:
    """An organiser that wakes for every slot writes many decays; none of them enters into a later score."""
    kinds = ["OBSERVED", "ASSERTED", "INFERRED", "HYPOTHETICAL", "CONDITIONAL", "UNVERIFIED"]
    history = History(
        "default@1.0.0",
        [{"object_type": "FACT", "epistemic_type": kind, "source_type": "USER_STATED"} for kind in kinds],
        [(2, number, {"op": "REINFORCE", "signal": "CONFIRMED"}) for number in range(len(kinds))],
    )
    end = BEGIN + 3 * WEEK
    with ebb.store.db.connect():
        play(ebb, clock, "often", history, range(BEGIN, end, 6 * instant.HOUR), end)
        play(ebb, clock, "once", history, [], end)
        often, once = check(ebb, "often"), check(ebb, "once")
    decays = [sum(e.op_type == "DECAY_APPLIED" for e in ledger.entries) for ledger in (often, once)]
    assert decays[0] > 5 * decays[1]
    assert outcome(ebb, often, end) == outcome(ebb, once, end)


@FEW
@given(data=st.data())
def test_a_history_gives_the_same_entries_on_both_databases(stores, data) -> None:
    """Every column of every entry, hashes included: where a log was written cannot be told from it."""
    namespace = f"same-{next(stores.numbers)}"
    history = data.draw(histories())
    times, end = data.draw(pass_times), data.draw(ends)
    logs, states, seen = [], [], []
    for ebb, clock in stores.both:
        with ebb.store.db.connect():
            play(ebb, clock, namespace, history, times, end)
            logs.append(entries_of(ebb, namespace))
            with ebb.store.begin() as connection:
                states.append(live_states(connection, namespace))
            seen.append(ebb.memories(namespace=namespace, everything=True))
    assert logs[0] == logs[1]
    assert states[0] == states[1]
    assert seen[0] == seen[1]
