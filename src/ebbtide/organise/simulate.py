"""What the organiser would do by an instant under a policy version, and under another: its own evaluation, not written.

An object's future is computed when its segment begins. So a simulation stages the segments that an assignment would
begin now, as `memory.assign` does, and reads off the instants; what no assignment would change keeps those it has.
All of it stands in temporary tables of one snapshot: no lock is taken, nothing is written.

Facts that callers may yet tell are not foreseen, nor what centrality, dedup and summaries will do, which count as
facts; nor are the events, and the summaries, that an erasure takes along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Double,
    Insert,
    MetaData,
    Select,
    Table,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
)

from ebbtide.decay import facts
from ebbtide.decay.rules import FAR, leaves_for
from ebbtide.decay.segment import Terms, confidence, evaluate
from ebbtide.model import instant
from ebbtide.model.words import Expiry, LifecycleState, Rule
from ebbtide.policy.document import Policy
from ebbtide.project.assigned import segments_under, under_another
from ebbtide.project.passes import NAMESPACE, empty, temporary
from ebbtide.project.scope import CHUNK, IN_SCOPE, Scope, next_scope, with_policy
from ebbtide.project.segments import begun, stage, table_for
from ebbtide.project.shelf import Shelf, profile_rows
from ebbtide.project.summaries import kept_by_hold
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import memory_objects, memory_state, policy_profiles

OUTCOMES = ("warned", "archived", "deprecated", "expired", "erased")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Outcomes(_Frozen):
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


class Side(_Frozen):
    """What happens under one policy; `policy` is null for what each memory is under now."""

    policy: str | None
    total: Outcomes
    days: list[Day]

    @property
    def active(self) -> int:
        """How many memories are ACTIVE in the end."""
        return self.days[-1].active


class Fate(_Frozen):
    """What a memory has come to at the end: its state, the rule and the instant that led there, its salience."""

    lifecycle_state: str
    erased: bool
    rule: str | None
    at: datetime | None
    salience: float


class Difference(_Frozen):
    """A memory that fares differently."""

    namespace_id: str
    id: UUID
    ref: str | None
    type: str
    under: Fate
    against: Fate


class Simulation(_Frozen):
    """What would happen from `as_of` to `until` under a policy, against another.

    `memories` is how many can still change, `different` how many of them end in another state.
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


_UNTIL: BindParameter[int] = bindparam("simulated_until", type_=BigInteger)


def _fates(name: str) -> Table:
    """What becomes of each object; instants are kept beyond the end of the simulation."""
    return Table(
        name,
        MetaData(),
        Column("namespace_id", Text),
        Column("object_id", Uuid),
        Column("lifecycle_state", Text),
        Column("warned_at", BigInteger),
        Column("left_at", BigInteger),
        Column("rule", Text),
        Column("to_state", Text),
        Column("expires_at", BigInteger),
        Column("action", Text),
        Column("salience", Double),
        prefixes=["TEMPORARY"],
    )


def _fate(s: Any, terms: Any, state: Any, action: Any) -> list[ColumnElement[Any]]:
    """The columns of a fate from a segment with its future, the numbers it is under, and the object's state.

    A ttl goes first at its instant. One that would erase what a held summary was made from waits for the hold.
    """
    left = and_(s.exit_at.isnot(None), s.exit_at < func.coalesce(s.expires_at, literal(FAR, BigInteger)))
    left_at = case((left, s.exit_at))
    waits = and_(action == Expiry.ERASE.value, kept_by_hold(s.object_id))
    expires_at = case((~waits, s.expires_at))
    there = confidence(SQL, terms, s, func.coalesce(left_at, s.segment_at, type_=BigInteger))
    ends = SQL.least(_UNTIL, *(func.coalesce(at, _UNTIL, type_=BigInteger) for at in (left_at, expires_at)))
    shown = func.least(ends, func.coalesce(state.stopped_at, _UNTIL), type_=BigInteger)
    return [
        NAMESPACE.label("namespace_id"),
        s.object_id,
        state.lifecycle_state,
        case((s.due_rule == Rule.WARNING.value, s.due_at)).label("warned_at"),
        left_at.label("left_at"),
        case((left, s.exit_rule)).label("rule"),
        cast(case((left, leaves_for(SQL, terms, s.exit_rule, there))), Text).label("to_state"),
        expires_at.label("expires_at"),
        cast(action, Text).label("action"),
        case((s.pinned, literal(1.0, Double)), else_=evaluate(SQL, terms, s, shown).salience).label("salience"),
    ]


_CAN_CHANGE = and_(
    memory_state.c.tombstoned_at.is_(None),
    or_(
        memory_state.c.lifecycle_state.in_([LifecycleState.ACTIVE.value, LifecycleState.ARCHIVED.value]),
        memory_state.c.expires_at.isnot(None),
    ),
)
"""Which objects time or a policy can still change."""


def _as_they_are(which: Any, action: Any) -> Select[Any]:
    """The fates of objects that stay under the policy they are under."""
    s, o = memory_state.c, memory_objects.c
    return (
        with_policy(select(*_fate(s, policy_profiles.c, s, action)))
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .where(s.namespace_id == NAMESPACE, _CAN_CHANGE, which)
    )


@dataclass
class _Under:
    """Fills the fates under a policy version, or under what each object is under where that is None."""

    db: Database
    connection: Connection
    policy: Policy | None
    fates: Table
    at: int
    chunk_size: int

    def __post_init__(self) -> None:
        empty(self.connection, self.fates)
        self._terms = temporary(f"terms_of_{self.fates.name}", policy_profiles)
        if self.policy is not None:
            empty(self.connection, self._terms)

    def fill(self, namespace: str, until: int) -> None:
        """Adds the objects of a namespace."""
        given = {NAMESPACE.key: namespace, _UNTIL.key: until}
        if self.policy is not None:
            self.connection.execute(insert(self._terms), profile_rows(namespace, Terms.of(self.policy)))
            for scope in self._scopes(namespace, self.policy):
                stage(self.connection, self._reassigned[0], self._reassigned[1], scope.parameters())
                self.connection.execute(self._reassigned[2], given)
        kept = literal(True) if self.policy is None else ~under_another(self.policy)
        self.connection.execute(self._insert(_as_they_are(kept, self._action(namespace))), given)

    def _scopes(self, namespace: str, policy: Policy) -> Iterator[Scope]:
        """The objects that an assignment would reach, in ranges."""
        after, name = None, f"not under {policy.name}"
        while True:
            scope = next_scope(
                self.db,
                self.connection,
                namespace,
                after,
                under_another(policy),
                {},
                name=name,
                size=self.chunk_size,
            )
            if scope.objects:
                yield scope
            if scope.last:
                return
            after = scope.to

    @cached_property
    def _reassigned(self) -> tuple[Table, Select[Any], Insert]:
        """The table of segments that begin with an assignment, the rows that fill it, and their fates."""
        assert self.policy is not None, "only a policy begins segments"
        more = {
            "lifecycle_state": memory_state.c.lifecycle_state,
            "stopped_at": memory_state.c.stopped_at,
            "action": cast(facts.on_expiry(SQL, self.policy.params.retention, memory_objects.c), Text),
        }
        rows = segments_under(self.policy, and_(IN_SCOPE, under_another(self.policy)), self.at, more)
        segments = table_for(f"segments_of_{self.fates.name}", rows)
        found, terms = self.db.fence(begun(self.db, segments, self._terms)), self._terms.c
        mine = and_(terms.namespace_id == NAMESPACE, terms.decay_profile == found.c.decay_profile)
        fates = select(*_fate(found.c, terms, found.c, found.c.action)).join_from(found, self._terms, mine)
        return segments, rows, self._insert(fates)

    def _insert(self, fates: Select[Any]) -> Insert:
        return insert(self.fates).from_select([c.name for c in self.fates.columns], fates)

    def _action(self, namespace: str) -> Any:
        """What becomes of an object whose ttl ends, by the policy it is under."""
        s, shelf = memory_state.c, Shelf(self.connection)
        ends = and_(s.namespace_id == namespace, s.expires_at.isnot(None))
        arms = []
        for row in self.connection.execute(select(s.policy_id, s.policy_version).where(ends).distinct()).all():
            own = shelf.terms(namespace, row.policy_id, row.policy_version).policy
            under = and_(s.policy_id == own.id, s.policy_version == own.version)
            arms.append((under, cast(facts.on_expiry(SQL, own.params.retention, memory_objects.c), Text)))
        return case(*arms, else_=Expiry.ARCHIVE.value) if arms else literal(Expiry.ARCHIVE.value, Text)


# Reading the fates


def _gone_at(fates: Any) -> Any:
    """When what is ACTIVE now is no more."""
    far = literal(FAR, BigInteger)
    ends = SQL.least(func.coalesce(fates.left_at, far, type_=BigInteger), func.coalesce(fates.expires_at, far))
    return case((fates.lifecycle_state == LifecycleState.ACTIVE.value, ends))


def _happens(fates: Any) -> Select[Any]:
    """How often what happens on which day, counted from 1970."""
    erases = fates.action == Expiry.ERASE.value
    kinds = {
        "warned": (fates.warned_at, literal(True)),
        "archived": (fates.left_at, fates.to_state == LifecycleState.ARCHIVED.value),
        "deprecated": (fates.left_at, fates.to_state == LifecycleState.DEPRECATED.value),
        "expired": (fates.expires_at, literal(True)),
        "erased": (fates.expires_at, erases),
        "gone": (_gone_at(fates), literal(True)),
    }
    found = union_all(
        *(
            select(
                literal(what, Text).label("what"),
                cast(func.floor(SQL.days(at), type_=Double), BigInteger).label("day"),
            ).where(at <= _UNTIL, condition)
            for what, (at, condition) in kinds.items()
        )
    ).subquery()
    return select(found.c.what, found.c.day, func.count()).group_by(found.c.what, found.c.day)


def _side(policy: Policy | None, rows: Iterable[Any], active: int, first: int, last: int) -> Side:
    """Each day from the first to the last, and those before on which something is overdue."""
    counts = {(what, day): number for what, day, number in rows}
    total = Counter[str]()
    days = []
    for day in sorted({day for _, day in counts} | set(range(first, last + 1))):
        happened = {what: counts.get((what, day), 0) for what in OUTCOMES}
        total.update(happened)
        active -= counts.get(("gone", day), 0)
        days.append(Day(day=date(1970, 1, 1) + timedelta(days=day), active=active, **happened))
    return Side(policy=None if policy is None else policy.name, total=Outcomes(**total), days=days)


def _outcome(fates: Any, side: str) -> dict[str, ColumnElement[Any]]:
    """What an object has come to at the end."""
    expired, left = fates.expires_at <= _UNTIL, fates.left_at <= _UNTIL
    archived = literal(LifecycleState.ARCHIVED.value, Text)
    erased = and_(expired, fates.action == Expiry.ERASE.value)
    columns: dict[str, ColumnElement[Any]] = {
        "lifecycle_state": case((expired, archived), (left, fates.to_state), else_=fates.lifecycle_state),
        "erased": case((erased, True), else_=False),
        "rule": case((expired, literal(Rule.TTL.value, Text)), (left, fates.rule)),
        "at": case((expired, fates.expires_at), (left, fates.left_at)),
        "salience": fates.salience,
    }
    return {name: column.label(f"{side}_{name}") for name, column in columns.items()}


def _differing(under: Table, against: Table) -> tuple[Select[Any], Select[Any]]:
    """Which objects fare differently, those that differ most first; and how many end in another state.

    First by the state they end in, then by how far apart the instants lie at which they leave ACTIVE, then by salience.
    """
    a, b, o = under.c, against.c, memory_objects.c
    ours, theirs = _outcome(a, "under"), _outcome(b, "against")
    another = or_(*(ours[name].element != theirs[name].element for name in ("lifecycle_state", "erased")))
    leaves = [func.coalesce(func.least(_gone_at(c), _UNTIL), _UNTIL, type_=BigInteger) for c in (a, b)]
    apart = func.abs(leaves[0] - leaves[1])
    fades = func.abs(a.salience - b.salience)
    same = and_(a.namespace_id == b.namespace_id, a.object_id == b.object_id)
    counted = select(func.count()).select_from(under.join(against, same)).where(another)
    query = (
        select(o.namespace_id, o.object_id, o.ref, o.object_type, *ours.values(), *theirs.values())
        .select_from(under.join(against, same))
        .join(memory_objects, and_(o.namespace_id == a.namespace_id, o.object_id == a.object_id))
        .where(or_(another, apart > 0, fades > 0))
        .order_by(case((another, 0), else_=1), apart.desc(), fades.desc(), o.namespace_id, o.object_id)
    )
    return query, counted


def _fate_of(row: Any, side: str) -> Fate:
    found = {name: row[f"{side}_{name}"] for name in Fate.model_fields}
    return Fate(**found | {"at": None if found["at"] is None else instant.to_datetime(found["at"])})


def _difference(row: Any) -> Difference:
    return Difference(
        namespace_id=row["namespace_id"],
        id=row["object_id"],
        ref=row["ref"],
        type=row["object_type"],
        under=_fate_of(row, "under"),
        against=_fate_of(row, "against"),
    )


def simulate(
    db: Database,
    connection: Connection,
    policy: Policy,
    against: Policy | None,
    *,
    namespaces: Iterable[str],
    at: int,
    until: int,
    limit: int,
    chunk_size: int = CHUNK,
) -> Simulation:
    """Simulates a policy, assigned at an instant to namespaces, against another or against what each object is under.

    The caller's transaction must be one that sees a snapshot, and must not be committed. `namespace_id` is left open.
    """
    tables = (_fates("simulated_under"), _fates("simulated_against"))
    sides = [
        _Under(db, connection, which, table, at, chunk_size)
        for which, table in zip((policy, against), tables, strict=True)
    ]
    for namespace in namespaces:
        for side in sides:
            side.fill(namespace, until)
    given = {_UNTIL.key: until}
    under, other = (table.c for table in tables)
    is_active = case((under.lifecycle_state == LifecycleState.ACTIVE.value, 1))
    memories, active = connection.execute(select(func.count(), func.count(is_active)).select_from(tables[0])).one()
    first, last = at // instant.DAY, until // instant.DAY
    found = [
        _side(which, connection.execute(_happens(fates), given).all(), active, first, last)
        for which, fates in ((policy, under), (against, other))
    ]
    differing, counted = _differing(*tables)
    return Simulation(
        namespace_id=None,
        as_of=instant.to_datetime(at),
        until=instant.to_datetime(until),
        memories=memories,
        active=active,
        under=found[0],
        against=found[1],
        different=connection.execute(counted, given).scalar_one(),
        differences=[_difference(row) for row in connection.execute(differing.limit(limit), given).mappings()],
    )
