"""How many memories were eligible, warned, archived and deprecated, point by point: one query over the log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Double,
    Integer,
    Select,
    Text,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
    values,
)

from ebbtide.decay.segment import confidence
from ebbtide.log.canonical import NULL, SEPARATOR
from ebbtide.memory.read import suppressing, withheld
from ebbtide.model import instant
from ebbtide.model.state import BITS
from ebbtide.model.words import EpistemicType, LifecycleState, StreamType
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import event_log, memory_objects, memory_state, policy_profiles, suppressions

READ: dict[str, dict[str, Any]] = {
    "object": {"object_type": Text, "epistemic_type": Text, "condition": Text, "subject": Text},
    "segment": {
        "confidence_base": Double,
        "confidence_from": BigInteger,
        "decay_profile": Text,
        "policy_id": Text,
        "policy_version": Text,
    },
    "due": {"warned": Boolean, "expires_at": BigInteger},
    "flags": {"stopped_at": BigInteger, "erased_at": BigInteger},
}
"""What is read of the groups of columns that entries carry, with its types."""
_PATHS = tuple((group, name) for group, names in READ.items() for name in names)
_WANTED = sum(BITS[group] for group in READ)
_NEVER = 1 << 62


class CountsAt(BaseModel):
    """The memories under one profile at an instant. `warned` of those that were ACTIVE then."""

    at: datetime
    decay_profile: str
    eligible: int
    warned: int
    active: int
    archived: int
    deprecated: int
    superseded: int


def over_time(
    db: Database, connection: Connection, namespace: str, at: int, *, steps: int, step: int = instant.DAY
) -> list[CountsAt]:
    """The counts at an instant and so many steps before it, by profile, oldest first; where there are none, no row.

    The same counts as `memories` gives as of each instant.
    """
    begin = at - steps * step
    rows = connection.execute(_counts(db, namespace, begin, steps, step))
    return [
        CountsAt(at=instant.to_datetime(begin + row.point * step), **{n: getattr(row, n) for n in _COUNTED})
        for row in rows
    ]


_COUNTED = ("decay_profile", "eligible", "warned", "active", "archived", "deprecated", "superseded")


def _counts(db: Database, namespace: str, begin: int, steps: int, step: int) -> Select[Any]:
    points = values(column("point", Integer), column("at", BigInteger), name="points").data(
        [(place, begin + place * step) for place in range(steps + 1)]
    )
    p = points.c
    lived = _lived(db, namespace, begin, steps, step)
    clocked, steady = _clocked(db, lived, points), _steady(db, lived)
    pieces = union_all(steady, clocked).subquery().c

    def those(condition: Any) -> Any:
        return cast(func.coalesce(func.sum(case((condition, pieces.memories))), 0), BigInteger)

    def in_state(state: LifecycleState) -> Any:
        return those(pieces.lifecycle_state == state.value)

    return (
        select(
            p.point,
            pieces.decay_profile,
            those(pieces.eligible == 1).label("eligible"),
            those(and_(pieces.warned, pieces.lifecycle_state == LifecycleState.ACTIVE.value)).label("warned"),
            *(in_state(state).label(state.value.lower()) for state in LifecycleState),
        )
        .select_from(points.join(pieces.decay_profile.table, and_(pieces.first <= p.point, p.point < pieces.last)))
        .group_by(p.point, pieces.decay_profile)
        .order_by(p.point, pieces.decay_profile)
    )


def _entries(db: Database, namespace: str, moved: Any) -> Any:
    """What changed anything that is counted, with what it carries of that as one text a group; null where nothing.

    Of the memories of which anything was said since.
    """
    log = event_log.c
    found = db.fence(
        select(
            log.stream_id.label("object_id"),
            log.version,
            log.effective_at,
            log.lifecycle_state,
            log.carries,
            db.document(log.after, _PATHS).label("document"),
        ).where(*_counts_in(namespace), log.stream_id.in_(select(moved.c.object_id)))
    ).c
    place = func.lpad(cast(found.version, Text), 19, "0", type_=Text)

    def packed(*parts: Any) -> Any:
        """Parts in one text that sorts by the entry's place, so that the greatest is the last."""
        return func.concat(
            place, *(part for one in parts for part in (SEPARATOR, func.coalesce(one, NULL))), type_=Text
        )

    def group(name: str) -> Any:
        parts = [db.part(found.document, _PATHS, (name, one)) for one in READ[name]]
        return case((found.carries.op("&")(BITS[name]) != 0, packed(*parts)))

    return db.fence(
        select(
            found.object_id,
            found.version,
            found.effective_at,
            case((found.lifecycle_state.isnot(None), packed(found.lifecycle_state))).label("state"),
            *(group(name).label(f"{name}_group") for name in READ),
        )
    )


def _counts_in(namespace: str) -> list[Any]:
    """Which entries changed anything that is counted."""
    log = event_log.c
    carries = or_(log.carries.op("&")(_WANTED) != 0, log.lifecycle_state.isnot(None))
    return [log.namespace_id == namespace, log.stream_type == StreamType.OBJECT.value, carries]


def _still(namespace: str, moved: Any, steps: int) -> Select[Any]:
    """The memories of which nothing was said since the first point: their state is what it was then."""
    s, o = memory_state.c, memory_objects.c
    columns = {"object": o, "segment": s, "due": s, "flags": s}
    return (
        select(
            s.namespace_id,
            s.object_id,
            literal(0, Integer).label("first"),
            literal(steps + 1, Integer).label("last"),
            s.lifecycle_state,
            *(columns[group][name].label(name) for group, names in READ.items() for name in names),
        )
        .join_from(memory_state, memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .where(s.namespace_id == namespace, s.object_id.not_in(select(moved.c.object_id)))
    )


def _lived(db: Database, namespace: str, begin: int, steps: int, step: int) -> Any:
    """Each span of a memory's life in which nothing was said of it, as the points it covers: [first, last).

    What took effect after a later entry is never seen: the later one has the last word from its own instant on.
    """
    log = event_log.c
    moved = (
        select(log.stream_id.label("object_id"))
        .where(*_counts_in(namespace), log.effective_at > begin)
        .distinct()
        .cte("moved")
    )
    e = _entries(db, namespace, moved).c
    stream: Any = {"partition_by": e.object_id, "order_by": e.version}
    ends = func.min(e.effective_at).over(**stream, rows=(1, None))

    def last(name: str) -> Any:
        return func.max(e[name], type_=Text).over(**stream, rows=(None, 0)).label(name)

    def point(at: Any) -> Any:
        """The first point that is not before an instant."""
        behind = func.floor(cast(at - (begin + 1), Double) / float(step)) + 1
        return cast(func.least(float(steps + 1), func.greatest(0.0, behind)), Integer)

    seen = db.fence(
        select(e.object_id, e.effective_at, ends.label("ends"), last("state"), *(last(f"{n}_group") for n in READ))
    ).c
    spans = db.fence(
        select(
            literal(namespace, Text).label("namespace_id"),
            seen.object_id,
            point(func.least(seen.effective_at, seen.ends)).label("first"),
            point(func.coalesce(seen.ends, _NEVER)).label("last"),
            _part(seen.state, 0, Text).label("lifecycle_state"),
            *(
                _part(seen[f"{group}_group"], place, kind).label(name)
                for group, names in READ.items()
                for place, (name, kind) in enumerate(names.items())
            ),
        )
    ).c
    found = union_all(select(*spans).where(spans.first < spans.last), _still(namespace, moved, steps)).subquery().c
    # Read twice, worked out once.
    return select(*found, _clock_matters(found).label("clocked")).cte("lived")


def _part(packed: Any, place: int, kind: Any) -> Any:
    """One of the parts of a packed text, with its type."""
    value = func.nullif(func.split_part(packed, SEPARATOR, place + 2, type_=Text), NULL, type_=Text)
    if kind is Boolean:
        return value == "true"
    return value if kind is Text else cast(value, kind)


def _clock_matters(span: Any) -> Any:
    """Whether what withholds a memory may change with nothing said of it: a ttl, a confidence, a suppression."""
    s = suppressions.c
    meant = or_(
        s.object_id == span.object_id,
        and_(
            s.object_id.is_(None),
            *(or_(s[n].is_(None), s[n] == span[n]) for n in ("object_type", "epistemic_type", "subject")),
        ),
    )
    matters = and_(
        span.lifecycle_state == LifecycleState.ACTIVE.value,
        or_(
            span.expires_at.isnot(None),
            span.epistemic_type == EpistemicType.UNVERIFIED.value,
            exists().where(s.namespace_id == span.namespace_id, meant),
        ),
    )
    return case((matters, True), else_=False)


def _steady(db: Database, lived: Any) -> Select[Any]:
    """Spans over which a memory is as eligible at their end as at their beginning."""
    spans = db.fence(
        select(*lived.c, literal(False).label("suppressed"), literal(1.0, Double).label("confidence")).where(
            ~lived.c.clocked
        )
    ).c
    eligible = case((withheld(spans, literal(0, BigInteger)).is_(None), 1), else_=0)
    kinds = (spans.first, spans.last, spans.decay_profile, spans.lifecycle_state, spans.warned, eligible)
    return select(
        spans.first,
        spans.last,
        spans.decay_profile,
        spans.lifecycle_state,
        spans.warned,
        eligible.label("eligible"),
        func.count().label("memories"),
    ).group_by(*kinds)


def _clocked(db: Database, lived: Any, points: Any) -> Select[Any]:
    """The other spans, point by point."""
    p, policy, span = points.c, policy_profiles.c, lived.c
    score = confidence(SQL, policy, span, func.coalesce(span.stopped_at, p.at, type_=BigInteger))
    rules = and_(
        policy.namespace_id == span.namespace_id,
        policy.policy_id == span.policy_id,
        policy.policy_version == span.policy_version,
        policy.decay_profile == span.decay_profile,
    )
    seen = db.fence(
        select(
            *span,
            p.point,
            p.at,
            score.label("confidence"),
            case((exists().where(suppressing(span, p.at)), True), else_=False).label("suppressed"),
        )
        .select_from(lived.join(policy_profiles, rules).join(points, and_(span.first <= p.point, p.point < span.last)))
        .where(lived.c.clocked)
    ).c
    eligible = case((withheld(seen, seen.at).is_(None), 1), else_=0)
    kinds = (seen.point, seen.decay_profile, seen.lifecycle_state, seen.warned, eligible)
    return select(
        seen.point.label("first"),
        (seen.point + 1).label("last"),
        seen.decay_profile,
        seen.lifecycle_state,
        seen.warned,
        eligible.label("eligible"),
        func.count().label("memories"),
    ).group_by(*kinds)
