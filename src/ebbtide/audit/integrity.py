"""Is the log whole, and is everything beside it what it says?

`log.verify` recomputes the chain. Here the state is compared with the fold, contents with what was and was not
erased, and a kept digest with the log. Nothing is mended, and all that is read is of one instant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import (
    Connection,
    Select,
    Text,
    and_,
    case,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.exc import DBAPIError

from ebbtide.audit.entries import RULES, is_erasing
from ebbtide.audit.receipts import Receipt, flaws
from ebbtide.decay.segment import Terms
from ebbtide.log.digest import Head, departures
from ebbtide.log.head import lock
from ebbtide.log.links import NAMESPACE, checked_heads
from ebbtide.log.verify import Bad, Checked, LogCheck, Progress
from ebbtide.model.entry import Embedding
from ebbtide.model.words import OpType, StreamType, TombstoneReason
from ebbtide.policy.document import Policy
from ebbtide.project.passes import Chunk
from ebbtide.project.rebuild import Wrong, compare, named
from ebbtide.project.shelf import STORE_WIDE, profile_rows
from ebbtide.project.writer import value_digest
from ebbtide.store.database import Database
from ebbtide.store.tables import (
    batches,
    consumers,
    contents,
    edges,
    event_log,
    event_state,
    leases,
    memory_objects,
    memory_state,
    metadata,
    policies,
    policy_profiles,
    refusals,
    tokens,
)

AFTER_ARCHIVING = (OpType.ACCESS, OpType.HOLD, OpType.RELEASE, OpType.TOMBSTONE, OpType.CORRECTED)
"""What may follow a tombstone that kept the content. One that erased it, CORRECTED only."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and what is wrong first, in the order of namespaces; what concerns all of them comes last.

    `recorded` names the namespaces in whose log the result was written.
    """

    ok: bool
    entries: int
    batches: int
    first_bad: Bad | None
    namespaces: list[Checked]
    recorded: list[str]


def all_namespaces(connection: Connection) -> list[str]:
    """Every namespace that any table has a row of; a refused request and a reader need none."""
    found: set[str] = set()
    for table in metadata.sorted_tables:
        if table not in (refusals, consumers, leases, tokens):
            found |= set(connection.execute(select(table.c.namespace_id).distinct()).scalars())
    return sorted(found - {STORE_WIDE})


class Integrity:
    """Verifies on one connection without a transaction. `kept` are heads that were noted elsewhere."""

    def __init__(
        self, db: Database, connection: Connection, *, kept: Sequence[Head] = (), progress: Progress = lambda _: None
    ) -> None:
        self._db = db
        self._connection = connection
        self._kept = kept
        self._progress = progress

    def namespace(self, name: str) -> Checked:
        """All there is to a namespace, as of one instant however long it takes."""
        try:
            with self._db.snapshot(self._connection).begin():
                checked = LogCheck(self._db, self._connection, RULES, self._progress).run(name)
                gone = departures(self._connection, self._noted(name)) if not checked.entries else iter(())
                found = chain(gone, [checked.bad] if checked.bad else self._meaning(name, checked.entries))
                return replace(checked, bad=next(found, None))
        except DBAPIError as error:
            if not self._db.unreadable(error):
                raise
            return _unreadable(name, str(error.orig))
        except (ValidationError, json.JSONDecodeError) as error:
            return _unreadable(name, str(error))

    def _noted(self, namespace: str) -> list[Head]:
        return [head for head in self._kept if head.namespace_id == namespace]

    def receipt(self, shown: Receipt) -> Iterator[Bad]:
        """What is otherwise than a receipt of an erasure says."""
        with self._db.snapshot(self._connection).begin():
            yield from flaws(self._db, self._connection, shown)

    def _meaning(self, namespace: str, end: int) -> Iterator[Bad]:
        """What is wrong where the log's chain is whole."""
        yield from departures(self._connection, self._noted(namespace))
        yield from self._first(namespace, "key", "afterlife")
        yield from self._state(namespace, end)
        yield from self._first(namespace, "content_gone", "content_left")
        yield from self._digests(namespace)
        yield from self._embeddings(namespace)

    def _first(self, namespace: str, *codes: str) -> Iterator[Bad]:
        for code in codes:
            build, what = _CHECKS[code]
            query = self._db.once(f"integrity {code}", partial(build, self._db))
            seq = self._connection.execute(query, {NAMESPACE.key: namespace}).scalar()
            if seq is not None:
                yield Bad(namespace, seq, code, what)

    def _state(self, namespace: str, end: int) -> Iterator[Bad]:
        """The first row of the state that the log does not give, at the last entry of what it is of."""
        compared = compare(self._db, self._connection, namespace)
        if compared.total:
            wrong = named(self._connection, compared)[0]
            what = f"{wrong.table} ({', '.join(wrong.key)}) {wrong.what}: `ebb rebuild` mends it"
            yield Bad(namespace, self._last_of(wrong) or end, "state", what, wrong.key[0] if wrong.key else None)

    def _last_of(self, wrong: Wrong) -> int | None:
        try:
            stream = UUID(wrong.key[0])
        except (IndexError, ValueError):
            return None
        query = select(checked_heads.c.seq).where(checked_heads.c.stream_id == stream)
        return self._connection.execute(query).scalar()

    def _digests(self, namespace: str) -> Iterator[Bad]:
        """The first digest that is not that of its value.

        The database tells those of plain texts and numbers. What is left, such as a value with members, whose order
        does not count, is judged one by one.
        """
        query = self._db.once("integrity digests", lambda: _other_digests(self._db))
        rows = self._connection.execute(query, {NAMESPACE.key: namespace}, execution_options={"yield_per": 1000})
        for row in rows:
            if not row.asserted or row.digest is None or _digest_of(row.content) != bytes(row.digest):
                rows.close()
                yield Bad(namespace, row.seq, "content_digest", "the digest of its content is not that of its value")
                return

    def _embeddings(self, namespace: str) -> Iterator[Bad]:
        """The first embedding that is not the one whose hash stands in its content, as the content hash has it."""
        query = self._db.once("integrity embeddings", _embedded)
        rows = self._connection.execute(query, {NAMESPACE.key: namespace}, execution_options={"yield_per": 1000})
        for row in rows:
            if not _is_embedding_of(row):
                rows.close()
                yield Bad(namespace, row.seq, "embedding", "its embedding is not the one that its content names")
                return

    def indexes(self) -> Iterator[Bad]:
        """Indexes that do not find every row: whatever else is read by them is in doubt."""
        with self._db.snapshot(self._connection).begin():
            yield from (Bad(STORE_WIDE, 0, "index", what) for what in self._db.damaged_indexes(self._connection))

    def policies(self) -> Iterator[Bad]:
        """What is wrong with the policies registered for all."""
        with self._db.snapshot(self._connection).begin():
            yield from (Bad(STORE_WIDE, 0, "policy", what) for what in _registered(self._connection))


def _unreadable(namespace: str, reason: str) -> Checked:
    what = f"the log fits together, but what it says cannot be read: {reason.splitlines()[0]}"
    return Checked(namespace, 0, 0, Bad(namespace, 1, "unreadable", what))


def _log(op: OpType) -> Any:
    """A namespace's entries of one kind, under a name of their own."""
    log = event_log.c
    return select(event_log).where(log.namespace_id == NAMESPACE, log.op_type == op.value).subquery().c


def _key_twice(db: Database) -> Select[Any]:
    """The first entry whose idempotency key was used before; PostgreSQL has a unique index, DuckDB none."""
    del db
    log = event_log.c
    nth = func.row_number().over(partition_by=log.idempotency_key, order_by=log.seq)
    keys = (
        select(log.seq, nth.label("nth"))
        .where(log.namespace_id == NAMESPACE, log.idempotency_key.isnot(None))
        .subquery()
        .c
    )
    return select(func.min(keys.seq)).where(keys.nth > 1)


def _afterlife(db: Database) -> Select[Any]:
    """The first entry that follows a tombstone and may not."""
    del db
    tombstones, log = _log(OpType.TOMBSTONE), event_log.c
    kept = log.op_type.in_([op.value for op in AFTER_ARCHIVING])
    allowed = case((is_erasing(tombstones), log.op_type == OpType.CORRECTED.value), else_=kept)
    return (
        select(func.min(log.seq))
        .join_from(
            tombstones.seq.table,
            event_log,
            and_(log.stream_id == tombstones.stream_id, log.version > tombstones.version),
        )
        .where(log.namespace_id == NAMESPACE, ~allowed)
    )


def _with_state(query: Select[Any]) -> Select[Any]:
    """Joins entries with the state of the object or event whose content they may have."""
    log, s, e = event_log.c, memory_state.c, event_state.c
    return query.outerjoin(
        memory_state, and_(log.namespace_id == s.namespace_id, log.stream_id == s.object_id)
    ).outerjoin(event_state, and_(log.namespace_id == e.namespace_id, log.seq == e.seq))


def _content_gone(db: Database) -> Select[Any]:
    """The first entry whose content is missing although neither its object, event, subject nor namespace was erased."""
    log, s, e = event_log.c, memory_state.c, event_state.c
    spoken, last, alive = _erasures(db)
    subject = db.member(db.json(case((log.stream_type == StreamType.NAMESPACE.value, log.payload))), "subject")
    all_gone = and_(log.seq < last, log.seq < func.coalesce(alive, log.seq + 1))
    of_namespace = or_(func.coalesce(spoken.last > log.seq, False), func.coalesce(all_gone, False))
    explained = case(
        (log.stream_type == StreamType.OBJECT.value, s.erased_at.isnot(None)),
        (log.stream_type == StreamType.EVENTS.value, e.erased_at.isnot(None)),
        else_=or_(of_namespace, log.id.in_(_edges_at_erased())),
    )
    there = and_(contents.c.namespace_id == log.namespace_id, contents.c.seq == log.seq)
    return (
        _with_state(select(func.min(log.seq)).join_from(event_log, contents, there, isouter=True))
        .outerjoin(spoken.last.table, spoken.subject == subject)
        .where(log.namespace_id == NAMESPACE, log.content_hash.isnot(None), contents.c.seq.is_(None), ~explained)
    )


def _edges_at_erased() -> Select[Any]:
    """Relations of which an end was erased: what was written of them goes with it."""
    end, edge = memory_state.alias("end_state").c, edges.c
    at_end = and_(edge.namespace_id == end.namespace_id, end.object_id.in_([edge.source_id, edge.target_id]))
    query = select(edge.edge_id).join_from(edges, end.object_id.table, at_end)
    return query.where(edge.namespace_id == NAMESPACE, end.erased_at.isnot(None))


def _erasures(db: Database) -> tuple[Any, Any, Any]:
    """What was erased by request: by subject the last tombstone, the last one at all, and where what is left begins."""
    tombstones, o, s, e = _log(OpType.TOMBSTONE), memory_objects.c, memory_state.c, event_state.c
    reason = func.split_part(func.split_part(tombstones.payload, '"reason":"', 2), '"', 1, type_=Text)
    asked = and_(is_erasing(tombstones), reason != TombstoneReason.RETENTION.value)
    targets = union_all(
        select(o.object_id.label("id"), o.subject).where(o.namespace_id == NAMESPACE, o.subject.isnot(None)),
        select(e.event_id, e.subject).where(e.namespace_id == NAMESPACE, e.subject.isnot(None)),
    ).subquery()
    spoken = (
        select(targets.c.subject, func.max(tombstones.seq).label("last"))
        .join_from(targets, tombstones.seq.table, targets.c.id == tombstones.stream_id)
        .where(asked)
        .group_by(targets.c.subject)
        .subquery()
        .c
    )
    last = select(func.max(tombstones.seq)).where(asked).scalar_subquery()
    left = union_all(
        select(o.content_seq.label("seq"))
        .join_from(memory_objects, memory_state, and_(o.namespace_id == s.namespace_id, o.object_id == s.object_id))
        .where(o.namespace_id == NAMESPACE, s.erased_at.is_(None)),
        select(e.seq).where(e.namespace_id == NAMESPACE, e.erased_at.is_(None)),
    ).subquery()
    del db
    return spoken, last, select(func.min(left.c.seq)).scalar_subquery()


def _content_left(db: Database) -> Select[Any]:
    """The first entry whose content is there although its object or event was erased."""
    del db
    log, c = event_log.c, contents.c
    entries = select(func.min(c.seq)).join_from(
        contents, event_log, and_(c.namespace_id == log.namespace_id, c.seq == log.seq)
    )
    gone = or_(memory_state.c.erased_at.isnot(None), event_state.c.erased_at.isnot(None))
    return _with_state(entries).where(c.namespace_id == NAMESPACE, gone)


def _other_digests(db: Database) -> Select[Any]:
    """Contents whose digest is not that of the value as it stands in the text.

    A content begins with its value; where that is a text, what follows begins with a mark that no text can hold.
    """
    log, c = event_log.c, contents.c
    body = func.substr(c.content, len('{"value":') + 1, type_=Text)
    for mark in (',"reason":', ',"metadata":'):
        body = func.split_part(body, mark, 1, type_=Text)
    # The last one of a content has its closing brace.
    alone = func.length(body) == func.length(c.content) - len('{"value":')
    value = case((alone, func.substr(body, 1, func.length(body) - 1, type_=Text)), else_=body)
    asserted = log.op_type == OpType.ASSERT.value
    same = func.coalesce(c.digest == db.sha256(db.utf8(value)), False)
    return (
        select(c.seq, c.content, c.digest, asserted.label("asserted"))
        .join_from(contents, event_log, and_(c.namespace_id == log.namespace_id, c.seq == log.seq))
        .where(c.namespace_id == NAMESPACE, case((asserted, ~same), else_=c.digest.isnot(None)))
        .order_by(c.seq)
    )


def _digest_of(content: str) -> bytes | None:
    said = json.loads(content)
    return value_digest(said["value"]) if isinstance(said, dict) and "value" in said else None


def _embedded() -> Select[Any]:
    """Contents that have an embedding, or say so."""
    c = contents.c
    of_one = or_(c.embedding.isnot(None), c.dimensions.isnot(None), c.embedding_model.isnot(None))
    return (
        select(c.seq, c.content, c.embedding_model, c.dimensions, c.embedding)
        .where(c.namespace_id == NAMESPACE, or_(of_one, c.content.contains('"embedding":"')))
        .order_by(c.seq)
    )


def _is_embedding_of(row: Any) -> bool:
    said = json.loads(row.content)
    digest = said.get("embedding") if isinstance(said, dict) else None
    if digest is None or row.embedding is None:
        return digest is None and (row.embedding, row.dimensions, row.embedding_model) == (None, None, None)
    found = Embedding(said.get("embedding_model", ""), tuple(row.embedding))
    named = (row.embedding_model, row.dimensions) == (found.model, len(found.numbers))
    return named and found.digest() == digest


_CHECKS: dict[str, tuple[Callable[[Database], Select[Any]], str]] = {
    "key": (_key_twice, "its idempotency_key is that of an entry before"),
    "afterlife": (_afterlife, "an entry follows a tombstone after which there is none"),
    "content_gone": (_content_gone, "its content is missing, and nothing erased it"),
    "content_left": (_content_left, "its content is there, although it was erased"),
}


def _registered(connection: Connection) -> Iterator[str]:
    """What is wrong with the policies that are registered for all."""
    p, numbers = policies.c, policy_profiles.c
    documents = {
        (row.namespace_id, row.policy_id, row.policy_version): row.document
        for row in connection.execute(select(policies).order_by(p.namespace_id, p.policy_id, p.policy_version))
    }
    stored: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in connection.execute(select(policy_profiles).where(numbers.namespace_id == STORE_WIDE)).mappings():
        stored.setdefault((row["policy_id"], row["policy_version"]), []).append(dict(row))
    for (owner, policy_id, version), document in documents.items():
        common = documents.get((STORE_WIDE, policy_id, version), document)
        if document != common:
            yield f"the policy {policy_id}@{version} registered for all is not the one in namespace {owner}"
        if owner == STORE_WIDE:
            yield from _document(policy_id, version, document, stored.pop((policy_id, version), []))
    for policy_id, version in stored:
        yield f"policy_profiles has rows of {policy_id}@{version}, which is not registered"


def _document(policy_id: str, version: str, document: str, numbers: list[dict[str, Any]]) -> Iterator[str]:
    try:
        policy = Policy.model_validate(json.loads(document))
    except ValueError:
        yield f"the document of {policy_id}@{version} is no policy"
        return
    if (policy.id, policy.version, policy.canonical()) != (policy_id, version, document):
        yield f"the document of {policy_id}@{version} is of another policy, or not in its canonical form"
    expected = {row["decay_profile"]: row for row in profile_rows(STORE_WIDE, Terms.of(policy))}
    if {row["decay_profile"]: row for row in numbers} != expected:
        yield f"the numbers of {policy_id}@{version} in policy_profiles are not those of its document"


def record(db: Database, connection: Connection, checked: Checked, now: int) -> bool:
    """Appends INTEGRITY_CHECK to a namespace's stream, in the caller's transaction: what was found, in codes.

    False where nothing can be appended, since the namespace's head is not where its log ends.
    """
    head = lock(db, connection, checked.namespace_id)
    if head is None or not _ends(connection, head):
        return False
    chunk = Chunk(db, connection, head, now=now)
    found = checked.bad
    result = {"ok": found is None} | ({} if found is None else {"code": found.code, "seq": found.seq})
    payload = {"entries": checked.entries, "batches": checked.batches, **result}
    chunk.note(OpType.INTEGRITY_CHECK, payload, effective_at=chunk.recorded_at)
    chunk.close()
    return True


def _ends(connection: Connection, head: Any) -> bool:
    """Whether the log ends where a head says: an entry appended to a wrong one would break the chain."""
    log, b, name = event_log.c, batches.c, head.namespace_id
    last = connection.execute(select(func.max(log.seq)).where(log.namespace_id == name)).scalar()
    own = connection.execute(
        select(log.version, log.hash)
        .where(log.namespace_id == name, log.stream_type == StreamType.NAMESPACE.value)
        .order_by(log.seq.desc())
        .limit(1)
    ).first()
    batch = connection.execute(
        select(b.batch, b.hash).where(b.namespace_id == name).order_by(b.batch.desc()).limit(1)
    ).first()
    found = (last, *_plain(own), *_plain(batch))
    return found == (head.last_seq, head.version, head.head_hash, head.last_batch, head.last_batch_hash)


def _plain(row: Any) -> tuple[int, bytes]:
    return (0, bytes(32)) if row is None else (row[0], bytes(row[1]))
