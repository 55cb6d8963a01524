"""GET /v1/gpus: the GPU catalogue."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.operation import Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.catalog.gpus import list_gpus
from service.contract.schemas.catalogue.gpus import GpuPage
from service.contract.schemas.fields import PageQuery
from service.contract.to_answer.gpus import build_gpu
from service.usecases.stored import make_page_by_name


@get(
    "/",
    sync_to_thread=False,
    operation=Operation(
        id="listGpus",
        tag="gpus",
        summary="List the GPUs that questions may name, with the source of every figure.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(GpuPage,))},
        problems=(422,),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the GPUs of the catalogue."""
    query = read_query(request.scope, PageQuery)
    page_query = make_page_request(query.limit, query.cursor)
    page = make_page_by_name(
        list_gpus(), page_query, list_name="gpus", name=lambda entry: entry.name
    )
    return json_response(
        GpuPage(items=[build_gpu(entry) for entry in page.items], next_cursor=page.next_cursor)
    )


router = Router(path="/v1/gpus", route_handlers=[list_all])
