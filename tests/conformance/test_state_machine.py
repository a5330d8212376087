"""Whatever is asked of memory, in whatever order and however long time passes in between, the books balance:
after every step the log, its chains, its batches and the state say the same thing, and a refused request has left
nothing but its row in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger import Ledger, check, read

from ebbtide import BadInput, Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.identity import id_of_ref
from ebbtide.model.state import MemoryState
from ebbtide.model.words import DecayProfile, EpistemicType, ObjectType, SourceType

POLICIES = [f"{name}@1.0.0" for name in ("default", "archivist", "fsrs", "permastore", "recency", "spaced")]
EPISTEMIC = [kind.value for kind in EpistemicType if kind != "DEPRECATED"]
SOURCES = [source.value for source in SourceType]
GAINS = ("REFERENCED", "CONFIRMED", "TASK_COMPLETED_WITH", "CORROBORATED_BY_EXTERNAL")
LOSSES = ("CORRECTED", "CONTRADICTED_BY_OBSERVATION", "TASK_FAILED_WITH", "IGNORED_REPEATEDLY", "UNUSED")
BETTER = {"UNVERIFIED": "ASSERTED", "INFERRED": "ASSERTED", "HYPOTHETICAL": "ASSERTED", "CONDITIONAL": "ASSERTED"}
BETTER["ASSERTED"] = "OBSERVED"


def always(_: MemoryState) -> bool:
    return True


def there(state: MemoryState) -> bool:
    """No TOMBSTONE was written of it: after one only ACCESS, HOLD and RELEASE are taken."""
    return state.tombstoned_at is None


def active(state: MemoryState) -> bool:
    return state.lifecycle_state == "ACTIVE"


def archived(state: MemoryState) -> bool:
    return state.lifecycle_state == "ARCHIVED" and there(state)


def active_or_archived(state: MemoryState) -> bool:
    return active(state) or archived(state)


def conditional(state: MemoryState) -> bool:
    return active(state) and state.epistemic_type == "CONDITIONAL"


def becomes(to: str) -> Callable[[MemoryState], bool]:
    return lambda state: active(state) and to in ("DEPRECATED", BETTER.get(state.epistemic_type))


ABOUT: list[tuple[dict[str, Any], Callable[[MemoryState], bool]]] = [
    *(({"op": "REINFORCE", "signal": signal}, active) for signal in GAINS),
    *(({"op": "PENALTY", "signal": signal}, active) for signal in LOSSES),
    *(({"op": "CONDITION_SET", "condition": condition}, conditional) for condition in ("TRUE", "FALSE")),
    *(
        ({"op": "EPISTEMIC_TRANSITION", "to_type": to, "trigger_type": "user_correction"}, becomes(to))
        for to in ("ASSERTED", "OBSERVED", "DEPRECATED")
    ),
    *[({"op": "PIN"}, active), ({"op": "UNPIN"}, there), ({"op": "ACCESS"}, always)] * 2,
    ({"op": "REINFORCE", "signal": "CONFIRMED", "restore": True}, active_or_archived),
    ({"op": "PENALTY", "signal": "CORRECTED", "restore": True}, active_or_archived),
    ({"op": "RESTORE"}, archived),
    ({"op": "ARCHIVE"}, active),
    ({"op": "DEPRECATE"}, active),
    ({"op": "HOLD"}, always),
    ({"op": "RELEASE"}, always),
    ({"op": "SUPPRESS"}, there),
    ({"op": "SUPPRESS", "freeze": True}, active),
    ({"op": "SUPPRESS", "freeze": True, "days": 9}, active),
]
"""What is asked about one object, and of which objects no rule refuses it; `days` is until a freeze ends."""
WRONG = ("STALE", "SAME NAME", "NOBODY")
"""An older version than the object's, a name that was used for something else, an object that is not there."""
DAY = 24 * 60

scores = st.none() | st.floats(0, 1, allow_nan=False).map(lambda x: round(x, 9))
MINUTES = st.integers(1, 600) | st.sampled_from([1, 3, 7, 12, 31, 200]).map(lambda days: days * DAY)
minutes_back = st.just(0) | st.integers(1, 60 * DAY)
beliefs = st.fixed_dictionaries(
    {
        "object_type": st.sampled_from([kind.value for kind in ObjectType]),
        "epistemic_type": st.sampled_from(EPISTEMIC),
        "source_type": st.sampled_from(SOURCES),
        "salience": scores,
        "confidence": scores,
        "decay_profile": st.none() | st.sampled_from([profile.value for profile in DecayProfile]),
    }
)


def given_of(belief: dict[str, Any]) -> dict[str, Any]:
    """The fields of a belief that are said; IMPORTED has to say its confidence."""
    said = {name: value for name, value in belief.items() if value is not None}
    return said | ({"confidence": 0.7} if said["source_type"] == "IMPORTED" and "confidence" not in said else {})


def nothing_more(before: Ledger, after: Ledger) -> None:
    """What must come of a step beyond that the books balance: nothing."""


def unchanged(before: Ledger, after: Ledger) -> None:
    """A step that must leave everything as it is, refusals included."""
    assert (after.entries, after.live, after.refusals) == (before.entries, before.live, before.refusals)


class Life(RuleBasedStateMachine):
    """A namespace's life. `ledger` is what `check` read after the last step, `then` what must come of the next one."""

    ebb: ClassVar[Ebbtide]
    clock: ClassVar[Any]
    numbers: ClassVar[count]
    objects: Bundle[str] = Bundle("objects")

    @initialize(target=objects, policy=st.sampled_from(POLICIES), first=st.tuples(beliefs, beliefs, beliefs))
    def begin(self, policy: str, first: tuple[dict[str, Any], ...]) -> Any:
        number = next(self.numbers)
        self.namespace = f"life-{number}"
        self.clock.set("2026-03-02T07:30:00.000001Z")
        self.refs, self.then = count(1), nothing_more
        self.ebb.ask({"op": "EVENT", "namespace": self.namespace, "ref": "began", "content": "hello"})
        self.ebb.assign_policy(policy, namespace=self.namespace)
        self.ledger: Ledger = read(self.ebb, self.namespace)
        refs = [f"m{next(self.refs)}" for _ in first]
        asked = {"op": "ASSERT", "namespace": self.namespace}
        for ref, belief in zip(refs, first, strict=True):
            self.ebb.ask(asked | {"ref": ref, "value": ref} | given_of(belief))
        return multiple(*refs)

    @invariant()
    def the_books_balance(self) -> None:
        if hasattr(self, "namespace"):
            before, self.ledger = self.ledger, check(self.ebb, self.namespace)
            self.then(before, self.ledger)
            self.then = nothing_more

    # What callers ask

    @rule(obj=objects, asked=st.sampled_from(ABOUT), back=minutes_back)
    def ask_about(self, obj: str, asked: tuple[dict[str, Any], Callable[[MemoryState], bool]], back: int) -> None:
        request, fits = asked
        request = request | {"object": obj}
        if (days := request.pop("days", None)) is not None:
            request["expires_at"] = instant.iso(self.clock.now + days * instant.DAY)
        self.ask(request, fits, back=back)

    ask_again = ask_about

    def archived(self) -> list[MemoryState]:
        return [state for state in self.ledger.live.values() if archived(state)]

    @precondition(archived)
    @rule(which=st.integers(0, 20), op=st.sampled_from(["RESTORE", "REINFORCE", "PENALTY"]), back=minutes_back)
    def bring_back(self, which: int, op: str, back: int) -> None:
        gone = self.archived()
        signal = {"REINFORCE": "CONFIRMED", "PENALTY": "CORRECTED"}.get(op)
        how = {} if signal is None else {"signal": signal, "restore": True}
        self.ask({"op": op, "object": gone[which % len(gone)].ref} | how, back=back)

    @rule(obj=objects, wrong=st.sampled_from(WRONG))
    def ask_what_is_refused(self, obj: str, wrong: str) -> None:
        mine, object_id = {"namespace": self.namespace}, id_of_ref(self.namespace, obj)
        if wrong == "STALE":
            seen = self.state(obj).fact_version - 1
            self.refuse(mine | {"op": "ACCESS", "object": obj, "expected_version": seen}, object_id=object_id)
        elif wrong == "SAME NAME":
            self.refuse(mine | {"op": "EVENT", "ref": obj, "content": "another"}, object_id=object_id)
        else:
            with pytest.raises(BadInput):
                self.ebb.access("nobody", namespace=self.namespace)
            self.then = unchanged

    @rule(target=objects, old=st.none() | objects, belief=beliefs, back=minutes_back, event=st.booleans())
    def remember(self, old: str | None, belief: dict[str, Any], back: int, event: bool) -> Any:
        """ASSERT, or SUPERSEDE where there is an old memory to take the place of."""
        ref = f"m{next(self.refs)}"
        request = {"ref": ref, "value": ref} | given_of(belief) | ({"evidence": ["began"]} if event else {})
        if old is None:
            return ref if self.ask({"op": "ASSERT"} | request, back=back) else multiple()
        taken = self.ask({"op": "SUPERSEDE", "object": old} | request, active, back=back)
        return ref if taken else multiple()

    # What time and operators do

    @rule(minutes=MINUTES)
    def organise(self, minutes: int) -> None:
        self.clock.forward(seconds=60 * minutes)
        runs = self.ebb.organise(namespace=self.namespace)

        def then(before: Ledger, after: Ledger) -> None:
            for run in runs:
                if run.task == "lifecycle":
                    due = [state for state in after.live.values() if (state.due_at or run.as_of + 1) <= run.as_of]
                    assert [state.due_rule for state in due if state.active] == []
            expired = {e.stream_id for e in after.entries if e.op_type == "TOMBSTONE"}
            for object_id, state in before.live.items():
                if state.pinned or (not state.active and object_id not in expired):
                    assert after.live[object_id] == state

        self.then = then

    organise_again = organise

    @rule(policy=st.sampled_from(POLICIES), minutes=MINUTES)
    def assign_policy(self, policy: str, minutes: int) -> None:
        self.clock.forward(seconds=60 * minutes)
        self.ebb.assign_policy(policy, namespace=self.namespace)

        def then(_: Ledger, after: Ledger) -> None:
            for state in after.live.values():
                if active_or_archived(state):
                    assert f"{state.policy_id}@{state.policy_version}" == policy

        self.then = then

    # How it is asked, and what must come of it

    def state(self, ref: str) -> MemoryState:
        return self.ledger.live[id_of_ref(self.namespace, ref)]

    def ask(self, request: dict[str, Any], fits: Callable[[MemoryState], bool] = always, *, back: int = 0) -> bool:
        """Asks; refused unless the object's state fits. Whether it was taken."""
        request = request | {"namespace": self.namespace}
        stated = self.clock.now - back * instant.MINUTE
        if back:
            request["effective_at"] = instant.iso(stated)
        old = self.state(request["object"]) if "object" in request else None
        if old is not None and not fits(old):
            self.refuse(request, object_id=old.object_id)
            return False
        [taken] = self.ebb.ask(request)
        assert [entry.seq for entry in taken.entries] == [
            len(self.ledger.entries) + place for place, _ in enumerate(taken.entries, 1)
        ]
        for entry in taken.entries:
            self.takes_effect(entry, stated, old)
        return True

    @staticmethod
    def takes_effect(entry: Entry, stated: int, old: MemoryState | None) -> None:
        """Not before the object's last fact; one that states an earlier instant is marked late."""
        assert entry.effective_at == max(stated, old.fact_at if old else stated)
        assert ('"late":true' in entry.payload) == (entry.effective_at > stated)

    def refuse(self, request: dict[str, Any], *, object_id: Any) -> None:
        """Asks for what must be refused: the log stays as it is, `refusals` gains one row that says so."""
        with pytest.raises(Refused) as refused:
            self.ebb.ask(request)

        def then(before: Ledger, after: Ledger) -> None:
            assert (after.entries, after.live) == (before.entries, before.live)
            known = {row["id"] for row in before.refusals}
            [new] = [row for row in after.refusals if row["id"] not in known]
            assert len(after.refusals) == len(before.refusals) + 1
            assert (new["op_type"], new["object_id"]) == (request["op"], object_id)
            assert (new["rule"], new["recorded_at"]) == (refused.value.rule, self.clock.now)

        self.then = then


def test_after_every_step_of_any_history_the_books_balance(ebb, clock) -> None:
    machine = type("Life", (Life,), {"ebb": ebb, "clock": clock, "numbers": count(1)})
    # A connection kept open spares DuckDB from opening the file for each step; every step still is a transaction.
    with ebb.store.db.connect():
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=10,
                stateful_step_count=18,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],  # a step takes some 0.1 s: an example is not shrunk
            ),
        )
