"""The guard: whether so much would leave in one slot that an operator should see it first.

Judged once per slot, before its first write, under the namespace's policy. What is due is counted in the namespace,
and over all namespaces that are under the same policy version: each may hold the slot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, Text, and_, bindparam, func, select

from ebbtide.log.head import Head
from ebbtide.model.words import LifecycleState, Ruling, Task
from ebbtide.organise.lifecycle import LEAVING
from ebbtide.organise.retention import EXPIRED, erased_events
from ebbtide.policy.document import Guard, Policy
from ebbtide.project.passes import AS_OF, NAMESPACE
from ebbtide.store.database import Database
from ebbtide.store.tables import event_state, memory_state, namespaces

GUARDED = (Task.LIFECYCLE, Task.RETENTION)
"""The tasks by which memories leave."""


def holds(due: int, of: int, guard: Guard) -> bool:
    """Whether so many of so many are above both limits. Neither limit itself is; the fraction is compared exactly."""
    return due > guard.min_objects and due > Decimal(str(guard.max_fraction)) * of


class Count(NamedTuple):
    """How many would leave, of how many. `of` is counted only where more are due than `min_objects`."""

    due: int
    of: int | None = None

    def held(self, guard: Guard) -> bool:
        """Whether the guard holds these."""
        return self.of is not None and holds(self.due, self.of, guard)


_NOT_COUNTED = (None, None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard said of a slot, or an operator after it, and the numbers that it rests on.

    `seq` is where the namespace's log ended then. `due` memories of `of` would leave the namespace, `policy_due` of
    `policy_of` all namespaces under the policy version, and `event_due` events of `event_of` would be erased. Null is
    what was not counted.
    """

    verdict: Ruling
    seq: int
    due: int | None = None
    of: int | None = None
    policy_due: int | None = None
    policy_of: int | None = None
    event_due: int | None = None
    event_of: int | None = None

    @classmethod
    def read(cls, text: str | None) -> Verdict | None:
        """A verdict from the slot's row; None where nothing was weighed."""
        if text is None:
            return None
        found = json.loads(text)
        return cls(**found | {"verdict": Ruling(found["verdict"])})

    def document(self) -> dict[str, Any]:
        """The verdict as entries have it."""
        return asdict(self) | {"verdict": self.verdict.value}

    def text(self) -> str:
        """The verdict as the slot's row has it."""
        return json.dumps(self.document(), separators=(",", ":"))

    def __str__(self) -> str:
        """What was weighed, in words."""
        numbers = (
            (self.due, self.of, "memories"),
            (self.policy_due, self.policy_of, "memories under the policy"),
            (self.event_due, self.event_of, "events"),
        )
        weighed = [f"{due} of {of} {what}" for due, of, what in numbers if of is not None]
        return f"{self.verdict} by the guard: {', '.join(weighed)} would go" if weighed else "not judged by the guard"

    def approved(self) -> Verdict:
        """The verdict once an operator has said yes."""
        return replace(self, verdict=Ruling.APPROVED)


class Judge:
    """Judges slots on one connection.

    `over_all` counts over all namespaces too: not where namespaces stand at different instants. What is due over all
    of them is counted once per slot start: executing what passes never raises the fraction of what is left.
    """

    def __init__(self, db: Database, connection: Connection, *, over_all: bool) -> None:
        self._db = db
        self._connection = connection
        self._over_all = over_all
        self._counted: tuple[Any, Count] | None = None

    def use(self, connection: Connection) -> None:
        """Goes on, on another connection."""
        self._connection = connection

    def judge(self, head: Head, task: Task, policy: Policy, as_of: int) -> Verdict | None:
        """The verdict on a slot, of a namespace whose head is locked; None where too few are due to be weighed."""
        mine = count(self._db, self._connection, task, policy, as_of, namespace=head.namespace_id)
        events = None
        if task == Task.RETENTION:
            events = count_events(self._db, self._connection, policy, as_of, head.namespace_id)
        if not mine.due and not (events and events.due):
            return None
        everyone = self._of_all(task, policy, as_of) if mine.due and self._over_all else None
        counts = [one for one in (mine, everyone, events) if one is not None]
        if all(one.of is None for one in counts):
            return None
        held = any(one.held(policy.params.guard) for one in counts)
        numbers = (number for one in (mine, everyone, events) for number in (one or _NOT_COUNTED))
        return Verdict(Ruling.HELD if held else Ruling.PASSED, head.last_seq, *numbers)

    def _of_all(self, task: Task, policy: Policy, as_of: int) -> Count:
        key = (task, policy.name, as_of)
        if self._counted is None or self._counted[0] != key:
            self._counted = key, count(self._db, self._connection, task, policy, as_of)
        return self._counted[1]


_POLICY_ID: BindParameter[str] = bindparam("guard_policy_id", type_=Text)
_POLICY_VERSION: BindParameter[str] = bindparam("guard_policy_version", type_=Text)

_LEAVE: Mapping[Task, ColumnElement[bool]] = {Task.LIFECYCLE: LEAVING, Task.RETENTION: EXPIRED}
_THERE: Mapping[Task, ColumnElement[bool]] = {
    Task.LIFECYCLE: memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    Task.RETENTION: memory_state.c.tombstoned_at.is_(None),
}


def count(
    db: Database, connection: Connection, task: Task, policy: Policy, as_of: int, *, namespace: str | None = None
) -> Count:
    """How many memories a slot would move or erase, of how many: in a namespace, or in all under a policy version.

    Lifecycle counts ACTIVE memories, retention those without a tombstone.
    """
    due, of = db.once(f"guard {task} {namespace is None}", lambda: _counts(task, everywhere=namespace is None))
    given: dict[str, Any] = {AS_OF.key: as_of}
    if namespace is None:
        given |= {_POLICY_ID.key: policy.id, _POLICY_VERSION.key: policy.version}
    else:
        given |= {NAMESPACE.key: namespace}
    return _weighed(connection, due, of, given, policy.params.guard)


def count_events(db: Database, connection: Connection, policy: Policy, as_of: int, namespace: str) -> Count:
    """How many events a retention slot would erase, of how many."""
    if not any(rule.match.events for rule in policy.params.retention):
        return Count(0)
    mine = event_state.c.namespace_id == NAMESPACE
    due, of = db.once(
        f"guard events {policy.digest()}",
        lambda: (_number(event_state, erased_events(policy)), _number(event_state, mine, _KEPT)),
    )
    return _weighed(connection, due, of, {AS_OF.key: as_of, NAMESPACE.key: namespace}, policy.params.guard)


_KEPT = event_state.c.tombstoned_at.is_(None)


def _weighed(connection: Connection, due: Any, of: Any, given: dict[str, Any], guard: Guard) -> Count:
    found = connection.execute(due, given).scalar_one()
    if found <= guard.min_objects:
        return Count(found)
    return Count(found, connection.execute(of, given).scalar_one())


def _counts(task: Task, *, everywhere: bool) -> tuple[Select[Any], Select[Any]]:
    state, head = memory_state.c, namespaces.c
    if not everywhere:
        mine = state.namespace_id == NAMESPACE
        return _number(memory_state, mine, _LEAVE[task]), _number(memory_state, mine, _THERE[task])
    under = and_(head.policy_id == _POLICY_ID, head.policy_version == _POLICY_VERSION)
    both = namespaces.join(memory_state, head.namespace_id == state.namespace_id)
    return _number(both, under, _LEAVE[task]), _number(both, under, _THERE[task])


def _number(source: Any, *conditions: Any) -> Select[Any]:
    return select(func.count()).select_from(source).where(*conditions)
