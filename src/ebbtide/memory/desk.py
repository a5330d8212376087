"""The desk: one transaction in which requests are taken, over any number of namespaces.

Heads are locked in the order of the namespaces' names, so writers of several never wait for each other in a circle.
A request whose name is known writes nothing again; one that a rule refuses is kept in `refusals`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, insert, select

from ebbtide.log.canonical import NONCE
from ebbtide.memory.beliefs import said_by
from ebbtide.memory.case import Case, id_of
from ebbtide.memory.decide import decide
from ebbtide.memory.door import Door, Kind, Said
from ebbtide.memory.requests import (
    AnyRequest,
    Assert,
    Belief,
    EntityCreate,
    EpistemicTransition,
    Event,
    Line,
    Penalty,
    Reinforce,
    Supersede,
)
from ebbtide.model.entry import Draft, Entry
from ebbtide.model.errors import Conflict, Refused
from ebbtide.model.identity import id_of_entry, id_of_ref, id_of_stream, uuid8
from ebbtide.model.words import ActorType, OpType
from ebbtide.policy.document import Policy
from ebbtide.project.shelf import Shelf
from ebbtide.project.writer import Request, Writer, content_hash
from ebbtide.store.database import Database
from ebbtide.store.tables import aliases, contents, event_log, refusals

Entropy = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a request: its entries, and the object or event meant.

    `unchanged` says that nothing came to be by it: its name was known, or it was a `duplicate`, what an ACTIVE memory
    says already. That one is the target then.
    """

    entries: tuple[Entry, ...]
    unchanged: bool
    target: UUID
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """An earlier request by its key: enough to tell whether a repeat is equal, and what it made."""

    seq: int
    duplicate_of: UUID | None
    request_hash: bytes
    nonce: bytes | None
    erased: bool


def policy_entry(writer: Writer, policy: Policy, previous: str | None, at: int, actor: str, actor_type: str) -> Draft:
    """POLICY_ASSIGNED of a namespace: the whole document, so that the log alone can say what decisions meant."""
    stream_type, stream_id = writer.own_stream()
    return Draft(
        stream_type=stream_type,
        stream_id=stream_id,
        op_type=OpType.POLICY_ASSIGNED,
        effective_at=at,
        actor_id=actor,
        actor_type=actor_type,
        payload={"previous": previous, "document": policy.model_dump(mode="json", by_alias=True)},
        fact=False,
        policy_id=policy.id,
        policy_version=policy.version,
    )


class Desk:
    """Takes requests in one transaction; `close` writes them."""

    def __init__(
        self,
        db: Database,
        connection: Connection,
        *,
        clock: int,
        entropy: Entropy,
        default_policy: Policy,
    ) -> None:
        self._db = db
        self._connection = connection
        self._clock = clock
        self._entropy = entropy
        self._default_policy = default_policy
        self.shelf = Shelf(connection)
        self._writers: dict[str, Writer] = {}
        self._doors: dict[str, Door] = {}
        self._known: dict[tuple[str, str], _Known | None] = {}

    def open(self, namespaces: Iterable[str], begins_at: int) -> None:
        """Locks the heads of namespaces, making new ones, which begin at an instant under the default policy."""
        for namespace in sorted(set(namespaces)):
            writer = Writer(self._db, self._connection, namespace, now=self._clock, entropy=self._entropy)
            self._writers[namespace] = writer
            self._doors[namespace] = Door(self._db, self._connection, writer)
            if writer.head.policy_id is None:
                self.assign(writer, self._default_policy, begins_at, "ebbtide", ActorType.SYSTEM_PROCESS)

    def assign(self, writer: Writer, policy: Policy, at: int, actor: str, actor_type: str) -> Entry:
        """Makes a policy the namespace's own, for all that is asserted from now on."""
        head = writer.head
        previous = f"{head.policy_id}@{head.policy_version}" if head.policy_id else None
        self.shelf.put(writer.namespace, policy, writer.recorded_at)
        entry = writer.append(policy_entry(writer, policy, previous, at, actor, actor_type))
        writer.under(policy.id, policy.version)
        return entry

    def writer(self, namespace: str) -> Writer:
        """The writer of an opened namespace."""
        return self._writers[namespace]

    def prepare(self, lines: Sequence[tuple[AnyRequest, str | None]]) -> None:
        """Reads all that the requests name, a few queries for all of them. Each comes with its key, if it has one."""
        for namespace, writer in self._writers.items():
            mine = [(line, key) for line, key in lines if line.namespace == namespace]
            new, named, evidence, event_streams = [], [], [], []
            for line, _ in mine:
                if about := _named(line):
                    named.append(id_of(namespace, about))
                if isinstance(line, Belief | Reinforce | Penalty | EpistemicTransition):
                    evidence += [id_of(namespace, name) for name in line.evidence]
                if isinstance(line, Belief) and line.ref:
                    new.append(id_of_ref(namespace, line.ref))
                if isinstance(line, Event):
                    event_streams.append(id_of_stream(namespace, line.stream))
            writer.load_aliases([*named, *evidence])
            writer.load([*new, *map(writer.stands_for, named), *map(writer.stands_for, evidence)])
            writer.load_signals(
                writer.stands_for(id_of(namespace, line.object)) for line, _ in mine if isinstance(line, Reinforce)
            )
            writer.load_events(evidence)
            writer.load_streams(event_streams)
            self._load_known(namespace, [key for _, key in mine if key])
            unknown = [line for line, key in mine if key is None or self._known[namespace, key] is None]
            self._doors[namespace].prepare(self._said(writer, unknown), self._policy(writer).params.dedup.cosine)

    def _policy(self, writer: Writer) -> Policy:
        head = writer.head
        assert head.policy_id is not None, "a namespace has a policy from its first entry on"
        assert head.policy_version is not None
        return self.shelf.terms(writer.namespace, head.policy_id, head.policy_version).policy

    @staticmethod
    def _said(writer: Writer, lines: Iterable[AnyRequest]) -> list[Said]:
        """What requests would store. A SUPERSEDE is of the type and subject of its object, unless it says others."""
        said, kinds = [], dict[UUID, Kind]()
        for line in lines:
            if isinstance(line, Assert):
                kind = Kind(line.object_type, line.subject)
            elif isinstance(line, Supersede):
                old_id = writer.stands_for(id_of(line.namespace, line.object))
                old = writer.state(old_id)
                known = kinds.get(old_id) or (Kind(old.object_type, old.subject) if old else None)
                if known is None:
                    continue
                kind = Kind(line.object_type or known.object_type, line.subject or known.subject)
            else:
                continue
            if line.ref:
                kinds[id_of_ref(line.namespace, line.ref)] = kind
            said.append(said_by(line, *kind))
        return said

    def _load_known(self, namespace: str, keys: list[str]) -> None:
        wanted = [key for key in dict.fromkeys(keys) if (namespace, key) not in self._known]
        if not wanted:
            return
        self._known |= {(namespace, key): None for key in wanted}
        query = (
            select(
                event_log.c.seq,
                event_log.c.op_type,
                event_log.c.stream_id,
                event_log.c.idempotency_key,
                event_log.c.request_hash,
                event_log.c.content_hash,
                contents.c.nonce,
            )
            .join_from(
                event_log,
                contents,
                (event_log.c.namespace_id == contents.c.namespace_id) & (event_log.c.seq == contents.c.seq),
                isouter=True,
            )
            .where(event_log.c.namespace_id == namespace, self._db.among(event_log.c.idempotency_key, wanted))
        )
        for row in self._connection.execute(query):
            nonce = None if row.nonce is None else bytes(row.nonce)
            erased = row.content_hash is not None and nonce is None
            first = _primary(row)
            self._known[namespace, row.idempotency_key] = _Known(row.seq, first, bytes(row.request_hash), nonce, erased)

    def key_of_equal(self, line: AnyRequest, place: int) -> str:
        """The key of a line without a ref: a keyed hash of its content and of which of its equals it is.

        Keyed with the namespace's secret, which is in no log: the key alone says nothing.
        """
        secret = self._writers[line.namespace].secret
        return "line:" + hmac.new(secret, f"{place}\x1f{line.canonical()}".encode(), hashlib.sha256).hexdigest()

    def take(self, line: AnyRequest, key: str | None) -> Taken:
        """Decides a request and appends its entries; a repeat returns what the first one wrote.

        Raises `Refused` where a rule says no, `Conflict` where the name was used for something else.
        """
        writer = self._writers[line.namespace]
        if key is not None:
            self._load_known(line.namespace, [key])
            known = self._known[line.namespace, key]
            if known is not None:
                return self._repeat(line, key, known)
        request = None if key is None else Request(key, line.canonical())
        target = self._target(line, writer.next_seq)
        written: list[Entry] = []
        for draft in decide(Case(writer, self._doors[line.namespace], self.shelf, self._clock), line):
            written.append(writer.append(draft, request if not written else None))
        first = written[0]
        primary = _primary(first)
        if key is not None:
            assert first.request_hash is not None
            self._known[line.namespace, key] = _Known(
                first.seq, primary, first.request_hash, writer.nonce_of(first), erased=False
            )
        duplicate = primary is not None
        return Taken(tuple(written), duplicate and len(written) == 1, primary or target, duplicate)

    def _repeat(self, line: AnyRequest, key: str, known: _Known) -> Taken:
        equal = known.erased or content_hash(known.nonce or bytes(NONCE), line.canonical()) == known.request_hash
        if not equal:
            raise Conflict(
                f"the name {key!r} was used for something else: choose another, or repeat the line as it was",
                rule="idempotency_key",
                object=key,
            )
        target = known.duplicate_of or self._target(line, known.seq)
        return Taken((), unchanged=True, target=target, duplicate=known.duplicate_of is not None)

    def _target(self, line: AnyRequest, seq: int) -> UUID:
        """The object or event that a request, whose first entry is at `seq`, makes or is about."""
        if isinstance(line, Event | Belief | EntityCreate):
            return id_of_ref(line.namespace, line.ref) if line.ref else id_of_entry(line.namespace, seq)
        about = _named(line)
        if not about:
            return id_of_entry(line.namespace, seq)
        return self._writers[line.namespace].stands_for(id_of(line.namespace, about))

    def close(self) -> int:
        """Writes what was taken, a batch per namespace; the number of entries."""
        return sum(len(self._writers[namespace].flush()) for namespace in sorted(self._writers))


def known_by(line: AnyRequest, key: str | None) -> str | None:
    """The key under which a request is known again: its ref, else its actor's key for it, if there is one."""
    return line.ref if line.ref is not None or key is None else f"key:{line.actor_id}:{key}"


def _named(line: Line) -> str | None:
    """The object that a request is about, as its caller names it."""
    named: str | None = getattr(line, "object", None)
    return named


def _primary(first: Any) -> UUID | None:
    """The memory that a request's first entry says was there already; None where it says something else."""
    return first.stream_id if first.op_type == OpType.DEDUP_RESOLVED else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a rule refused: who asked what of which object, when, and which rule said no."""

    namespace_id: str
    effective_at: int | None
    op_type: str
    object_id: UUID | None
    actor_id: str
    actor_type: ActorType
    rule: str

    @classmethod
    def of(cls, line: AnyRequest, refused: Refused) -> Refusal:
        """The refusal of a request."""
        about = _named(line) or line.ref
        return cls(
            namespace_id=line.namespace,
            effective_at=line.effective_at,
            op_type=line.op,
            object_id=None if about is None else id_of(line.namespace, about),
            actor_id=line.actor_id,
            actor_type=line.actor_type,
            rule=refused.rule,
        )

    def note(self, connection: Connection, *, clock: int, entropy: Entropy) -> None:
        """Keeps it in `refusals`, in the caller's transaction; under an alias, of the memory that it stands for."""
        meant = select(aliases.c.object_id).where(
            aliases.c.namespace_id == self.namespace_id, aliases.c.alias_id == self.object_id
        )
        values = asdict(self) | {
            "object_id": connection.execute(meant).scalar() or self.object_id,
            "id": uuid8(self.namespace_id, entropy(NONCE).hex()),
            "recorded_at": clock,
            "effective_at": clock if self.effective_at is None else self.effective_at,
            "actor_type": self.actor_type.value,
        }
        connection.execute(insert(refusals).values(values))
