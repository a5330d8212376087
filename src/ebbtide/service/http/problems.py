"""Errors as problem documents (RFC 9457), with the codes of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from ebbtide.model.errors import (
    BadInput,
    CheckFailed,
    Conflict,
    EbbtideError,
    NotFound,
    NotInstalled,
    Refused,
    StoreUnavailable,
)

MEDIA = "application/problem+json"
RETRY_AFTER = 1
"""Seconds after which a busy store may be asked again."""


class Unauthorised(EbbtideError):
    """No token, or none that is good: unknown, expired and revoked ones are told alike."""

    code = "unauthorised"


class Forbidden(EbbtideError):
    """A role has not the right."""

    code = "forbidden"


class Problem(BaseModel):
    """What went wrong: `code` is a word for programs, `field`, `line` and `object` say where, `rule` which rule."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": HTTPStatus(422).phrase,
                    "status": 422,
                    "detail": "must be a number from 0 to 1 (given: 1.5)",
                    "code": "bad_input",
                    "field": "salience",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    line: int | None = None
    object: str | None = None
    rule: str | None = None


_STATUS: tuple[tuple[type[EbbtideError], int], ...] = (
    (Unauthorised, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (NotInstalled, 501),
    (BadInput, 422),
    (Refused, 409),
    (CheckFailed, 409),
    (StoreUnavailable, 503),
)
_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    503: {"Retry-After": str(RETRY_AFTER)},
}
_MESSAGES = {
    "extra_forbidden": "is not known: check the spelling, or leave it out",
    "missing": "is missing",
}
_CODES = {404: "not_found", 413: "too_large"}


def status_of(error: EbbtideError) -> int:
    """The status of an error. One line of a batch is no precondition of the request: there a conflict is a conflict."""
    if isinstance(error, Conflict) and error.rule == "expected_version" and error.line is None:
        return 412
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def response(status: int, detail: str, code: str, where: Mapping[str, Any] | None = None) -> Response:
    """A problem document. It is ASCII: what was given may be no text."""
    title = HTTPStatus(status).phrase
    found = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    found |= {name: value for name, value in (where or {}).items() if value is not None}
    return Response(json.dumps(found), status, _HEADERS.get(status), MEDIA)


def of(error: EbbtideError) -> Response:
    """The problem document of an error."""
    where = {name: getattr(error, name, None) for name in ("field", "line", "object", "rule")}
    return response(status_of(error), error.message, error.code, where)


def install(app: FastAPI, routes: Sequence[Route]) -> None:
    """Has every error of an application with these routes told as a problem document."""

    @app.exception_handler(EbbtideError)
    async def known(request: Request, error: EbbtideError) -> Response:
        return of(error)

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"][1:]]
        if first["type"] == "json_invalid":
            return of(BadInput(f"is not JSON: {first['ctx']['error']}", field="body"))
        message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        return of(BadInput(message, field=".".join(place) or first["loc"][0]))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, HTTPStatus(error.status_code).name.lower())
        found = response(error.status_code, str(error.detail), code)
        found.headers.update(error.headers or {})
        here = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
        if error.status_code == 405 and here:
            # Of all routes of the path, not of the first one alone.
            found.headers["Allow"] = ", ".join(sorted({name for route in here for name in route.methods or ()}))
        return found

    @app.exception_handler(ValidationError)
    async def foreign(request: Request, error: ValidationError) -> Response:
        # Input is refused where it is read; what is left is what another version, or another hand, wrote.
        return of(StoreUnavailable(f"the store has a {error.title} that this version cannot read"))

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        return response(500, "an error of the service itself: its log says more", "internal")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for OpenAPI."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


EVERYWHERE = responses(400, 401, 403, 404, 409, 412, 413, 422, 501, 503)
"""What any route may answer with."""
