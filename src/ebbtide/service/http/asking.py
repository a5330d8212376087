"""Requests of callers, as routes make them."""

from __future__ import annotations

from typing import Any

from ebbtide.access.tokens import Principal
from ebbtide.model.words import OpType
from ebbtide.service.http.bodies import Body


def request(who: Principal, namespace: str, op: OpType, body: Body | None, **more: object) -> dict[str, Any]:
    """A request as in JSON Lines: whose memory is the path's word, who asks is the token's."""
    said = {} if body is None else body.said()
    asker = {"namespace": namespace, "actor_id": who.actor, "actor_type": who.actor_type}
    return {"op": op.value, **said, **more, **asker}
