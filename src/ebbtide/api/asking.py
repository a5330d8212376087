"""Asking of memory: requests, one by one or as files of JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO
from uuid import UUID

from sqlalchemy import Connection

from ebbtide.api.opened import Progress, When, actor_of, no_progress
from ebbtide.api.passing import Passing
from ebbtide.api.reading import Reading
from ebbtide.memory.case import id_of
from ebbtide.memory.desk import Desk, Refusal, Taken
from ebbtide.memory.erase import Erasure, Receipt, Target
from ebbtide.memory.ingest import Ingested, Placed, read_lines, take_lines
from ebbtide.memory.read import Memory
from ebbtide.memory.requests import DEFAULT_NAMESPACE, AnyRequest, Line, request_from
from ebbtide.model.errors import BadInput, EbbtideError, Refused
from ebbtide.model.words import OpType, TombstoneReason
from ebbtide.organise.run import Organiser
from ebbtide.organise.walk import Walker

DEFAULT_POLICY = "default@1.0.0"


class Asking(Passing, Reading):
    """What a caller asks. All or nothing: on return a request is committed, or nothing of it is."""

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
                    Refusal.of(current, refused).note(connection, clock=self._clock(), entropy=self._entropy)
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

    def hold(self, obj: UUID | str, **options: Any) -> Memory:
        """Puts a legal hold on a memory: nothing may erase it, and its ttl does not end."""
        return self._about("HOLD", obj, **options)

    def release(self, obj: UUID | str, **options: Any) -> Memory:
        """Ends a legal hold."""
        return self._about("RELEASE", obj, **options)

    def archive(self, obj: UUID | str, **options: Any) -> Memory:
        """Archives a memory by hand; `restore` brings it back."""
        return self._about("ARCHIVE", obj, **options)

    def deprecate(self, obj: UUID | str, **options: Any) -> Memory:
        """Deprecates a memory by hand, for good."""
        return self._about("DEPRECATE", obj, **options)

    def suppress(self, obj: UUID | str | None = None, *, expires_at: When = None, **options: Any) -> None:
        """Keeps one memory out of retrieval, or all that meet a filter (`object_type`, `epistemic_type`, `subject`).

        Scores go on decaying, unless `freeze` stops one memory's time. It ends at `expires_at`, or by `unsuppress`.
        """
        self._filtered("SUPPRESS", obj, expires_at=expires_at, **options)

    def unsuppress(self, obj: UUID | str | None = None, **options: Any) -> None:
        """Ends the suppressions of one memory, or those made by the same filter."""
        self._filtered("UNSUPPRESS", obj, **options)

    def _filtered(
        self,
        op: str,
        obj: UUID | str | None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> None:
        given = {"object": None if obj is None else str(obj), **fields}
        named = {name: value for name, value in given.items() if value is not None}
        self.ask(self._request(op, namespace, actor, actor_type, at, named))

    def erase(
        self,
        *objects: UUID | str,
        subject: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        reason: str = "user_request",
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
        scrub: bool = True,
        preview: bool = False,
    ) -> Receipt:
        """Erases memories, or all of a subject, or, with neither, the namespace; the receipt.

        Content is gone from every table at once; `scrub` then takes it out of the files. `preview` does it all and
        rolls it back. A hold on any of it refuses the whole.
        """
        target = Target(namespace, tuple(id_of(namespace, str(one)) for one in objects), subject)
        who = actor_of(actor, actor_type)
        with self.store.session() as connection:
            try:
                with connection.begin() as whole:
                    if scrub and not preview:
                        self._refuse_scrub(connection)
                    receipt = Erasure(self.store.db, connection, self._clock).run(target, _reason(reason), who)
                    if preview:
                        whole.rollback()
            except Refused as refused:
                about = target.objects[0] if len(target.objects) == 1 else None
                refusal = Refusal(namespace, None, OpType.TOMBSTONE, about, who.id, who.type, refused.rule)
                with connection.begin():
                    refusal.note(connection, clock=self._clock(), entropy=self._entropy)
                raise
        if scrub and not preview:
            self.scrub()
        return receipt

    def scrub(self) -> None:
        """Takes the bytes of what was erased out of the database's files."""
        with self.store.begin() as connection:
            self._refuse_scrub(connection)
        self.store.db.scrub()

    def _refuse_scrub(self, connection: Connection) -> None:
        why_not = self.store.db.no_scrub(connection)
        if why_not is not None:
            raise Refused(why_not, rule="scrub")

    def set_condition(self, obj: UUID | str, condition: str, **options: Any) -> Memory:
        """Says whether the condition of a CONDITIONAL memory holds: UNKNOWN, TRUE, FALSE or EXPIRED."""
        return self._about("CONDITION_SET", obj, condition=condition, **options)

    def transition(self, obj: UUID | str, to_type: str, *, trigger_type: str, **options: Any) -> Memory:
        """Says that a memory has come to be known in another way, such as INFERRED → ASSERTED."""
        return self._about("EPISTEMIC_TRANSITION", obj, to_type=to_type, trigger_type=trigger_type, **options)

    def _about(
        self,
        op: str,
        obj: UUID | str,
        *,
        namespace: str | None = None,
        actor: str | None = None,
        actor_type: str | None = None,
        at: When = None,
        **fields: Any,
    ) -> Memory:
        where = self.namespace_of(obj, namespace)
        return self._ask_one(op, where, actor, actor_type, at, {"object": str(obj)} | fields)

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
        progress: Progress = no_progress,
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
        with self._organiser() as organiser:
            runs = self._walked(organiser, lines) if walk else iter([lines])
            taken = 0
            for group in runs:
                self._take_group(organiser.connection, group, refuse, done)
                taken += len(group)
                progress(taken, len(lines))
        return done

    def _walked(self, organiser: Organiser, lines: Sequence[Placed]) -> Iterator[list[Placed]]:
        """Groups of lines between which nothing is due; what is due is run before the next group is handed out."""
        walker, group = Walker(organiser), list[Placed]()
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
                Refusal.of(line, refused).note(connection, clock=self._clock(), entropy=self._entropy)
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


def _reason(name: str) -> TombstoneReason:
    allowed = (TombstoneReason.USER_REQUEST, TombstoneReason.COMPLIANCE)
    if name not in allowed:
        raise BadInput(f"{name!r} is no reason to erase: {' or '.join(allowed)}", field="reason")
    return TombstoneReason(name)
