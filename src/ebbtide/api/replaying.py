"""The state from the log: rebuilt, and recomputed under a corrected policy."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import select

from ebbtide.api.opened import Progress, When, actor_of, micros, no_progress
from ebbtide.api.policies import Policies
from ebbtide.memory.assign import Assignment
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier
from ebbtide.policy.document import split_name
from ebbtide.project.rebuild import Rebuilt, rebuild
from ebbtide.replay.apply import Application, Applied
from ebbtide.replay.plan import Asked, Plan, Planner
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


class Replaying(Policies):
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

    def plan_replay(
        self,
        replaced: str,
        by: str,
        *,
        namespace: str | None = None,
        begins: When = None,
        progress: Progress = no_progress,
    ) -> Plan:
        """What would be had one policy version been another, from an instant on or always. Nothing is written.

        Raises `NotFound` where no decision was taken under the version that is replaced.
        """
        if replaced == by:
            raise BadInput("is the version to be replaced: name the corrected one", field="with")
        asked = Asked(replaced, self.policy(by), micros(begins, "from"))
        split_name(replaced)
        with self.store.session() as connection, self.store.db.snapshot(connection).begin():
            return Planner(self.store.db, connection, self._clock(), progress).plan(asked, namespace)

    def apply_replay(
        self,
        plan: Plan,
        *,
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
        progress: Progress = no_progress,
    ) -> Applied:
        """Writes what a plan says, in chunks; killed, it goes on when asked again.

        The new version is assigned where the old one is current. Raises `Refused` where the log has moved on in a way
        that changes the plan.
        """
        who = actor_of(actor, actor_type)
        with self.store.session() as connection:
            found = Application(self.store.db, connection, self._clock, who, progress, self._chunk_size).run(plan)
            for namespace in plan.seq:
                with connection.begin():
                    query = select(namespaces.c.policy_id, namespaces.c.policy_version)
                    now = connection.execute(query.where(namespaces.c.namespace_id == namespace)).one()
                if f"{now.policy_id}@{now.policy_version}" == plan.asked.by.name:
                    assignment = Assignment(self.store.db, connection, self._clock, self._entropy, self._chunk_size)
                    assignment.run(namespace, plan.asked.by, who)
        return found


_SIDES = ("before", "after")


def _joined(digests: list[tuple[str, str]]) -> str:
    if len(digests) == 1:
        return digests[0][1]
    return hashlib.sha256("".join(f"{name}\x1f{digest}\n" for name, digest in digests).encode()).hexdigest()
