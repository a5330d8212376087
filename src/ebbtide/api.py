"""Ebbtide as a Python object: open a store, ask of memory, let time pass, read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from uuid import UUID

from sqlalchemy import Connection, select

from ebbtide.audit import doctor, views
from ebbtide.audit.status import Status, status
from ebbtide.memory import read
from ebbtide.memory.assign import Assignment
from ebbtide.memory.decide import id_of
from ebbtide.memory.desk import Desk, Entropy, Taken, note_refusal
from ebbtide.memory.ingest import Ingested, Placed, read_lines, take_lines
from ebbtide.memory.read import LogEntry, Memory
from ebbtide.memory.requests import DEFAULT_NAMESPACE, AnyRequest, Line, request_from
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, EbbtideError, NotFound, Refused
from ebbtide.model.words import ActorType, Task
from ebbtide.organise.run import Organiser, Run
from ebbtide.organise.walk import Walker
from ebbtide.policy.document import Policy, split_name
from ebbtide.policy.files import library
from ebbtide.project.passes import Actor
from ebbtide.project.scope import CHUNK
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.store.store import DEFAULT_URL, Store
from ebbtide.store.tables import organiser_runs

When = datetime | str | None
"""An instant: an aware datetime, or ISO 8601 text with a zone. None is now."""

Progress = Callable[[int, int], None]
"""Told how much of a long work is done, of how much."""

DEFAULT_POLICY = "default@1.0.0"


def system_clock() -> int:
    """The machine's clock, as an instant."""
    return time.time_ns() // 1000


def _no_progress(done: int, total: int) -> None:
    del done, total


class Ebbtide:
    """A store of memory. Every call is a unit of work of its own: on return it is committed, or nothing of it is.

    `url` names the store, `wait` is how many seconds a busy one is waited for, `policies` a folder of policy files
    beside the built-in ones. `clock` (µs since 1970) and `entropy` come from outside where a caller needs them to;
    `chunk_size` is the number of objects that one transaction of a pass covers. Errors are `EbbtideError`s.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        clock: Callable[[], int] = system_clock,
        entropy: Entropy = secrets.token_bytes,
        wait: float = 30.0,
        policies: Path | None = None,
        chunk_size: int = CHUNK,
    ) -> None:
        self.store = Store(url, wait=wait)
        self._clock = clock
        self._entropy = entropy
        self._library = library(policies)
        self._chunk_size = chunk_size

    @classmethod
    def open(cls, url: str = DEFAULT_URL, **options: Any) -> Self:
        """Opens a store, setting it up where it is new. Options are those of the constructor."""
        opened = cls(url, **options)
        if opened.store.revision() is None:
            opened.init()
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the store's connections."""
        self.store.db.engine().dispose()

    # Setting up

    def init(self) -> tuple[str | None, str]:
        """Creates or migrates the schema, makes the audit views anew and registers the policies at hand.

        The migration before and after. One transaction: a migration that fails leaves the store as it was.
        """
        with self.store.db.connect() as connection, connection.begin():
            result = self.store.migrate(connection)
            views.install(self.store.db, connection)
            shelf = Shelf(connection)
            for policy, _ in self._library.values():
                shelf.put(STORE_WIDE, policy, self._clock())
        self.store.checkpoint()
        return result

    def problems(self) -> list[str]:
        """What is wrong with the store or its set-up, each with what to do; empty where all is well."""
        with self.store.begin() as connection:
            return list(doctor.problems(self.store.db, connection, self._clock()))

    # Asking of memory

    def ask(self, *requests: AnyRequest | dict[str, Any]) -> list[Taken]:
        """Takes requests, all or none of them, in one transaction.

        A request is a mapping as in JSON Lines, or a model of `ebbtide.memory.requests`. One with a ref that was
        taken before writes nothing again. What a rule refuses raises `Refused` and is kept in `refusals`.
        """
        lines = [request if isinstance(request, Line) else request_from(request) for request in requests]
        if not lines:
            return []
        current = lines[0]
        with self.store.session() as connection:
            try:
                with connection.begin():
                    desk = self._desk(connection, lines)
                    desk.prepare([(line, line.ref) for line in lines])
                    taken = []
                    for current in lines:
                        taken.append(desk.take(current, current.ref))
                    desk.close()
            except Refused as refused:
                with connection.begin():
                    note_refusal(connection, current, refused, clock=self._clock(), entropy=self._entropy)
                raise
        return taken

    def assert_memory(
        self,
        value: Any,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        object_type: str = "FACT",
        epistemic_type: str,
        source_type: str,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> Memory:
        """Stores a new memory. Further fields are those of ASSERT: ref, subject, evidence, salience, confidence …"""
        given = {
            "value": value,
            "object_type": object_type,
            "epistemic_type": epistemic_type,
            "source_type": source_type,
        }
        return self._ask_one("ASSERT", namespace, actor, actor_type, at, given | fields)

    def event(
        self,
        content: Any,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> UUID:
        """Records something that happened; the event's id, for use as evidence."""
        request = self._request("EVENT", namespace, actor, actor_type, at, {"content": content} | fields)
        return self.ask(request)[0].target

    def supersede(
        self,
        obj: UUID | str,
        value: Any,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> Memory:
        """Closes a memory and opens the one that takes its place; what is not given stays as it was. The new one."""
        return self._ask_one(
            "SUPERSEDE", namespace, actor, actor_type, at, {"object": str(obj), "value": value} | fields
        )

    def access(self, obj: UUID | str, **options: Any) -> Memory:
        """Records that a memory was shown, which confirms nothing."""
        return self._about("ACCESS", obj, **options)

    def reinforce(self, obj: UUID | str, *, signal: str, **options: Any) -> Memory:
        """Confirms a memory's use: REFERENCED, CONFIRMED, TASK_COMPLETED_WITH or CORROBORATED_BY_EXTERNAL."""
        return self._about("REINFORCE", obj, signal=signal, **options)

    def penalise(self, obj: UUID | str, *, signal: str, **options: Any) -> Memory:
        """Says that a memory was wrong, or of no use: CORRECTED, CONTRADICTED_BY_OBSERVATION and the like."""
        return self._about("PENALTY", obj, signal=signal, **options)

    def pin(self, obj: UUID | str, **options: Any) -> Memory:
        """Stops a memory's time: nothing automatic touches it."""
        return self._about("PIN", obj, **options)

    def unpin(self, obj: UUID | str, **options: Any) -> Memory:
        """Lets a pinned memory's time go on."""
        return self._about("UNPIN", obj, **options)

    def restore(self, obj: UUID | str, **options: Any) -> Memory:
        """Brings an archived memory back."""
        return self._about("RESTORE", obj, **options)

    def _about(
        self,
        op: str,
        obj: UUID | str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> Memory:
        return self._ask_one(op, namespace, actor, actor_type, at, {"object": str(obj)} | fields)

    def _ask_one(
        self,
        op: str,
        namespace: str,
        actor: str | None,
        actor_type: str | None,
        at: When,
        fields: dict[str, Any],
    ) -> Memory:
        taken = self.ask(self._request(op, namespace, actor, actor_type, at, fields))[0]
        return self.memory(taken.target, namespace=namespace)

    @staticmethod
    def _request(
        op: str, namespace: str, actor: str | None, actor_type: str | None, at: When, fields: dict[str, Any]
    ) -> AnyRequest:
        common = {
            "op": op,
            "namespace": namespace,
            "actor_id": actor,
            "actor_type": actor_type,
            "effective_at": at,
        }
        return request_from({**fields, **{key: value for key, value in common.items() if value is not None}})

    def ingest(
        self,
        source: BinaryIO,
        file: str = "-",
        *,
        keep_going: bool = False,
        walk: bool = False,
        progress: Progress = _no_progress,
    ) -> Ingested:
        """Takes a file of JSON Lines, all of it or nothing; with `keep_going` what cannot be taken is left out.

        `walk` lives through the history: every line is checked first; then, before each one, what is due by its
        instant is run, committed as it goes. A second run of the same file goes on where the first one stopped.
        """
        done = Ingested()

        def refuse(error: EbbtideError) -> None:
            if not keep_going:
                raise error

        def refuse_and_note(error: EbbtideError) -> None:
            refuse(error)
            done.refused.append(error)

        lines = list(read_lines(source, file, refuse_and_note))
        with self.store.session() as connection:
            runs = self._walked(connection, lines) if walk else iter([lines])
            taken = 0
            for group in runs:
                self._take_group(connection, group, refuse, done)
                taken += len(group)
                progress(taken, len(lines))
        return done

    def _walked(self, connection: Connection, lines: Sequence[Placed]) -> Iterator[list[Placed]]:
        """Groups of lines between which nothing is due; what is due is run before the next group is handed out."""
        walker, group = Walker(self._organiser_on(connection)), list[Placed]()
        for place in lines:
            namespace = place.request.namespace
            at = self._clock() if place.request.effective_at is None else place.request.effective_at
            if walker.waits(namespace, at):
                if group:
                    yield group
                    group = []
                walker.reach(namespace, at)
            group.append(place)
        if group:
            yield group

    def _take_group(
        self,
        connection: Connection,
        group: Sequence[Placed],
        refuse: Callable[[EbbtideError], None],
        done: Ingested,
    ) -> None:
        if not group:
            return
        try:
            with connection.begin():
                desk = self._desk(connection, [place.request for place in group])
                part = take_lines(connection, desk, group, refuse, self._entropy, self._clock())
        except Refused as refused:
            line = next(place.request for place in group if place.line == refused.line)
            with connection.begin():
                note_refusal(connection, line, refused, clock=self._clock(), entropy=self._entropy)
            raise
        done.appended += part.appended
        done.unchanged += part.unchanged
        done.refused += part.refused

    def _desk(self, connection: Connection, lines: Iterable[AnyRequest]) -> Desk:
        now = self._clock()
        begins: dict[str, int] = {}
        for line in lines:
            at = now if line.effective_at is None else min(line.effective_at, now)
            begins[line.namespace] = min(at, begins.get(line.namespace, at))
        policy = self._library[DEFAULT_POLICY][0]
        desk = Desk(self.store.db, connection, clock=now, entropy=self._entropy, default_policy=policy)
        for namespace in sorted(begins):
            desk.open([namespace], begins[namespace])
        return desk

    # Policies

    def policies(self) -> list[Policy]:
        """All policy versions at hand: built in, in the folder of policy files, and registered in the store."""
        with self.store.begin() as connection:
            registered = Shelf(connection).registered()
        found = {policy.name: policy for policy, _ in self._library.values()} | {p.name: p for p in registered}
        return [found[name] for name in sorted(found)]

    def policy(self, name: str) -> Policy:
        """A policy version by `id@version`, as it is registered, or as its file has it."""
        policy_id, version = split_name(name)
        with self.store.begin() as connection:
            found = Shelf(connection).find(STORE_WIDE, policy_id, version)
        if found is None and name in self._library:
            return self._library[name][0]
        if found is None:
            raise NotFound(f"there is no policy {name}: `ebb policy list` names those at hand")
        return found

    def register_policy(self, policy: Policy) -> bool:
        """Registers a version for good; False where it is there already. Other content under its name is refused."""
        known = self._library.get(policy.name)
        if known is not None and known[0] != policy:
            raise BadInput(f"{policy.name} is the name of a policy at hand with other content: give it a new version")
        with self.store.begin() as connection:
            return Shelf(connection).put(STORE_WIDE, policy, self._clock())

    def assign_policy(
        self,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
    ) -> int:
        """Assigns a version to a namespace and to each of its objects that can still change, from now on.

        Each begins a new segment that goes on where its old one is. How many objects changed; asked again after a
        crash it goes on, and asked twice it changes nothing.
        """
        policy = self.policy(name)
        with self.store.session() as connection:
            work = Assignment(self.store.db, connection, self._clock, self._entropy, self._chunk_size)
            return work.run(namespace, policy, Actor(actor, ActorType(actor_type)))

    # Letting time pass

    def organise(
        self,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        as_of: When = None,
        dry_run: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Run]:
        """Runs what is due at an instant (default: now), each task once, at the newest start it makes up."""
        at, chosen = self._past(as_of), _tasks(tasks)
        with self._organiser(dry_run, stopping) as organiser:
            found = []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                for start, task in organiser.ledger(name).due(chosen, at):
                    run = organiser.run(name, task, start)
                    if run is not None:
                        found.append(run)
            return found

    def walk(
        self,
        begin: When,
        end: When,
        *,
        tasks: Iterable[Task | str] | None = None,
        namespace: str | None = None,
        progress: Progress = _no_progress,
    ) -> list[Run]:
        """Walks the schedule from one instant to another in domain time, every slot of it."""
        first, last, chosen = self._past(begin), self._past(end), _tasks(tasks)
        if first > last:
            raise BadInput("the walk ends before it begins: --from must not be after --to", field="from")
        with self._organiser() as organiser:
            found = []
            for name in organiser.namespaces() if namespace is None else [namespace]:
                slots = list(organiser.ledger(name).between(chosen, first, last))
                for place, (start, task) in enumerate(slots, 1):
                    run = organiser.run(name, task, start)
                    progress(place, len(slots))
                    if run is not None:
                        found.append(run)
            return found

    @contextmanager
    def _organiser(self, dry_run: bool = False, stopping: Callable[[], bool] = lambda: False) -> Iterator[Organiser]:
        with self.store.session() as connection:
            if not dry_run:
                yield self._organiser_on(connection, stopping)
                return
            with connection.begin() as whole:
                yield Organiser(self.store.db, connection, self._clock, _already_begun, self._chunk_size)
                whole.rollback()

    def _organiser_on(self, connection: Connection, stopping: Callable[[], bool] = lambda: False) -> Organiser:
        return Organiser(self.store.db, connection, self._clock, connection.begin, self._chunk_size, stopping)

    # Reading

    def memories(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        as_of: When = None,
        known_at: When = None,
        everything: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """The memories eligible for retrieval, or all, most salient first; as of an instant, as known at another."""
        return self._read(namespace, as_of, known_at, everything=everything, limit=limit)

    def memory(
        self,
        obj: UUID | str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        as_of: When = None,
        known_at: When = None,
    ) -> Memory:
        """One memory, by id or ref."""
        found = self._read(namespace, as_of, known_at, only=id_of(namespace, str(obj)))
        if not found:
            raise NotFound(f"there is no memory {str(obj)!r} in namespace {namespace!r}", object=str(obj))
        return found[0]

    def _read(self, namespace: str, as_of: When, known_at: When, **options: Any) -> list[Memory]:
        with self.store.begin() as connection:
            return read.memories(
                self.store.db,
                connection,
                namespace,
                now=self._clock(),
                as_of=_micros(as_of, "as-of"),
                known_at=_micros(known_at, "known-at"),
                **options,
            )

    def history(self, obj: UUID | str, *, namespace: str = DEFAULT_NAMESPACE, known_at: When = None) -> list[LogEntry]:
        """The entries of one memory, oldest first."""
        with self.store.begin() as connection:
            found = read.history(connection, namespace, id_of(namespace, str(obj)), _micros(known_at, "known-at"))
        if not found:
            raise NotFound(f"there is no memory {str(obj)!r} in namespace {namespace!r}", object=str(obj))
        return found

    def status(self, *, namespace: str | None = None) -> Status:
        """Memories by state and profile, and each task's last and next run."""
        with self.store.begin() as connection:
            return status(connection, namespace, self._clock())

    def runs(self, *, namespace: str | None = None, limit: int = 50) -> list[Run]:
        """The run ledger, newest slot first."""
        query = select(organiser_runs).order_by(organiser_runs.c.slot.desc(), organiser_runs.c.task).limit(limit)
        if namespace is not None:
            query = query.where(organiser_runs.c.namespace_id == namespace)
        with self.store.begin() as connection:
            return [Run.from_row(row._mapping) for row in connection.execute(query)]

    def run(self, run_id: UUID | str) -> Run:
        """One run of the ledger."""
        try:
            wanted = UUID(str(run_id))
        except ValueError as error:
            raise BadInput(f"{run_id!r} is no run id: `ebb runs list` shows them") from error
        with self.store.begin() as connection:
            row = connection.execute(select(organiser_runs).where(organiser_runs.c.run_id == wanted)).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}: `ebb runs list` shows them")
        return Run.from_row(row._mapping)

    def _past(self, when: When) -> int:
        now = self._clock()
        at = _micros(when, "as-of")
        if at is not None and at > now:
            raise BadInput(f"{instant.iso(at)} has not come yet: a pass that writes runs up to now", field="as-of")
        return now if at is None else at


def _already_begun() -> AbstractContextManager[None]:
    return nullcontext()


def _tasks(given: Iterable[Task | str] | None) -> list[Task]:
    if given is None:
        return list(Task)
    try:
        return [task for task in Task if task in {Task(name) for name in given}]
    except ValueError as error:
        raise BadInput(f"{error}: one of {', '.join(Task)}", field="task") from error


def _micros(when: When, field: str) -> int | None:
    if when is None:
        return None
    try:
        return instant.parse(when) if isinstance(when, str) else instant.to_micros(when)
    except BadInput as error:
        raise BadInput(error.message, field=field) from error


__all__ = ["DEFAULT_POLICY", "Ebbtide", "Progress", "When"]
