"""Requests of callers, as routes make them."""

from __future__ import annotations

from ebbtide.access.tokens import Principal
from ebbtide.api import Ebbtide
from ebbtide.memory.desk import Taken
from ebbtide.model.words import OpType
from ebbtide.service.http.bodies import Body


def ask(
    ebb: Ebbtide, who: Principal, namespace: str, op: OpType, body: Body | None, key: str | None, **more: object
) -> Taken:
    """Takes one request: whose memory is the path's word, who asks is the token's."""
    said = {} if body is None else body.said()
    asker = {"namespace": namespace, "actor_id": who.actor, "actor_type": who.actor_type}
    return ebb.ask({"op": op.value, **said, **more, **asker}, key=key)[0]
