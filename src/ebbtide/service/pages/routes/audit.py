"""Audit: named queries with their parameters, their answers as tables and as files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from starlette.responses import Response

from ebbtide.access.rights import Right
from ebbtide.audit.queries import Given, Query
from ebbtide.model.errors import NotFound
from ebbtide.service.pages.visit import Answer, Page, Pages, Visit

ROWS = 200
_KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def add(pages: Pages) -> None:
    """Adds the routes. A query runs in a process of its own, which has to find the store closed."""

    @pages.get("/audit", Right.AUDIT)
    def queries(visit: Visit) -> Answer:
        visit.ebb.expect_questions()
        return Page("queries.html", {"queries": [one for one in visit.ebb.audit_queries() if _open(visit, one)]})

    @pages.get("/audit/{name}", Right.AUDIT, holds=False)
    def query(visit: Visit, name: str) -> Answer:
        found, given = _asked(visit, name)
        # Opened, it costs nothing: a question may take its time, and is asked by the form.
        asked = visit.asked("ask") or given.keys() - {"namespace"}
        if not asked:
            visit.ebb.expect_questions()
        answer = visit.ebb.audit(name, given, limit=ROWS) if asked else None
        return Page("query.html", {"query": found, "given": given, "answer": answer})

    @pages.get("/audit/{name}/{kind}", Right.AUDIT, holds=False)
    def download(visit: Visit, name: str, kind: str) -> Answer:
        if kind not in _KINDS:
            raise NotFound(f"there is no {kind} of a query")
        found, given = _asked(visit, name)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{found.name}.{kind}"
            write = visit.ebb.audit_to_csv if kind == "csv" else visit.ebb.audit_to_parquet
            write(found.name, file, given)
            attached = {"Content-Disposition": f'attachment; filename="{file.name}"'}
            return Response(file.read_bytes(), media_type=_KINDS[kind], headers=attached)


def _open(visit: Visit, query: Query) -> bool:
    """Whether a query can be bounded to the namespace; only who sees every one may ask the others."""
    return visit.who.namespace is None or any(one.name == "namespace" for one in query.parameters)


def _asked(visit: Visit, name: str) -> tuple[Query, dict[str, Given]]:
    """A query with what the address says of its parameters; its namespace is the visit's."""
    found = visit.ebb.audit_query(name)
    if not _open(visit, found):
        raise NotFound(f"there is no query {name!r} of one namespace")
    given: dict[str, Given] = {one.name: visit.asked(one.name) for one in found.parameters if visit.asked(one.name)}
    if any(one.name == "namespace" for one in found.parameters):
        given["namespace"] = visit.namespace
    return found, given
