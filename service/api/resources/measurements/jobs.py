"""/v1/measurements: ask for a probe, watch it, cancel it."""

import re
from functools import partial
from typing import Any

from litestar import Request, Router, delete, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.auth import require_principal
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import read_header, read_request_key
from service.api.http.names import LOCATION
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response, no_content
from service.api.resources.measurements.artifacts import read_artifact
from service.api.resources.measurements.events import EventStream
from service.api.resources.measurements.imports import import_file
from service.api.resources.measurements.listing import list_all
from service.api.resources.measurements.shapes import (
    build_dry_run_answer,
    build_measurement_answer,
    read_measurement_id,
)
from service.api.resources.resolving import read_measurement
from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import IdempotencyKey, LastEventId, MeasurementId, PageQuery
from service.contract.schemas.measurements import (
    DryRunAnswer,
    EventAnswer,
    MeasurementAnswer,
    MeasurementRequest,
    SampleAnswer,
    SamplePage,
)
from service.contract.schemas.models import HubToken
from service.usecases.jobs import measurements
from service.usecases.jobs import samples as sampled
from service.usecases.jobs.dry_runs import plan_dry_run

TAG = "measurements"
PATH = {"id": MeasurementId}
ROUTE = "POST /v1/measurements"
EXAMPLE = {
    "model": "llama-3.2-1b",
    "workload": {"task": "train", "sequence_length": 256, "precision": "bf16"},
    "device": "cpu",
    "gpu": "A100-SXM4-80GB",
}
_EVENT_ID = re.compile(r"[0-9]{1,18}", re.ASCII)
AnyRequest = Request[Any, Any, Any]


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createMeasurement",
        scope=Scope.MEASURE,
        is_change=True,
        tag=TAG,
        summary="Ask for a probe.",
        description="With `dry_run` nothing is asked for and nothing stored: the answer is what a "
        "worker would run, and how "
        "long that would take, or why it would refuse. A job that no living worker can run is "
        "taken as well, and `warnings` say what to start.",
        body=MeasurementRequest,
        example=EXAMPLE,
        headers={"Idempotency-Key": IdempotencyKey, "Hub-Token": HubToken},
        replies={
            200: Reply(description="What would be run, as `dry_run` asks.", bodies=(DryRunAnswer,)),
            202: Reply(
                description="Queued, or known already.",
                bodies=(MeasurementAnswer,),
                headers={"Location": LOCATION},
            ),
        },
        problems=(*BODY_PROBLEMS, 409, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Ask for a probe."""
    deps = get_dependencies(request)
    payload = read_body(request.scope, body, MeasurementRequest)
    question = read_measurement(deps, payload, request.scope)
    if payload.dry_run:
        return json_response(
            build_dry_run_answer(
                plan_dry_run(deps.sessions, question.request, settings=deps.settings)
            ),
        )
    stored = measurements.submit(
        deps.sessions,
        question.request,
        key=question.key,
        settings=deps.settings,
        notify=deps.notify,
        idempotency=read_request_key(request.scope, body, route=ROUTE),
        caller=require_principal(request.scope),
    )
    return json_response(
        build_measurement_answer(stored),
        status=202,
        headers={"location": f"/v1/measurements/{stored.id}"},
    )


@get(
    "/{id:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readMeasurement",
        tag=TAG,
        summary="Show a measurement.",
        path=PATH,
        replies={200: Reply(description="The measurement.", bodies=(MeasurementAnswer,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read(request: AnyRequest) -> ASGIApp:
    """Show a measurement."""
    deps = get_dependencies(request)
    stored = measurements.read(
        deps.sessions, read_measurement_id(request), gone_after_s=deps.settings.lease_s
    )
    if stored.status.is_terminal:
        deps.corrections.refresh()
    return json_response(build_measurement_answer(stored))


@delete(
    "/{id:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="cancelMeasurement",
        scope=Scope.MEASURE,
        is_change=True,
        tag=TAG,
        summary=(
            "Cancel a measurement: a queued one at once, a running one within six seconds, "
            "whatever its probe is stuck in."
        ),
        description="Only the key that asked for it, another of its name, or one of scope `admin` "
        "may do so.",
        path=PATH,
        replies={200: Reply(description="Cancelled, or about to be.", bodies=(MeasurementAnswer,))},
        problems=(404, 409, 422, *STORED_PROBLEMS),
    ),
)
def cancel(request: AnyRequest) -> ASGIApp:
    """Cancel a measurement."""
    return json_response(
        build_measurement_answer(
            measurements.cancel(
                get_dependencies(request).sessions,
                read_measurement_id(request),
                caller=require_principal(request.scope),
            )
        ),
    )


@get(
    "/{id:str}/samples",
    sync_to_thread=True,
    operation=Operation(
        id="listSamples",
        tag=TAG,
        summary="List what was read while the probe ran, oldest first.",
        path=PATH,
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(SamplePage,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def samples(request: AnyRequest) -> ASGIApp:
    """List what was read while the probe ran."""
    query = read_query(request.scope, PageQuery)
    page = sampled.list_page(
        get_dependencies(request).sessions,
        read_measurement_id(request),
        make_page_request(query.limit, query.cursor),
    )
    items = [
        SampleAnswer(attempt=s.attempt, seq=s.seq, t_s=s.t_s, kind=s.kind, bytes=s.bytes)
        for s in page.items
    ]
    return json_response(SamplePage(items=items, next_cursor=page.next_cursor))


@get(
    "/{id:str}/events",
    sync_to_thread=True,
    operation=Operation(
        id="watchMeasurement",
        tag=TAG,
        summary="Follow a measurement as server-sent events until it is over.",
        description="Events are `status`, `plan` (what is going to be run, why, and for how long), "
        "`progress` and `sample`, "
        "each with an id; `Last-Event-ID` replays what followed it, at any API process. "
        "204 says that it is over and nothing follows, which tells "
        "an EventSource not to come back.",
        path=PATH,
        headers={"Last-Event-ID": LastEventId},
        replies={
            200: Reply(
                description="The events.", bodies=(EventAnswer,), media_types=("text/event-stream",)
            ),
            204: Reply(description="Over, and nothing follows this event."),
        },
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def events(request: AnyRequest) -> ASGIApp:
    """Follow a measurement until it is over."""
    deps = get_dependencies(request)
    job_id, seq = read_measurement_id(request), _read_last_event_id(request)
    first = measurements.list_events_after(deps.sessions, job_id, seq=seq)
    if not first.events and seq:
        _require_sent(seq, measurements.read(deps.sessions, job_id).last_event)
        if first.is_last:
            return no_content()
    return EventStream(
        first,
        seq,
        lambda after: measurements.list_events_after(deps.sessions, job_id, seq=after),
        partial(deps.guard.readmit, request.scope, request.scope["state"]["operation"]),
        streams=deps.event_streams,
    )


def _read_last_event_id(request: AnyRequest) -> int:
    text = read_header(request.scope, b"last-event-id")
    if not text:
        return 0
    if not _EVENT_ID.fullmatch(text):
        message = f"Last-Event-ID is {text[:40]!r}; it must be the id of an event of this stream"
        raise InvalidRequestError(message, errors=[{"field": "Last-Event-ID", "message": message}])
    return int(text)


def _require_sent(seq: int, last_event: int) -> None:
    if seq > last_event:
        message = f"Last-Event-ID is {seq}, but the last event of this stream is {last_event}"
        raise InvalidRequestError(message, errors=[{"field": "Last-Event-ID", "message": message}])


router = Router(
    path="/v1/measurements",
    route_handlers=[create, import_file, list_all, read, cancel, samples, events, read_artifact],
)
