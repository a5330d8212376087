"""Asking of memory: requests, one by one or as files of JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Unpack
from uuid import UUID

from sqlalchemy import Connection

from ebbtide.api.fields import (
    About,
    Asked,
    Filtered,
    Happened,
    Reasoned,
    Reasserted,
    Signalled,
    Superseding,
    Suppressed,
    Transitioned,
)
from ebbtide.api.opened import Progress, actor_of, no_progress
from ebbtide.api.passing import Passing
from ebbtide.api.reading import Reading
from ebbtide.memory.case import id_of, ids_of
from ebbtide.memory.desk import Desk, Refusal, Taken, known_by
from ebbtide.memory.erase import Erasure, Receipt, Target
from ebbtide.memory.ingest import Ingested, Placed, read_lines, take_lines
from ebbtide.memory.read import Memory, Stored
from ebbtide.memory.requests import DEFAULT_NAMESPACE, AnyRequest, Line, request_from
from ebbtide.model.errors import BadInput, Conflict, EbbtideError, Refused, StoreUnavailable
from ebbtide.model.words import OpType, TombstoneReason
from ebbtide.organise.run import Organiser
from ebbtide.organise.walk import Walker

DEFAULT_POLICY = "default@1.0.0"
_AS_IN_LINES = {"actor": "actor_id", "at": "effective_at"}
"""Arguments that have another name in JSON Lines."""


class Asking(Passing, Reading):
    """What a caller asks. All or nothing: on return a request is committed, or nothing of it is."""

    def ask(self, *requests: AnyRequest | dict[str, Any], key: str | None = None) -> list[Taken]:
        """Takes requests, all or none of them, in one transaction.

        A request is a mapping as in JSON Lines, or a model of `ebbtide.memory.requests`. One with a ref that was
        taken before writes nothing again; nor does one without a ref, that stands alone, under a `key` that its actor
        used for it before. What a rule refuses raises `Refused` and is kept in `refusals`.
        """
        lines = [request if isinstance(request, Line) else request_from(request) for request in requests]
        if key is not None and len(lines) > 1:
            raise BadInput("is for one request: give each of several a ref", field="key")
        if not lines:
            return []
        current = lines[0]
        with self.store.session() as connection:
            try:
                with connection.begin():
                    desk = self._desk(connection, lines)
                    desk.prepare([(line, known_by(line, key)) for line in lines])
                    taken = []
                    for current in lines:
                        taken.append(desk.take(current, known_by(current, key)))
                    desk.close()
            except Refused as refused:
                with connection.begin():
                    Refusal.of(current, refused).note(connection, clock=self._clock(), entropy=self._entropy)
                raise
        return taken

    def told(self, request: AnyRequest | dict[str, Any], *, key: str | None = None) -> tuple[Memory, Taken]:
        """Takes a request that makes a memory or is about one; the memory as it is then, and what became of it."""
        line = request if isinstance(request, Line) else request_from(request)
        with self.store.db.kept_open():
            (taken,) = self.ask(line, key=key)
            return self.memory(taken.target, namespace=line.namespace), taken

    def event(self, content: Any, **given: Unpack[Happened]) -> UUID:
        """Records something that happened; the event's id, for use as evidence."""
        return self._take("EVENT", {"content": content}, given).target

    def assert_memory(
        self,
        value: Any,
        *,
        object_type: str = "FACT",
        epistemic_type: str,
        source_type: str,
        **given: Unpack[Reasserted],
    ) -> Stored:
        """Stores a new memory: any JSON value but null, what kind of thing it is, how it is known and from where.

        What an ACTIVE memory of the same type and subject says already is not stored twice: that one comes back, with
        `duplicate` set, and a new `ref` is one more name of it.
        """
        kind = {"object_type": object_type, "epistemic_type": epistemic_type, "source_type": source_type}
        return self._stored("ASSERT", {"value": value} | kind, given)

    def supersede(self, obj: UUID | str, value: Any, **given: Unpack[Superseding]) -> Stored:
        """Closes a memory and opens the one that takes its place; what is not given stays as it was. The new one.

        Where another ACTIVE memory says the new value already, that one takes its place, with `duplicate` set.
        """
        return self._stored("SUPERSEDE", {"object": obj, "value": value}, given)

    def access(self, obj: UUID | str, **given: Unpack[About]) -> Memory:
        """Records that a memory was shown, which confirms nothing."""
        return self._memory_of("ACCESS", {"object": obj}, given)

    def reinforce(self, obj: UUID | str, *, signal: str, **given: Unpack[Signalled]) -> Memory:
        """Confirms a memory's use: REFERENCED, CONFIRMED, TASK_COMPLETED_WITH or CORROBORATED_BY_EXTERNAL."""
        return self._memory_of("REINFORCE", {"object": obj, "signal": signal}, given)

    def penalise(self, obj: UUID | str, *, signal: str, **given: Unpack[Signalled]) -> Memory:
        """Says that a memory was wrong, or of no use: CORRECTED, CONTRADICTED_BY_OBSERVATION and the like."""
        return self._memory_of("PENALTY", {"object": obj, "signal": signal}, given)

    def pin(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Stops a memory's time: nothing automatic touches it."""
        return self._memory_of("PIN", {"object": obj}, given)

    def unpin(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Lets a pinned memory's time go on."""
        return self._memory_of("UNPIN", {"object": obj}, given)

    def restore(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Brings an archived memory back."""
        return self._memory_of("RESTORE", {"object": obj}, given)

    def hold(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Puts a legal hold on a memory: nothing may erase it, and its ttl does not end."""
        return self._memory_of("HOLD", {"object": obj}, given)

    def release(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Ends a legal hold."""
        return self._memory_of("RELEASE", {"object": obj}, given)

    def archive(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Archives a memory by hand; `restore` brings it back."""
        return self._memory_of("ARCHIVE", {"object": obj}, given)

    def deprecate(self, obj: UUID | str, **given: Unpack[Reasoned]) -> Memory:
        """Deprecates a memory by hand, for good."""
        return self._memory_of("DEPRECATE", {"object": obj}, given)

    def set_condition(self, obj: UUID | str, condition: str, **given: Unpack[Reasoned]) -> Memory:
        """Says whether the condition of a CONDITIONAL memory holds: UNKNOWN, TRUE, FALSE or EXPIRED."""
        return self._memory_of("CONDITION_SET", {"object": obj, "condition": condition}, given)

    def transition(self, obj: UUID | str, to_type: str, *, trigger_type: str, **given: Unpack[Transitioned]) -> Memory:
        """Says that a memory has come to be known in another way, such as INFERRED → ASSERTED.

        `trigger_type` is user_correction, system_evaluation, feedback_signal or policy.
        """
        named = {"object": obj, "to_type": to_type, "trigger_type": trigger_type}
        return self._memory_of("EPISTEMIC_TRANSITION", named, given)

    def suppress(self, obj: UUID | str | None = None, **given: Unpack[Suppressed]) -> UUID:
        """Keeps one memory out of retrieval, or all that meet a filter (`object_type`, `epistemic_type`, `subject`).

        Scores go on decaying, unless `freeze` stops one memory's time. It ends at `expires_at`, or by `unsuppress`.
        The id of the memory, or of the suppression by a filter.
        """
        return self._take("SUPPRESS", {} if obj is None else {"object": obj}, given).target

    def unsuppress(self, obj: UUID | str | None = None, **given: Unpack[Filtered]) -> UUID:
        """Ends the suppressions of one memory, or those made by the same filter.

        The id of the memory, or of the entry that ended those by a filter.
        """
        return self._take("UNSUPPRESS", {} if obj is None else {"object": obj}, given).target

    def create_entity(
        self, canonical_name: str, *, entity_type: str, aliases: Sequence[str] = (), **given: Unpack[Asked]
    ) -> UUID:
        """Says that there is somebody or something that memories are about; its id.

        `entity_type` is a word of the caller's own: capitals, digits and underscores. The names are content.
        """
        named = {"canonical_name": canonical_name, "entity_type": entity_type, "aliases": aliases}
        return self._take("ENTITY_CREATE", named, given).target

    def merge_entities(self, primary: UUID | str, merged: UUID | str, **given: Unpack[Asked]) -> UUID:
        """Says that two entities are one, for good: from now on `merged` stands for `primary`, whose id it is."""
        self._take("ENTITY_MERGE", {"primary": primary, "merged": merged}, given)
        return id_of(given.get("namespace") or DEFAULT_NAMESPACE, str(primary))

    def relate(
        self,
        source: UUID | str,
        edge_type: str,
        target: UUID | str,
        *,
        confidence: float = 1.0,
        **given: Unpack[Asked],
    ) -> UUID:
        """Draws an edge from one memory or entity to another, such as LIVES_IN; the edge's id."""
        named = {"source": source, "edge_type": edge_type, "target": target, "confidence": confidence}
        return self._take("RELATE", named, given).target

    def contradict(
        self, a: UUID | str, b: UUID | str, *, conflict_description: str | None = None, **given: Unpack[Asked]
    ) -> UUID:
        """Says that two memories cannot both be so: both stay, an edge CONTRADICTS joins them; the edge's id."""
        named = {"object_a": a, "object_b": b, "conflict_description": conflict_description}
        return self._take("CONTRADICTION_NOTED", named, given).target

    def _take(self, op: str, named: Mapping[str, Any], given: Mapping[str, Any]) -> Taken:
        """Asks for one operation: `named` is what its method takes itself, `given` the rest, in which None is not."""
        line, key = self._line(op, named, given)
        return self.ask(line, key=key)[0]

    def _told(self, op: str, named: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Memory, Taken]:
        """Asks for one operation; the memory that it makes or is about, and what became of the request."""
        with self.store.db.kept_open():
            line, key = self._line(op, named, given)
            return self.told(line, key=key)

    def _memory_of(self, op: str, named: Mapping[str, Any], given: Mapping[str, Any]) -> Memory:
        """Asks for one operation; the memory that it is about."""
        return self._told(op, named, given)[0]

    def _stored(self, op: str, named: Mapping[str, Any], given: Mapping[str, Any]) -> Stored:
        """Asks for one operation that stores a memory; the one that was stored, or was there already."""
        memory, taken = self._told(op, named, given)
        return Stored(**dict(memory), duplicate=taken.duplicate)

    def _line(self, op: str, named: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[AnyRequest, str | None]:
        """A request of what a method was given, and its key, if it has one."""
        for name in given.keys() & {*named, "op"}:
            raise BadInput("stands twice", field=name)
        said = {**named, **{name: value for name, value in given.items() if value is not None}}
        said["namespace"] = self._namespace_of(said)
        key = said.pop("key", None)
        line = {_AS_IN_LINES.get(name, name): value for name, value in said.items()}
        return request_from({**line, "op": op}), key

    def _namespace_of(self, said: Mapping[str, Any]) -> str:
        """The namespace given, or that of the memory that is named by its id."""
        about = next((said[name] for name in ("object", "object_a", "source") if name in said), "")
        return self.namespace_of(about, said.get("namespace"))

    def erase(
        self,
        *objects: UUID | str,
        subject: str | None = None,
        everything: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        reason: str = "user_request",
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
        scrub: bool = True,
        preview: bool = False,
        confirmation: str | None = None,
    ) -> Receipt:
        """Erases memories, or all of a subject, or everything of the namespace; the receipt.

        Content is gone from every table at once; `scrub` then takes it out of the files. `preview` does it all and
        rolls it back. With the `confirmation()` of a preview's receipt exactly that goes, or `Conflict` is raised. A
        hold on any of it refuses the whole.
        """
        if (bool(objects), subject is not None, everything).count(True) != 1:
            raise BadInput("say what to erase: memories, or a subject, or everything of a namespace", field="object")
        who, named = actor_of(actor, actor_type), [str(one) for one in objects]
        with self.store.session() as connection:
            with connection.begin():
                meant = dict.fromkeys(ids_of(self.store.db, connection, namespace, named))
            target = Target(namespace, tuple(meant), subject)
            try:
                with connection.begin() as whole:
                    if scrub and not preview:
                        self._refuse_scrub(connection)
                    receipt = Erasure(self.store.db, connection, self._clock).run(target, _reason(reason), who)
                    if confirmation is not None and confirmation != receipt.confirmation():
                        raise Conflict("what would go is not what was shown: look at it again", rule="confirmation")
                    if preview:
                        whole.rollback()
            except Refused as refused:
                about = target.objects[0] if len(target.objects) == 1 else None
                refusal = Refusal(namespace, None, OpType.TOMBSTONE, about, who.id, who.type, refused.rule)
                with connection.begin():
                    refusal.note(connection, clock=self._clock(), entropy=self._entropy)
                raise
        return self._scrubbed(receipt) if scrub and not preview else receipt

    def _scrubbed(self, receipt: Receipt) -> Receipt:
        """Scrubs after an erasure. Where that cannot be done now, the receipt says so: it must not be lost."""
        try:
            self.scrub()
        except StoreUnavailable as error:
            left = f"the files of the database, which could not be scrubbed: {error.message}"
            return receipt.model_copy(update={"still_holding": [left, *receipt.still_holding]})
        return receipt

    def scrub(self) -> None:
        """Takes the bytes of what was erased out of the database's files.

        Raises `StoreUnavailable` where a transaction that began before still sees it: PostgreSQL would keep it.
        """
        with self.store.begin() as connection:
            self._refuse_scrub(connection)
        self.store.db.scrub()

    def _refuse_scrub(self, connection: Connection) -> None:
        why_not = self.store.db.no_scrub(connection)
        if why_not is not None:
            raise Refused(why_not, rule="scrub")

    def ingest(
        self,
        source: BinaryIO,
        file: str = "-",
        *,
        keep_going: bool = False,
        walk: bool = False,
        no_guard: bool = False,
        fixed: Mapping[str, str] | None = None,
        progress: Progress = no_progress,
    ) -> Ingested:
        """Takes a file of JSON Lines, all of it or nothing; with `keep_going` what cannot be taken is left out.

        `fixed` are members that every line has, such as its namespace and actor; one that says otherwise is refused.

        `walk` lives through the history: every line is checked first; then, before each one, what is due by its
        instant is run, committed as it goes. A second run of the same file goes on where the first one stopped. Each
        namespace lives through its own: the guard counts none over all of them, and none at all with `no_guard`.
        """
        done = Ingested()

        def refuse(error: EbbtideError) -> None:
            if not keep_going:
                raise error

        def refuse_and_note(error: EbbtideError) -> None:
            refuse(error)
            done.refused.append(error)

        lines = list(read_lines(source, file, refuse_and_note, fixed or {}))
        with self._organiser(guarded=not no_guard, over_all=False) as organiser:
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
