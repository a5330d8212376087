"""FSRS's stability through the whole store: requests, passes, assignments, replay; the same bits on both databases."""

from __future__ import annotations

import random
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from ledger import Ledger, check

from ebbtide import Ebbtide
from ebbtide.model.words import PenaltySignal, ReinforceSignal
from ebbtide.policy.document import policy_from

KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
PROFILES = ("SLOW", "MEDIUM", "FAST", "RAPID", "PERMANENT")


def lived(ebb: Ebbtide, clock: Any) -> None:
    """Twenty memories of all profiles, half of them there before the policy; what is known is told over 60 days."""
    dice = random.Random(6)

    def remember(begin: int, end: int) -> None:
        profiles = {n: PROFILES[n % len(PROFILES)] for n in range(begin, end)}
        ebb.ask(*(KNOWN | {"ref": f"m{n}", "value": n, "decay_profile": name} for n, name in profiles.items()))

    remember(0, 10)
    clock.forward(days=3)
    ebb.assign_policy("fsrs@1.0.0")
    remember(10, 20)
    ebb.ask(
        *({"op": "RELATE", "edge_type": "SUPPORTS", "source": f"m{n}", "target": f"m{n % 4}"} for n in range(4, 20))
    )
    for day in range(30):
        clock.forward(days=2, seconds=day)
        asked = []
        for n in dice.sample(range(20), 4):
            gains = dice.random() < 0.6
            signal = dice.choice([*ReinforceSignal] if gains else [*PenaltySignal])
            asked.append({"op": "REINFORCE" if gains else "PENALTY", "object": f"m{n}", "signal": signal.value})
        ebb.ask(*(one | {"restore": True, "actor_id": f"a{day}"} for one in asked))
        if day % 10 == 0:
            ebb.organise()
    ebb.register_policy(policy_from(ebb.policy("fsrs@1.0.0").model_dump(mode="json") | {"version": "9.0.0"}))
    ebb.assign_policy("fsrs@9.0.0", namespace="default")


@pytest.fixture
def both(make_url_for, clock):
    begin = clock.now
    with ExitStack() as stack:
        opened = []
        for kind in ("duckdb", "postgresql"):
            numbers = count(1)
            ebb = stack.enter_context(
                Ebbtide(make_url_for(kind), clock=clock, entropy=lambda size, n=numbers: next(n).to_bytes(size, "big"))
            )
            clock.now = begin
            with ebb.store.session():
                lived(ebb, clock)
            opened.append(ebb)
        yield opened


def test_both_databases_learn_alike_and_replay_agrees(both):
    ledgers: list[Ledger] = [check(ebb) for ebb in both]
    assert ledgers[0].entries == ledgers[1].entries, "the same log, to the bit"
    assert ledgers[0].live == ledgers[1].live
    carried = {entry.op_type for entry in ledgers[0].entries if '"difficulty":1.0' in (entry.after or "")}
    assert carried >= {"REINFORCE", "CENTRALITY_BOOST", "POLICY_ASSIGNED"}, "whole numbers are written alike"
    for state in ledgers[0].live.values():
        assert (state.stability is None) == (state.difficulty is None) == (state.decay_profile == "PERMANENT")
    for ebb in both:
        plan = ebb.plan_replay("fsrs@1.0.0", "fsrs@9.0.0")
        assert (plan.changed, plan.conflicts) == (0, []), "whole columns compute what requests did"
