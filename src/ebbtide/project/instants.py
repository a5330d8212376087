"""The rules' instants for whole columns of objects at once, where segments begin in bulk.

The same conditions as in `decay.rules`, searched by one bisection over all objects and thresholds: since the first
second at which a condition holds does not depend on how it is searched, both find the same.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Double,
    FromClause,
    Select,
    Table,
    Text,
    case,
    cast,
    func,
    literal,
    select,
    union_all,
)

from ebbtide.decay.rules import FAR, exit_rule, next_due
from ebbtide.decay.segment import SEGMENT, Parameters, confidence, evaluate, parts, salience
from ebbtide.model.instant import HORIZON, SECOND
from ebbtide.store.database import SQL, Database

_CURVE = tuple(f.name for f in fields(Parameters))[:12]
_SEARCHES = {"warning": "warning", "sunk": "archive", "doubted": "deprecate_by_confidence"}


def _holds(c: Any, seconds: Any) -> Any:
    at = seconds * literal(SECOND, BigInteger)
    sunk = salience(SQL, c, c, *parts(SQL, c, c, at)) < c.threshold
    doubted = confidence(SQL, c, c, at) < c.threshold
    return case((case((c.search == "doubted", doubted), else_=sunk), True), else_=False)


def crossings(db: Database, segments: Table, joined: FromClause, policy: Any) -> Select[Any]:
    """Per object the first whole second of salience below `warning` and `archive`, and of confidence below its own.

    `segments` has `object_id`, `begin` (µs) and the columns of `SEGMENT`; `joined` joins it with `policy`, the numbers
    of each object's profile. Columns: object_id, warning, sunk, doubted; null where it does not happen in 100 years.
    """
    begin = SQL.whole_second(SQL.greatest(segments.c.begin, segments.c.segment_at)) / literal(SECOND, BigInteger)
    starts = union_all(
        *(
            select(
                segments.c.object_id,
                literal(search, Text).label("search"),
                policy[threshold].label("threshold"),
                cast(func.floor(begin), BigInteger).label("low"),
                *(segments.c[name] for name in SEGMENT),
                *(policy[name] for name in _CURVE),
            ).select_from(joined)
            for search, threshold in _SEARCHES.items()
        )
    ).subquery()
    horizon = literal(HORIZON // SECOND, BigInteger)
    tested = db.fence(
        select(
            starts,
            _holds(starts.c, starts.c.low).label("at_once"),
            _holds(starts.c, starts.c.low + horizon).label("at_all"),
        )
    ).c
    carried = ("object_id", "search", "threshold", *SEGMENT, *_CURVE)
    search = (
        select(
            *(tested[name] for name in carried),
            case((tested.at_once, tested.low - 1), else_=tested.low).label("low"),
            case((tested.at_once, tested.low), else_=tested.low + horizon).label("high"),
        )
        .where(tested.at_all)
        .cte("search", recursive=True)
    )
    middle = cast(func.floor(cast(search.c.low + search.c.high, Double) / literal(2.0, Double)), BigInteger)
    halfway = db.fence(
        select(search, middle.label("middle"), _holds(search.c, middle).label("holds")).where(
            search.c.high - search.c.low > 1
        )
    ).c
    search = search.union_all(
        select(
            *(halfway[name] for name in carried),
            case((halfway.holds, halfway.low), else_=halfway.middle),
            case((halfway.holds, halfway.middle), else_=halfway.high),
        )
    )

    def found(name: str) -> Any:
        return func.max(case((search.c.search == name, search.c.high * literal(SECOND, BigInteger)))).label(name)

    return (
        select(search.c.object_id, *(found(name) for name in _SEARCHES))
        .where(search.c.high - search.c.low == 1)
        .group_by(search.c.object_id)
    )


def due_group(segment: Any, policy: Any, crossed: Any, *, running: Any, warned: Any) -> dict[str, Any]:
    """The group `due` of segments that begin, from their crossings: expressions by column.

    `segment` has `keep_until` (µs or null) and `expires_at`; `running` says that the object is ACTIVE and its time
    goes on; `warned` that it was warned and begins below the threshold.
    """
    left = SQL.least(SQL.known(crossed.sunk, FAR), SQL.known(crossed.doubted, FAR))
    kept = SQL.greatest(left, SQL.whole_second(SQL.known(segment.keep_until, literal(0, BigInteger))))
    exits = running & (left < FAR)
    there = evaluate(SQL, policy, segment, case((exits, kept), else_=segment.segment_at))
    exit_at = case((exits, kept))
    rule = case((exits, exit_rule(SQL, policy, there.salience, there.confidence)))
    warning_at = case((running & ~warned, crossed.warning))
    due_at, due_rule = next_due(
        SQL, warning_at=warning_at, exit_at=exit_at, exit_rule=rule, expires_at=segment.expires_at
    )
    return {
        "due_at": cast(due_at, BigInteger),
        "due_rule": cast(due_rule, Text),
        "exit_at": cast(exit_at, BigInteger),
        "exit_rule": cast(rule, Text),
        "warned": warned,
    }
