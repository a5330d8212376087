"""Health for whoever asks, metrics for whoever may see the whole store."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, Response

from ebbtide.model.errors import EbbtideError, NotFound
from ebbtide.service.http.access import Given, Reader, Service, TheService, needs_every_namespace, principal

router = APIRouter(tags=["health"], include_in_schema=False)


@router.get("/health/live")
def live() -> dict[str, bool]:
    """The process answers."""
    return {"live": True}


@router.get("/health")
@router.get("/health/ready")
def ready(service: TheService, given: Given) -> Response:
    """200 or 503; where the store stands is told to a token of every namespace."""
    found = _found(service)
    if not service.insecure and (given is None or principal(service, given).namespace is not None):
        found = {name: found[name] for name in ("live", "ready")}
    return JSONResponse(found, 200 if found["ready"] else 503)


def _found(service: Service) -> dict[str, Any]:
    if service.watch is not None:
        return service.watch.health()
    try:
        with service.ebb.store.begin():
            return {"live": True, "ready": True, "problems": []}
    except EbbtideError as error:
        return {"live": True, "ready": False, "problems": [str(error)]}


@router.get("/metrics")
def metrics(service: TheService, who: Reader) -> Response:
    """The metrics of the organiser in this process, as Prometheus reads them."""
    needs_every_namespace(who)
    if service.watch is None:
        raise NotFound("no organiser runs here: start with --with-organiser, or ask the daemon's own port")
    return Response(generate_latest(service.watch.metrics.registry), media_type=CONTENT_TYPE_LATEST)
