"""What may be asked of one memory: a POST on it for each action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Response

from ebbtide.memory.read import Memory
from ebbtide.model.words import OpType
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Ebb, Writer
from ebbtide.service.http.asking import request
from ebbtide.service.http.bodies import Body
from ebbtide.service.http.fields import WITH_ETAG, Expected, Key, Namespace, Obj, etag

router = APIRouter(prefix="/v1/namespaces/{namespace:name}/memories/{obj:name}", tags=["actions"])


def _action(op: OpType, kind: type[Body]) -> Callable[..., Memory]:
    """The endpoint of one action; a body with nothing that must be said may be left out."""

    def act(
        *,
        namespace: Namespace,
        obj: Obj,
        body: Any,
        who: Writer,
        ebb: Ebb,
        response: Response,
        key: Key = None,
        expected: Expected = None,
    ) -> Memory:
        asked = request(who, namespace, op, body, object=obj, expected_version=expected)
        return etag(ebb.told(asked, key=key)[0], response)

    # FastAPI reads the body off the signature, and here it is another one for each action.
    must = any(field.is_required() for field in kind.model_fields.values())
    act.__annotations__["body"] = kind if must else kind | None
    if not must:
        act.__kwdefaults__ = {**(act.__kwdefaults__ or {}), "body": None}
    return act


_ACTIONS: tuple[tuple[str, OpType, type[Body], str], ...] = (
    ("access", OpType.ACCESS, Body, "Says that it was shown, which confirms nothing."),
    ("reinforce", OpType.REINFORCE, bodies.Reinforce, "Confirms its use: its clock starts again, its scores rise."),
    ("penalise", OpType.PENALTY, bodies.Penalise, "Says that it was wrong, or of no use: its scores fall."),
    ("pin", OpType.PIN, bodies.Reasoned, "Stops its time: nothing automatic touches it."),
    ("unpin", OpType.UNPIN, bodies.Reasoned, "Lets its time go on."),
    ("hold", OpType.HOLD, bodies.Reasoned, "Puts a legal hold on it: nothing may erase it."),
    ("release", OpType.RELEASE, bodies.Reasoned, "Ends a legal hold."),
    ("archive", OpType.ARCHIVE, bodies.Reasoned, "Archives it by hand; `restore` brings it back."),
    ("restore", OpType.RESTORE, bodies.Reasoned, "Brings it back from the archive."),
    ("deprecate", OpType.DEPRECATE, bodies.Reasoned, "Deprecates it by hand, for good."),
    ("condition", OpType.CONDITION_SET, bodies.SetCondition, "Says whether its condition holds."),
    ("transition", OpType.EPISTEMIC_TRANSITION, bodies.Transition, "Says that it is known in another way now."),
    ("suppress", OpType.SUPPRESS, bodies.Suppress, "Keeps it out of retrieval."),
    ("unsuppress", OpType.UNSUPPRESS, bodies.Reasoned, "Ends its suppressions."),
    (
        "supersede",
        OpType.SUPERSEDE,
        bodies.Supersede,
        "Closes it and opens what takes its place. Where another memory says that already, it is that one.",
    ),
)
for _name, _op, _kind, _about in _ACTIONS:
    router.post(
        f"/{_name}",
        operation_id=f"memories_{_name}",
        summary=_name.capitalize(),
        description=_about,
        responses=WITH_ETAG,
    )(_action(_op, _kind))
