"""Verifying a namespace's log: every entry's hash and link, every batch's root and link, its end, its contents.

Ranges of some 250,000 seq, each a few statements that return one row, so memory is bounded whatever the log's size.
Nothing here knows what an entry means: who does hands in further `Rule`s, judged in the same scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select, text
from sqlalchemy.schema import CreateTable

from ebbtide.log import links
from ebbtide.log.links import BATCH, CHAIN, OWN_RULES, Rule, checked_heads
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, contents, event_log, namespaces

Progress = Callable[[int], None]
"""Told how many entries were looked at since it was told last."""


@dataclass(frozen=True, slots=True)
class Bad:
    """What is wrong first in a namespace: where, a stable code, and in words. `object` names what it is of, if any."""

    namespace_id: str
    seq: int
    code: str
    what: str
    object: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at in a namespace, and what is wrong first."""

    namespace_id: str
    entries: int
    batches: int
    bad: Bad | None


class LogCheck:
    """Checks the logs of namespaces on one connection, in the caller's transaction, which writes nothing lasting."""

    def __init__(
        self, db: Database, connection: Connection, rules: Sequence[Rule] = (), progress: Progress = lambda _: None
    ) -> None:
        self._db = db
        self._connection = connection
        self._rules = (*OWN_RULES, *rules)
        self._words = CHAIN | {rule.code: rule.what for rule in self._rules}
        self._progress = progress
        connection.execute(CreateTable(checked_heads, if_not_exists=True))

    def run(self, namespace: str) -> Checked:
        """Looks at all of a namespace's log; the ends of its streams stay in `checked_heads` until the next one."""
        self._connection.execute(text(f"TRUNCATE {checked_heads.name}"))
        covered, end, bad_batch = self._batches(namespace)
        bad = self._outside(namespace) or self._entries(namespace, covered, end)
        if bad is None:
            bad = bad_batch or self._uncovered(namespace, end)
        if bad is None:
            bad = self._head(namespace, end) or self._contents(namespace, end)
        return Checked(namespace, end, covered, bad)

    def _first(self, name: str, build: Callable[[], Select[Any]], **given: Any) -> Any:
        """The one row of a statement that is built once."""
        statement = self._db.once(f"verify {name} {links.RANGE}", build)
        return self._connection.execute(statement, {f"verify_{key}": value for key, value in given.items()}).first()

    def _batches(self, namespace: str) -> tuple[int, int, Bad | None]:
        """Number and end of the last batch up to which their chain is whole, and the first broken one."""
        number, end, last_hash = 0, 0, bytes(32)
        first, last = self._connection.execute(
            select(func.min(batches.c.batch), func.max(batches.c.batch)).where(batches.c.namespace_id == namespace)
        ).one()
        if first is not None and first < 1:
            return 0, 0, Bad(namespace, 1, "batch_missing", f"there is a batch {first}, before the first one")
        while number < (last or 0):
            b = batches.c
            within = b.batch.between(number + 1, min(number + links.RANGE, last))
            to = self._connection.execute(select(func.max(b.batch)).where(b.namespace_id == namespace, within)).scalar()
            if to is None:
                return number, end, self._bad_batch(namespace, end, "batch_missing", number + 1)
            place = {"namespace": namespace, "first_batch": number + 1, "last_batch": to, "first": end + 1}
            row = self._first("batch chain", lambda: links.batch_chain(self._db), hash=last_hash, **place)
            code = next((code for code in BATCH if row._mapping[code]), None)
            if code is not None:
                good, end = number + row.place - 1, row.expected - 1
                wrong = good + 1 if code == "batch_missing" else row.batch
                return good, end, self._bad_batch(namespace, end, code, wrong)
            number, end, last_hash = row.batch, row.next_seq - 1, bytes(row.hash)
        return number, end, None

    @staticmethod
    def _bad_batch(namespace: str, end: int, code: str, batch: int) -> Bad:
        return Bad(namespace, end + 1, code, BATCH[code].format(batch=batch))

    def _outside(self, namespace: str) -> Bad | None:
        first = self._connection.execute(
            select(func.min(event_log.c.seq)).where(event_log.c.namespace_id == namespace)
        ).scalar()
        if first is not None and first < 1:
            return Bad(namespace, first, "outside", "there is an entry before the first one")
        return None

    def _entries(self, namespace: str, last_batch: int, end: int) -> Bad | None:
        """The first broken entry, or batch by its root, in the part of the log that batches cover."""
        batch, first, recorded = 1, 1, 0
        while first <= end:
            within = {"namespace": namespace, "first_batch": batch, "last_batch": last_batch}
            to_batch, last = self._first("next batches", links.next_batches, first=first, **within)
            place = {"namespace": namespace, "first": first, "last": last}
            name = f"scan {' '.join(self._words)}"
            row = self._first(name, lambda: links.scan(self._db, self._rules), recorded=recorded, **place)
            bad = self._entry(namespace, first, last, row)
            bad = self._root(place, batch, to_batch, last if bad is None else bad.seq - 1) or bad
            if bad is not None:
                return bad
            self._connection.execute(
                self._db.once("verify merge", links.merge), {f"verify_{key}": value for key, value in place.items()}
            )
            self._progress(last - first + 1)
            batch, first, recorded = to_batch + 1, last + 1, row.recorded_at
        return None

    def _entry(self, namespace: str, first: int, last: int, row: Any) -> Bad | None:
        if row is None:
            there = self._connection.execute(
                select(func.count()).where(event_log.c.namespace_id == namespace, event_log.c.seq.between(first, last))
            ).scalar_one()
            return Bad(namespace, first + there, "missing", CHAIN["missing"])
        code = next((code for code in self._words if row._mapping[f"bad_{code}"]), None)
        if code is None:
            return None
        return Bad(namespace, first + row.place - 1 if code == "missing" else row.seq, code, self._words[code])

    def _root(self, place: dict[str, Any], batch: int, to_batch: int, well: int) -> Bad | None:
        """The first batch with another root, if it ends where the entries by themselves are well."""
        row = self._first("roots", lambda: links.roots(self._db), first_batch=batch, last_batch=to_batch, **place)
        if row is None or row.end > well:
            return None
        what = "the root of the batch that begins here is not that of its entries' hashes"
        return Bad(place["namespace"], row.start, "batch_root", what)

    def _uncovered(self, namespace: str, end: int) -> Bad | None:
        last = self._connection.execute(
            select(func.max(event_log.c.seq)).where(event_log.c.namespace_id == namespace)
        ).scalar()
        if (last or 0) > end:
            return Bad(namespace, end + 1, "unbatched", "no batch covers the entry")
        return None

    def _contents(self, namespace: str, end: int) -> Bad | None:
        """The first content that is not what its entry's hash says, or of no entry."""
        low, high = self._connection.execute(
            select(func.min(contents.c.seq), func.max(contents.c.seq)).where(contents.c.namespace_id == namespace)
        ).one()
        if low is None:
            return None
        if low < 1 or high > end:
            seq = low if low < 1 else high
            return Bad(namespace, seq, "content", "there is content of an entry that does not exist")
        for first in range(low, high + 1, links.RANGE):
            given = {"namespace": namespace, "first": first, "last": min(first + links.RANGE - 1, high)}
            row = self._first("content", lambda: links.content(self._db), **given)
            if row is not None:
                return Bad(namespace, row.seq, "content", "its content is not what its content_hash says")
        return None

    def _head(self, namespace: str, end: int) -> Bad | None:
        """Whether the log ends where the namespace's head says; the rest of the head is state."""
        said = self._connection.execute(
            select(namespaces.c.last_seq).where(namespaces.c.namespace_id == namespace)
        ).scalar()
        if said == end:
            return None
        if said is None:
            return Bad(namespace, end, "head", "the namespace has no row in namespaces")
        if said > end:
            return Bad(
                namespace, end + 1, "missing", f"the entry is missing: the head says that the log ends at {said}"
            )
        return Bad(namespace, said + 1, "head", f"namespaces.last_seq says {said}, but the log ends at {end}")
