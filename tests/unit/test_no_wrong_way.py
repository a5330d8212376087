"""No signal ever moves a score the wrong way, whatever went before, and not by a rounding either."""

from __future__ import annotations

from dataclasses import replace

from beliefs import DEFAULT, T0, after, belief, nine, own, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import PenaltySignal

GAMMAS = (0.08, 0.15, 0.12, 0.10)
DELTA = {
    "CORRECTED": 0.25,
    "CONTRADICTED_BY_OBSERVATION": 0.20,
    "TASK_FAILED_WITH": 0.10,
    "IGNORED_REPEATEDLY": 0.05,
    "UNUSED": 0.0,
}
CONTINUE = own(on_reinforce="continue")

policies = st.sampled_from(
    [
        DEFAULT,
        CONTINUE,
        shipped("permastore"),
        shipped("fsrs"),
        shipped("spaced"),
        own(profiles={"MEDIUM": {"lambda": 0.02, "clock": "created"}}, reinforcement={"boost_cap": 0.1}),
    ]
)
gammas = st.builds(
    lambda gamma, nth, share: gamma / nth * share,
    st.sampled_from(GAMMAS),
    st.integers(1, 20),
    st.sampled_from([1.0, 0.4]),
)
signals = st.tuples(st.floats(0, 60), st.one_of(gammas, st.sampled_from(list(DELTA)), st.just("access")))


def signal_given(state: MemoryState, terms: Terms, at: int, signal: float | str) -> MemoryState:
    if signal == "access":
        return facts.accessed(state, terms, at)
    if isinstance(signal, float):
        return facts.reinforced(state, terms, at, signal)
    return facts.penalised(state, terms, at, PenaltySignal(signal), DELTA[signal])


@settings(max_examples=400)
@given(
    terms=policies,
    salience=st.floats(0, 1).map(nine),
    confidence=st.floats(0, 1).map(nine),
    centrality=st.sampled_from([0.0, 0.05]),
    epistemic=st.sampled_from(["OBSERVED", "ASSERTED", "UNVERIFIED"]),
    history=st.lists(signals, max_size=12),
)
def test_no_signal_moves_a_score_the_wrong_way(
    *, terms: Terms, salience: float, confidence: float, centrality: float, epistemic: str, history: list
) -> None:
    state = belief(terms, salience=salience, confidence=confidence, epistemic_type=epistemic)
    state, at = replace(state, centrality=centrality), T0
    for gap, signal in history:
        at += round(gap * DAY)
        new = signal_given(state, terms, at, signal)
        was, now = facts.shown(state, terms, at), facts.shown(new, terms, at)
        assert all(0 <= score <= 1 for score in (*now, new.decaying, new.boost, new.baseline))
        if signal == "access":
            assert now[0] >= was[0]
            assert now[1] == was[1]
        elif isinstance(signal, float):
            assert now[0] >= was[0]
            assert now[1] >= was[1]
            assert new.baseline >= state.baseline
        else:
            assert now[0] <= was[0]
            assert now[1] <= was[1]
            assert new.baseline <= state.baseline
        state = new


def test_a_reinforcement_worth_next_to_nothing_lowers_nothing() -> None:
    """What is left of a session's 0.40 may be the dust of a subtraction: rounding must not make it a loss."""
    dust = 1e-17
    state = facts.reinforced(belief(CONTINUE), CONTINUE, T0, 0.10)
    lowered = [
        hour
        for hour in range(1, 200)
        if facts.shown(facts.reinforced(state, CONTINUE, after(hour / 24), dust), CONTINUE, after(hour / 24))[0]
        < facts.shown(state, CONTINUE, after(hour / 24))[0]
    ]
    assert lowered == []


def test_a_penalty_raises_nothing_by_rounding_its_parts_up() -> None:
    """Two parts that each round up may come to more than their sum did, once one of them is nearly gone."""
    terms = own(profiles={"MEDIUM": {"lambda": 0.2, "clock": "created"}})
    state = replace(belief(terms), boost=0.40)
    raised = []
    for hour in range(2400, 2520):
        at = after(hour / 24)
        new = facts.penalised(state, terms, at, PenaltySignal.IGNORED_REPEATEDLY, 0.05)
        if facts.shown(new, terms, at)[0] > facts.shown(state, terms, at)[0]:
            raised.append(hour)
    assert raised == []
