"""/v1/clusters/{name}/reservations: GPUs that are promised to one asker at a time, until they end or are released."""

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
from service.api.http.dependencies import parts_of
from service.api.http.etags import ETAG, etag_headers, header, request_key
from service.api.http.names import LOCATION, is_stored_name
from service.api.http.operation import BODY_PROBLEMS, CHANGE_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import page_request
from service.api.http.responses import json_answer, no_content
from service.base.errors import ClusterNotFoundError, InvalidRequestError, ReservationNotFoundError
from service.contract.schemas.fields import IdempotencyKey, IfMatch, Name, PageQuery, ReservationId, optional
from service.contract.schemas.reservations import ReservationAnswer, ReservationPage, ReservationRequest, ShareRequest
from service.contract.to_answer.placements import share_answer
from service.contract.to_answer.timestamps import timestamp
from service.contract.to_question.fits import fields_under
from service.formats.quantities import parse_bytes
from service.planner.cluster.grants import ANYWHERE
from service.planner.cluster.reservation import Share
from service.usecases.clusters import reservations
from service.usecases.clusters.reservations import Wanted
from service.usecases.stored import StoredReservation

TAG = "reservations"
PATH = {"name": Name}
ONE = {"name": Name, "id": ReservationId}
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
        description="Of askers at once each is promised what nobody else was. 409 says what is free of what was asked. Until "
        "it ends, plans count what is reserved as used. Release it once the inventory counts the job itself: both count.",
        path=PATH,
        body=ReservationRequest,
        example=EXAMPLE,
        headers={"Idempotency-Key": IdempotencyKey},
        replies={
            201: Reply(
                description="Promised, or promised already under this key.",
                bodies=(ReservationAnswer,),
                headers={"ETag": ETAG, "Location": LOCATION},
            )
        },
        problems=(*BODY_PROBLEMS, 404, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Reserve GPUs."""
    asked = read_body(request.scope, body, ReservationRequest)
    cluster = _cluster(request)
    path = f"/v1/clusters/{cluster}/reservations"
    key = request_key(request.scope, body, route=f"POST {path}")
    stored = reservations.reserve(parts_of(request).sessions, cluster, _wanted(asked), idempotency=key)
    return json_answer(_shape(stored), status=201, headers={"location": f"{path}/{stored.id}", **etag_headers(stored.etag)})


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
    page = reservations.list_page(parts_of(request).sessions, _cluster(request), page_request(query.limit, query.cursor))
    return json_answer(ReservationPage(items=[_shape(item) for item in page.items], next_cursor=page.next_cursor))


@get(
    "/{id:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readReservation",
        tag=TAG,
        summary="Show a reservation that lives.",
        path=ONE,
        replies={200: Reply(description="The reservation.", bodies=(ReservationAnswer,), headers={"ETag": ETAG})},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a reservation that lives."""
    stored = reservations.read(parts_of(request).sessions, _cluster(request), _id(request))
    return json_answer(_shape(stored), headers=etag_headers(stored.etag))


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
        path=ONE,
        headers={"If-Match": IfMatch},
        replies={204: Reply(description="Released.")},
        problems=(404, 422, *CHANGE_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def release(request: AnyRequest) -> ASGIApp:
    """Release a reservation."""
    if_match = header(request.scope, b"if-match")
    reservations.release(parts_of(request).sessions, _cluster(request), _id(request), if_match=if_match)
    return no_content()


def _cluster(request: AnyRequest) -> str:
    name = str(request.path_params["name"])
    if not is_stored_name(name):
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message)
    return name


def _id(request: AnyRequest) -> UUID:
    text = str(request.path_params["id"])
    if not _UUID.fullmatch(text):
        message = f"there is no reservation {text!r}"
        raise ReservationNotFoundError(message)
    return UUID(text)


def _wanted(asked: ReservationRequest) -> Wanted:
    _either(asked, "expires_in_s", "expires_at")
    field, value = _either(asked, "gpus", "placement")
    shares, place = (value, "gpus") if field == "gpus" else (value.nodes, "placement.nodes")
    seconds = optional(asked.expires_in_s)
    return Wanted(
        holder=asked.holder,
        gpus=tuple(_share(share, f"{place}[{index}]") for index, share in enumerate(shares)),
        field=place,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        expires_at=optional(asked.expires_at),
    )


def _either(asked: ReservationRequest, *names: str) -> tuple[str, Any]:
    """Return which of two fields was said, and what; refuse none and both."""
    said = [(name, value) for name in names if not isinstance(value := getattr(asked, name), UnsetType)]
    if len(said) != 1:
        message = f"say {' or '.join(names)}{', and not both' if said else ''}"
        raise InvalidRequestError(message, errors=[{"field": names[0], "message": message}])
    return said[0]


def _share(asked: ShareRequest, field: str) -> Share:
    indices = optional(asked.gpu_indices)
    with fields_under(field):
        return Share(
            pool=asked.pool,
            node=ANYWHERE if isinstance(asked.node, UnsetType) else asked.node,
            num_gpus=asked.num_gpus,
            gpu_indices=None if indices is None else tuple(indices),
            mig_profile=optional(asked.mig_profile),
            host_memory_bytes=parse_bytes(asked.host_memory_bytes, field="host_memory_bytes"),
        )


def _shape(stored: StoredReservation) -> ReservationAnswer:
    return ReservationAnswer(
        id=str(stored.id),
        cluster=stored.cluster,
        holder=stored.holder,
        num_gpus=sum(share.num_gpus for share in stored.shares if share.mig_profile is None),
        gpus=[share_answer(share) for share in stored.shares],
        created_at=timestamp(stored.created_at),
        expires_at=timestamp(stored.expires_at),
    )


router = Router(path="/v1/clusters/{name:str}/reservations", route_handlers=[create, list_all, read, release])
