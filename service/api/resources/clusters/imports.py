"""POST /v1/clusters/{name}/import: nodes as other tools list them."""

from functools import partial
from typing import Any

from litestar import Request, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.computing.budgets import Budget
from service.api.http.computing import compute_import
from service.api.http.decoding import require_json
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import ETAG, build_etag_headers, read_header
from service.api.http.names import read_cluster_name
from service.api.http.operation import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.responses import json_response
from service.api.resources.handed_in.bodies import read_listing
from service.contract.schemas.fields import IfMatch, Name
from service.contract.schemas.inventories.imports import (
    MAX_IMPORT_BYTES,
    ClusterImportAnswer,
    ClusterImportRequest,
)
from service.contract.to_answer.cluster_imports import build_import_answer
from service.usecases.clusters import imports

EXAMPLE = {
    "content": {
        "nodes": [
            {
                "name": "n1",
                "state": ["MIXED"],
                "gres": "gpu:nvidia_a100-sxm4-80gb:8",
                "gres_used": "gpu:nvidia_a100-sxm4-80gb:3(IDX:0-2)",
                "real_memory": 1031000,
            }
        ]
    }
}


@post(
    "/{name:str}/import",
    status_code=200,
    request_max_body_size=MAX_IMPORT_BYTES,
    operation=Operation(
        id="importCluster",
        scope=Scope.ADMIN,
        is_change=True,
        tag="clusters",
        summary="Bring a cluster up to date with what another tool lists.",
        description="Reads Kubernetes (`kubectl get nodes,pods -A -o json` with GPU feature "
        "discovery, HAMi or ResourceSlices), Slurm (`scontrol show nodes --json`, `sinfo --json`, "
        "`squeue --json`), `nvidia-smi -q -x`, Ray, dstack, SkyPilot and the DCGM exporter. The "
        "answer says what would change; with `apply` it is stored, where `If-Match` names the "
        "version that the caller has seen. A cluster that there is not is created, without "
        "`If-Match`. What there is and what is used now are kept apart; the same content again "
        "changes nothing.",
        path={"name": Name},
        headers={"If-Match": IfMatch},
        optional_headers=frozenset({"If-Match"}),
        body=ClusterImportRequest,
        example=EXAMPLE,
        replies={
            200: Reply(
                description="What changes, or would.",
                bodies=(ClusterImportAnswer,),
                headers={"ETag": ETAG},
            ),
            201: Reply(
                description="Created.", bodies=(ClusterImportAnswer,), headers={"ETag": ETAG}
            ),
        },
        problems=(*BODY_PROBLEMS, 404, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def import_cluster(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Bring a cluster up to date with what another tool lists."""
    return await compute_import(request, partial(_import, request, body))


def _import(request: Request[Any, Any, Any], body: RawBody, budget: Budget) -> ASGIApp:
    require_json(request.scope)
    deps = get_dependencies(request)
    new, is_applied = deps.files.read(read_listing, body, budget)
    name, sessions = read_cluster_name(request), deps.sessions
    if is_applied:
        outcome = imports.apply(
            sessions, name, new, if_match=read_header(request.scope, b"if-match")
        )
    else:
        outcome = imports.preview(sessions, name, new)
    headers = {} if outcome.etag is None else build_etag_headers(outcome.etag)
    status = 201 if outcome.is_applied and outcome.is_new else 200
    return json_response(build_import_answer(name, new, outcome), status=status, headers=headers)
