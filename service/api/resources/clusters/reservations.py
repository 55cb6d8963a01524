"""/v1/clusters/{name}/reservations: GPUs promised for a time.

Each GPU is promised to one holder at a time, until the reservation ends or is released.
"""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

from litestar import Request, Router, delete, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp
from msgspec import UnsetType

from service.access.keys import Scope
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import ETAG, build_etag_headers, read_header, read_request_key
from service.api.http.names import LOCATION, read_cluster_name
from service.api.http.operation import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response, no_content
from service.base.errors import InvalidRequestError, ReservationNotFoundError
from service.contract.schemas.fields import (
    IdempotencyKey,
    IfMatch,
    Name,
    PageQuery,
    ReservationId,
    get_or_none,
)
from service.contract.schemas.reservations import (
    ReservationAnswer,
    ReservationPage,
    ReservationRequest,
    ShareRequest,
)
from service.contract.to_answer.placements import build_share_answer
from service.contract.to_answer.timestamps import format_timestamp
from service.contract.to_question.models import prefix_error_field
from service.formats.quantities import parse_bytes
from service.planner.cluster.grants import ANYWHERE
from service.planner.cluster.reservation import Share
from service.usecases.clusters import reservations
from service.usecases.clusters.reservations import NewReservation
from service.usecases.stored import StoredReservation

TAG = "reservations"
PATH = {"name": Name}
ITEM_PATH = {"name": Name, "id": ReservationId}
EXAMPLE = {
    "holder": "team-vision",
    "gpus": [{"pool": "a100", "node": "n1", "num_gpus": 4}],
    "expires_in_s": 3600,
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AnyRequest = Request[Any, Any, Any]


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createReservation",
        scope=Scope.PLAN,
        is_change=True,
        tag=TAG,
        summary="Reserve GPUs of a cluster for a time, all of them or none.",
        description="Of askers at once each is promised what nobody else was. 409 says what is "
        "free of what was asked. Until "
        "it ends, plans count what is reserved as used. Release it once the inventory counts the "
        "job itself: both count.",
        path=PATH,
        body=ReservationRequest,
        example=EXAMPLE,
        headers={"Idempotency-Key": IdempotencyKey},
        replies={
            201: Reply(
                description="Promised, or promised already under this key.",
                bodies=(ReservationAnswer,),
                headers={"ETag": ETAG, "Location": LOCATION},
            ),
        },
        problems=(*BODY_PROBLEMS, 404, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Reserve GPUs."""
    payload = read_body(request.scope, body, ReservationRequest)
    cluster = read_cluster_name(request)
    path = f"/v1/clusters/{cluster}/reservations"
    key = read_request_key(request.scope, body, route=f"POST {path}")
    stored = reservations.reserve(
        get_dependencies(request).sessions, cluster, _read_reservation(payload), idempotency=key
    )
    return json_response(
        _build_answer(stored),
        status=201,
        headers={"location": f"{path}/{stored.id}", **build_etag_headers(stored.etag)},
    )


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listReservations",
        tag=TAG,
        summary="List the reservations that live, newest first.",
        path=PATH,
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(ReservationPage,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List the reservations that live."""
    query = read_query(request.scope, PageQuery)
    page = reservations.list_page(
        get_dependencies(request).sessions,
        read_cluster_name(request),
        make_page_request(query.limit, query.cursor),
    )
    return json_response(
        ReservationPage(
            items=[_build_answer(item) for item in page.items], next_cursor=page.next_cursor
        ),
    )


@get(
    "/{id:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readReservation",
        tag=TAG,
        summary="Show a reservation that lives.",
        path=ITEM_PATH,
        replies={
            200: Reply(
                description="The reservation.", bodies=(ReservationAnswer,), headers={"ETag": ETAG}
            ),
        },
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a reservation that lives."""
    stored = reservations.read(
        get_dependencies(request).sessions, read_cluster_name(request), _read_id(request)
    )
    return json_response(_build_answer(stored), headers=build_etag_headers(stored.etag))


@delete(
    "/{id:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="releaseReservation",
        scope=Scope.PLAN,
        is_change=True,
        tag=TAG,
        summary="Release a reservation: its GPUs are free at once.",
        path=ITEM_PATH,
        headers={"If-Match": IfMatch},
        replies={204: Reply(description="Released.")},
        problems=(404, 422, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def release(request: AnyRequest) -> ASGIApp:
    """Release a reservation."""
    if_match = read_header(request.scope, b"if-match")
    reservations.release(
        get_dependencies(request).sessions,
        read_cluster_name(request),
        _read_id(request),
        if_match=if_match,
    )
    return no_content()


def _read_id(request: AnyRequest) -> UUID:
    text = str(request.path_params["id"])
    if not _UUID.fullmatch(text):
        message = f"there is no reservation {text!r}"
        raise ReservationNotFoundError(message)
    return UUID(text)


def _read_reservation(request: ReservationRequest) -> NewReservation:
    _require_either(request, "expires_in_s", "expires_at")
    field, value = _require_either(request, "gpus", "placement")
    shares, path = (value, "gpus") if field == "gpus" else (value.nodes, "placement.nodes")
    seconds = get_or_none(request.expires_in_s)
    return NewReservation(
        holder=request.holder,
        gpus=tuple(_read_share(share, f"{path}[{index}]") for index, share in enumerate(shares)),
        field=path,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        expires_at=get_or_none(request.expires_at),
    )


def _require_either(request: ReservationRequest, *names: str) -> tuple[str, Any]:
    """Return which of two fields is set, and its value.

    Refuses none and both.
    """
    present = [
        (name, value)
        for name in names
        if not isinstance(value := getattr(request, name), UnsetType)
    ]
    if len(present) != 1:
        message = f"say {' or '.join(names)}{', and not both' if present else ''}"
        raise InvalidRequestError(message, errors=[{"field": names[0], "message": message}])
    return present[0]


def _read_share(request: ShareRequest, field: str) -> Share:
    indices = get_or_none(request.gpu_indices)
    with prefix_error_field(field):
        return Share(
            pool=request.pool,
            node=ANYWHERE if isinstance(request.node, UnsetType) else request.node,
            num_gpus=request.num_gpus,
            gpu_indices=None if indices is None else tuple(indices),
            mig_profile=get_or_none(request.mig_profile),
            host_memory_bytes=parse_bytes(request.host_memory_bytes, field="host_memory_bytes"),
        )


def _build_answer(stored: StoredReservation) -> ReservationAnswer:
    return ReservationAnswer(
        id=str(stored.id),
        cluster=stored.cluster,
        holder=stored.holder,
        num_gpus=sum(share.num_gpus for share in stored.shares if share.mig_profile is None),
        gpus=[build_share_answer(share) for share in stored.shares],
        created_at=format_timestamp(stored.created_at),
        expires_at=format_timestamp(stored.expires_at),
    )


router = Router(
    path="/v1/clusters/{name:str}/reservations", route_handlers=[create, list_all, read, release]
)
