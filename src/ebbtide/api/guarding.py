"""What waits for an operator: slots that the guard held, and namespaces that failed and are set aside."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ebbtide.api.opened import actor_of, at_most
from ebbtide.api.passing import Passing
from ebbtide.api.reading import Reading
from ebbtide.memory.desk import Refusal
from ebbtide.model.errors import Refused
from ebbtide.model.identity import identifier
from ebbtide.model.words import OpType, RunStatus
from ebbtide.organise.approval import Held, approve, held
from ebbtide.organise.lease import retry
from ebbtide.organise.ledger import Run


class Guarding(Passing, Reading):
    """What waits for an operator."""

    def held(self, run_id: UUID | str, *, namespace: str | None = None, limit: int = 50) -> Held | None:
        """What a held run would do if it was approved now, and what of that has changed; None if it is not held."""
        slot = self._slot(run_id, namespace)
        if slot["status"] != RunStatus.HELD:
            return None
        with self.store.begin() as connection:
            return held(self.store.db, connection, slot, at_most(limit) or 0)

    def retry(self, namespace: str) -> None:
        """Lets a namespace that failed and is set aside be tried again by the next pass."""
        with self.store.begin() as connection:
            retry(connection, identifier(namespace, "namespace"))

    def approve(
        self,
        run_id: UUID | str,
        *,
        namespace: str | None = None,
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
        stopping: Callable[[], bool] = lambda: False,
    ) -> Run:
        """Does what a held run lists, as of its slot's start, with the entries it would have written then.

        Refused if something listed got a fact since, or the namespace's policy was changed. Stopped or killed between
        chunks, the next pass goes on with it.
        """
        who, slot = actor_of(actor, actor_type), self._slot(run_id, namespace)
        try:
            with self._organiser(stopping=stopping) as organiser:
                approve(organiser, slot, who)
        except Refused as refused:
            refusal = Refusal(slot["namespace_id"], None, OpType.ORGANISER_RUN, None, who.id, who.type, refused.rule)
            with self.store.begin() as connection:
                refusal.note(connection, clock=self._clock(), entropy=self._entropy)
            raise
        return Run.from_row(self._slot(run_id))
