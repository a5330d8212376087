"""What the organiser would do by an instant under a policy version, and under another: read off, nothing written.

An object's future is computed when its segment begins. So a simulation begins, in memory, the segments that an
assignment would begin now, and reads off the instants; what no assignment would change keeps those it has. It works
on whole columns, a range of objects at a time, and needs no more than to read.

What callers may yet tell is not foreseen, nor what centrality, dedup and summaries will do, which count as facts; nor
are the events, and the summaries, that an erasure takes along.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

import numpy as np
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, and_, func, or_, select

from ebbtide.decay import facts
from ebbtide.decay.columns import COLUMNS, NONE, taken
from ebbtide.decay.rules import FAR
from ebbtide.decay.segment import Terms
from ebbtide.model import instant
from ebbtide.model.words import Expiry, LifecycleState, Rule, Task
from ebbtide.organise.guard import holds
from ebbtide.policy.document import Guard, Policy
from ebbtide.policy.schedule import ANCHOR, newest_start
from ebbtide.project.passes import NAMESPACE
from ebbtide.project.scope import CHUNK, Scope
from ebbtide.project.shelf import Shelf
from ebbtide.project.summaries import kept_by_hold
from ebbtide.replay.history import read_states
from ebbtide.store.database import Database
from ebbtide.store.tables import memory_state, namespaces, organiser_runs

OUTCOMES = ("warned", "archived", "deprecated", "expired", "erased")


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True)


class Outcomes(_Said):
    """How many memories come to what: `expired` are all whose ttl ends, `erased` those of them that it erases."""

    warned: int = 0
    archived: int = 0
    deprecated: int = 0
    expired: int = 0
    erased: int = 0


class Day(Outcomes):
    """What has its instant on a day, in UTC, and how many memories are ACTIVE at its end."""

    day: date
    active: int


class HeldSlot(_Said):
    """A slot that the guard would hold: `due` of `of` memories, in a namespace, or, where that is null, in all of
    those simulated that are under the policy version."""

    namespace_id: str | None
    policy: str
    task: str
    slot: datetime
    due: int
    of: int


class Side(_Said):
    """What happens under one policy; `policy` is null for what each memory is under now.

    `active` is how many are ACTIVE in the end. `days` are those from the first to the last, and before them those
    that something is overdue from. `held` are the slots that the guard would hold, each judged as if those before it
    had been approved.
    """

    policy: str | None
    active: int
    total: Outcomes
    days: list[Day]
    held: list[HeldSlot]


class Fate(_Said):
    """What a memory has come to in the end: its state, the rule and the instant that led there, its salience."""

    lifecycle_state: str
    erased: bool
    rule: str | None
    at: datetime | None
    salience: float


class Difference(_Said):
    """A memory that fares differently."""

    namespace_id: str
    id: UUID
    ref: str | None
    type: str
    under: Fate
    against: Fate


class Simulation(_Said):
    """What would happen from `as_of` to `until` under a policy, against another.

    `memories` is how many can still change and `active` how many are ACTIVE now; `different` end in another state.
    """

    namespace_id: str | None
    as_of: datetime
    until: datetime
    memories: int
    active: int
    under: Side
    against: Side
    different: int
    differences: list[Difference]


@dataclass(frozen=True, slots=True)
class _Fates:
    """What becomes of objects, one element each: instants (µs, `NONE` for never) and what happens there.

    `left_at` is when a rule of decay moves one out of ACTIVE, for `to_state`; `gone_at` when it is ACTIVE no more.
    `salience` is that at the end of the simulation.
    """

    state: Any
    warned_at: Any
    left_at: Any
    rule: Any
    to_state: Any
    expires_at: Any
    erases: Any
    gone_at: Any
    salience: Any


_CAN_CHANGE = and_(
    memory_state.c.tombstoned_at.is_(None),
    or_(
        memory_state.c.lifecycle_state.in_([LifecycleState.ACTIVE.value, LifecycleState.ARCHIVED.value]),
        memory_state.c.expires_at.isnot(None),
    ),
)
"""Which objects time or a policy can still change."""


def _fates(state: Any, terms: Terms, kept: Any, until: int) -> _Fates:
    """What becomes of objects under one policy version. A ttl goes first at its instant.

    One that would erase what a held summary was made from, which `kept` marks, waits for the hold.
    """
    active = state.lifecycle_state == LifecycleState.ACTIVE
    leaves = (state.exit_at != NONE) & (state.exit_at < COLUMNS.known(state.expires_at, FAR))
    left_at = np.where(leaves, state.exit_at, NONE)
    departed: Any = facts.departed(state, terms, COLUMNS)
    action = np.broadcast_to(facts.on_expiry(COLUMNS, terms.policy.params.retention, state), active.shape)
    erases = action == Expiry.ERASE
    expires_at = np.where(erases & kept, NONE, state.expires_at)
    ends = np.minimum(COLUMNS.known(expires_at, FAR), until)
    shown, _ = facts.shown(state, terms, ends, COLUMNS)
    return _Fates(
        state=state.lifecycle_state,
        warned_at=np.where(state.due_rule == Rule.WARNING, state.due_at, NONE),
        left_at=left_at,
        rule=np.where(leaves, state.exit_rule, None),
        to_state=np.where(leaves, departed.lifecycle_state, None),
        expires_at=expires_at,
        erases=erases,
        gone_at=np.where(active, np.minimum(COLUMNS.known(left_at, FAR), COLUMNS.known(expires_at, FAR)), NONE),
        salience=np.where(leaves & (left_at <= ends), departed.salience, shown),
    )


# The guard


@dataclass
class _Leaving:
    """By slot start how many memories leave ACTIVE by rule, how many expire, and how many are ACTIVE no more; and
    how many there are at first."""

    left: Counter[int] = field(default_factory=Counter)
    expired: Counter[int] = field(default_factory=Counter)
    gone: Counter[int] = field(default_factory=Counter)
    active: int = 0
    kept: int = 0

    def add(self, other: _Leaving) -> None:
        for mine, more in ((self.left, other.left), (self.expired, other.expired), (self.gone, other.gone)):
            mine.update(more)
        self.active += other.active
        self.kept += other.kept

    def weighed(self) -> Iterator[tuple[Task, int, int, int]]:
        """Task, slot start, how many are due, and of how many."""
        before = _running(self.gone)
        for slot, due in sorted(self.left.items()):
            yield Task.LIFECYCLE, slot, due, self.active - before(slot)
        before = _running(self.expired)
        for slot, due in sorted(self.expired.items()):
            yield Task.RETENTION, slot, due, self.kept - before(slot)


def _running(counts: Counter[int]) -> Callable[[int], int]:
    """How many of what is counted come before a slot."""
    slots = sorted(counts)
    sums = [0, *accumulate(counts[slot] for slot in slots)]
    return lambda slot: sums[bisect_left(slots, slot)]


@dataclass
class _Slots:
    """Which slots of which namespace, and of all under a policy version, would be held."""

    guards: dict[str, Guard] = field(default_factory=dict)
    found: dict[tuple[str, str | None], _Leaving] = field(default_factory=dict)

    def of(self, policy: Policy, namespace: str) -> _Leaving:
        """What leaves a namespace under a policy."""
        self.guards[policy.name] = policy.params.guard
        return self.found.setdefault((policy.name, namespace), _Leaving())

    def held(self) -> Iterator[HeldSlot]:
        """The slots that are held, in order of time."""
        whole: dict[tuple[str, str | None], _Leaving] = {}
        for (policy, _), leaving in self.found.items():
            whole.setdefault((policy, None), _Leaving()).add(leaving)
        found = [
            HeldSlot(
                namespace_id=namespace,
                policy=policy,
                task=task,
                slot=instant.to_datetime(slot),
                due=due,
                of=of,
            )
            for (policy, namespace), leaving in (self.found | whole).items()
            for task, slot, due, of in leaving.weighed()
            if holds(due, of, self.guards[policy])
        ]
        return iter(sorted(found, key=lambda one: (one.slot, one.task, one.namespace_id or "")))


@dataclass(frozen=True, slots=True)
class _Schedule:
    """When a task is run next in a namespace, and how often (µs)."""

    first: int
    interval: int

    def slots(self, at: Any, until: int) -> tuple[Any, Any]:
        """Of instants those whose slot starts by the end, as a mask, and the starts of the slots that execute them."""
        starts = np.maximum(self.first, ANCHOR - (ANCHOR - at) // self.interval * self.interval)
        within = (at != NONE) & (at <= until) & (starts <= until)
        return within, starts


@dataclass
class _Side:
    """Counts what happens under a policy version, or under what each object is under where that is None."""

    policy: Policy | None
    at: int
    until: int
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    slots: _Slots = field(default_factory=_Slots)

    def __post_init__(self) -> None:
        self._new = None if self.policy is None else Terms.of(self.policy)

    def fates(self, state: Any, terms: Mapping[tuple[str, str], Terms], kept: Any) -> _Fates:
        """What becomes of objects; `terms` are those they are under."""
        size = len(state.segment_at)
        found: list[tuple[Any, _Fates]] = []
        for (policy_id, version), old in terms.items():
            under = (state.policy_id == policy_id) & (state.policy_version == version)
            moves = np.zeros(size, dtype=bool)
            if self._new is not None and self._new.policy.name != old.policy.name:
                moves = under & np.isin(state.lifecycle_state, [LifecycleState.ACTIVE, LifecycleState.ARCHIVED])
            for places, new in ((np.flatnonzero(under & ~moves), old), (np.flatnonzero(moves), self._new)):
                if new is None or not places.size:
                    continue
                mine = taken(state, places)
                if new is not old:
                    mine = facts.assigned(mine, old, new, np.maximum(self.at, mine.fact_at), COLUMNS)
                found.append((places, _fates(mine, new, kept[places], self.until)))
        return _joined(found, size)

    def count(self, fates: _Fates) -> None:
        """Counts what happens to objects by day."""
        happens = {
            "warned": fates.warned_at,
            "archived": np.where(fates.to_state == LifecycleState.ARCHIVED, fates.left_at, NONE),
            "deprecated": np.where(fates.to_state == LifecycleState.DEPRECATED, fates.left_at, NONE),
            "expired": fates.expires_at,
            "erased": np.where(fates.erases, fates.expires_at, NONE),
            "gone": fates.gone_at,
        }
        for what, at in happens.items():
            days, numbers = np.unique(at[(at != NONE) & (at <= self.until)] // instant.DAY, return_counts=True)
            self.counts.update({(what, int(day)): int(n) for day, n in zip(days, numbers, strict=True)})

    def weigh(self, fates: _Fates, leaving: _Leaving, schedules: Mapping[Task, _Schedule]) -> None:
        """Counts what leaves by the slots that execute it."""
        lifecycle, retention = schedules[Task.LIFECYCLE], schedules[Task.RETENTION]
        leaves, left = lifecycle.slots(fates.left_at, self.until)
        ends, expired = retention.slots(fates.expires_at, self.until)
        ends_active = ends & ~leaves & (fates.gone_at != NONE)
        for counts, slots in (
            (leaving.left, left[leaves]),
            (leaving.expired, expired[ends]),
            (leaving.gone, left[leaves]),
            (leaving.gone, expired[ends_active]),
        ):
            starts, numbers = np.unique(slots, return_counts=True)
            counts.update(dict(zip(starts.tolist(), numbers.tolist(), strict=True)))
        leaving.active += int((fates.state == LifecycleState.ACTIVE).sum())

    def said(self, active: int) -> Side:
        """The counts day by day, where so many are ACTIVE at first."""
        total = Counter[str]()
        days = []
        span = range(self.at // instant.DAY, self.until // instant.DAY + 1)
        for day in sorted({day for _, day in self.counts} | set(span)):
            happened = {what: self.counts[what, day] for what in OUTCOMES}
            total.update(happened)
            active -= self.counts["gone", day]
            days.append(Day(day=date(1970, 1, 1) + timedelta(days=day), active=active, **happened))
        name = None if self.policy is None else self.policy.name
        held = list(self.slots.held())
        return Side(policy=name, active=active, total=Outcomes(**total), days=days, held=held)


def _joined(found: Sequence[tuple[Any, _Fates]], size: int) -> _Fates:
    """Fates of some objects each put in their places."""
    columns = {}
    for f in fields(_Fates):
        parts = [(places, getattr(fates, f.name)) for places, fates in found]
        column = np.empty(size, dtype=parts[0][1].dtype)
        for places, values in parts:
            column[places] = values
        columns[f.name] = column
    return _Fates(**columns)


# What differs


@dataclass
class _Differences:
    """Those that differ most of all that were seen: first what ends in another state, then by how far apart the
    instants lie at which they are ACTIVE no more, then by salience."""

    until: int
    limit: int
    different: int = 0
    most: list[tuple[Any, ...]] = field(default_factory=list)

    def see(self, namespace: str, ids: Any, refs: Any, types: Any, under: _Fates, against: _Fates) -> None:
        """Takes in the objects of a range."""
        ends = [_ends(fates, self.until) for fates in (under, against)]
        another = (ends[0][0] != ends[1][0]) | (ends[0][1] != ends[1][1])
        self.different += int(another.sum())
        gone = [np.minimum(COLUMNS.known(fates.gone_at, FAR), self.until) for fates in (under, against)]
        apart, fades = np.abs(gone[0] - gone[1]), np.abs(under.salience - against.salience)
        rows = np.flatnonzero(another | (apart > 0) | (fades > 0))
        # Ids stand in order, and a sort that is stable leaves them so among equals.
        order = np.lexsort((-fades[rows], -apart[rows], ~another[rows]))[: self.limit]
        for row in rows[order].tolist():
            key = (not another[row], -int(apart[row]), -float(fades[row]), namespace, str(ids[row]))
            told = [_fate(fates, end, row) for fates, end in zip((under, against), ends, strict=True)]
            self.most.append((*key, refs[row], types[row], *told))
        self.most = heapq.nsmallest(self.limit, self.most, key=lambda one: one[:5])

    def said(self) -> list[Difference]:
        return [
            Difference(namespace_id=namespace, id=UUID(id_), ref=ref, type=type_, under=under, against=against)
            for *_, namespace, id_, ref, type_, under, against in self.most
        ]


def _ends(fates: _Fates, until: int) -> tuple[Any, Any, Any, Any]:
    """The state that objects have in the end, whether they are erased, and the rule and the instant that led there."""
    expired = (fates.expires_at != NONE) & (fates.expires_at <= until)
    left = (fates.left_at != NONE) & (fates.left_at <= until)
    state = np.where(expired, LifecycleState.ARCHIVED.value, np.where(left, fates.to_state, fates.state))
    rule = np.where(expired, Rule.TTL.value, np.where(left, fates.rule, None))
    at = np.where(expired, fates.expires_at, np.where(left, fates.left_at, NONE))
    return state, expired & fates.erases, rule, at


def _fate(fates: _Fates, end: tuple[Any, Any, Any, Any], row: int) -> Fate:
    state, erased, rule, at = (column[row] for column in end)
    return Fate(
        lifecycle_state=str(state),
        erased=bool(erased),
        rule=None if rule is None else str(rule),
        at=None if at == NONE else instant.to_datetime(int(at)),
        salience=float(fates.salience[row]),
    )


# Reading


@dataclass
class Simulator:
    """Simulates on a connection within a transaction that sees a snapshot; it only reads."""

    db: Database
    connection: Connection
    at: int
    until: int
    chunk_size: int = CHUNK

    def run(self, policy: Policy, against: Policy | None, over: Iterable[str], limit: int) -> Simulation:
        """What a policy would do, were it assigned now, against another or what each memory is under.

        `namespace_id` is left open.
        """
        sides = [_Side(which, self.at, self.until) for which in (policy, against)]
        differences = _Differences(self.until, limit)
        memories = active = 0
        for namespace in over:
            kept, standing = self._kept(namespace), self._policy(namespace)
            schedules = [self._schedules(namespace, side.policy or standing) for side in sides]
            for side in sides:
                side.slots.of(side.policy or standing, namespace).kept = self._untombstoned(namespace)
            for ids, refs, state in self._states(namespace):
                memories += len(ids)
                active += int((state.lifecycle_state == LifecycleState.ACTIVE).sum())
                terms = self._terms(namespace, state)
                under, other = (side.fates(state, terms, np.isin(ids, kept)) for side in sides)
                for side, fates, schedule in zip(sides, (under, other), schedules, strict=True):
                    side.count(fates)
                    side.weigh(fates, side.slots.of(side.policy or standing, namespace), schedule)
                differences.see(namespace, ids, refs, state.object_type, under, other)
        return Simulation(
            namespace_id=None,
            as_of=instant.to_datetime(self.at),
            until=instant.to_datetime(self.until),
            memories=memories,
            active=active,
            under=sides[0].said(active),
            against=sides[1].said(active),
            different=differences.different,
            differences=differences.said(),
        )

    def _states(self, namespace: str) -> Iterator[tuple[Any, Any, Any]]:
        """The objects that can still change, range by range."""
        after = None
        while True:
            to = self._bound(namespace, after)
            ids, refs, state = read_states(self.db, self.connection, Scope(namespace, after, to, 0), _CAN_CHANGE)
            if len(ids):
                yield ids, refs, state
            if to is None:
                return
            after = to

    def _bound(self, namespace: str, after: UUID | None) -> UUID | None:
        s = memory_state.c
        query = select(s.object_id).where(s.namespace_id == namespace, _CAN_CHANGE).order_by(s.object_id)
        if after is not None:
            query = query.where(s.object_id > after)
        return self.connection.execute(query.offset(self.chunk_size - 1).limit(1)).scalar()

    def _terms(self, namespace: str, state: Any) -> dict[tuple[str, str], Terms]:
        """The terms of the policy versions that objects are under."""
        shelf = Shelf(self.connection)
        named = sorted(set(zip(state.policy_id.tolist(), state.policy_version.tolist(), strict=True)))
        return {(id_, version): shelf.terms(namespace, id_, version) for id_, version in named}

    def _kept(self, namespace: str) -> list[str]:
        """The objects that a held summary was made from, by id."""
        s = memory_state.c
        query = select(s.object_id).where(s.namespace_id == namespace, kept_by_hold(s.object_id))
        return [str(id_) for id_ in self.connection.execute(query, {NAMESPACE.key: namespace}).scalars()]

    def _policy(self, namespace: str) -> Policy:
        """The policy that a namespace is under."""
        n = namespaces.c
        head = self.connection.execute(select(n.policy_id, n.policy_version).where(n.namespace_id == namespace)).one()
        return Shelf(self.connection).terms(namespace, head.policy_id, head.policy_version).policy

    def _untombstoned(self, namespace: str) -> int:
        s = memory_state.c
        query = select(func.count()).where(s.namespace_id == namespace, s.tombstoned_at.is_(None))
        return int(self.connection.execute(query).scalar_one())

    def _schedules(self, namespace: str, policy: Policy) -> dict[Task, _Schedule]:
        """When the tasks by which memories leave are run: the newest slot, if it is not done yet, else the next."""
        runs = organiser_runs.c
        query = select(runs.task, func.max(runs.slot)).where(
            runs.namespace_id == namespace, runs.finished_at.isnot(None)
        )
        done = {row[0]: row[1] for row in self.connection.execute(query.group_by(runs.task))}
        found = {}
        for task in (Task.LIFECYCLE, Task.RETENTION):
            interval = policy.interval(task)
            newest = newest_start(interval, self.at)
            found[task] = _Schedule(newest + interval * (done.get(task, newest - 1) >= newest), interval)
        return found
