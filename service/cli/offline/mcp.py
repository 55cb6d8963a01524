"""Tools for language models without a server, over stdin and stdout."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from msgspec import to_builtins

from service.access.keys import Scope
from service.base.errors import InvalidRequestError, ServiceError
from service.catalog.families import list_families
from service.catalog.gpus import list_gpus
from service.catalog.models import list_models
from service.cli.offline.inline import Document
from service.contract.to_answer.catalogue_models import build_catalogue_item
from service.contract.to_answer.families import build_family
from service.contract.to_answer.gpus import build_gpu
from service.contract.to_answer.problems import build_refusal
from service.estimator.values.errors import EstimatorError
from service.mcp.asking import Call, Reply
from service.mcp.requests import POSTED
from service.mcp.server import make_server

_LISTS: Mapping[str, Callable[[], list[object]]] = {
    "models": lambda: [build_catalogue_item(entry) for entry in list_models()],
    "gpus": lambda: [build_gpu(entry) for entry in list_gpus()],
    "families": lambda: [build_family(entry) for entry in list_families()],
}


def serve() -> None:
    """Answer on stdout what stdin asks."""
    server = make_server(
        version=version("gpu-headroom"),
        ask=ask,
        get_scopes=lambda _scope: (Scope.READ,),
    )

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


async def ask(call: Call, _scope: Mapping[str, Any] | None) -> Reply:
    """Answer a call in a thread of this process."""
    try:
        document = await anyio.to_thread.run_sync(partial(_answer, call))
    except (ServiceError, EstimatorError) as error:
        instance = POSTED.get(call.operation, "/v1")
        return Reply(document=build_refusal(error, instance=instance), is_problem=True)
    return Reply(document=document)


def _answer(call: Call) -> Document:
    if call.operation == "list":
        return {"items": [to_builtins(item) for item in _list_items(call.document["kind"])]}
    answer: Document = getattr(
        import_module(f"service.cli.offline.{call.operation}"), call.operation
    )(call.document, None)
    return answer


def _list_items(kind: str) -> list[object]:
    if kind not in _LISTS:
        message = (
            f"{kind} are stored on a server: start `headroom mcp --server URL`, or set HEADROOM_URL"
        )
        raise InvalidRequestError(message)
    return _LISTS[kind]()
