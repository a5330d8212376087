"""Taking a pack into a store: checked as a whole, compared with what is there, appended, and folded into state.

What is written is one transaction. The log comes in to the letter and nothing is decided anew; state is folded from
it, whatever the pack's snapshot says. Content that was erased, here or in the log that results, is not brought back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, Table, and_, delete, exists, func, insert, literal, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.exc import DBAPIError

from ebbtide.log.head import Head, lock_or_create
from ebbtide.model.errors import BadInput, Conflict
from ebbtide.model.words import OpType, StreamType
from ebbtide.pack.form import CONTENTS, POLICIES, Manifest
from ebbtide.pack.proof import erased, first_bad, target_of
from ebbtide.pack.read import Progress, Staged, load
from ebbtide.policy.document import Policy
from ebbtide.project.passes import NAMESPACE
from ebbtide.project.rebuild import compare, fill, mend
from ebbtide.project.shelf import STORE_WIDE, Shelf
from ebbtide.project.tombstone import erase_contents
from ebbtide.store.database import Database
from ebbtide.store.tables import batches, contents, event_log, namespaces, refusals


class Imported(BaseModel):
    """What an import appended: events, operations and contents, by namespace those that changed and those that did not.

    `erased` counts contents that went from here, since the pack goes on to where they were erased.
    """

    path: str
    namespaces: list[str]
    unchanged: list[str]
    events: int = 0
    operations: int = 0
    contents: int = 0
    erased: int = 0
    refusals: int = 0
    policies: int = 0


@dataclass
class Import:
    """Takes one pack, on a connection of its own. `at_hand` are policies that a store-wide version must not contradict.

    The pack is loaded into temporary tables in a first transaction, which writes nothing else, so that the database
    can put them aside while the second one writes.
    """

    db: Database
    connection: Connection
    folder: Path
    manifest: Manifest
    at_hand: Mapping[str, Policy]
    entropy: Callable[[int], bytes]
    progress: Progress

    def run(self) -> Imported:
        """Checks the pack, then writes what of it is not here yet, all or nothing.

        Raises `BadInput` where the pack is not whole, `Conflict` where a namespace here has another history.
        """
        self._staged = Staged.named()
        try:
            with self.connection.begin():
                wide = load(self.db, self.connection, self.folder, self.manifest, self._staged, self.progress)
                self._check()
            policies = self._policies(wide)
            with self.connection.begin():
                return self._write(policies)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise self._nonsense(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except DBAPIError as error:
            if not self.db.unreadable(error):
                raise
            raise self._nonsense(str(error.orig).strip().splitlines()[0]) from error

    def _nonsense(self, why: str) -> BadInput:
        return BadInput(f"its log cannot be read, though its hashes fit: {why}", file=str(self.folder))

    def _write(self, policies: list[tuple[Policy, int]]) -> Imported:
        done = Imported(path=str(self.folder), namespaces=[], unchanged=[])
        new, known = [], []
        for name in sorted(self.manifest.namespaces):
            head, last_seq = self._locked(name)
            if not head.last_seq:
                new.append(name)
                continue
            self._refuse_other(head)
            if head.last_seq < last_seq:
                known.append(name)
                done.erased += self._erased_of_namespace(head)
            else:
                done.unchanged.append(name)
        done.namespaces = sorted(new + known)
        self._append(done)
        done.refusals = self._refusals()
        done.policies = self._register(policies)
        fill(self.db, self.connection, new)
        for name in known:
            mend(self.connection, compare(self.db, self.connection, name), name)
        done.erased += sum(erase_contents(self.db, self.connection, name) for name in known)
        done.contents -= sum(erase_contents(self.db, self.connection, name) for name in new)
        return done

    def _check(self) -> None:
        staged = self._staged
        named = sorted(self.manifest.namespaces)
        for table in (staged.namespaces, staged.log):
            found = sorted(self.connection.execute(select(table.c.namespace_id).distinct()).scalars())
            if found != named:
                raise BadInput(
                    f"is the log of {', '.join(found) or 'nobody'}, not of {', '.join(named) or 'nobody'} "
                    "as its manifest says",
                    file=str(self.folder),
                )
        bad = first_bad(self.db, self.connection, staged.log, staged.batches, staged.contents, staged.namespaces)
        if bad is not None:
            raise BadInput(f"{bad}: nothing was imported; get the pack again", file=str(self.folder))

    def _locked(self, namespace: str) -> tuple[Head, int]:
        """The head of a namespace, made where there is none with the secret of the pack; and where the pack ends."""
        given = self._staged.namespaces
        row = self.connection.execute(select(given).where(given.c.namespace_id == namespace)).one()
        head = lock_or_create(self.db, self.connection, namespace, lambda size: bytes(row.secret or self.entropy(size)))
        return head, row.last_seq

    def _append(self, done: Imported) -> None:
        """Appends what each namespace does not have yet, and moves its head; its state does not follow yet."""
        pack, head = self._staged, namespaces.c
        later = [
            (event_log, pack.log, pack.log.c.seq > head.last_seq),
            (batches, pack.batches, pack.batches.c.batch > head.last_batch),
        ]
        appended = self._rows(event_log, *later[0][1:]).subquery().c
        for op_type, entries in self.connection.execute(
            select(appended.op_type, func.count()).group_by(appended.op_type)
        ):
            done.events += entries if op_type == OpType.EVENT else 0
            done.operations += entries if op_type != OpType.EVENT else 0
        for target, staged, which in later:
            self._insert(target, self._rows(target, staged, which))
        done.contents += self._insert(contents, self._contents())
        given = pack.namespaces.c
        moved = and_(head.namespace_id == given.namespace_id, head.last_seq < given.last_seq)
        self.connection.execute(update(namespaces).where(moved).values(last_seq=given.last_seq))

    def _rows(self, target: Table, staged: Table, which: Any) -> Any:
        """Staged rows that come after the head of their namespace, in order."""
        names = [column.name for column in target.columns]
        return (
            select(*(staged.c[name] for name in names))
            .join_from(staged, namespaces, staged.c.namespace_id == namespaces.c.namespace_id)
            .where(which)
            .order_by(*(staged.c[name] for name in names[:2]))
        )

    def _insert(self, target: Table, rows: Any) -> int:
        names = [column.name for column in rows.selected_columns]
        statement = insert(target).from_select(names, rows)
        return int(self.connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount)

    def _refuse_other(self, head: Head) -> None:
        """What is here and what the pack says must be the same as far as both go."""
        here, there = event_log.c, self._staged.log.c
        same = and_(here.namespace_id == there.namespace_id, here.seq == there.seq)
        differs = (
            select(func.min(here.seq))
            .select_from(event_log.join(self._staged.log, same))
            .where(here.namespace_id == head.namespace_id, here.hash != there.hash)
        )
        seq = self.connection.execute(differs).scalar()
        if seq is not None:
            raise self._other(head.namespace_id, f"another entry at seq {seq}")
        mine, theirs = batches.c, self._staged.batches.c
        same = and_(mine.namespace_id == theirs.namespace_id, mine.batch == theirs.batch)
        differs = (
            select(func.min(mine.batch))
            .select_from(batches.join(self._staged.batches, same))
            .where(mine.namespace_id == head.namespace_id, mine.hash != theirs.hash)
        )
        batch = self.connection.execute(differs).scalar()
        if batch is not None:
            raise self._other(head.namespace_id, f"another batch {batch}")

    def _other(self, namespace: str, what: str) -> Conflict:
        return Conflict(
            f"{namespace} here has {what} than {self.folder}: it is another history; import into a store without it",
            rule="diverges",
            object=namespace,
        )

    def _contents(self) -> Any:
        """Content of the entries that are new here, but for what a tombstone of the log erased."""
        given, log, head = self._staged.contents, self._staged.log, namespaces.c
        return (
            select(*(given.c[name] for name in CONTENTS.columns))
            .join_from(given, log, and_(given.c.namespace_id == log.c.namespace_id, given.c.seq == log.c.seq))
            .join(namespaces, given.c.namespace_id == head.namespace_id)
            .where(
                given.c.seq > head.last_seq,
                ~erased(self.db, log, log.c.namespace_id, target_of(self.db, log)),
            )
            .order_by(given.c.namespace_id, given.c.seq)
        )

    def _erased_of_namespace(self, head: Head) -> int:
        """Content in the namespace's own stream has no tombstone of its own.

        Where something was erased in what is new, what the pack has no more of that content goes from here too.
        """
        log = self._staged.log.c
        new = and_(log.namespace_id == head.namespace_id, log.seq > head.last_seq)
        erasing = select(log.seq).where(new, log.op_type == OpType.TOMBSTONE.value).limit(1)
        if self.connection.execute(erasing).first() is None:
            return 0
        there = self._staged.contents.c
        kept = exists().where(there.namespace_id == contents.c.namespace_id, there.seq == contents.c.seq)
        own = select(event_log.c.seq).where(
            event_log.c.namespace_id == NAMESPACE,
            event_log.c.stream_type == StreamType.NAMESPACE.value,
            event_log.c.seq <= head.last_seq,
        )
        statement = delete(contents).where(contents.c.namespace_id == NAMESPACE, contents.c.seq.in_(own), ~kept)
        given = {NAMESPACE.key: head.namespace_id}
        return int(self.connection.execute(statement, given, execution_options={"preserve_rowcount": True}).rowcount)

    def _count(self, table: Table, which: Any) -> int:
        return int(self.connection.execute(select(func.count()).select_from(table).where(which)).scalar_one())

    def _refusals(self) -> int:
        given = self._staged.refusals
        before = self._count(refusals, literal(True))
        names = [column.name for column in refusals.columns]
        rows = select(*(given.c[name] for name in names))
        self.connection.execute(insert_or_skip(refusals).from_select(names, rows).on_conflict_do_nothing())
        return self._count(refusals, literal(True)) - before

    def _policies(self, rows: list[dict[str, Any]]) -> list[tuple[Policy, int]]:
        """The store-wide versions of the pack."""
        try:
            return [(Policy.model_validate(json.loads(row["document"])), row["registered_at"]) for row in rows]
        except (ValidationError, ValueError) as error:
            raise BadInput(
                "holds a policy that this version cannot read", file=str(self.folder / POLICIES.file)
            ) from error

    def _register(self, found: list[tuple[Policy, int]]) -> int:
        """Registers store-wide versions whose names are free; a namespace keeps its own as its log has them."""
        shelf = Shelf(self.connection)
        new = 0
        for policy, at in found:
            free = shelf.find(STORE_WIDE, policy.id, policy.version) is None
            if free and self.at_hand.get(policy.name, policy) == policy:
                new += shelf.put(STORE_WIDE, policy, at)
        return new
