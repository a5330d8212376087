"""The state from the log: rebuilt, and recomputed under a corrected policy."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import select

from ebbtide.api.opened import Opened, Progress, no_progress
from ebbtide.model.identity import identifier
from ebbtide.project.rebuild import Rebuilt, rebuild
from ebbtide.store.tables import namespaces


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild of one or all namespaces: the digest of the state before and after, the entries read, and how long.

    The digest of several namespaces is SHA-256 over their names and digests, in order of the names.
    """

    before: str
    after: str
    equal: bool
    entries: int
    seconds: float
    namespaces: list[Rebuilt]


class Replaying(Opened):
    """What the log says, worked out anew."""

    def rebuild(self, *, namespace: str | None = None, progress: Progress = no_progress) -> Rebuild:
        """Folds the log of one or all namespaces and mends what differs of the state, a transaction a namespace.

        Raises `Refused` where the log has lost entries, and `NotFound` for an unknown namespace.
        """
        began = time.monotonic()
        found = []
        with self.store.session() as connection:
            if namespace is None:
                with connection.begin():
                    query = select(namespaces.c.namespace_id).where(namespaces.c.last_seq > 0)
                    chosen = sorted(connection.execute(query).scalars())
            else:
                chosen = [identifier(namespace, "namespace")]
            for place, name in enumerate(chosen, 1):
                found.append(rebuild(self.store.db, connection, name))
                progress(place, len(chosen))
        before, after = (_joined([(one.namespace_id, getattr(one, side)) for one in found]) for side in _SIDES)
        return Rebuild(
            before,
            after,
            equal=not any(one.mended for one in found),
            entries=sum(one.entries for one in found),
            seconds=round(time.monotonic() - began, 3),
            namespaces=found,
        )


_SIDES = ("before", "after")


def _joined(digests: list[tuple[str, str]]) -> str:
    if len(digests) == 1:
        return digests[0][1]
    return hashlib.sha256("".join(f"{name}\x1f{digest}\n" for name, digest in digests).encode()).hexdigest()
