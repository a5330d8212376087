"""What can be read as a resource: a memory whole, and the state of the namespace."""

from __future__ import annotations

from urllib.parse import unquote

from pydantic import BaseModel

from ebbtide.api import Ebbtide
from ebbtide.model.errors import NotFound
from ebbtide.service.mcp.caller import Caller

STATE = "ebbtide://state"
MEMORY = "ebbtide://memory/"
TEMPLATE = MEMORY + "{object}"


def read(ebb: Ebbtide, caller: Caller, uri: str) -> BaseModel:
    """What a URI names, in the caller's namespace."""
    if uri.removesuffix("/") == STATE:
        return ebb.status(namespace=caller.namespace)
    if not uri.startswith(MEMORY):
        raise NotFound(f"there is no resource {uri!r}: {STATE}, or {TEMPLATE}", field="uri")
    return ebb.memory(unquote(uri.removeprefix(MEMORY)), namespace=caller.namespace)
