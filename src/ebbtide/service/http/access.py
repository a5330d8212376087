"""Who asks, and whether they may: dependencies of routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ebbtide.access.rights import Right, Role
from ebbtide.access.tokens import Principal
from ebbtide.api import Ebbtide
from ebbtide.model.errors import NotFound
from ebbtide.model.identity import identifier
from ebbtide.model.words import ActorType
from ebbtide.service.http.problems import Forbidden, Unauthorised
from ebbtide.service.watch import Watch

LOCAL = Principal(None, Role.OPERATOR, "local", ActorType.SYSTEM_PROCESS)
"""Whoever comes to a service that asks nobody."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes work with. `insecure` asks for no token; `watch` is that of an organiser in this process."""

    ebb: Ebbtide
    insecure: bool = False
    watch: Watch | None = None


async def service(request: Request) -> Service:
    """The service that a request came to."""
    found: Service = request.app.state.service
    return found


async def _ebb(found: Annotated[Service, Depends(service)]) -> Ebbtide:
    return found.ebb


TheService = Annotated[Service, Depends(service)]
Ebb = Annotated[Ebbtide, Depends(_ebb)]

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="As `ebb token create` shows it.")
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def principal(found: TheService, given: Given) -> Principal:
    """Who asks. Raises `Unauthorised` where no good token is given."""
    if found.insecure:
        return LOCAL
    who = None if given is None else found.ebb.principal(given.credentials)
    if who is None:
        raise Unauthorised("a good token is needed: Authorization: Bearer ebb_…")
    return who


def needs(right: Right) -> Callable[..., Principal]:
    """A dependency: who asks, if they have a right, and the namespace of the path is theirs.

    For whom it is not, no namespace is there, be there one or not.
    """

    def check(request: Request, who: Annotated[Principal, Depends(principal)]) -> Principal:
        namespace = request.path_params.get("namespace")
        if namespace is not None and not who.reaches(namespace):
            raise NotFound("there is no such namespace", field="namespace")
        if not who.may(right):
            raise Forbidden(f"a {who.role} may not do this: it needs the right to {right}")
        if namespace is not None:
            identifier(namespace, "namespace")
        return who

    return check


def own(who: Principal, namespace: str | None) -> str | None:
    """The namespace that a request to the whole store speaks of: of a token's own one there is no other."""
    if namespace is None:
        return who.namespace
    if not who.reaches(namespace):
        raise NotFound("there is no such namespace", field="namespace")
    return identifier(namespace, "namespace")


def needs_every_namespace(who: Principal) -> None:
    """Refuses a token of one namespace what concerns all of them."""
    if who.namespace is not None:
        raise Forbidden("this concerns every namespace: it needs a token made with --every-namespace")


Reader = Annotated[Principal, Depends(needs(Right.READ))]
Writer = Annotated[Principal, Depends(needs(Right.WRITE))]
Auditor = Annotated[Principal, Depends(needs(Right.AUDIT))]
Eraser = Annotated[Principal, Depends(needs(Right.ERASE))]
Operator = Annotated[Principal, Depends(needs(Right.OPERATE))]
