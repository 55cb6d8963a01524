"""/v1/clusters: inventories of GPUs, stored whole and replaced whole."""

from typing import Any

from litestar import Request, Router, delete, get, post, put
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.decoding import read_body, read_query
from service.api.operation import BODY_PROBLEMS, CHANGE_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.parts import parts_of
from service.api.questions import fields_under
from service.api.responses import json_answer, no_content
from service.api.schemas.clusters import (
    ClusterAnswer,
    ClusterCreate,
    ClusterPage,
    ClusterQuery,
    ClusterReplace,
    NodeAnswer,
    NodeRequest,
    PoolAnswer,
    PoolRequest,
)
from service.api.schemas.fields import IfMatch, Name, optional
from service.api.shapes import ETAG, LOCATION, etag_headers, header, is_stored_name, page_request, require_same_name, timestamp
from service.catalog.gpus import resolve_gpu
from service.errors import ClusterNotFoundError
from service.formats.quantities import parse_bytes
from service.planner.inventory import ClusterInventory, Node, NodeState, Pool
from service.usecases import clusters
from service.usecases.access import StoredCluster

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
        }
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
    page = clusters.list_page(parts_of(request).sessions, page_request(query.limit, query.cursor))
    return json_answer(ClusterPage(items=[_shape(item) for item in page.items], next_cursor=page.next_cursor))


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createCluster",
        tag=TAG,
        summary="Store a cluster.",
        body=ClusterCreate,
        example=EXAMPLE,
        replies={201: Reply(description="Stored.", bodies=(ClusterAnswer,), headers={"ETag": ETAG, "Location": LOCATION})},
        problems=(*BODY_PROBLEMS, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Store a cluster."""
    asked = read_body(request.scope, body, ClusterCreate)
    stored = clusters.create(parts_of(request).sessions, name=asked.name, inventory=_inventory(asked.pools))
    headers = {"location": f"/v1/clusters/{stored.name}", **etag_headers(stored.etag)}
    return json_answer(_shape(stored), status=201, headers=headers)


@get(
    "/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readCluster",
        tag=TAG,
        summary="Show a stored cluster.",
        path=PATH,
        replies={200: Reply(description="The cluster.", bodies=(ClusterAnswer,), headers={"ETag": ETAG})},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a stored cluster."""
    stored = clusters.read(parts_of(request).sessions, _name(request))
    return json_answer(_shape(stored), headers=etag_headers(stored.etag))


@put(
    "/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="replaceCluster",
        tag=TAG,
        summary="Replace a stored cluster.",
        path=PATH,
        headers={"If-Match": IfMatch},
        body=ClusterReplace,
        example={"pools": EXAMPLE["pools"]},
        replies={200: Reply(description="Replaced.", bodies=(ClusterAnswer,), headers={"ETag": ETAG})},
        problems=(*BODY_PROBLEMS, 404, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def replace(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Replace a stored cluster."""
    asked = read_body(request.scope, body, ClusterReplace)
    require_same_name(_name(request), asked.name)
    stored = clusters.replace(
        parts_of(request).sessions,
        _name(request),
        inventory=_inventory(asked.pools),
        if_match=header(request.scope, b"if-match"),
    )
    return json_answer(_shape(stored), headers=etag_headers(stored.etag))


@delete(
    "/{name:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="deleteCluster",
        tag=TAG,
        summary="Remove a stored cluster.",
        path=PATH,
        headers={"If-Match": IfMatch},
        replies={204: Reply(description="Removed.")},
        problems=(404, 422, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def remove(request: AnyRequest) -> ASGIApp:
    """Remove a stored cluster."""
    clusters.delete(parts_of(request).sessions, _name(request), if_match=header(request.scope, b"if-match"))
    return no_content()


def _name(request: AnyRequest) -> str:
    name = str(request.path_params["name"])
    if not is_stored_name(name):
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message)
    return name


def _inventory(pools: list[PoolRequest]) -> ClusterInventory:
    return ClusterInventory(pools=tuple(_pool(pool, f"pools[{index}]") for index, pool in enumerate(pools)))


def _pool(pool: PoolRequest, field: str) -> Pool:
    gpu = resolve_gpu(pool.gpu, field=f"{field}.gpu").name
    with fields_under(field):
        return _checked_pool(pool, gpu)


def _checked_pool(pool: PoolRequest, gpu: str) -> Pool:
    nodes = optional(pool.nodes)
    memory = optional(pool.host_memory_bytes)
    return Pool(
        name=pool.name,
        gpu=gpu,
        gpus_per_node=pool.gpus_per_node,
        nvlink_island_size=optional(pool.nvlink_island_size),
        host_memory_bytes=None if memory is None else parse_bytes(memory, field="host_memory_bytes"),
        network_bytes_per_second=optional(pool.network_bytes_per_second),
        price_per_gpu_hour=optional(pool.price_per_gpu_hour),
        nodes=None if nodes is None else tuple(_node(node) for node in nodes),
        num_nodes=optional(pool.num_nodes),
    )


def _node(node: NodeRequest) -> Node:
    return Node(name=node.name, allocated_gpus=node.allocated_gpus, state=NodeState(node.state))


def _shape(stored: StoredCluster) -> ClusterAnswer:
    return ClusterAnswer(
        name=stored.name,
        created_at=timestamp(stored.created_at),
        updated_at=timestamp(stored.updated_at),
        pools=[_pool_shape(pool) for pool in stored.inventory.pools],
    )


def _pool_shape(pool: Pool) -> PoolAnswer:
    return PoolAnswer(
        name=pool.name,
        gpu=pool.gpu,
        gpus_per_node=pool.gpus_per_node,
        nvlink_island_size=pool.nvlink_island_size,
        host_memory_bytes=pool.host_memory_bytes,
        network_bytes_per_second=pool.network_bytes_per_second,
        price_per_gpu_hour=pool.price_per_gpu_hour,
        nodes=None if pool.nodes is None else [_node_shape(node) for node in pool.nodes],
        num_nodes=pool.num_nodes,
        total_gpus=pool.total_gpus,
        free_gpus=pool.free_gpus,
    )


def _node_shape(node: Node) -> NodeAnswer:
    return NodeAnswer(name=node.name, allocated_gpus=node.allocated_gpus, state=node.state.value)


router = Router(path="/v1/clusters", route_handlers=[list_all, create, read, replace, remove])
