"""Parts of requests that many routes share."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Response
from pydantic import Field, JsonValue, WithJsonSchema

from ebbtide.memory.read import Memory
from ebbtide.model.errors import BadInput

NAME = r"^[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*$"
"""Names hold no control characters, and are not blank."""

_NAMED: dict[str, JsonValue] = {"minLength": 1, "maxLength": 255, "pattern": NAME}
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"

Name = Annotated[str, Field(min_length=1, max_length=255, json_schema_extra={"pattern": NAME})]
PolicyName = Annotated[str, Field(max_length=151, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*@[0-9][A-Za-z0-9.+-]*$")]
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time", "examples": ["2026-03-01T09:00:00Z"]})]
Namespace = Annotated[str, Path(description="Whose memory", examples=["maya"], json_schema_extra=_NAMED)]
Obj = Annotated[str, Path(description="A memory's id or ref", examples=["home-1"], json_schema_extra=_NAMED)]
Consumer = Annotated[
    str, Path(description="Your name for who keeps copies", examples=["vectors"], json_schema_extra=_NAMED)
]
RunId = Annotated[
    str,
    Path(
        description="A run's id",
        examples=["57d22044-7b7b-892c-854e-caf7d6d47861"],
        json_schema_extra={"format": "uuid", "pattern": _UUID},
    ),
]
AsOf = Annotated[Instant | None, Query(description="The instant to speak of; now if left out")]
KnownAt = Annotated[Instant | None, Query(description="Only what was recorded by this instant")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[
    str | None, Query(description="The `next` of the page before", json_schema_extra={"pattern": "^[0-9]{1,18}$"})
]

_ETAG = re.compile(r'"([0-9]{1,18})"')
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


WITH_ETAG: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "The memory's fact_version", "schema": {"type": "string"}}}}
}
"""What OpenAPI says of an answer that is a memory."""


def etag(memory: Memory, response: Response) -> Memory:
    """Says at which `fact_version` a memory is."""
    response.headers["ETag"] = f'"{memory.fact_version}"'
    return memory


def _expected(
    if_match: Annotated[
        str | None,
        Header(description="The ETag that the decision rests on", examples=['"1"']),
        WithJsonSchema({"type": "string", "pattern": r'^("[0-9]{1,18}"|\*)$'}),
    ] = None,
) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise BadInput('is no ETag of a memory, such as "3"', field="If-Match")
    return int(found[1])


Expected = Annotated[int | None, Depends(_expected)]


async def body_as_sent(request: Request) -> bytes:
    """The body of a request that is no JSON document."""
    return await request.body()


def _key(
    idempotency_key: Annotated[
        str | None,
        Header(description="A repeat under the same key writes nothing again", examples=["7f9c"]),
        WithJsonSchema({"type": "string", "pattern": _KEY.pattern.join("^$")}),
    ] = None,
) -> str | None:
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise BadInput("must be 1 to 200 visible ASCII characters", field="Idempotency-Key")
    return idempotency_key


Key = Annotated[str | None, Depends(_key)]


def place(cursor: str | None) -> int:
    """A place in a log or a history, from its cursor."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise BadInput("is no cursor: give the `next` of the page before", field="cursor")
    return int(cursor)
