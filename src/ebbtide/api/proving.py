"""Proving: is the log whole, what to keep of it elsewhere, and how one entry is shown to be in it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar
from uuid import UUID

from sqlalchemy import select

from ebbtide.api.opened import Opened, Progress, no_progress
from ebbtide.audit import integrity, receipts
from ebbtide.audit.integrity import Integrity, Verified
from ebbtide.log import digest as digests
from ebbtide.log.digest import Digest, Proof
from ebbtide.log.verify import Bad, Checked
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import id_in, identifier
from ebbtide.store.tables import event_log, namespaces


class Proving(Opened):
    """What the log proves. Nothing here changes anything, but for `record`."""

    def digest(self, *, namespace: str | None = None) -> Digest:
        """Where the logs of all namespaces, or of one, end: to be kept where nobody who can write the store can."""
        with self.store.begin() as connection:
            return Digest(heads=digests.heads(connection, namespace), created_at=instant.to_datetime(self._clock()))

    def prove(self, entry: UUID | int | str, *, namespace: str | None = None) -> Proof:
        """All that shows one entry, by its id or its seq in a namespace, to be in the log; no other entry is in it."""
        with self.store.begin() as connection:
            if isinstance(entry, int) or str(entry).isdecimal():
                return digests.prove(connection, namespace or DEFAULT_NAMESPACE, int(entry))
            query = select(event_log.c.namespace_id, event_log.c.seq).where(event_log.c.id == _entry_id(str(entry)))
            if namespace is not None:
                query = query.where(event_log.c.namespace_id == namespace)
            found = connection.execute(query).first()
            if found is None:
                raise NotFound(f"there is no entry {entry}: `ebb history` shows their ids", field="prove")
            return digests.prove(connection, found.namespace_id, found.seq)

    def verify(
        self,
        *,
        namespace: str | None = None,
        digest: Digest | Path | str | None = None,
        receipt: receipts.Receipt | Path | str | None = None,
        record: bool = False,
        progress: Progress = no_progress,
    ) -> Verified:
        """Recomputes the logs of all namespaces, or of one, and compares all that stands beside; what is wrong first.

        `digest` is one that was kept, `receipt` one of an erasure; both may be files. `record` adds INTEGRITY_CHECK to
        each namespace's log that can still be appended to. PostgreSQL lets others write meanwhile.
        """
        kept = _read(Digest, digest)
        shown = _read(receipts.Receipt, receipt)
        heads = [] if kept is None else [head for head in kept.heads if namespace in (None, head.namespace_id)]
        with self.store.session() as connection:
            with connection.begin():
                known = integrity.all_namespaces(connection)
                total = connection.execute(select(namespaces.c.namespace_id, namespaces.c.last_seq)).all()
            chosen = known if namespace is None else [identifier(namespace, "namespace")]
            if namespace is not None and namespace not in known and not heads:
                raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
            entries, done = sum(row.last_seq for row in total if row.namespace_id in chosen), [0]

            def looked_at(count: int) -> None:
                done[0] += count
                progress(done[0], entries)

            check = Integrity(self.store.db, connection, kept=heads, progress=looked_at)
            damaged = list(check.indexes()) if namespace is None else []
            wanted = sorted({*chosen, *(head.namespace_id for head in heads)})
            found = [check.namespace(name) for name in wanted]
            rest = [] if shown is None else list(check.receipt(shown))
            if namespace is None:
                rest += check.policies()
        recorded = self._record(found) if record else []
        bad = next(iter([*damaged, *(one.bad for one in found if one.bad is not None), *rest]), None)
        return Verified(
            ok=bad is None,
            entries=sum(one.entries for one in found),
            batches=sum(one.batches for one in found),
            first_bad=bad,
            namespaces=found,
            recorded=recorded,
        )

    def _record(self, found: list[Checked]) -> list[str]:
        recorded = []
        for checked in found:
            with self.store.begin() as connection:
                if integrity.record(self.store.db, connection, checked, self._clock()):
                    recorded.append(checked.namespace_id)
        return recorded

    @staticmethod
    def check_proof(proof: Proof | Path | str, digest: Digest | Path | str | None = None) -> Bad | None:
        """What is wrong with a proof, by itself and against a kept digest; None where it holds. Needs no store."""
        shown, kept = _read(Proof, proof), _read(Digest, digest)
        assert shown is not None, "a proof is given"
        return digests.check_proof(shown, kept)


_Kind = TypeVar("_Kind", bound=digests.Document)


def _read(kind: type[_Kind], given: _Kind | Path | str | None) -> _Kind | None:
    return digests.read_document(kind, given) if isinstance(given, Path | str) else given


def _entry_id(text: str) -> UUID:
    found = id_in(text)
    if found is None:
        raise BadInput(f"{text!r} is no entry: give its id, or its seq and --namespace", field="prove")
    return found
