"""The retention pass: a standard TOMBSTONE for every object and event whose time to live has ended.

Expired at an instant, not on a day: the first whole second at or after clock + ttl, in whatever state the object is,
unless it is pinned or held. `archive` keeps the content, `erase` removes it in the same transaction, and with it the
evidence that serves nothing else and every summary made from any of it; what a held summary was made from waits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Text, and_, bindparam, case, literal, or_, select

from ebbtide.decay import facts
from ebbtide.model import instant
from ebbtide.model.words import Expiry, Rule, Ruling, TombstoneReason
from ebbtide.organise.listed import JUDGED_AT, untouched
from ebbtide.policy.document import Policy, RetentionRule
from ebbtide.project import tombstone
from ebbtide.project.passes import AS_OF, NAMESPACE, Chunk
from ebbtide.project.scope import IN_SCOPE, Scope
from ebbtide.project.shelf import Shelf
from ebbtide.project.summaries import SINCE, kept_by_hold, made_from_erased
from ebbtide.project.tombstone import Verdict
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import event_state, memory_objects, memory_state

_POLICY_REF: BindParameter[str] = bindparam("tombstone_policy_ref", type_=Text)

EXPIRED: ColumnElement[bool] = and_(memory_state.c.due_rule == Rule.TTL.value, memory_state.c.due_at <= AS_OF)
"""Which objects' ttl has ended."""

LISTED: ColumnElement[bool] = and_(EXPIRED, untouched(memory_state.c.object_id))
"""Those of which it had when the guard judged, and that are as they were then."""


def retention(
    db: Database,
    connection: Connection,
    chunk: Chunk,
    scope: Scope,
    policy: Policy,
    as_of: int,
    ruling: Ruling | None = None,
    judged_at: int = 0,
) -> dict[str, int]:
    """Writes what has expired in a chunk as of a slot's start; with the last chunk also events; the counts.

    `policy` is the namespace's, by which events expire; an object expires by its own. Of a held slot nothing is
    written; of an approved one what is as it was at the place of the log where it was judged.
    """
    if ruling == Ruling.HELD:
        return {"examined": scope.objects}
    listed = ruling == Ruling.APPROVED
    given = (
        scope.parameters()
        | {AS_OF.key: as_of}
        | tombstone.parameters(TombstoneReason.RETENTION, as_of, instant.iso(as_of))
        | ({JUDGED_AT.key: judged_at} if listed else {})
    )
    expired = 0
    if scope.objects:
        shelf = Shelf(connection)
        for found in policies_of_expired(connection, given):
            own = shelf.terms(chunk.namespace, *found).policy
            statements = partial(_objects, db, own, listed=listed)
            expired += chunk.write(db.once(f"expired objects {own.digest()} {listed}", statements), given)
    if scope.last and any(rule.match.events for rule in policy.params.retention):
        statements = db.once(f"expired events {policy.digest()} {listed}", partial(_events, db, policy, listed=listed))
        expired += chunk.write(statements, given)
    # What waited for a hold alone goes with the last chunk, once that was released.
    waiting = scope.last and any(rule.action == Expiry.ERASE for rule in policy.params.retention)
    if expired or waiting:
        given |= {_POLICY_REF.key: policy.name, SINCE.key: chunk.head.last_seq + 1}
        expired += chunk.write(db.once("expired evidence", partial(_unused_evidence, db)), given)
        expired += chunk.write(db.once("expired summaries", partial(_summaries, db)), given)
        tombstone.erase_contents(db, connection, chunk.namespace)
    return {"examined": scope.objects, "expired": expired}


def policies_of_expired(connection: Connection, given: dict[str, Any]) -> list[tuple[str, str]]:
    """The policy versions of the objects that have expired."""
    columns = memory_state.c
    query = select(columns.policy_id, columns.policy_version).where(IN_SCOPE, EXPIRED).distinct()
    return sorted((row.policy_id, row.policy_version) for row in connection.execute(query, given))


def expires_by(policy: Policy) -> tuple[ColumnElement[bool], Any]:
    """Which objects under a policy version expire in a chunk, and what is done with each."""
    action = facts.on_expiry(SQL, policy.params.retention, memory_objects.c)
    under = and_(memory_state.c.policy_id == policy.id, memory_state.c.policy_version == policy.version)
    return and_(IN_SCOPE, EXPIRED, under, _unkept(action, memory_state.c.object_id)), action


def _objects(db: Database, policy: Policy, *, listed: bool) -> Any:
    which, action = expires_by(policy)
    if listed:
        which = and_(which, untouched(memory_state.c.object_id))
    verdict = Verdict(at=memory_state.c.due_at, action=action, policy_ref=literal(policy.name))
    return tombstone.objects(db, f"pass_expired_{policy.digest()[:16]}{'_listed' if listed else ''}", which, verdict)


def _unkept(action: Any, id_: Any) -> ColumnElement[bool]:
    """Whether nothing stands against an expiry: an erasure waits for holds on the summaries it would erase."""
    return or_(action != Expiry.ERASE.value, ~kept_by_hold(id_))


def _summaries(db: Database) -> Any:
    """Summaries of what is erased now."""
    at = SQL.greatest(memory_state.c.fact_at, AS_OF)
    verdict = Verdict(at=at, action=literal(Expiry.ERASE.value), policy_ref=_POLICY_REF)
    return tombstone.objects(db, "pass_expired_summaries", made_from_erased(), verdict)


def _unused_evidence(db: Database) -> Any:
    """Events that were evidence of nothing but what is erased now."""
    columns = event_state.c
    unused = and_(
        columns.namespace_id == NAMESPACE,
        columns.erased_at.is_(None),
        tombstone.serves_no_other(),
        ~kept_by_hold(columns.event_id),
    )
    verdict = Verdict(at=AS_OF, action=literal(Expiry.ERASE.value), policy_ref=_POLICY_REF)
    return tombstone.events(db, "pass_unused_evidence", unused, verdict)


def _events(db: Database, policy: Policy, *, listed: bool) -> Any:
    which, ends, action = expiring_events(policy)
    if listed:
        which = and_(which, event_state.c.seq <= JUDGED_AT)
    verdict = Verdict(at=ends, action=action, policy_ref=literal(policy.name))
    name = f"pass_expired_events_{policy.digest()[:16]}{'_listed' if listed else ''}"
    return tombstone.events(db, name, which, verdict)


def erased_events(policy: Policy) -> ColumnElement[bool]:
    """Which events' content a policy version erases by an instant."""
    which, _, action = expiring_events(policy)
    return and_(which, action == Expiry.ERASE.value)


def expiring_events(policy: Policy, *, kept: bool = True) -> tuple[ColumnElement[bool], Any, Any]:
    """Events by the first rule that speaks of their role and stream, when, and what is done with each.

    They count from when they happened. Without `kept`, those that have a tombstone or wait for a hold are among them.
    """
    rules: list[RetentionRule] = [rule for rule in policy.params.retention if rule.match.events]
    columns = event_state.c
    arms = []
    for rule in rules:
        speaks = and_(
            columns.role.in_([role.value for role in rule.match.roles]) if rule.match.roles else literal(True),
            columns.stream.in_(rule.match.streams) if rule.match.streams else literal(True),
        )
        ends = SQL.whole_second(columns.effective_at + round(rule.ttl_days * instant.DAY))
        arms.append((speaks, ends, rule.action.value))
    ends = case(*((speaks, end) for speaks, end, _ in arms), else_=None)
    action = case(*((speaks, action) for speaks, _, action in arms), else_=Expiry.ARCHIVE.value)
    due = and_(columns.namespace_id == NAMESPACE, or_(*(speaks for speaks, _, _ in arms)), ends <= AS_OF)
    if kept:
        due = and_(due, columns.tombstoned_at.is_(None), _unkept(action, columns.event_id))
    return due, ends, action
