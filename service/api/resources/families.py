"""GET /v1/families: the families of models, and what is modelled of each."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.operation import Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.catalog.families import list_families
from service.contract.schemas.fields import PageQuery
from service.contract.schemas.model_parts.families import ModelFamilyPage
from service.contract.to_answer.families import build_family
from service.usecases.stored import make_page_by_name


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listFamilies",
        tag="models",
        summary="List the families of models, and for each what is modelled and what is refused.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(ModelFamilyPage,))},
        problems=(422,),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the families of models."""
    query = read_query(request.scope, PageQuery)
    page = make_page_by_name(
        list_families(),
        make_page_request(query.limit, query.cursor),
        list_name="families",
        name=lambda entry: entry.name,
    )
    return json_response(
        ModelFamilyPage(
            items=tuple(build_family(entry) for entry in page.items), next_cursor=page.next_cursor
        )
    )


router = Router(path="/v1/families", route_handlers=[list_all])
