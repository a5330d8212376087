"""Leases: one organiser at a time runs a namespace's slots, and a namespace that keeps failing is set aside.

A lease goes by the database's clock, whatever the clocks of the organisers say. Taking one raises the fence in the
namespace's head, which every chunk's transaction compares: whoever was overtaken writes nothing. Whether a slot was
done is said by the ledger alone; a lease only keeps organisers out of each other's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, or_, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.exc import DBAPIError

from ebbtide.log.head import Head
from ebbtide.model import instant
from ebbtide.model.errors import NotFound
from ebbtide.store.database import Database
from ebbtide.store.tables import leases, namespaces

LEASE = instant.MINUTE
"""How long a lease lasts that is not renewed; every chunk renews it."""

FIRST_WAIT, LONGEST_WAIT = instant.MINUTE, instant.DAY
"""How long a namespace is set aside at first, and at most: twice as long each time."""


class Overtaken(Exception):
    """Another organiser has taken the namespace over; nothing was written."""


class Taken(StrEnum):
    """Why a namespace cannot be had now: locked this moment, leased by another, or set aside for a while."""

    BUSY = "busy"
    LEASED = "leased"
    SET_ASIDE = "set_aside"


@dataclass(frozen=True, slots=True)
class Lease:
    """A namespace that is held, and the fence that was raised for it."""

    namespace: str
    holder: str
    fence: int


def claim(db: Database, connection: Connection, namespace: str, holder: str, *, wait: bool) -> Lease | Taken:
    """Takes a namespace in the caller's transaction, or says why not; `wait` for locks, else they are passed by.

    One whose lease has run out, or whose holder's connection is gone, is taken over.
    """
    query = db.lock_clause(
        select(leases, db.now().label("now")).where(leases.c.namespace_id == namespace), skip=not wait
    )
    row = connection.execute(query).first()
    if row is None:  # Never leased before, or locked.
        connection.execute(insert_or_skip(leases).values(namespace_id=namespace, failures=0).on_conflict_do_nothing())
        row = connection.execute(query).first()
    if row is None:
        return Taken.BUSY
    if row.retry_at is not None and row.retry_at > row.now:
        return Taken.SET_ASIDE
    if row.holder not in (None, holder) and row.lease_until > row.now and not db.session_gone(connection, row.session):
        return Taken.LEASED
    head = select(namespaces.c.fence).where(namespaces.c.namespace_id == namespace)
    fence = connection.execute(db.lock_clause(head, skip=not wait)).scalar()
    if fence is None:
        return Taken.BUSY
    connection.execute(update(namespaces).where(namespaces.c.namespace_id == namespace).values(fence=fence + 1))
    found = Lease(namespace, holder, fence + 1)
    _renew(db, connection, found, away=False)
    return found


def check(db: Database, connection: Connection, lease: Lease, head: Head, *, away: bool = False) -> None:
    """Renews a lease in the transaction of a chunk, which has locked the head; raises `Overtaken` where it is lost.

    `away` says that the connection is let go of meanwhile: then only time takes the lease.
    """
    if head.fence != lease.fence:
        raise Overtaken
    _renew(db, connection, lease, away=away)


def _renew(db: Database, connection: Connection, lease: Lease, *, away: bool) -> None:
    connection.execute(
        update(leases)
        .where(leases.c.namespace_id == lease.namespace)
        .values(
            holder=lease.holder,
            session=None if away else db.session(connection),
            lease_until=db.now() + LEASE,
        )
    )


_FREE: Mapping[str, Any] = {"holder": None, "session": None, "lease_until": None}
_WELL: Mapping[str, Any] = {"failures": 0, "retry_at": None, "task": None, "slot": None, "error": None}


def release(connection: Connection, lease: Lease, *, well: bool) -> None:
    """Gives a namespace back, where it is still held; `well` if all that was due is done."""
    values = {**_FREE, **(_WELL if well else {})}
    mine = leases.c.namespace_id == lease.namespace, leases.c.holder == lease.holder
    connection.execute(update(leases).where(*mine).values(values))


def set_aside(
    db: Database, connection: Connection, namespace: str, holder: str, *, task: str | None, slot: int | None, why: str
) -> None:
    """Gives a namespace back that failed, not to be tried again for a while, which doubles each time.

    One that another holds is left as it is.
    """
    mine = leases.c.namespace_id == namespace, or_(leases.c.holder.is_(None), leases.c.holder == holder)
    failures = connection.execute(select(leases.c.failures).where(*mine)).scalar()
    if failures is None:
        return
    pause = min(FIRST_WAIT << min(failures, 20), LONGEST_WAIT)
    said = {"failures": failures + 1, "retry_at": db.now() + pause, "task": task, "slot": slot, "error": why}
    connection.execute(update(leases).where(*mine).values({**_FREE, **said}))


def put_aside(db: Database, connection: Connection) -> dict[str, Any]:
    """The namespaces that are not to be tried yet, by name, as rows of `leases`."""
    rows = connection.execute(select(leases).where(leases.c.retry_at > db.now()).order_by(leases.c.namespace_id))
    return {row.namespace_id: row for row in rows}


def retry(connection: Connection, namespace: str) -> None:
    """Lets a namespace be tried again at once. Raises `NotFound` where there is no such namespace."""
    known = select(namespaces.c.namespace_id).where(namespaces.c.namespace_id == namespace)
    if connection.execute(known).first() is None:
        raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
    connection.execute(update(leases).where(leases.c.namespace_id == namespace).values(_WELL))


def one_line(error: Exception) -> str:
    """An error's kind and first line. Further lines of a database's error may show what was stored."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    first = next(iter(str(cause).strip().splitlines()), "")
    return f"{type(cause).__name__}: {first}"[:500]
