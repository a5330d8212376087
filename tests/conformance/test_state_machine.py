"""Whatever is asked of memory, in whatever order and however long time passes in between, the books balance:
after every step the log, its chains, its batches and the state say the same thing; what the rules refuse is refused,
by that rule, and leaves nothing but its row in `refusals`; what may be retrieved, and of what the text is gone, is
what a plain model of the rules says.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pytest
from ledger import Ledger, check, read
from model import BAD, Model, Thing
from sizes import SEEDS
from sqlalchemy import select

from ebbtide import BadInput, Ebbtide, NotFound, Refused
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.identity import id_of_ref
from ebbtide.model.words import DecayProfile, EpistemicType, ObjectType, SourceType
from ebbtide.policy.document import policy_from
from ebbtide.project.writer import entry_from
from ebbtide.store.tables import contents, event_log

TTL = policy_from(
    {
        "id": "ttl",
        "version": "1.0.0",
        "params": {
            "retention": [
                {"match": {"object_types": ["TASK"]}, "ttl_days": 10, "action": "erase"},
                {"match": {"object_types": ["FACT"]}, "ttl_days": 20, "clock": "last_accessed"},
                {"match": {"epistemic_types": ["INFERRED"]}, "ttl_days": 30, "clock": "last_reinforced"},
                {"match": {"events": True, "roles": ["TOOL"]}, "ttl_days": 5, "action": "erase"},
                {"match": {"events": True}, "ttl_days": 15},
            ],
        },
    }
)
BUILT_IN = [f"{name}@1.0.0" for name in ("default", "archivist", "fsrs", "permastore", "recency", "spaced")]
POLICIES = [*BUILT_IN, TTL.name, TTL.name]
EPISTEMIC = [kind.value for kind in EpistemicType if kind != "DEPRECATED"]
SOURCES = [source.value for source in SourceType]
SUBJECTS = ("maya", "tom")
WHO = [
    {},
    {"actor_id": "maya", "actor_type": "HUMAN_USER"},
    {"actor_id": "assistant", "actor_type": "AI_AGENT"},
    {"actor_id": "crawler", "actor_type": "EXTERNAL_CONNECTOR"},
]
GAINS = ("REFERENCED", "CONFIRMED", "TASK_COMPLETED_WITH", "CORROBORATED_BY_EXTERNAL")
LOSSES = ("CORRECTED", "CONTRADICTED_BY_OBSERVATION", "TASK_FAILED_WITH", "IGNORED_REPEATEDLY", "UNUSED")
OFTEN: list[dict[str, Any]] = [
    *({"op": "REINFORCE", "signal": signal, "session_id": "s1"} for signal in GAINS),
    *({"op": "PENALTY", "signal": signal, "evidence": ["began"]} for signal in LOSSES),
    *({"op": "CONDITION_SET", "condition": condition} for condition in ("TRUE", "FALSE")),
    *[{"op": "PIN"}, {"op": "UNPIN"}, {"op": "ACCESS"}, {"op": "HOLD"}, {"op": "RELEASE"}, {"op": "RESTORE"}] * 2,
    {"op": "REINFORCE", "signal": "CONFIRMED", "restore": True, "evidence": ["began"]},
    {"op": "PENALTY", "signal": "CORRECTED", "restore": True},
    {"op": "EPISTEMIC_TRANSITION", "to_type": "ASSERTED", "trigger_type": "user_correction", "evidence": ["began"]},
    *[{"op": "SUPPRESS"}, {"op": "UNSUPPRESS"}] * 2,
    {"op": "SUPPRESS", "days": 9},
    {"op": "SUPPRESS", "freeze": True},
    {"op": "SUPPRESS", "freeze": True, "days": 9},
]
SELDOM: list[dict[str, Any]] = [
    {"op": "EPISTEMIC_TRANSITION", "to_type": "OBSERVED", "trigger_type": "feedback_signal"},
    {"op": "EPISTEMIC_TRANSITION", "to_type": "DEPRECATED", "trigger_type": "policy"},
    {"op": "ARCHIVE"},
    {"op": "ARCHIVE"},
    {"op": "DEPRECATE"},
]
ABOUT = OFTEN * 2 + SELDOM
"""What is asked about one memory; `days` is until a suppression ends."""
FILTERS = [
    {"object_type": "FACT"},
    {"epistemic_type": "INFERRED"},
    {"subject": "maya"},
    {"subject": "tom", "object_type": "TASK"},
]


def some_belief(rng: Random) -> dict[str, Any]:
    """What an ASSERT says, but for its name and value. No summaries: they go with what they were made from."""

    def score() -> float | None:
        return rng.choice([None, None, 0.0, 1.0, round(rng.random(), 9)])

    return {
        "object_type": rng.choice([kind.value for kind in ObjectType if kind != ObjectType.SUMMARY]),
        "epistemic_type": rng.choice(EPISTEMIC),
        "source_type": rng.choice(SOURCES),
        "subject": rng.choice([None, *SUBJECTS, *SUBJECTS]),
        "salience": score(),
        "confidence": score(),
        "decay_profile": rng.choice([None, None, *(profile.value for profile in DecayProfile)]),
    }


def given_of(belief: dict[str, Any]) -> dict[str, Any]:
    """The fields of a belief that are said; IMPORTED has to say its confidence."""
    said = {name: value for name, value in belief.items() if value is not None}
    return said | ({"confidence": 0.7} if said["source_type"] == "IMPORTED" and "confidence" not in said else {})


def nothing_more(before: Ledger, after: Ledger) -> None:
    """What must come of a step beyond that the books balance: nothing."""


@dataclass(frozen=True)
class Asked:
    """A request as the model knows it and as it is asked, when it says it took effect, and the rule that refuses it."""

    request: dict[str, Any]
    line: dict[str, Any]
    stated: int
    rule: str | None


class Life:
    """A namespace's life. `ledger` is what `check` read after the last step, `then` what must come of the next one.

    Requests are asked several in a row, since looking at everything takes longer than asking.
    """

    def __init__(self, ebb: Ebbtide, clock: Any, rng: Random) -> None:
        self.ebb, self.clock, self.rng = ebb, clock, rng
        self.namespace = "life"
        self.refs, self.values, self.then, self.model, self.last_seq = count(1), count(1), nothing_more, Model(), 0
        self.refused: list[tuple[str, Any, str]] = []
        clock.set("2026-03-02T07:30:00.000001Z")
        ebb.assign_policy(rng.choice(POLICIES), namespace=self.namespace)
        self.last_seq, self.ledger = 1, read(ebb, self.namespace)
        self.ask({"op": "EVENT", "ref": "began", "content": "hello", "actor_id": "maya", "actor_type": "HUMAN_USER"})
        self.ask({"op": "EVENT", "ref": "heard", "content": "hello", "role": "TOOL"})
        for _ in range(4):
            self.remember(supersedes=False)
        for kind in ("PERSON", "PLACE"):
            self.ask(
                {
                    "op": "ENTITY_CREATE",
                    "ref": self.new("e"),
                    "entity_type": kind,
                    "canonical_name": f"n{next(self.values)}",
                }
            )

    def meet(self, kind: str) -> None:
        """An entity whose name no other has: those of one name are found to be one."""
        name = f"name {next(self.values)}"
        self.ask({"op": "ENTITY_CREATE", "ref": self.new("e"), "entity_type": kind, "canonical_name": name})

    def step(self) -> str:
        """One step, and what must hold after it; its name."""
        chosen = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
        getattr(self, chosen)()
        self.the_books_balance()
        return chosen

    def new(self, kind: str) -> str:
        return f"{kind}{next(self.refs)}"

    # What callers ask

    def ask_about(self) -> None:
        """Half of the time about a memory of which no rule refuses it, if there is one.

        What stands between two refusals goes into one call: each request must meet what the ones before it left.
        """
        calls: list[Asked] = []
        for _ in range(self.rng.randint(4, 16)):
            request = self.rng.choice(ABOUT) | self.rng.choice(WHO)
            if (days := request.pop("days", None)) is not None:
                request["until"] = self.clock.now + days * instant.DAY
            refs = list(self.model.things)
            fit = [ref for ref in refs if self.model.verdict(request | {"object": ref}, self.clock.now) is None]
            some = fit if self.rng.random() < 0.6 and fit else refs
            made = self.asked(request | {"object": self.rng.choice(some)}, self.back())
            if made.rule is None:
                self.model.take(made.request, self.clock.now, 0)  # none of these is an edge
                calls.append(made)
                continue
            self.take(calls)
            self.ask_in_vain(made)
            calls = []
        self.take(calls)

    def back(self) -> int:
        """How many minutes ago something took effect."""
        return self.rng.choice([0, 0, 1, self.rng.randint(1, 60 * 24 * 60)])

    def remember(self, *, supersedes: bool | None = None) -> None:
        """ASSERT, or SUPERSEDE, with the version that was seen last, or an older one."""
        supersedes = self.rng.random() < 0.6 if supersedes is None else supersedes
        evidence = self.rng.choice([[], ["began"], ["heard"], ["began", "heard"]])
        request = {"ref": self.new("m"), "value": next(self.values), "evidence": evidence} | given_of(
            some_belief(self.rng)
        )
        if not supersedes:
            self.ask({"op": "ASSERT"} | request, back=self.back())
            return
        fit = [ref for ref, thing in self.model.things.items() if thing.state == "ACTIVE"]
        old = self.rng.choice(fit if self.rng.random() < 0.7 and fit else list(self.model.things))
        stale = self.rng.choice([None, 0, 0, 1])
        if stale is not None:
            request["expected_version"] = self.model.things[old].facts - stale
        self.ask({"op": "SUPERSEDE", "object": old} | request, back=self.back())

    def hide_or_show(self) -> None:
        for op in ("SUPPRESS", "UNSUPPRESS"):
            self.ask({"op": op} | self.rng.choice(FILTERS))

    def show_many(self) -> None:
        """ACCESS of several in one call: all of it, or, where one is erased, nothing of it."""
        chosen = self.rng.choices(list(self.model.things), k=5)
        calls = [{"op": "ACCESS", "object": ref, "namespace": self.namespace} for ref in chosen]
        wrong = next((ref for ref in chosen if self.model.things[ref].gone == "erase"), None)
        if wrong is not None:
            self.refuse(lambda: self.ebb.ask(*calls), "ACCESS", id_of_ref(self.namespace, wrong), "erased")
            return
        for taken in self.ebb.ask(*calls):
            self.note(taken.entries)

    def relate(self) -> None:
        things, entities = list(self.model.things), list(self.model.entities)
        a, b = self.rng.choices(things + entities, k=2)
        self.ask({"op": "RELATE", "edge_type": "ABOUT", "source": a, "target": b, "confidence": 0.5})
        a, b = self.rng.choices(things, k=2)
        self.ask({"op": "CONTRADICTION_NOTED", "object_a": a, "object_b": b, "conflict_description": "words"})
        a, b = self.rng.choices(entities, k=2)
        self.ask({"op": "ENTITY_MERGE", "primary": a, "merged": b})
        self.ask(
            {
                "op": "ENTITY_CREATE",
                "ref": self.new("e"),
                "entity_type": "PERSON",
                "canonical_name": f"n{next(self.values)}",
            }
        )

    def say_something_under_a_name_that_is_taken(self) -> None:
        ref = self.rng.choice(list(self.model.things))
        event = {"op": "EVENT", "namespace": self.namespace, "ref": ref, "content": "another"}
        if self.model.things[ref].gone == "erase":
            assert self.ebb.ask(event)[0].unchanged, "what was said under that name is gone: it cannot be compared"
            return
        self.refuse(lambda: self.ebb.ask(event), "EVENT", id_of_ref(self.namespace, ref), "idempotency_key")

    # What people and operators ask

    def erase_objects(self) -> None:
        refs = [ref for ref, thing in self.model.things.items() if thing.gone != "erase"] or ["m1"]
        self.erase(sorted(set(self.rng.choices(refs, k=self.rng.randint(1, 2)))), None)

    def erase_subject(self) -> None:
        self.erase([], self.rng.choice(SUBJECTS))

    def erase(self, refs: list[str], subject: str | None) -> None:
        held = [ref for ref in self.model.would_erase(refs, subject) if self.model.things[ref].held]
        about = id_of_ref(self.namespace, refs[0]) if len(refs) == 1 else None

        def call() -> Any:
            return self.ebb.erase(*refs, subject=subject, namespace=self.namespace, scrub=False)

        if held:
            self.refuse(call, "TOMBSTONE", about, "held")
            return
        if not self.model.would_erase(refs, subject) and not self.model.events_of(refs, subject):
            with pytest.raises(NotFound):
                call()
            return
        receipt = call()
        before = len(self.model.erased_events)
        gone = self.model.would_erase(refs, subject)
        self.model.erase(refs, subject, self.last_seq)
        assert receipt.erased.objects == len(gone)
        assert receipt.erased.events == len(self.model.erased_events) - before
        self.reread(lambda entry: None)

    # What time does

    def organise(self) -> None:
        self.clock.forward(hours=self.rng.choice([0.1, 5, 24, 3 * 24, 7 * 24, 12 * 24, 31 * 24, 100 * 24]))
        runs = self.ebb.organise(namespace=self.namespace)
        assert {run.status for run in runs} <= {"done", "nothing_due"}
        names = {id_of_ref(self.namespace, ref): ref for ref in self.model.things}
        events = {id_of_ref(self.namespace, ref): ref for ref in self.model.events}
        expired: set[str] = set()

        def follow(entry: Entry) -> None:
            if entry.stream_id in names:
                self.model.follow(names[entry.stream_id], entry)
            if entry.op_type == "TOMBSTONE" and entry.stream_type == "object":
                expired.add(names[entry.stream_id])
            elif entry.op_type == "TOMBSTONE" and '"action":"erase"' in entry.payload:
                self.model.erased_events.add(events[entry.stream_id])

        self.reread(follow)

        def then(before: Ledger, after: Ledger) -> None:
            for run in runs:
                if run.task == "lifecycle":
                    due = [state for state in after.live.values() if (state.due_at or run.as_of + 1) <= run.as_of]
                    assert [state.due_rule for state in due if state.active] == []
            for object_id, state in before.live.items():
                if state.pinned or (not state.active and names.get(object_id) not in expired):
                    assert after.live[object_id] == state
                if state.held:
                    assert names[object_id] not in expired

        self.then = then

    def assign_policy(self) -> None:
        policy = self.rng.choice(POLICIES)
        self.clock.forward(hours=self.rng.choice([0, 1, 48]))
        self.ebb.assign_policy(policy, namespace=self.namespace)
        self.reread(lambda entry: None)

        def then(_: Ledger, after: Ledger) -> None:
            for state in after.live.values():
                if state.active or (state.lifecycle_state == "ARCHIVED" and state.tombstoned_at is None):
                    assert f"{state.policy_id}@{state.policy_version}" == policy

        self.then = then

    def reread(self, follow: Callable[[Entry], None]) -> None:
        """Takes over the entries that nobody handed back."""
        log = event_log.c
        query = select(event_log).where(log.namespace_id == self.namespace, log.seq > self.last_seq).order_by(log.seq)
        with self.ebb.store.begin() as connection:
            entries = [entry_from(row) for row in connection.execute(query).mappings()]
        for entry in entries:
            follow(entry)
            self.note([entry])

    def named(self, entry: Entry) -> Thing | None:
        found = [ref for ref in self.model.things if id_of_ref(self.namespace, ref) == entry.stream_id]
        return self.model.things[found[0]] if found else None

    # How it is asked, and what must come of it

    def ask(self, request: dict[str, Any], *, back: int = 0) -> None:
        """Asks; refused where the model says so, by that rule."""
        made = self.asked(request, back)
        if made.rule is not None:
            self.ask_in_vain(made)
            return
        self.model.take(made.request, self.clock.now, self.last_seq + 1)
        self.take([made])

    def asked(self, request: dict[str, Any], back: int) -> Asked:
        """A request as it is asked, so many minutes back, with the rule that refuses it."""
        line = {name: value for name, value in request.items() if name != "until"} | {"namespace": self.namespace}
        if "until" in request:
            line["expires_at"] = instant.iso(request["until"])
        stated = self.clock.now - back * instant.MINUTE
        if back:
            line["effective_at"] = instant.iso(stated)
        return Asked(request, line, stated, self.model.verdict(request, self.clock.now))

    def ask_in_vain(self, made: Asked) -> None:
        if made.rule == BAD:
            with pytest.raises(BadInput):
                self.ebb.ask(made.line)
            return
        assert made.rule is not None
        about = made.request.get("object") or made.request.get("ref")
        object_id = None if about is None else id_of_ref(self.namespace, about)
        self.refuse(lambda: self.ebb.ask(made.line), made.request["op"], object_id, made.rule)

    def take(self, calls: list[Asked]) -> None:
        """Asks in one call for what is not refused; nothing takes effect before its object's last fact."""
        for made, taken in zip(calls, self.ebb.ask(*(made.line for made in calls)), strict=True):
            old = self.model.things.get(made.request.get("object", ""))
            effect = max(made.stated, old.fact_at if old else made.stated)
            for entry in taken.entries:
                assert entry.effective_at == effect
                assert ('"late":true' in entry.payload) == (effect > made.stated)
            self.note(taken.entries)

    def note(self, entries: Iterable[Entry]) -> None:
        """Entries stand next to each other in the log, and count up the facts of their memory."""
        for entry in entries:
            self.last_seq += 1
            assert entry.seq == self.last_seq
            thing = self.named(entry)
            if thing is not None and entry.fact_version is not None:
                thing.facts += 1
                assert entry.fact_version == thing.facts
                thing.fact_at = entry.effective_at

    def refuse(self, call: Callable[[], Any], op: str, object_id: Any, rule: str) -> None:
        """Asks for what a rule refuses."""
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.rule == rule
        self.refused.append((op, object_id, rule))

    # What holds after every step

    def the_books_balance(self) -> None:
        before, self.ledger = self.ledger, check(self.ebb, self.namespace)
        assert len(self.ledger.entries) == self.last_seq
        self.each_refusal_is_kept_once(before)
        self.states_are_those_of_the_model()
        self.no_session_gives_more_than_its_share()
        self.exactly_what_was_erased_is_gone()
        self.then(before, self.ledger)
        self.then = nothing_more

    def each_refusal_is_kept_once(self, before: Ledger) -> None:
        known = {row["id"] for row in before.refusals}
        new = [row for row in self.ledger.refusals if row["id"] not in known]
        assert len(self.ledger.refusals) == len(known) + len(new)
        assert all(row["recorded_at"] == self.clock.now for row in new)
        kept = [(row["op_type"], row["object_id"], row["rule"]) for row in new]
        assert sorted(kept, key=str) == sorted(self.refused, key=str)
        self.refused = []

    def states_are_those_of_the_model(self) -> None:
        shown = self.ebb.memories(namespace=self.namespace, everything=True)
        assert {memory.ref for memory in shown} == set(self.model.things)
        for memory in shown:
            thing, state = self.model.things[memory.ref], self.ledger.live[memory.id]
            tombstone = "erase" if state.erased_at else "archive" if state.tombstoned_at else None
            assert (thing.state, thing.gone) == (memory.lifecycle_state, tombstone), memory.ref
            assert (thing.pinned, thing.held) == (memory.pinned, memory.held), memory.ref
            assert (thing.epistemic, thing.condition) == (memory.epistemic_type, memory.condition), memory.ref
            assert (memory.value is None) == (thing.gone == "erase"), memory.ref
            assert memory.eligible == self.model.eligible(
                memory.ref, self.clock.now, memory.confidence, state.expires_at
            ), (memory.ref, memory.withheld)

    def no_session_gives_more_than_its_share(self) -> None:
        given: dict[Any, float] = defaultdict(float)
        for entry in self.ledger.entries:
            if entry.op_type == "REINFORCE" and '"session_id":"s1"' in entry.payload:
                given[entry.stream_id] += json.loads(entry.payload)["gamma_effective"]
        assert all(gamma <= 0.40 + 1e-9 for gamma in given.values())

    def exactly_what_was_erased_is_gone(self) -> None:
        with self.ebb.store.begin() as connection:
            query = select(contents.c.seq).where(contents.c.namespace_id == self.namespace)
            kept = set(connection.execute(query).scalars())
        ids = {id_of_ref(self.namespace, ref): thing for ref, thing in self.model.things.items()}
        for entry in self.ledger.entries:
            if entry.content_hash is None:
                assert entry.seq not in kept
                continue
            thing = ids.get(entry.stream_id)
            gone = (thing is not None and thing.gone == "erase") or self.model.relates_what_is_erased(entry.seq)
            gone = gone or (entry.op_type == "EVENT" and entry.idempotency_key in self.model.erased_events)
            for subject, last in self.model.erased_subjects.items():
                gone = gone or (entry.seq <= last and f'"subject":"{subject}"' in entry.payload and thing is None
                                and entry.stream_type == "namespace")  # fmt: skip
            assert (entry.seq in kept) != gone, (entry.seq, entry.op_type)


STEPS = {
    "ask_about": 12,
    "remember": 10,
    "organise": 8,
    "relate": 2,
    "hide_or_show": 2,
    "show_many": 2,
    "assign_policy": 2,
    "erase_objects": 2,
    "erase_subject": 1,
    "say_something_under_a_name_that_is_taken": 1,
}
"""What a life is made of, by weight."""


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_after_every_step_of_any_history_the_books_balance(ebb, clock, seed) -> None:
    ebb.register_policy(TTL)
    # A connection kept open spares DuckDB from opening the file for each step; every step still is a transaction.
    with ebb.store.db.connect():
        life = Life(ebb, clock, Random(seed))
        for _ in range(45):
            life.step()
