"""Simulating: what the organiser would do under another policy, with nothing written."""

from __future__ import annotations

from sqlalchemy import select

from ebbtide.api.opened import When, at_most, micros
from ebbtide.api.policies import Policies
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import identifier
from ebbtide.model.instant import DAY, HORIZON, iso
from ebbtide.policy.document import Policy
from ebbtide.replay.simulate import Simulation, Simulator
from ebbtide.store.tables import namespaces

UNTIL = 90 * DAY
"""How far a simulation looks where nothing else is said."""


class Simulating(Policies):
    """What would be. Nothing here changes anything."""

    def simulate(
        self,
        policy: Policy | str,
        against: Policy | str | None = None,
        *,
        until: When = None,
        namespace: str | None = None,
        limit: int = 10,
    ) -> Simulation:
        """What the organiser would do until an instant (default: 90 days from now) were a policy assigned now.

        Against another policy, or against what each memory is under. Policies are versions by `id@version`, or
        documents that need not be registered. Over one namespace or all; `limit` bounds the memories named. It reads
        one snapshot, takes no lock and writes nothing; on DuckDB it holds the file while it works.
        """
        chosen = self._at_hand(policy)
        other = None if against is None else self._at_hand(against)
        at = self._clock()
        end = micros(until, "until")
        end = at + UNTIL if end is None else end
        if not at <= end <= at + HORIZON:
            raise BadInput(f"must lie after {iso(at)} and within 100 years", field="until")
        with self.store.session() as connection:
            snapshot = self.store.db.snapshot(connection)
            with snapshot.begin():
                known = sorted(
                    snapshot.execute(
                        select(namespaces.c.namespace_id).where(namespaces.c.began_at.isnot(None))
                    ).scalars()
                )
                if namespace is not None and identifier(namespace, "namespace") not in known:
                    raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
                work = Simulator(self.store.db, snapshot, at, end, self._chunk_size)
                chosen_namespaces = known if namespace is None else [namespace]
                found = work.run(chosen, other, chosen_namespaces, at_most(limit) or 0)
        return found.model_copy(update={"namespace_id": namespace})

    def _at_hand(self, policy: Policy | str) -> Policy:
        """A policy by name, or one that is none of those at hand with other content."""
        if isinstance(policy, str):
            return self.policy(policy)
        self.refuse_other_content(policy)
        return policy
