"""Erasing, in two steps: what would go, and the erasure of exactly that."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from ebbtide.access.tokens import Principal
from ebbtide.memory.erase import Receipt
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Eraser
from ebbtide.service.http.answers import Preview
from ebbtide.service.http.fields import Namespace

router = APIRouter(prefix="/v1/namespaces/{namespace:name}/erase", tags=["erasing"])


@router.post("/preview")
def preview(namespace: Namespace, body: bodies.Erasing, who: Eraser, ebb: Ebb) -> Preview:
    """What would go with it, and the confirmation to erase exactly that. Nothing is written."""
    return Preview.of(ebb.erase(*body.objects, preview=True, **_what(namespace, body, who)))


@router.post("")
def erase(namespace: Namespace, body: bodies.Erase, who: Eraser, ebb: Ebb) -> Receipt:
    """Erases what a preview showed; 409 where anything of it has changed since. The receipt is not kept anywhere else.

    It alone holds the nonces by which it can be shown what was erased.
    """
    what = _what(namespace, body, who)
    return ebb.erase(*body.objects, scrub=body.scrub, confirmation=body.confirmation, **what)


def _what(namespace: str, body: bodies.Erasing, who: Principal) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "subject": body.subject,
        "everything": body.everything,
        "reason": body.reason,
        "actor": who.actor,
        "actor_type": who.actor_type,
    }
