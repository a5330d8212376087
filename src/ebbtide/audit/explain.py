"""Why a memory is as it is, and what comes next: everything that is known of one, put together for whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from pydantic import JsonValue
from sqlalchemy import BigInteger, Connection, Text, Uuid, func, literal, or_, select

from ebbtide.audit import sentences
from ebbtide.audit.explanation import (
    Clocks,
    CurveTold,
    Decision,
    Erasure,
    Explanation,
    Flags,
    Foreseen,
    Head,
    Mark,
    NextCentrality,
    Segment,
    Suppression,
    UnderPolicy,
)
from ebbtide.decay import facts
from ebbtide.decay.forecast import Piece, Step, curve, forecast
from ebbtide.decay.formula import formulas
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Terms, divisor, uses_of
from ebbtide.memory import read
from ebbtide.memory.read import Memory
from ebbtide.model import instant
from ebbtide.model.entry import Entry
from ebbtide.model.state import MemoryState
from ebbtide.model.words import DecayProfile, Expiry, OpType, Resolution, Rule, Task, TombstoneReason
from ebbtide.organise.centrality import central_to_be
from ebbtide.policy.document import Policy
from ebbtide.policy.files import shipped
from ebbtide.policy.schedule import newest_start
from ebbtide.project.fold import apply
from ebbtide.project.passes import NAMESPACE
from ebbtide.project.refold import until
from ebbtide.project.shelf import Shelf
from ebbtide.project.summaries import kept_by_hold
from ebbtide.project.writer import entry_from
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, event_log, namespaces, organiser_runs, policies, suppressions


@dataclass(frozen=True, slots=True)
class Instants:
    """What is asked about: as of when, as known when, and the clock where neither is given."""

    now: int
    as_of: int | None
    known_at: int | None

    @property
    def at(self) -> int:
        return next(one for one in (self.as_of, self.known_at, self.now) if one is not None)

    @property
    def past(self) -> bool:
        return self.as_of is not None or self.known_at is not None


def explain(
    db: Database,
    connection: Connection,
    namespace: str,
    object_id: UUID,
    *,
    when: Instants,
    files: Mapping[str, tuple[Policy, Path]],
) -> Explanation | None:
    """Explains a memory; None where there is none. `files` are the policies at hand by `id@version`."""
    found = read.memory_and_state(
        db, connection, namespace, object_id, at=when.at, as_of=when.as_of, known_at=when.known_at
    )
    if found is None:
        return None
    memory, state = found
    shelf = Shelf(connection)

    def terms_of(state: MemoryState) -> Terms:
        return shelf.terms(namespace, state.policy_id, state.policy_version)

    terms = terms_of(state)
    lived = _lived(connection, namespace, object_id, when)
    steps = list(forecast(state, terms))
    waits_for = None
    if _waits(connection, namespace, object_id, steps):
        steps = steps[:-1]
        waits_for = sentences.WAITS
    flags = _flags(state, memory, _suppressions(connection, state, when), when.at)
    policy = _policy(connection, namespace, terms.policy, files)
    decisions = _decisions(lived, terms_of)
    erasure = _erasure(connection, namespace, lived)
    ahead = [_foreseen(step, when.at) for step in steps]
    central = _next_centrality(connection, shelf, state, terms, when.at)
    return Explanation(
        as_of=instant.to_datetime(when.at),
        known_at=_time(when.known_at),
        summary=sentences.summary(memory, flags, policy, ahead, erasure, waits_for, central),
        memory=memory,
        withheld=sentences.withheld(memory, flags),
        segment=_segment(state, terms, when.at),
        policy=policy,
        clocks=_clocks(state, terms),
        flags=flags,
        last_rule=next((one for one in reversed(decisions) if one.rule is not None), None),
        last_transition=next((one for one in reversed(decisions) if one.from_state != one.to_state), None),
        erasure=erasure,
        forecast=ahead,
        waits_for=waits_for,
        next_centrality=central,
        curve=_curve(terms_of, lived, steps, when.at),
    )


# What it went through


@dataclass(frozen=True, slots=True)
class _Lived:
    """An entry of the memory, with the states before and after it."""

    entry: Entry
    before: MemoryState | None
    after: MemoryState

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.entry.payload)
        return found


def _lived(connection: Connection, namespace: str, object_id: UUID, when: Instants) -> list[_Lived]:
    """The memory's entries in order, but for plain decay, which changes nothing but stored scores."""
    log = event_log.c
    query = select(*(log[name] for name in Entry.__slots__)).where(
        log.namespace_id == namespace,
        log.stream_id == object_id,
        or_(log.op_type != OpType.DECAY_APPLIED.value, log.payload != "{}"),
    )
    bounds = until(when.at, when.known_at) if when.past else None
    if bounds is not None:
        query = query.where(bounds)
    found: list[_Lived] = []
    for row in connection.execute(query.order_by(log.version)).mappings():
        entry = entry_from(row)
        before = found[-1].after if found else None
        found.append(_Lived(entry, before, apply(before, entry)))
    return found


_MOVES = (OpType.ARCHIVE, OpType.DEPRECATE, OpType.SUPERSEDE, OpType.RESTORE, OpType.CORRECTED)

_TermsOf = Callable[[MemoryState], Terms]


def _decisions(lived: Sequence[_Lived], terms_of: _TermsOf) -> list[Decision]:
    """Warnings, transitions and tombstones, oldest first; DECAY_APPLIED tells what a transition was judged by."""
    found: list[Decision] = []
    judged: dict[str, JsonValue] = {}
    for one in lived:
        entry, said = one.entry, one.said
        if entry.op_type == OpType.DECAY_APPLIED:
            judged = {name: value for name, value in said.items() if name not in ("thresholds_triggered", "to_state")}
        elif entry.op_type == OpType.DECAY_WARNING:
            inputs = {name: said[name] for name in ("threshold", "salience")}
            found.append(_decision(one, terms_of, "rule", Rule.WARNING, inputs))
        elif entry.op_type == OpType.TOMBSTONE and said["reason"] == TombstoneReason.RETENTION:
            found.append(_decision(one, terms_of, "rule", Rule.TTL, _ttl(one, terms_of)))
        elif entry.op_type in (OpType.ARCHIVE, OpType.DEPRECATE) and "policy_ref" in said:
            found.append(_decision(one, terms_of, "rule", Rule(said["reason"]), judged))
        elif entry.op_type == OpType.CORRECTED:
            inputs = {name: said[name] for name in ("correction", "replaced", "by")}
            found.append(_decision(one, terms_of, "correction", None, inputs))
        elif entry.op_type in (*_MOVES, OpType.TOMBSTONE):
            merged = said.get("reason") in list(Resolution)
            found.append(_decision(one, terms_of, "dedup" if merged else "hand", None, {}))
    return found


def _decision(one: _Lived, terms_of: _TermsOf, by: str, rule: Rule | None, inputs: Mapping[str, JsonValue]) -> Decision:
    entry = one.entry
    salience, confidence = facts.shown(one.after, terms_of(one.after), entry.effective_at)
    return Decision(
        rule=rule,
        by=by,
        op_type=entry.op_type,
        at=instant.to_datetime(entry.effective_at),
        recorded_at=instant.to_datetime(entry.recorded_at),
        seq=entry.seq,
        from_state=(one.before or one.after).lifecycle_state,
        to_state=one.after.lifecycle_state,
        salience=salience,
        confidence=confidence,
        inputs=dict(inputs),
        reason=one.said.get("reason"),
        policy=one.said.get("policy_ref") or f"{entry.policy_id}@{entry.policy_version}",
        actor_id=entry.actor_id,
        actor_type=entry.actor_type,
    )


def _ttl(one: _Lived, terms_of: _TermsOf) -> dict[str, JsonValue]:
    """What a ttl was judged by; a summary may go because of what it was made from."""
    before = one.before or one.after
    rule = facts.retention_rule(terms_of(before).policy.params.retention, before)
    if before.due_rule != Rule.TTL or rule is None:
        return {"made_from_erased": True}
    return {
        "ttl_days": rule.ttl_days,
        "clock": rule.clock.value,
        "clock_at": instant.iso(facts.clock(SCALAR, before, rule.clock)),
        "action": rule.action.value,
    }


def _erasure(connection: Connection, namespace: str, lived: Sequence[_Lived]) -> Erasure | None:
    for one in lived:
        if one.after.erased_at is None:
            continue
        entry, said, b = one.entry, one.said, batches.c
        query = select(b.batch, b.first_seq, b.entries, b.hash).where(
            b.namespace_id == namespace, b.first_seq <= entry.seq
        )
        batch = connection.execute(query.order_by(b.batch.desc()).limit(1)).one()
        return Erasure(
            at=instant.to_datetime(one.after.erased_at),
            recorded_at=instant.to_datetime(entry.recorded_at),
            reason=said["reason"],
            policy=said["policy_ref"],
            actor_id=entry.actor_id,
            actor_type=entry.actor_type,
            tombstone=entry.id,
            head=Head(seq=batch.first_seq + batch.entries - 1, batch=batch.batch, hash=bytes(batch.hash).hex()),
        )
    return None


# How it stands


def _segment(state: MemoryState, terms: Terms, at: int) -> Segment:
    numbers, text = terms.by_profile[state.decay_profile], formulas(state, terms, at)
    profile = terms.policy.params.profiles[DecayProfile(state.decay_profile)]
    uses = uses_of(SCALAR, numbers, state)
    return Segment(
        begins_at=instant.to_datetime(state.segment_at),
        age_days=state.segment_age / instant.DAY,
        decaying=state.decaying,
        boost=state.boost,
        baseline=state.baseline,
        centrality=state.centrality,
        confidence_base=state.confidence_base,
        confidence_ages_from=instant.to_datetime(state.confidence_from),
        decay_profile=state.decay_profile,
        curve=profile.curve,
        rate=profile.rate / divisor(SCALAR, numbers, uses),
        uses=int(uses),
        counts=profile.by_use.counts,
        stability_days=state.stability,
        floor=numbers.floor if uses >= numbers.floor_after else 0.0,
        rho=numbers.rho,
        mu=numbers.mu,
        stopped_at=_time(state.stopped_at),
        salience_formula=text.salience,
        confidence_formula=text.confidence,
        rate_formula=text.rate,
    )


def _policy(
    connection: Connection, namespace: str, policy: Policy, files: Mapping[str, tuple[Policy, Path]]
) -> UnderPolicy:
    query = select(policies.c.registered_at).where(
        policies.c.namespace_id == namespace,
        policies.c.policy_id == policy.id,
        policies.c.policy_version == policy.version,
    )
    registered = instant.to_datetime(connection.execute(query).scalar_one())
    known = files.get(policy.name)
    source = f"registered in the store at {registered:%Y-%m-%dT%H:%M:%SZ}"
    if known is not None and known[0] == policy:
        path = known[1]
        source = f"policies/{path.name}" if path.parent == shipped("policies") else str(path)
    return UnderPolicy(
        name=policy.name,
        id=policy.id,
        version=policy.version,
        note=policy.note,
        source=source,
        registered_at=registered,
        **policy.params.tier_thresholds.model_dump(),
    )


def _clocks(state: MemoryState, terms: Terms) -> Clocks:
    params = terms.policy.params
    ages_by = params.profiles[DecayProfile(state.decay_profile)].clock
    grace = None
    if state.restored_at is not None:
        grace = state.restored_at + round(params.restore_grace_days * instant.DAY)
    return Clocks(
        created_at=instant.to_datetime(state.created_at),
        modified_at=instant.to_datetime(state.modified_at),
        accessed_at=_time(state.accessed_at),
        reinforced_at=_time(state.reinforced_at),
        restored_at=_time(state.restored_at),
        decayed_at=_time(state.decayed_at),
        ages_by=ages_by,
        ages_from=instant.to_datetime(facts.clock(SCALAR, state, ages_by)),
        accesses=state.access_count,
        reinforcements=state.reinforce_count,
        grace_until=_time(grace),
        expires_at=_time(state.expires_at),
    )


def _suppressions(connection: Connection, state: MemoryState, when: Instants) -> list[Suppression]:
    named = {"namespace_id": literal(state.namespace_id, Text), "object_id": literal(state.object_id, Uuid)}
    named |= {name: literal(getattr(state, name), Text) for name in _FILTER}
    what = select(*(value.label(name) for name, value in named.items())).subquery()
    rows = suppressions.c
    holds = read.suppressing(what.c, literal(when.at, BigInteger), when.known_at)
    query = select(suppressions).where(holds).order_by(rows.suppressed_at, rows.suppression_id)
    return [
        Suppression(
            suppressed_by=row.suppressed_by,
            suppressed_at=instant.to_datetime(row.suppressed_at),
            expires_at=_time(row.expires_at),
            of={name: str(getattr(row, name)) for name in ("object_id", *_FILTER) if getattr(row, name) is not None},
            policy=row.policy_ref,
        )
        for row in connection.execute(query)
    ]


_FILTER = ("object_type", "epistemic_type", "subject")


def _flags(state: MemoryState, memory: Memory, hidden: list[Suppression], at: int) -> Flags:
    frozen = state.frozen and (state.thaws_at is None or at < state.thaws_at)
    return Flags(
        pinned=state.pinned,
        held=state.held,
        frozen=frozen,
        frozen_until=_time(state.thaws_at) if frozen else None,
        suppressed=memory.suppressed,
        suppressions=hidden,
        warned=state.warned,
        tombstoned_at=_time(state.tombstoned_at),
        erased_at=_time(state.erased_at),
    )


# What comes next


def _waits(connection: Connection, namespace: str, object_id: UUID, steps: Sequence[Step]) -> bool:
    """Whether an expiry that erases has to wait for a hold on a summary that would go with it."""
    if not steps or steps[-1].action != Expiry.ERASE:
        return False
    query = select(kept_by_hold(literal(object_id, Uuid)))
    return bool(connection.execute(query, {NAMESPACE.key: namespace}).scalar())


def _foreseen(step: Step, at: int) -> Foreseen:
    return Foreseen(
        at=instant.to_datetime(step.at),
        rule=step.rule,
        to_state=step.state.lifecycle_state,
        salience=step.salience,
        confidence=step.confidence,
        action=step.action,
        overdue=step.at <= at,
    )


def _next_centrality(
    connection: Connection, shelf: Shelf, state: MemoryState, terms: Terms, at: int
) -> NextCentrality | None:
    """Another κ than the one it has, where a weekly pass gives it one before a rule strikes."""
    if not state.active or state.standing:
        return None
    becomes = central_to_be(connection, state, terms.policy.params.centrality.weight, at)
    n, runs = namespaces.c, organiser_runs.c
    last = select(func.max(runs.slot)).where(
        runs.namespace_id == n.namespace_id, runs.task == Task.CENTRALITY.value, runs.slot <= at
    )
    query = select(n.policy_id, n.policy_version, n.began_at, last.scalar_subquery().label("last"))
    head = connection.execute(query.where(n.namespace_id == state.namespace_id)).one()
    interval = shelf.terms(state.namespace_id, head.policy_id, head.policy_version).policy.interval(Task.CENTRALITY)
    slot = newest_start(interval, at)
    if slot < head.began_at or (head.last is not None and head.last >= slot):
        slot += interval
    slot = max(slot, newest_start(interval, state.segment_at - 1) + interval)
    if becomes == state.centrality or (state.due_at is not None and state.due_at <= slot):
        return None
    return NextCentrality(slot=instant.to_datetime(slot), now=state.centrality, becomes=becomes)


# The curve

_MARKED = frozenset(
    {
        OpType.REINFORCE,
        OpType.PENALTY,
        OpType.PIN,
        OpType.UNPIN,
        OpType.SUPPRESS,
        OpType.UNSUPPRESS,
        OpType.SUPERSEDE,
        OpType.ARCHIVE,
        OpType.RESTORE,
        OpType.DEPRECATE,
        OpType.CONDITION_SET,
        OpType.EPISTEMIC_TRANSITION,
        OpType.DECAY_WARNING,
        OpType.CENTRALITY_BOOST,
        OpType.TOMBSTONE,
        OpType.POLICY_ASSIGNED,
        OpType.CORRECTED,
    }
)
AFTERWARDS = 90 * instant.DAY
"""How far ahead a curve is drawn that crosses nothing."""


def _curve(terms_of: _TermsOf, lived: Sequence[_Lived], steps: Sequence[Step], at: int) -> CurveTold:
    pieces: list[Piece] = []
    for one in lived:
        if one.entry.carries:
            begins = max(one.entry.effective_at, pieces[-1].begins if pieces else one.entry.effective_at)
            pieces.append(Piece(begins, one.after, terms_of(one.after)))
    happened = [(piece.begins, piece.state) for piece in pieces]
    pieces += [Piece(max(step.at, pieces[-1].begins), step.state, terms_of(step.state)) for step in steps]
    end = max(at, pieces[-1].begins) if steps else max(at, happened[-1][0]) + AFTERWARDS
    drawn = curve(pieces, end)
    told = [(one.entry.effective_at, str(one.entry.op_type), False) for one in lived if one.entry.op_type in _MARKED]
    told += [(step.at, str(step.rule), True) for step in steps]
    places = np.searchsorted(drawn.at, [when for when, _, _ in told]).clip(max=len(drawn.at) - 1)
    return CurveTold(
        now=instant.to_datetime(at),
        at=[instant.to_datetime(int(one)) for one in drawn.at],
        salience=drawn.salience.tolist(),
        confidence=drawn.confidence.tolist(),
        marks=[
            Mark(
                at=instant.to_datetime(when),
                what=what,
                salience=float(drawn.salience[place]),
                confidence=float(drawn.confidence[place]),
                ahead=ahead,
            )
            for (when, what, ahead), place in zip(told, places, strict=True)
        ],
    )


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else instant.to_datetime(micros)
