"""The states that follow from the facts under corrected policies: all objects at once, one fact of each after another.

Between two facts of an object the rules that fell due and that a run executed are done, in the order of their
instants. Nothing here is read from what the organiser decided, but which runs there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ebbtide.decay import facts
from ebbtide.decay.columns import COLUMNS, NONE, taken
from ebbtide.decay.maths import decimals9
from ebbtide.decay.segment import Terms
from ebbtide.model.state import MemoryState
from ebbtide.model.words import Condition, EpistemicType, LifecycleState, OpType, Rule, Task, TombstoneReason
from ebbtide.replay.executed import NEVER, Runs
from ebbtide.replay.history import ERASED, RULED, Facts, History

States = Any
"""A `MemoryState` whose fields are whole columns, one element per object."""

FROM = "FROM"
"""Where a correction begins that does not go back to the first fact."""

_NEEDS_ACTIVE = (
    OpType.REINFORCE,
    OpType.PENALTY,
    OpType.PIN,
    OpType.SUPPRESS,
    OpType.SUPERSEDE,
    OpType.ARCHIVE,
    OpType.DEPRECATE,
    OpType.CONDITION_SET,
    OpType.EPISTEMIC_TRANSITION,
)
_BY_HAND = {
    OpType.ARCHIVE: LifecycleState.ARCHIVED,
    OpType.DEPRECATE: LifecycleState.DEPRECATED,
    OpType.SUPERSEDE: LifecycleState.SUPERSEDED,
}


@dataclass(frozen=True, slots=True)
class Correction:
    """One version read as another, in what was recorded before `until` (a seq), from an instant on (µs) or always."""

    replaced: str
    by: str
    begins: int | None
    until: int


@dataclass
class Conflicts:
    """Facts that met another state than they did: the object's position, the fact's seq and kind, and what became."""

    rows: list[tuple[int, int, str, str]] = field(default_factory=list)

    def note(self, places: Any, seq: Any, ops: Any, what: str) -> None:
        self.rows += [(int(p), int(n), str(op), what) for p, n, op in zip(places, seq, ops, strict=True)]


@dataclass
class Recomputed:
    """States by position of the object, and what the recomputation met.

    `unerased` marks objects that a ttl erased and that the corrected policy would have kept.
    """

    state: States
    conflicts: Conflicts
    unerased: Any


@dataclass
class Recomputation:
    """Recomputes the objects of a history. `terms` gives the terms of a policy by its name.

    `runs` are those that executed rules, of each task; and under WARNING those that warned, which held ones do too.
    """

    history: History
    runs: dict[Task | Rule, Runs]
    corrections: Sequence[Correction]
    terms: Callable[[str], Terms]

    def __post_init__(self) -> None:
        size = len(self.history.ids)
        # Places in the log are doubled, so that a correction can begin between two of them.
        runs = {which: found.doubled() for which, found in self.runs.items()}
        self.runs = runs
        known = replace(self.history.facts, seq=2 * self.history.facts.seq)
        ruled = known.op == RULED
        self._tombstone = np.full(size, NEVER)
        self._tombstone[known.place[ruled]] = known.seq[ruled]
        known = taken(known, ~ruled)
        self._since = [_since(known, one, runs, size) for one in self.corrections]
        self._facts = _with_beginnings(known, self.corrections, self._since)
        self._state = _blank(size)
        self._policy = np.full(size, None, dtype=object)
        self._conflicts = Conflicts()
        self._unerased = np.zeros(size, dtype=bool)
        self._session = _sessions(self._facts)
        self._spent = np.zeros(int(self._session.max(initial=-1)) + 2)

    def run(self) -> Recomputed:
        """Facts round by round, the first of each object, then the second …, and what fell due after the last."""
        size = len(self.history.ids)
        first = np.searchsorted(self._facts.place, np.arange(size), side="left")
        counts = np.append(first[1:], len(self._facts.place)) - first
        behind = np.full(size, -1)
        for number in range(int(counts.max(initial=0))):
            places = np.flatnonzero(counts > number)
            rows = first[places] + number
            if number:
                self._let_pass(places, behind[places], self._facts.seq[rows])
            self._take(places, rows)
            behind[places] = self._facts.seq[rows]
        self._let_pass(np.arange(size), behind, np.full(size, NEVER))
        return Recomputed(self._state, self._conflicts, self._unerased)

    # Rules

    def _let_pass(self, places: Any, behind: Any, before: Any) -> None:
        """Executes what was due and done between two places of the log, of which the first is each object's fact."""
        fact = behind
        while places.size:
            due_at, rule = self._state.due_at[places], self._state.due_rule[places]
            chunk = np.full(len(places), NEVER)
            due = due_at != NONE
            ttl = due & (rule == Rule.TTL)
            warns = due & (rule == Rule.WARNING)
            other = due & ~ttl & ~warns
            for chosen, which in ((ttl, Task.RETENTION), (warns, Rule.WARNING), (other, Task.LIFECYCLE)):
                runs = self.runs[which]
                chunk[chosen] = runs.first_chunk(behind[chosen], due_at[chosen], places[chosen], fact[chosen])
            # A ttl is done where a tombstone says so; where none does, it stays due, and the next run writes one.
            done = (chunk < before) & (~ttl | (self._tombstone[places] < before))
            places, behind, before, fact = places[done], chunk[done] - 1, before[done], fact[done]
            rule, due_at = rule[done], due_at[done]
            self._execute(places[rule == Rule.WARNING], lambda s, t, at: facts.warned(s, COLUMNS))
            leaves = (rule != Rule.WARNING) & (rule != Rule.TTL)
            self._execute(places[leaves], lambda s, t, at: facts.departed(s, t, COLUMNS))
            self._execute(places[rule == Rule.TTL], _expired)

    def _execute(self, places: Any, change: Callable[[States, Terms, Any], States]) -> None:
        for name in _distinct(self._policy[places]):
            mine = places[self._policy[places] == name]
            state = taken(self._state, mine)
            self._put(mine, change(state, self.terms(name), state.due_at))

    # Facts

    def _take(self, places: Any, rows: Any) -> None:
        """Applies one fact of each of some objects."""
        ops, at = self._facts.op[rows], self._facts.at[rows]
        at = np.maximum(at, self._state.fact_at[places])
        for op in _distinct(ops):
            chosen = ops == op
            self._one_kind(op, places[chosen], rows[chosen], at[chosen])
        self._state.fact_at[places] = np.maximum(at, self._state.fact_at[places])

    def _one_kind(self, op: str, places: Any, rows: Any, at: Any) -> None:
        if op == OpType.ASSERT:
            self._begin(places, rows, at)
            return
        active = self._state.lifecycle_state[places] == LifecycleState.ACTIVE
        if op in _NEEDS_ACTIVE and not active.all():
            self._bring_back(places[~active], rows[~active], at[~active])
        if op == OpType.RESTORE and active.any():
            self._note(places[active], rows[active], "restored although it was ACTIVE")
            places, rows, at = places[~active], rows[~active], at[~active]
        if op == OpType.RESTORE:
            lost = self._state.lifecycle_state[places] != LifecycleState.ARCHIVED
            self._note(places[lost], rows[lost], "restored although it was not ARCHIVED")
        if op in (OpType.POLICY_ASSIGNED, FROM):
            self._assign(op, places, rows, at)
            return
        for name in _distinct(self._policy[places]):
            mine = self._policy[places] == name
            given = taken(self._facts, rows[mine])
            state, terms = taken(self._state, places[mine]), self.terms(name)
            if op == ERASED:
                by_ttl = given.word == TombstoneReason.RETENTION
                kept = ~(COLUMNS.known(state.expires_at, NEVER) <= at[mine])
                self._unerased[places[mine]] = by_ttl & kept
            if op == OpType.REINFORCE:
                gamma = self._gamma(given, state, terms, rows[mine])
                self._put(places[mine], facts.reinforced(state, terms, at[mine], gamma, COLUMNS))
            else:
                self._put(places[mine], _CHANGES[op](state, terms, at[mine], given))

    def _begin(self, places: Any, rows: Any, at: Any) -> None:
        names = self._named(rows)
        self._policy[places] = names
        given = taken(self._facts, rows)
        asserted = replace(
            taken(self._state, places),
            lifecycle_state=np.full(len(places), LifecycleState.ACTIVE.value, dtype=object),
            object_type=self.history.live.object_type[places],
            epistemic_type=given.kind,
            condition=given.condition,
            profile_override=given.override,
            created_at=at,
            modified_at=at,
            fact_at=at,
            baseline=given.baseline,
            confidence_base=given.confidence,
        )
        for name in _distinct(names):
            mine = names == name
            self._put(places[mine], facts.asserted(taken(asserted, mine), self.terms(name), at[mine], COLUMNS))

    def _bring_back(self, places: Any, rows: Any, at: Any) -> None:
        """A fact that needs an ACTIVE object and meets one that would have left counts as restoring it."""
        self._note(places, rows, "asked of what would have left ACTIVE: counts as a restore")
        for name in _distinct(self._policy[places]):
            mine = self._policy[places] == name
            state = taken(self._state, places[mine])
            self._put(places[mine], facts.restored(state, self.terms(name), at[mine], COLUMNS))

    def _assign(self, op: str, places: Any, rows: Any, at: Any) -> None:
        names = self._facts.policy[rows] if op == FROM else self._named(rows)
        if op == FROM:
            replaced_ = self._facts.word[rows]
            here = self._policy[places] == replaced_
            places, names, at = places[here], names[here], at[here]
        before = self._policy[places].copy()
        for old, new in sorted(set(zip(before, names, strict=True))):
            mine = (before == old) & (names == new)
            state = taken(self._state, places[mine])
            self._put(places[mine], facts.assigned(state, self.terms(old), self.terms(new), at[mine], COLUMNS))
        self._policy[places] = names

    def _named(self, rows: Any) -> Any:
        """The policy that an entry names, read through the corrections."""
        names = self._facts.policy[rows].copy()
        seq, place = self._facts.seq[rows], self._facts.place[rows]
        for one, since in zip(self.corrections, self._since, strict=True):
            names[(names == one.replaced) & (seq < 2 * one.until) & (seq > since[place])] = one.by
        return names

    def _gamma(self, given: Facts, state: States, terms: Terms, rows: Any) -> Any:
        """The effective γ, as `memory.signals` has it: ÷ n, × the discount, then what is left of the session's."""
        rules = terms.policy.params.reinforcement
        gamma = COLUMNS.pick({signal.value: value for signal, value in rules.gamma.items()}, given.word)
        untrue = (state.epistemic_type == EpistemicType.CONDITIONAL) & (state.condition != Condition.TRUE)
        gamma = np.where(untrue, 0.0, gamma)
        gamma = np.where(given.nth > 1, gamma / given.nth, gamma)
        gamma = np.where(given.dependent, gamma * rules.independence_discount, gamma)
        session = self._session[rows]
        left = np.maximum(0.0, rules.session_cap - self._spent[session])
        gamma = np.where((session >= 0) & (gamma > rules.session_cap - self._spent[session]), left, gamma)
        gamma = decimals9(COLUMNS, gamma)
        self._spent[session] += np.where(session >= 0, gamma, 0.0)
        return gamma

    def _note(self, places: Any, rows: Any, what: str) -> None:
        self._conflicts.note(places, self._facts.seq[rows] // 2, self._facts.op[rows], what)

    def _put(self, places: Any, new: States) -> None:
        for f in fields(MemoryState):
            value, column = getattr(new, f.name), getattr(self._state, f.name)
            if column is not None:
                column[places] = value


def _distinct(words: Any) -> list[str]:
    return sorted(set(words.tolist()))


def _expired(state: States, terms: Terms, at: Any) -> States:
    return replace(facts.tombstoned(state, terms, at, False, COLUMNS), fact_at=at)


def _known_as(state: States, terms: Terms, at: Any, given: Facts) -> States:
    """EPISTEMIC_TRANSITION; to DEPRECATED it only says so, and the DEPRECATE behind it does the rest."""
    gone = replace(state, epistemic_type=given.word, modified_at=at)
    better = replace(state, epistemic_type=given.word, condition=np.full(len(at), None, dtype=object))
    # What goes is evaluated as what it was: DEPRECATED has no profile.
    lost = given.word == EpistemicType.DEPRECATED
    better = replace(better, epistemic_type=np.where(lost, state.epistemic_type, given.word))
    return COLUMNS.choose(lost, gone, facts.known_as(better, state, terms, at, COLUMNS))


def _penalised(state: States, terms: Terms, at: Any, given: Facts) -> States:
    rules = terms.policy.params.reinforcement
    delta = COLUMNS.pick({signal.value: value for signal, value in rules.delta.items()}, given.word)
    return facts.penalised(state, terms, at, given.word, delta, COLUMNS)


def _recentred(state: States, terms: Terms, at: Any, given: Facts) -> States:
    """CENTRALITY_BOOST stands as it was decided; what would have left ACTIVE by then would have got none."""
    new = facts.recentred(state, terms, at, given.confidence, COLUMNS)
    return COLUMNS.choose(state.active, new, state)


def _plainly(change: Callable[..., States]) -> Callable[[States, Terms, Any, Facts], States]:
    return lambda state, terms, at, given: change(state, terms, at, m=COLUMNS)


_CHANGES: dict[str, Callable[[States, Terms, Any, Facts], States]] = {
    OpType.ACCESS: _plainly(facts.accessed),
    OpType.PENALTY: _penalised,
    OpType.PIN: _plainly(facts.pinned),
    OpType.UNPIN: _plainly(facts.unpinned),
    OpType.HOLD: _plainly(facts.held),
    OpType.RELEASE: _plainly(facts.released),
    OpType.SUPPRESS: lambda s, t, at, given: facts.frozen(s, t, at, given.until, COLUMNS),
    OpType.UNSUPPRESS: _plainly(facts.thawed),
    OpType.RESTORE: _plainly(facts.restored),
    OpType.CONDITION_SET: lambda s, t, at, given: facts.known_as(replace(s, condition=given.word), s, t, at, COLUMNS),
    OpType.EPISTEMIC_TRANSITION: _known_as,
    OpType.CENTRALITY_BOOST: _recentred,
    ERASED: lambda s, t, at, given: facts.tombstoned(s, t, at, True, COLUMNS),
    OpType.CORRECTED: lambda s, t, at, given: s,
    **{
        op: lambda s, t, at, given, to=to: facts.left(s, t, at, to, COLUMNS)  # type: ignore[misc]
        for op, to in _BY_HAND.items()
    },
}


_BLANKS: dict[str, tuple[Any, Any]] = {
    "int": (0, np.int64),
    "int | None": (NONE, np.int64),
    "float": (0.0, np.float64),
    "float | None": (np.nan, np.float64),
    "bool": (False, np.bool_),
}
_APART = ("namespace_id", "object_id", "head_hash", "ref", "evidence", "subject", "supersedes", "superseded_by")


def _blank(size: int) -> States:
    """States before any fact."""
    made: dict[str, Any] = dict.fromkeys(_APART)
    for f in fields(MemoryState):
        if f.name not in made:
            value, kind = _BLANKS.get(str(f.type), (None, object))
            made[f.name] = np.full(size, value, dtype=kind)
    return MemoryState(**made)


def _sessions(known: Facts) -> Any:
    """Per fact a number for its object and session; −1 for none."""
    named = COLUMNS.is_known(known.session)
    numbers = np.full(len(named), -1)
    if named.any():
        words, number = np.unique(known.session[named].astype(str), return_inverse=True)
        numbers[named] = np.unique(known.place[named] * len(words) + number, return_inverse=True)[1]
    return numbers


def _since(known: Facts, one: Correction, runs: dict[Task | Rule, Runs], size: int) -> Any:
    """Per object the place in the log from which on a version is read as another."""
    if one.begins is None:
        return np.full(size, -1)
    everyone, instant, nowhere = np.arange(size), np.full(size, one.begins), np.full(size, -1)
    found = np.full(size, 2 * one.until)
    for run in runs.values():
        found = np.minimum(found, run.first_chunk(nowhere, instant, everyone, nowhere))
    later = known.at >= one.begins
    np.minimum.at(found, known.place[later], known.seq[later])
    return found - 1


def _with_beginnings(known: Facts, corrections: Sequence[Correction], since: Sequence[Any]) -> Facts:
    """The facts with one put in for each object that existed when a correction begins."""
    for one, places in zip(corrections, since, strict=True):
        if one.begins is None:
            continue
        first = np.full(len(places), NEVER)
        np.minimum.at(first, known.place, known.seq)
        there = np.flatnonzero(first < places)
        more = taken(known, np.zeros(len(there), dtype=int)) if len(known.place) else known
        more = replace(
            more,
            place=there,
            seq=places[there],
            op=np.full(len(there), FROM, dtype=object),
            at=np.full(len(there), one.begins),
            policy=np.full(len(there), one.by, dtype=object),
            word=np.full(len(there), one.replaced, dtype=object),
            session=np.full(len(there), None, dtype=object),
        )
        joined = Facts(
            **{f.name: np.concatenate([getattr(known, f.name), getattr(more, f.name)]) for f in fields(Facts)}
        )
        known = taken(joined, np.lexsort((joined.seq, joined.place)))
    return known
