"""/v1/measurements/{id}/withdraw: take a measurement back."""

from typing import Any

from litestar import Request, Router, post
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.dependencies import parts_of
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_answer
from service.api.resources.measurements.shapes import measurement_id, shape
from service.contract.schemas.fields import MeasurementId
from service.contract.schemas.measurements import MeasurementAnswer
from service.usecases.jobs import measurements
from service.usecases.jobs.withdrawals import withdraw


@post(
    "/{id:str}/withdraw",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="withdrawMeasurement",
        scope=Scope.MEASURE,
        is_change=True,
        tag="measurements",
        summary="Withdraw a measurement: it teaches nothing any more, and what the others teach is learnt anew.",
        description="It stays readable, as cancelled with the phase `withdrawn`; what was imported may be imported again.",
        path={"id": MeasurementId},
        replies={200: Reply(description="Withdrawn, now or before.", bodies=(MeasurementAnswer,))},
        problems=(404, 409, 422, *STORED_PROBLEMS),
    ),
)
def withdraw_one(request: Request[Any, Any, Any]) -> ASGIApp:
    """Withdraw a measurement."""
    parts, job_id = parts_of(request), measurement_id(request)
    withdraw(parts.sessions, job_id)
    parts.corrections.refresh()
    return json_answer(shape(measurements.read(parts.sessions, job_id)))


router = Router(path="/v1/measurements", route_handlers=[withdraw_one])
