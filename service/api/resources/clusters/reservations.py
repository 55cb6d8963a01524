"""/v1/clusters/{name}/reservations: GPUs promised for a time.

Each GPU is promised to one holder at a time, until the reservation ends or is released.
"""

from typing import Any
from uuid import UUID

from litestar import Request, Router, delete, get, patch, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.auth import require_principal
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import ETAG, build_etag_headers, read_header, read_request_key
from service.api.http.names import LOCATION, read_cluster_name, read_id
from service.api.http.operation import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response, no_content
from service.api.resources.clusters.reservation_bodies import (
    build_answer,
    read_change,
    read_reservation,
)
from service.base.errors import ReservationNotFoundError
from service.contract.schemas.fields import (
    IdempotencyKey,
    IfMatch,
    Name,
    PageQuery,
    ReservationId,
)
from service.contract.schemas.reservations import (
    ReservationAnswer,
    ReservationChangeRequest,
    ReservationPage,
    ReservationRequest,
)
from service.usecases.clusters import reservations

TAG = "reservations"
PATH = {"name": Name}
ITEM_PATH = {"name": Name, "id": ReservationId}
EXAMPLE = {
    "holder": "team-vision",
    "gpus": [{"pool": "a100", "node": "n1", "num_gpus": 4}],
    "expires_in_s": 3600,
}
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
        get_dependencies(request).sessions,
        cluster,
        read_reservation(payload),
        idempotency=key,
        caller=require_principal(request.scope),
    )
    return json_response(
        build_answer(stored),
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
            items=[build_answer(item) for item in page.items], next_cursor=page.next_cursor
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
    return json_response(build_answer(stored), headers=build_etag_headers(stored.etag))


@patch(
    "/{id:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="changeReservation",
        scope=Scope.PLAN,
        is_change=True,
        tag=TAG,
        summary="Give a reservation another end, or the job that it is for.",
        description="What has ended cannot be extended: its GPUs may be somebody else's by now. "
        "Only the key that made it, another of its name, or one of scope `admin` may do so.",
        path=ITEM_PATH,
        body=ReservationChangeRequest,
        example={"expires_in_s": 900, "job": {"scheduler": "slurm", "id": "4711"}},
        headers={"If-Match": IfMatch},
        replies={
            200: Reply(
                description="As it is now.", bodies=(ReservationAnswer,), headers={"ETag": ETAG}
            ),
        },
        problems=(*BODY_PROBLEMS, 404, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def change(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Change the end or the job of a reservation."""
    payload = read_body(request.scope, body, ReservationChangeRequest)
    stored = reservations.change(
        get_dependencies(request).sessions,
        read_cluster_name(request),
        _read_id(request),
        read_change(payload),
        if_match=read_header(request.scope, b"if-match"),
        caller=require_principal(request.scope),
    )
    return json_response(build_answer(stored), headers=build_etag_headers(stored.etag))


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
        description="Only the key that made it, another of its name, or one of scope `admin` may "
        "do so.",
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
        caller=require_principal(request.scope),
    )
    return no_content()


def _read_id(request: AnyRequest) -> UUID:
    identity = read_id(request)
    if identity is None:
        message = f"there is no reservation {request.path_params['id']!r}"
        raise ReservationNotFoundError(message)
    return identity


router = Router(
    path="/v1/clusters/{name:str}/reservations",
    route_handlers=[create, list_all, read, change, release],
)
