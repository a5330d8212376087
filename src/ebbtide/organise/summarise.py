"""Summaries of event windows: what a stream held in a span of time becomes a memory of type SUMMARY.

Three steps, so that no transaction is open while a summariser runs, which may take long and call other services:
windows are read, texts are summarised, and what came of it is written under the namespace's lock, unless its events
have changed meanwhile. A summary's id follows from its window, so each window has one, however many organisers run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, Select, Text, and_, cast, exists, func, literal, or_, select

from ebbtide.decay import facts
from ebbtide.decay.segment import Terms
from ebbtide.log.canonical import SEPARATOR
from ebbtide.model import instant
from ebbtide.model.entry import Draft
from ebbtide.model.errors import EbbtideError
from ebbtide.model.state import GROUPS
from ebbtide.model.words import (
    INITIAL_SALIENCE,
    EpistemicType,
    LifecycleState,
    ObjectType,
    OpType,
    SourceType,
    StreamType,
    initial_confidence,
)
from ebbtide.policy.document import Summarise
from ebbtide.policy.schedule import ANCHOR
from ebbtide.project.passes import ORGANISER
from ebbtide.project.writer import Writer, value_digest
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_state, memory_objects

Summariser = Callable[[Sequence[str]], str]
"""Makes one text of several, the contents of events in their order; any error leaves the window for the next slot."""

WINDOWS = 16
"""Windows between two commits: what a crash repeats."""

SUMMARY_TYPE = "event_window"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Window:
    """The events of one stream and subject in a span of time, [begin, end), that have no summary yet."""

    summary: UUID
    stream: str
    subject: str | None
    begin: int
    end: int
    events: tuple[UUID, ...]
    texts: tuple[str, ...]

    def told(self) -> dict[str, str | None]:
        """The window as an entry tells it."""
        return {"stream": self.stream, "subject": self.subject, **span(self.begin, self.end)}


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of a window: its text, or why there is none."""

    window: Window
    text: str | None
    why: str | None = None


def span(begin: int, end: int) -> dict[str, str]:
    """A span of time as payloads tell it."""
    return {"from": instant.iso(begin), "to": instant.iso(end)}


# Reading


def windows(
    db: Database, connection: Connection, namespace: str, rules: Summarise, as_of: int, after: UUID | None
) -> list[Window]:
    """The next windows by id that have ended and hold enough events, counting those neither erased nor expired."""
    rows = connection.execute(_rows(db, namespace, rules, as_of, after)).all()
    length = rules.window_hours * instant.HOUR
    found = []
    for summary, members in groupby(rows, key=attrgetter("summary")):
        group = list(members)
        found.append(
            Window(
                summary=summary,
                stream=group[0].stream,
                subject=group[0].subject,
                begin=group[0].begin,
                end=group[0].begin + length,
                events=tuple(row.event_id for row in group),
                texts=tuple(_text(row.content) for row in group),
            )
        )
    return found


def _rows(db: Database, namespace: str, rules: Summarise, as_of: int, after: UUID | None) -> Select[Any]:
    """The events of the next windows with their contents, window by window, in order of time."""
    e, o = event_state.c, memory_objects.c
    length = literal(rules.window_hours * instant.HOUR, BigInteger)
    # Twice, since the remainder of what lies before the anchor is negative.
    begin = e.effective_at - ((e.effective_at - literal(ANCHOR, BigInteger)) % length + length) % length
    left = select(e.event_id, e.seq, e.effective_at, e.stream, e.subject, begin.label("begin")).where(
        e.namespace_id == namespace, e.tombstoned_at.is_(None), e.erased_at.is_(None)
    )
    events = left.cte("events")
    key = (events.c.stream, events.c.subject, events.c.begin)
    ended = db.fence(
        select(*key).where(events.c.begin + length <= as_of).group_by(*key).having(func.count() >= rules.min_events)
    )
    named = func.concat_ws(
        SEPARATOR,
        "summary",
        namespace,
        ended.c.stream,
        func.coalesce(ended.c.subject, "", type_=Text),
        cast(ended.c.begin, Text),
        str(rules.window_hours),
        type_=Text,
    )
    made = db.fence(select(*ended.c, db.uuid8(named).label("summary")))
    there = exists(select(o.object_id).where(o.namespace_id == namespace, o.object_id == made.c.summary))
    following = select(*made.c).where(~there)
    if after is not None:
        following = following.where(made.c.summary > after)
    chosen = following.order_by(made.c.summary).limit(WINDOWS).subquery("windows")
    return (
        select(*chosen.c, events.c.event_id, contents.c.content)
        .join_from(
            chosen,
            events,
            and_(
                events.c.stream == chosen.c.stream,
                func.coalesce(events.c.subject, "") == func.coalesce(chosen.c.subject, ""),
                events.c.begin == chosen.c.begin,
            ),
        )
        .join(contents, and_(contents.c.namespace_id == namespace, contents.c.seq == events.c.seq))
        .order_by(chosen.c.summary, events.c.effective_at, events.c.seq)
    )


def _text(content: str) -> str:
    """The text of an event; what is no text as JSON."""
    said = json.loads(content)["content"]
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


# Summarising


def summarised(
    found: Iterable[Window], summariser: Summariser, stopping: Callable[[], bool] = lambda: False
) -> list[Summary]:
    """What a summariser makes of windows, up to where it is to stop; one that it fails at has no text."""
    done: list[Summary] = []
    for window in found:
        if done and stopping():
            break
        done.append(_summarised(window, summariser))
    return done


def _summarised(window: Window, summariser: Summariser) -> Summary:
    try:
        text = summariser(window.texts)
    except Exception as error:  # noqa: BLE001 - a caller's function, or the service behind it, may raise anything
        # What a foreign error says may hold the texts, which go nowhere but to the contents.
        why = error.message if isinstance(error, EbbtideError) else type(error).__name__
        log.warning("no summary of %s: %s", window.told(), why)
        return Summary(window, None, type(error).__name__)
    return Summary(window, text) if _fit(text) else Summary(window, None, "no_text")


def _fit(text: Any) -> bool:
    """Whether it is a text that says something and that can be stored."""
    if not isinstance(text, str) or not text.strip() or "\x00" in text:
        return False
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


# Writing


def written(
    db: Database, connection: Connection, writer: Writer, terms: Terms, found: Sequence[Summary], as_of: int
) -> list[Summary]:
    """Appends the summaries whose windows are as they were; those that were not written, each with the reason why."""
    writer.load(one.window.summary for one in found)
    gone = _gone(db, connection, writer.namespace, [event for one in found for event in one.window.events])
    left_out = []
    for one in found:
        why = one.why
        if writer.state(one.window.summary) is not None:
            why = "summarised_meanwhile"
        elif gone.intersection(one.window.events):
            why = "gone_meanwhile"
        elif one.text is not None:
            _append(writer, terms, one.window, one.text, as_of)
            continue
        left_out.append(replace(one, text=None, why=why))
    return left_out


def _gone(db: Database, connection: Connection, namespace: str, events: Sequence[UUID]) -> set[UUID]:
    e = event_state.c
    changed = or_(e.tombstoned_at.isnot(None), e.erased_at.isnot(None))
    query = select(e.event_id).where(e.namespace_id == namespace, db.among(e.event_id, events), changed)
    return set(connection.execute(query).scalars())


def _append(writer: Writer, terms: Terms, window: Window, text: str, at: int) -> None:
    """ASSERT of the summary, with its events as evidence, and SUMMARY_CREATED."""
    evidence = [str(event) for event in window.events]
    confidence, _ = initial_confidence(EpistemicType.INFERRED, SourceType.SYSTEM_INFERRED)
    new = facts.unbegun(
        namespace_id=writer.namespace,
        object_id=window.summary,
        at=at,
        salience=INITIAL_SALIENCE,
        confidence=confidence,
        object_type=ObjectType.SUMMARY,
        epistemic_type=EpistemicType.INFERRED,
        source_type=SourceType.SYSTEM_INFERRED,
        subject=window.subject,
        evidence=evidence,
        content_seq=writer.next_seq,
    )
    state = facts.asserted(new, terms, at)
    writer.note_evidence(window.summary, window.events)
    common: dict[str, Any] = {
        "stream_type": StreamType.OBJECT,
        "stream_id": window.summary,
        "effective_at": at,
        "actor_id": ORGANISER.id,
        "actor_type": ORGANISER.type,
        "decay_profile": state.decay_profile,
        "policy_id": state.policy_id,
        "policy_version": state.policy_version,
    }
    writer.append(
        Draft(
            **common,
            op_type=OpType.ASSERT,
            payload=facts.assertion(state),
            after={group: state.group(group) for group in GROUPS},
            lifecycle_state=LifecycleState.ACTIVE,
            salience=state.salience,
            confidence=state.confidence,
            content={"value": text},
            content_key=value_digest(text),
        )
    )
    payload = {
        "object_ids_summarised": evidence,
        "time_window": span(window.begin, window.end),
        "summary_type": SUMMARY_TYPE,
        "stream": window.stream,
    }
    writer.append(Draft(**common, op_type=OpType.SUMMARY_CREATED, payload=payload, fact=False))
