"""Named audit queries: as JSON, CSV or Parquet."""

from __future__ import annotations

import tempfile
from pathlib import Path as File
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from ebbtide.access.tokens import Principal
from ebbtide.audit.queries import Query as Named
from ebbtide.audit.select import Answer
from ebbtide.model.errors import BadInput
from ebbtide.service.http.access import Auditor, Ebb, needs_every_namespace, own
from ebbtide.service.http.answers import QueryList
from ebbtide.service.http.fields import Limit

router = APIRouter(prefix="/v1/audit", tags=["audit"])

JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"


@router.get("")
def queries(who: Auditor, ebb: Ebb) -> QueryList:
    """The named queries: the question that each answers, its parameters and columns."""
    return QueryList(queries=[query.document() for query in ebb.audit_queries()])


@router.get(
    "/{query:name}",
    response_model=Answer,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}, PARQUET: {"schema": {"type": "string"}}}}},
)
def run(
    request: Request,
    query: Annotated[str, Path(description="A query's name", examples=["decay_by_policy"])],
    who: Auditor,
    ebb: Ebb,
    accept: Annotated[str, Header(description=f"{JSON}, {CSV} or {PARQUET}")] = JSON,
    limit: Annotated[Limit, Query(description="Of JSON: at most so many rows; files have all")] = 1000,
) -> Answer | Response:
    """What a query answers. Its parameters are given in the query string by their names."""
    named, kind = ebb.audit_query(query), _preferred(accept)
    given = _parameters(request, named, who)
    if kind == JSON:
        return ebb.audit(named.name, given, limit=limit)
    folder = tempfile.TemporaryDirectory(prefix="ebbtide-")
    try:
        file = File(folder.name) / (f"{named.name}.csv" if kind == CSV else f"{named.name}.parquet")
        (ebb.audit_to_csv if kind == CSV else ebb.audit_to_parquet)(named.name, file, given)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(file, media_type=kind, filename=file.name, background=BackgroundTask(folder.cleanup))


def _parameters(request: Request, named: Named, who: Principal) -> dict[str, str]:
    """The parameters as given, each once; whose memory is asked about is settled by the token."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != "limit"]
    given = dict(pairs)
    if len(given) != len(pairs):
        raise BadInput("a parameter is given twice", field="parameters")
    namespace = own(who, given.get("namespace"))
    if namespace is None:
        return given
    if "namespace" not in {parameter.name for parameter in named.parameters}:
        needs_every_namespace(who)
        return given
    return given | {"namespace": namespace}


def _preferred(accept: str) -> str:
    """What a client would rather have of what there is; JSON where it does not mind."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        media, _, more = part.partition(";")
        q = next((one.split("=", 1)[1] for one in more.split(";") if one.strip().startswith("q=")), "1")
        wanted[media.strip().lower()] = float(q) if q.strip().replace(".", "", 1).isdecimal() else 0.0

    def how_much(kind: str) -> float:
        return next((wanted[m] for m in (kind, f"{kind.split('/', maxsplit=1)[0]}/*", "*/*") if m in wanted), 0.0)

    best = max((JSON, CSV, PARQUET), key=how_much)
    if not how_much(best):
        raise HTTPException(406, f"there are {JSON}, {CSV} and {PARQUET}")
    return best
