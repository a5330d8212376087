"""The MCP server: the tools that a caller's rights allow, and the resources; over stdio."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import mcp_types as mcp
from anyio import to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from ebbtide import __version__
from ebbtide.api import Ebbtide
from ebbtide.model.errors import BadInput, EbbtideError, StoreUnavailable
from ebbtide.service.mcp import resources
from ebbtide.service.mcp.caller import Caller
from ebbtide.service.mcp.tools import TOOLS, Tool

Context = ServerRequestContext[Any, Any]
Who = Callable[[Context], Caller]
"""Who makes a request."""

log = logging.getLogger(__name__)
JSON = "application/json"
_SAID_OTHERWISE = {
    "extra_forbidden": "is not known: check the spelling, or leave it out",
    "missing": "is missing",
}
INSTRUCTIONS = (
    "A memory that fades by rules. `remember` what will matter later, one plain sentence each, and say honestly how it "
    "is known. Before you rely on memory call `memories`; `reinforce` what was of use, `correct` what was wrong. "
    "`forget` erases for good: show what its first call found, and go on only where the user agrees."
)


def server(ebb: Ebbtide, who: Who) -> Server[Any]:
    """A server over an open store, which asks `who` calls at every request."""

    async def list_tools(context: Context, _: mcp.PaginatedRequestParams | None) -> mcp.ListToolsResult:
        rights = who(context).rights
        return mcp.ListToolsResult(tools=[_shown(name, tool) for name, tool in TOOLS.items() if tool.right in rights])

    async def call_tool(context: Context, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        caller = who(context)
        tool = TOOLS.get(params.name)
        if tool is None or tool.right not in caller.rights:
            raise MCPError(mcp.INVALID_PARAMS, f"there is no tool {params.name!r} here")
        try:
            said = _arguments(tool, params.arguments or {})
            answer = await _done(partial(tool.act, ebb, caller, said))
        except EbbtideError as error:
            return mcp.CallToolResult(
                content=[mcp.TextContent(text=f"{error.code}: {error}")],
                structured_content=error.document(),
                is_error=True,
            )
        return mcp.CallToolResult(
            content=[mcp.TextContent(text=answer.model_dump_json())], structured_content=answer.model_dump(mode="json")
        )

    async def list_resources(context: Context, _: mcp.PaginatedRequestParams | None) -> mcp.ListResourcesResult:
        named = f"The state of namespace {who(context).namespace}"
        about = "Memories by state and profile, the last and next run of each task, entries of the log"
        state = mcp.Resource(uri=resources.STATE, name="state", title=named, description=about, mime_type=JSON)
        return mcp.ListResourcesResult(resources=[state])

    async def list_templates(context: Context, _: mcp.PaginatedRequestParams | None) -> mcp.ListResourceTemplatesResult:
        del context
        about = "A memory by its id or ref, percent-encoded: everything that is known of it now"
        memory = mcp.ResourceTemplate(
            uri_template=resources.TEMPLATE, name="memory", title="A memory", description=about, mime_type=JSON
        )
        return mcp.ListResourceTemplatesResult(resource_templates=[memory])

    async def read_resource(context: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        uri = str(params.uri)
        try:
            found = await _done(partial(resources.read, ebb, who(context), uri))
        except EbbtideError as error:
            code = mcp.INVALID_PARAMS if isinstance(error, BadInput) else mcp.INTERNAL_ERROR
            raise MCPError(code, str(error), error.document()) from error
        text = found.model_dump_json()
        return mcp.ReadResourceResult(contents=[mcp.TextResourceContents(uri=uri, text=text, mime_type=JSON)])

    return Server(
        "ebbtide",
        title="Ebbtide",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def _done(work: Callable[[], BaseModel]) -> BaseModel:
    """Work in a thread of its own."""
    try:
        return await to_thread.run_sync(work)
    except EbbtideError:
        raise
    except ValidationError as error:
        # Input is refused where it is read; what is left is what another version, or another hand, wrote.
        raise StoreUnavailable(f"the store has a {error.title} that this version cannot read") from error
    except Exception as error:
        # The SDK tells callers the text of any other error, and there may be contents in that.
        log.exception("a call failed")
        raise MCPError(mcp.INTERNAL_ERROR, "an error of the server itself: its log says more") from error


def _shown(name: str, tool: Tool) -> mcp.Tool:
    return mcp.Tool(
        name=name,
        title=tool.title,
        description=" ".join((tool.takes.__doc__ or "").split()),
        input_schema=tool.takes.model_json_schema(),
        output_schema=tool.gives.model_json_schema(mode="serialization"),
        annotations=mcp.ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.reads,
            open_world_hint=False,
        ),
    )


def _arguments(tool: Tool, given: dict[str, Any]) -> BaseModel:
    """What a tool was called with; the first thing that is wrong with it is named."""
    try:
        return tool.takes.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = _SAID_OTHERWISE.get(first["type"], str(first["msg"]))
        raise BadInput(message, field=".".join(map(str, first["loc"])) or None) from error


def stdio(ebb: Ebbtide, caller: Caller) -> None:
    """Serves one caller over standard input and output until its input ends."""
    anyio.run(_stdio, server(ebb, lambda _: caller))


async def _stdio(serving: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await serving.run(read, write, serving.create_initialization_options())
