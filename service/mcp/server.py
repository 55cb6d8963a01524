"""MCP server over any way to ask the API."""

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext

from service.access.keys import Scope
from service.base.errors import InvalidRequestError, ServiceError
from service.contract.to_answer.problems import build_refusal
from service.contract.to_question.validation_errors import decode
from service.estimator.values.errors import EstimatorError
from service.mcp.arguments import ListArguments
from service.mcp.asking import Ask, Call, Document
from service.mcp.schemas import build_input_schema
from service.mcp.showing import describe_problem, show_items
from service.mcp.tools import INSTRUCTIONS, TOOLS, Tool, find_tool

GetScopes = Callable[[Mapping[str, Any] | None], Collection[Scope]]
"""Returns what the caller may do, by the ASGI scope of his request if there is one."""
_Context = ServerRequestContext[Any, Any]


def make_server(*, version: str, ask: Ask, get_scopes: GetScopes) -> Server[Any]:
    """Return a server whose tools ask by ``ask``.

    A caller sees the tools that he may call; what he may not is refused by whoever answers too.
    """

    async def list_tools(
        context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        scopes = get_scopes(_get_scope(context))
        return types.ListToolsResult(
            tools=[_describe_tool(tool) for tool in TOOLS if _may_call(tool, scopes)]
        )

    async def call_tool(
        context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        scope = _get_scope(context)
        tool = find_tool(params.name)
        if tool is None or not _may_call(tool, get_scopes(scope)):
            names = ", ".join(one.name for one in TOOLS if _may_call(one, get_scopes(scope)))
            return _refuse(InvalidRequestError(f"there is no tool {params.name!r} here: {names}"))
        return await _call(tool, params.arguments or {}, ask, scope)

    return Server(
        "headroom",
        version=version,
        title="Headroom",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _call(
    tool: Tool, arguments: Document, ask: Ask, scope: Mapping[str, Any] | None
) -> types.CallToolResult:
    try:
        # Checked before they become an address: what is no id may name another resource.
        read = decode(arguments, tool.arguments)
        reply = await ask(Call(operation=tool.operation, document=arguments), scope)
    except (ServiceError, EstimatorError) as error:
        return _refuse(error)
    if reply.is_problem:
        return _show_problem(reply.document)
    answer = reply.document
    if isinstance(read, ListArguments):
        contains = read.contains if isinstance(read.contains, str) else ""
        answer = show_items(answer["items"], read.kind, contains=contains, limit=read.limit)
    return _show(tool.describe(answer), tool.show(answer))


def _may_call(tool: Tool, scopes: Collection[Scope]) -> bool:
    return tool.scope in scopes


def _get_scope(context: _Context) -> Mapping[str, Any] | None:
    request = context.request
    return None if request is None else request.scope


@cache
def _describe_tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=build_input_schema(tool.arguments),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=False if tool.is_read_only else tool.name == "release",
            idempotent_hint=tool.is_read_only,
            open_world_hint=False,
        ),
    )


def _refuse(error: ServiceError | EstimatorError) -> types.CallToolResult:
    return _show_problem(build_refusal(error, instance="/mcp"))


def _show_problem(document: Document) -> types.CallToolResult:
    """Return a refusal as the tool's own error."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=describe_problem(document))],
        structured_content=document,
        is_error=True,
    )


def _show(headline: str, document: Document) -> types.CallToolResult:
    text = f"{headline}\n{json.dumps(document, ensure_ascii=False, separators=(',', ':'))}"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=document
    )
