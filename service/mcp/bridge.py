"""Tools of a server over stdin and stdout.

Everything is passed on to its ``/mcp``, so that its key decides which tools there are.
"""

import os
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from service.base.errors import ServiceError, UnavailableError
from service.client.bearer import format_bearer
from service.client.naming import check_address

_TIMEOUT_S = 300.0
"""A search may take a minute, and a server that is loaded longer."""
_CONNECT_TIMEOUT_S = 5.0
_Context = ServerRequestContext[Any, Any]


def serve(url: str) -> None:
    """Answer on stdout what stdin asks, by the server at ``url``."""
    try:
        anyio.run(_run, url)
    except* (httpx2.TransportError, httpx2.HTTPStatusError, MCPError) as group:
        reasons = "; ".join(str(error) for error in _flatten(group))
        message = f"no tools are at {url}/mcp: {reasons}; --offline answers here"
        raise UnavailableError(message) from None


async def _run(url: str) -> None:
    headers = _build_headers(url)
    timeout = httpx2.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(f"{url.rstrip('/')}/mcp", http_client=http)
        async with (
            Client(transport, cache=None) as remote,
            stdio_server() as (incoming, outgoing),
        ):
            server = make_bridge(remote)
            await server.run(incoming, outgoing, server.create_initialization_options())


def _build_headers(url: str) -> dict[str, str]:
    """Return the headers that carry the key.

    Refuses what is no address of a server, and what is no key.
    """
    key = os.environ.get("HEADROOM_API_KEY")
    try:
        check_address(url)
    except ValueError as error:
        raise ServiceError(str(error)) from None
    try:
        return {"authorization": format_bearer(key)} if key else {}
    except ValueError as error:
        raise ServiceError(f"HEADROOM_API_KEY: {error}") from None


def make_bridge(remote: Client) -> Server[Any]:
    """Return a server that passes every call on."""

    async def list_tools(
        _context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await remote.list_tools(cursor=None if params is None else params.cursor)

    async def call_tool(
        _context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await remote.call_tool(params.name, params.arguments)

    info = remote.server_info
    return Server(
        "headroom",
        version="" if info is None else info.version,
        title="Headroom",
        instructions=remote.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _flatten(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_flatten(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
