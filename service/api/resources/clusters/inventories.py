"""/v1/clusters: inventories of GPUs, stored and replaced as a whole."""

from typing import Any

from litestar import Request, Router, delete, get, post, put
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import ETAG, build_etag_headers, read_header
from service.api.http.names import LOCATION, read_cluster_name, require_same_name
from service.api.http.operation import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response, no_content
from service.api.resources.clusters.imports import import_cluster
from service.contract.schemas.clusters import (
    ClusterAnswer,
    ClusterCreate,
    ClusterDeleteQuery,
    ClusterPage,
    ClusterQuery,
    ClusterReplace,
)
from service.contract.schemas.fields import IfMatch, Name
from service.contract.to_answer.inventories import build_cluster_answer, read_inventory
from service.usecases.clusters import clusters

TAG = "clusters"
PATH = {"name": Name}
EXAMPLE = {
    "name": "prod-a",
    "pools": [
        {
            "name": "a100",
            "gpu": "A100-SXM4-80GB",
            "gpus_per_node": 8,
            "nvlink_island_size": 8,
            "host_memory_bytes": "1Ti",
            "nodes": [{"name": "n1", "allocated_gpus": 3, "state": "ready"}],
        },
    ],
}
AnyRequest = Request[Any, Any, Any]


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listClusters",
        tag=TAG,
        summary="List the stored clusters, newest first.",
        query=ClusterQuery,
        replies={200: Reply(description="One page.", bodies=(ClusterPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List the stored clusters."""
    query = read_query(request.scope, ClusterQuery)
    page = clusters.list_page(
        get_dependencies(request).sessions, make_page_request(query.limit, query.cursor)
    )
    items = [build_cluster_answer(item, has_nodes=query.nodes) for item in page.items]
    return json_response(ClusterPage(items=items, next_cursor=page.next_cursor))


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createCluster",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Store a cluster.",
        body=ClusterCreate,
        example=EXAMPLE,
        replies={
            201: Reply(
                description="Stored.",
                bodies=(ClusterAnswer,),
                headers={"ETag": ETAG, "Location": LOCATION},
            ),
        },
        problems=(*BODY_PROBLEMS, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Store a cluster."""
    payload = read_body(request.scope, body, ClusterCreate)
    stored = clusters.create(
        get_dependencies(request).sessions,
        name=payload.name,
        inventory=read_inventory(payload.pools),
    )
    headers = {"location": f"/v1/clusters/{stored.name}", **build_etag_headers(stored.etag)}
    return json_response(build_cluster_answer(stored), status=201, headers=headers)


@get(
    "/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readCluster",
        tag=TAG,
        summary="Show a stored cluster.",
        path=PATH,
        replies={
            200: Reply(description="The cluster.", bodies=(ClusterAnswer,), headers={"ETag": ETAG})
        },
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a stored cluster."""
    stored = clusters.read(get_dependencies(request).sessions, read_cluster_name(request))
    return json_response(build_cluster_answer(stored), headers=build_etag_headers(stored.etag))


@put(
    "/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="replaceCluster",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Replace a stored cluster.",
        path=PATH,
        headers={"If-Match": IfMatch},
        body=ClusterReplace,
        example={"pools": EXAMPLE["pools"]},
        replies={
            200: Reply(description="Replaced.", bodies=(ClusterAnswer,), headers={"ETag": ETAG})
        },
        problems=(*BODY_PROBLEMS, 404, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def replace(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Replace a stored cluster."""
    payload = read_body(request.scope, body, ClusterReplace)
    require_same_name(read_cluster_name(request), payload.name)
    stored = clusters.replace(
        get_dependencies(request).sessions,
        read_cluster_name(request),
        inventory=read_inventory(payload.pools),
        if_match=read_header(request.scope, b"if-match"),
    )
    return json_response(build_cluster_answer(stored), headers=build_etag_headers(stored.etag))


@delete(
    "/{name:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="deleteCluster",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Remove a stored cluster; one with reservations only where the request ends them.",
        path=PATH,
        query=ClusterDeleteQuery,
        headers={"If-Match": IfMatch},
        replies={204: Reply(description="Removed.")},
        problems=(404, 409, 422, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def remove(request: AnyRequest) -> ASGIApp:
    """Remove a stored cluster."""
    query = read_query(request.scope, ClusterDeleteQuery)
    clusters.delete(
        get_dependencies(request).sessions,
        read_cluster_name(request),
        if_match=read_header(request.scope, b"if-match"),
        ends_reservations=query.end_reservations,
    )
    return no_content()


router = Router(
    path="/v1/clusters",
    route_handlers=[list_all, create, read, replace, remove, import_cluster],
)
