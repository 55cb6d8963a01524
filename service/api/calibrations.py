"""/v1/calibrations: what was learnt from measurements."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.decoding import read_query
from service.api.operation import STORED_PROBLEMS, Operation, Reply
from service.api.parts import parts_of
from service.api.responses import json_answer
from service.api.schemas.fields import optional
from service.api.schemas.workers import CalibrationAnswer, CalibrationPage, CalibrationQuery
from service.api.shapes import page_request, timestamp
from service.usecases import calibrations
from service.usecases.access import StoredCalibration


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listCalibrations",
        tag="calibrations",
        summary="List what was learnt from measurements, newest first; the newest of a key holds.",
        query=CalibrationQuery,
        replies={200: Reply(description="One page.", bodies=(CalibrationPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List what was learnt from measurements."""
    query = read_query(request.scope, CalibrationQuery)
    page = page_request(query.limit, query.cursor)
    found = calibrations.list_page(parts_of(request).sessions, page, key=optional(query.key))
    return json_answer(CalibrationPage(items=[_shape(item) for item in found.items], next_cursor=found.next_cursor))


def _shape(stored: StoredCalibration) -> CalibrationAnswer:
    return CalibrationAnswer(
        id=str(stored.id),
        key=stored.key,
        quantity=stored.quantity,
        scope=dict(stored.scope),
        correction=dict(stored.correction),
        evidence=[str(measurement) for measurement in stored.evidence],
        created_at=timestamp(stored.created_at),
    )


router = Router(path="/v1/calibrations", route_handlers=[list_all])
