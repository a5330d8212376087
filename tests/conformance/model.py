"""What the rules make of a namespace, told only what is asked: which requests are refused and by which rule, in which
state each memory is, what may be retrieved, and of what the text is gone.

Nothing here comes from `ebbtide`; instants are whatever can be compared. What the organiser decides is followed from
the entries it wrote, since when that falls due is for other tests to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

BETTER = {"UNVERIFIED": "ASSERTED", "INFERRED": "ASSERTED", "HYPOTHETICAL": "ASSERTED", "CONDITIONAL": "ASSERTED"}
BETTER["ASSERTED"] = "OBSERVED"
ACTIVE_ONLY = {
    "PIN": "pin_active_only",
    "ARCHIVE": "archive_active_only",
    "DEPRECATE": "deprecate_active_only",
    "CONDITION_SET": "condition_active_only",
    "EPISTEMIC_TRANSITION": "transition_active_only",
    "SUPERSEDE": "supersede_active_only",
    "REINFORCE": "signal_active_only",
    "PENALTY": "signal_active_only",
}
ENDS = {"RELATE": ("source", "target"), "CONTRADICTION_NOTED": ("object_a", "object_b")}
AFTER_EXPIRY = ("ACCESS", "HOLD", "RELEASE")
BAD = "bad input"
"""The verdict on what is refused before any rule is asked."""


@dataclass
class Thing:
    """One memory. `gone` is what a TOMBSTONE did: None, archive or erase."""

    object_type: str
    epistemic: str
    subject: str | None = None
    condition: str | None = None
    evidence: frozenset[str] = frozenset()
    state: str = "ACTIVE"
    gone: str | None = None
    pinned: bool = False
    held: bool = False
    facts: int = 0
    fact_at: int = 0


@dataclass
class Suppression:
    """What is kept out of retrieval: one memory, or all that meet a filter; until an instant or until it is ended."""

    what: dict[str, str]
    until: int | None
    ended: bool = False

    def holds(self, now: int) -> bool:
        return not self.ended and (self.until is None or self.until > now)

    def speaks_of(self, ref: str, thing: Thing) -> bool:
        mine = {"object": ref, "object_type": thing.object_type, "epistemic_type": thing.epistemic}
        return all((mine | {"subject": thing.subject})[name] == wanted for name, wanted in self.what.items())


def filter_of(request: dict[str, Any]) -> dict[str, str]:
    """What a SUPPRESS or UNSUPPRESS speaks of."""
    names = ("object", "object_type", "epistemic_type", "subject")
    return {name: request[name] for name in names if request.get(name) is not None}


@dataclass
class Model:
    """A namespace: memories and entities by ref, events by ref with their subject, and what suppresses."""

    things: dict[str, Thing] = field(default_factory=dict)
    entities: dict[str, str | None] = field(default_factory=dict)
    events: dict[str, str | None] = field(default_factory=dict)
    erased_events: set[str] = field(default_factory=set)
    suppressions: list[Suppression] = field(default_factory=list)
    erased_subjects: dict[str, int] = field(default_factory=dict)
    """Up to which entry what was said of a subject in the namespace's own stream is gone."""
    edges: dict[int, list[str]] = field(default_factory=dict)
    """What is related, by the entry that says so."""

    # What is refused

    def verdict(self, request: dict[str, Any], now: int) -> str | None:
        """The rule that refuses a request, or None where it is taken."""
        op = request["op"]
        if op == "ENTITY_MERGE":
            pair = [request["primary"], request["merged"]]
            if pair[0] == pair[1]:
                return BAD
            return "merged_once" if any(self.entities[one] for one in pair) else None
        if op in ENDS:
            ends = [request[name] for name in ENDS[op]]
            gone = [self.things[end].gone for end in ends if end in self.things and self.things[end].gone]
            if gone:
                return {"erase": "erased", "archive": "expired"}[gone[0]]
            return BAD if op == "CONTRADICTION_NOTED" and ends[0] == ends[1] else None
        if "object" not in request:
            return BAD if op == "UNSUPPRESS" and not self._suppressing(request, now) else None
        return self._of_object(request, self.things[request["object"]], now)

    def _of_object(self, request: dict[str, Any], thing: Thing, now: int) -> str | None:
        op, restores = request["op"], request.get("restore") and thing.state == "ARCHIVED"
        known_better = ("DEPRECATED", BETTER.get(thing.epistemic))
        refusals = {
            "erased": thing.gone == "erase",
            "expired": thing.gone == "archive" and op not in AFTER_EXPIRY,
            "expected_version": request.get("expected_version", thing.facts) != thing.facts,
            "restore_archived_only": op == "RESTORE" and thing.state != "ARCHIVED",
            "freeze_active_only": bool(request.get("freeze")) and thing.state != "ACTIVE",
            ACTIVE_ONLY.get(op, ""): op in ACTIVE_ONLY and thing.state != "ACTIVE" and not restores,
            "condition_of_conditional_only": op == "CONDITION_SET" and thing.epistemic != "CONDITIONAL",
            "epistemic_transition": op == "EPISTEMIC_TRANSITION" and request["to_type"] not in known_better,
            BAD: op == "UNSUPPRESS" and not self._suppressing(request, now),
        }
        return next((rule for rule, refuses in refusals.items() if refuses), None)

    def _suppressing(self, request: dict[str, Any], now: int) -> list[Suppression]:
        return [one for one in self.suppressions if one.holds(now) and one.what == filter_of(request)]

    # What comes of a request that was taken

    def take(self, request: dict[str, Any], now: int, seq: int) -> None:
        """Notes what comes of a request whose first entry is at a place of the log."""
        op, ref = request["op"], request.get("ref")
        if op == "EVENT":
            person = request["actor_id"] if request.get("actor_type") == "HUMAN_USER" else None
            self.events[ref] = request.get("subject") or person
        elif op in ENDS:
            self.edges[seq] = [request[name] for name in ENDS[op]]
        elif op == "ENTITY_CREATE":
            self.entities[ref] = None
        elif op == "ENTITY_MERGE":
            self.entities[request["merged"]] = request["primary"]
        elif op in ("SUPPRESS", "UNSUPPRESS"):
            self._hide(request, now)
        elif op in ("ASSERT", "SUPERSEDE"):
            self._believe(request)
        elif "object" in request:
            self._change(request, self.things[request["object"]])

    def _hide(self, request: dict[str, Any], now: int) -> None:
        if request["op"] == "SUPPRESS":
            self.suppressions.append(Suppression(filter_of(request), request.get("until")))
            return
        for one in self._suppressing(request, now):
            one.ended = True

    def _believe(self, request: dict[str, Any]) -> None:
        old = self.things.get(request.get("object", ""))
        new = Thing(
            object_type=request["object_type"],
            epistemic=request["epistemic_type"],
            subject=request.get("subject") or (old.subject if old else None),
            evidence=frozenset(request.get("evidence", ())),
        )
        if new.epistemic == "CONDITIONAL":
            kept = old.condition if old and old.epistemic == "CONDITIONAL" else "UNKNOWN"
            new.condition = request.get("condition") or kept
        self.things[request["ref"]] = new
        if old:
            old.state = "SUPERSEDED"

    def _change(self, request: dict[str, Any], thing: Thing) -> None:
        op = request["op"]
        if op in ("PIN", "UNPIN"):
            thing.pinned = op == "PIN"
        elif op in ("HOLD", "RELEASE"):
            thing.held = op == "HOLD"
        elif op == "RESTORE" or request.get("restore"):
            thing.state = "ACTIVE"
        elif op in ("ARCHIVE", "DEPRECATE"):
            thing.state = op + "D"
        elif op == "CONDITION_SET":
            thing.condition = request["condition"]
        elif op == "EPISTEMIC_TRANSITION":
            thing.epistemic = request["to_type"]
            if thing.epistemic == "DEPRECATED":
                thing.state = "DEPRECATED"
            else:
                thing.condition = None

    # Erasure

    def would_erase(self, refs: Iterable[str], subject: str | None) -> list[str]:
        """The memories that are meant and not erased yet; with neither refs nor subject all of the namespace."""
        named = list(refs)
        meant = [
            ref
            for ref, thing in self.things.items()
            if (ref in named if named else subject is None or thing.subject == subject)
        ]
        return [ref for ref in meant if self.things[ref].gone != "erase"]

    def events_of(self, refs: Iterable[str], subject: str | None) -> list[str]:
        """The events that are meant themselves and not erased yet."""
        meant = [] if list(refs) else [e for e, of in self.events.items() if subject is None or of == subject]
        return [event for event in meant if event not in self.erased_events]

    def erase(self, refs: Iterable[str], subject: str | None, seq: int) -> None:
        """Erases; `seq` is the last entry before the tombstones."""
        gone, events = self.would_erase(refs, subject), self.events_of(refs, subject)
        for ref in gone:
            self.things[ref].gone, self.things[ref].state = "erase", "ARCHIVED"
        self.erased_events |= set(events)
        if subject is not None:
            self.erased_subjects[subject] = seq
        self.let_unused_evidence_go()

    def let_unused_evidence_go(self) -> None:
        """What was evidence of memories that are all erased is erased with them."""
        for event in self.events.keys() - self.erased_events:
            served = [thing for thing in self.things.values() if event in thing.evidence]
            if served and all(thing.gone == "erase" for thing in served):
                self.erased_events.add(event)

    # What the organiser wrote

    def follow(self, ref: str, entry: Any) -> None:
        """Takes over what an entry of the organiser says of a memory."""
        thing = self.things[ref]
        if entry.lifecycle_state is not None:
            thing.state = entry.lifecycle_state
        if entry.op_type == "TOMBSTONE":
            erased = json.loads(entry.payload)["record"]["after"]["erased_at"] is not None
            thing.gone = "erase" if erased else "archive"

    # What may be retrieved

    def eligible(self, ref: str, now: int, confidence: float, expires_at: int | None) -> bool:
        """Whether a memory is eligible for default retrieval."""
        thing = self.things[ref]
        suppressed = any(one.holds(now) and one.speaks_of(ref, thing) for one in self.suppressions)
        known = {
            "HYPOTHETICAL": False,
            "UNVERIFIED": confidence > 0.30,
            "CONDITIONAL": thing.condition == "TRUE",
        }.get(thing.epistemic, True)
        expired = expires_at is not None and expires_at <= now
        return thing.state == "ACTIVE" and not suppressed and not expired and known

    def relates_what_is_erased(self, seq: int) -> bool:
        """Whether an entry relates a memory that is erased."""
        return any(end in self.things and self.things[end].gone == "erase" for end in self.edges.get(seq, ()))
