"""Memories: finding them, one with its curve and entries, and what can be done with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from starlette.responses import Response

from ebbtide.access.rights import Right
from ebbtide.memory.find import Filter
from ebbtide.memory.read import Memory
from ebbtide.model.errors import NotFound
from ebbtide.model.words import DecayProfile, EpistemicType, LifecycleState, ObjectType
from ebbtide.service.pages import pictures
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit

PAGE = 50
ENTRIES = 60
"""So many entries of a memory are shown at once."""
WORDS: dict[str, Any] = {
    "lifecycle_state": list(LifecycleState),
    "object_type": list(ObjectType),
    "epistemic_type": list(EpistemicType),
    "decay_profile": list(DecayProfile),
}
FLAGS = ("warned", "pinned", "held")
NAMES = {"lifecycle_state": "state", "object_type": "type", "epistemic_type": "known as", "decay_profile": "profile"}

_DONE = {
    "pin": "Pinned: its time stands still, and no rule touches it.",
    "unpin": "Unpinned: its time goes on.",
    "hold": "Held: nothing may erase it.",
    "release": "Released: it may be erased again.",
    "suppress": "Suppressed: it is not retrieved.",
    "unsuppress": "No longer suppressed.",
    "restore": "Restored: it is ACTIVE again.",
}


def add(pages: Pages) -> None:
    """Adds the routes."""

    @pages.get("/memories")
    def memories(visit: Visit) -> Answer:
        asked = {name: visit.asked(name) for name in (*WORDS, "text", "flag", "which")}
        words = {name: asked[name] or None for name in (*WORDS, "text")}
        flags = {asked["flag"]: True} if asked["flag"] in FLAGS else {}
        everything = asked["which"] == "all" or asked["lifecycle_state"] not in ("", LifecycleState.ACTIVE)
        found = visit.ebb.find(
            Filter(**words, **flags),  # type: ignore[arg-type]
            namespace=visit.namespace,
            everything=everything,
            cursor=visit.asked("cursor") or None,
            limit=PAGE,
        )
        context = {"found": found, "asked": asked, "everything": everything, "named": _named(visit, asked["text"])}
        return Page("memories.html", {**context, "words": WORDS, "names": NAMES, "flags": FLAGS})

    @pages.get("/memories/{memory_id}")
    def memory(visit: Visit, memory_id: str) -> Answer:
        wanted = _id(memory_id)
        found = visit.ebb.explain(wanted, namespace=visit.namespace)
        everything = visit.asked("entries") == "all"
        if everything:
            shown = visit.ebb.history(wanted, namespace=visit.namespace)[::-1]
            total = len(shown)
        else:
            shown, total = visit.ebb.recent(wanted, namespace=visit.namespace, limit=ENTRIES)
        context = {
            "told": found,
            "memory": found.memory,
            "curve": pictures.curve(found),
            "entries": shown,
            "hidden": total - len(shown),
            "everything": everything,
            "summary": _briefly(found.summary, found.memory),
        }
        return Page("memory.html", context)

    for name in _DONE:
        pages.post(f"/memories/{{memory_id}}/{name}", Right.WRITE)(_action(name))

    @pages.get("/memories/{memory_id}/erase", Right.ERASE)
    def ask(visit: Visit, memory_id: str) -> Answer:
        memory = visit.ebb.memory(_id(memory_id), namespace=visit.namespace)
        receipt = visit.ebb.erase(memory.id, namespace=visit.namespace, preview=True, **visit.actor)
        return Page("erase.html", {"memory": memory, "receipt": receipt, "confirmation": receipt.confirmation()})

    @pages.post("/memories/{memory_id}/erase", Right.ERASE)
    def erase(visit: Visit, memory_id: str) -> Answer:
        wanted = _id(memory_id)
        scrub = visit.asked("scrub") == "yes"
        receipt = visit.ebb.erase(
            wanted,
            namespace=visit.namespace,
            scrub=scrub,
            confirmation=visit.asked("confirmation") or "none",
            **visit.actor,
        )
        visit.session.receipt = receipt.model_dump_json(indent=2)
        return Page("erased.html", {"receipt": receipt, "scrubbed": scrub})

    @pages.get("/receipt", Right.ERASE)
    def receipt(visit: Visit) -> Answer:
        if visit.session.receipt is None:
            raise NotFound("there is no receipt of an erasure in this session")
        attached = {"Content-Disposition": 'attachment; filename="receipt.json"'}
        return Response(visit.session.receipt, media_type="application/json", headers=attached)


def _action(name: str) -> Callable[..., Answer]:
    def act(visit: Visit, memory_id: str) -> Answer:
        wanted = _id(memory_id)
        given: dict[str, Any] = {**visit.actor, "namespace": visit.namespace, "reason": visit.asked("reason") or None}
        if visit.asked("version").isdecimal():
            given["expected_version"] = int(visit.asked("version"))
        if name == "suppress":
            until = visit.asked("until")
            given |= {"expires_at": f"{until}:00Z" if until else None, "freeze": visit.asked("freeze") == "yes" or None}
        getattr(visit.ebb, name)(wanted, **given)
        visit.note("done", _DONE[name])
        return visit.link(f"/memories/{wanted}")

    return act


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise NotFound(f"there is no memory {text!r}", object=text) from error


def _named(visit: Visit, text: str) -> Memory | None:
    """The memory that goes by what is looked for, as its id or ref."""
    if not text:
        return None
    try:
        return visit.ebb.memory(text, namespace=visit.namespace)
    except NotFound:
        return None


def _briefly(summary: str, memory: Memory) -> str:
    """The explanation to the second is beside; in a sentence minutes are enough, and the memory is known."""
    said = re.sub(r"(\d\d:\d\d):\d\d UTC", r"\1 UTC", summary)
    return said.replace(f"Memory {memory.ref or memory.id} ", "This memory ", 1)
