"""The application: routes, access and errors put together."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from ebbtide import __version__
from ebbtide.api import Ebbtide
from ebbtide.service.http import problems
from ebbtide.service.http.access import Service
from ebbtide.service.http.edge import Edge
from ebbtide.service.http.problems import Problem
from ebbtide.service.http.routes import (
    actions,
    audit,
    erasing,
    events,
    following,
    health,
    memories,
    packs,
    policies,
    proof,
    replays,
    runs,
    tokens,
    upkeep,
)
from ebbtide.service.pages import router as pages
from ebbtide.service.watch import Watch

_ROUTES = (
    memories,
    actions,
    events,
    following,
    erasing,
    policies,
    runs,
    replays,
    audit,
    proof,
    packs,
    upkeep,
    tokens,
    health,
)

ABOUT = """\
Memory that fades by rules you can read, audit and replay.

Names in paths are percent-encoded. Instants are ISO 8601 with a zone. `as_of` asks what held at an instant, `known_at`
what was known then. `ETag` is a memory's `fact_version`; a write with `If-Match` is refused with 412 where another was
first. A write with an `Idempotency-Key` that was taken before writes nothing again. Errors are problem documents
(RFC 9457).
"""


def application(ebb: Ebbtide, *, insecure: bool = False, watch: Watch | None = None) -> FastAPI:
    """The service over an open store. `insecure` asks for no token, and answers loopback only."""
    app = FastAPI(
        title="Ebbtide",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: f"{route.tags[0]}_{route.name}",
    )
    app.state.service = Service(ebb, insecure, watch)
    problems.install(app, [one for module in _ROUTES for one in module.router.routes if isinstance(one, Route)])
    app.add_middleware(Edge, insecure=insecure)
    for module in _ROUTES:
        app.include_router(module.router, responses=problems.EVERYWHERE)
    app.include_router(pages())
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Adds to the OpenAPI document what no route's own signature says: the shape of problems."""
    made = app.openapi

    def described() -> dict[str, Any]:
        document = made()
        document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        return document

    app.openapi = described  # type: ignore[method-assign]
