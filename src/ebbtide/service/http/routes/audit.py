"""Named audit queries, and SQL over the audit views: as JSON, CSV or Parquet."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from ebbtide.access.tokens import Principal
from ebbtide.audit.queries import Query as Named
from ebbtide.audit.select import Answer
from ebbtide.model.errors import BadInput
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Auditor, Ebb, needs_every_namespace, own
from ebbtide.service.http.answers import QueryList
from ebbtide.service.http.fields import Limit
from ebbtide.service.http.files import CSV, JSON, PARQUET, ROWS, preferred, sent

router = APIRouter(tags=["audit"])
Accept = Annotated[str, Header(description=f"{JSON}, {CSV} or {PARQUET}")]


@router.get("/v1/audit")
def queries(who: Auditor, ebb: Ebb) -> QueryList:
    """The named queries: the question that each answers, its parameters and columns."""
    return QueryList(queries=[query.document() for query in ebb.audit_queries()])


@router.get("/v1/audit/{query:name}", response_model=Answer, responses=ROWS)
def run(
    request: Request,
    query: Annotated[str, Path(description="A query's name", examples=["decay_by_policy"])],
    who: Auditor,
    ebb: Ebb,
    accept: Accept = JSON,
    limit: Annotated[Limit, Query(description="Of JSON: at most so many rows; files have all")] = 1000,
) -> Answer | Response:
    """What a query answers. Its parameters are given in the query string by their names."""
    named, kind = ebb.audit_query(query), preferred(accept)
    given = _parameters(request, named, who)
    if kind == JSON:
        return ebb.audit(named.name, given, limit=limit)
    if kind == CSV:
        return sent(f"{named.name}.csv", kind, lambda file: ebb.audit_to_csv(named.name, file, given))
    return sent(f"{named.name}.parquet", kind, lambda file: ebb.audit_to_parquet(named.name, file, given))


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


@router.post("/v1/sql", response_model=Answer, responses=ROWS)
def sql(body: bodies.Select, who: Auditor, ebb: Ebb, accept: Accept = JSON) -> Answer | Response:
    """What one SELECT over the audit views gives, of all namespaces; read-only, nothing but the views."""
    needs_every_namespace(who)
    kind, text, seconds = preferred(accept), body.query, body.timeout
    if kind == JSON:
        return ebb.sql(text, limit=body.limit, seconds=seconds)
    if kind == CSV:
        return sent("rows.csv", kind, lambda file: ebb.sql_to_csv(text, file, seconds=seconds))
    return sent("rows.parquet", kind, lambda file: ebb.sql_to_parquet(text, file, seconds=seconds))
