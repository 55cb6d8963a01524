"""/v1/measurements/{id}/withdraw: take a measurement back."""

from typing import Any

from litestar import Request, Router, post
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.auth import require_principal
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.measurements.shapes import build_measurement_answer, read_measurement_id
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
        summary=(
            "Withdraw a measurement: it teaches nothing any more, and what the others teach is "
            "learnt anew."
        ),
        description=(
            "It stays readable, as cancelled with the phase `withdrawn`; what was imported may be "
            "imported again. Only the key that asked for it, another of its name, or one of scope "
            "`admin` may do so."
        ),
        path={"id": MeasurementId},
        replies={200: Reply(description="Withdrawn, now or before.", bodies=(MeasurementAnswer,))},
        problems=(404, 409, 422, *STORED_PROBLEMS),
    ),
)
def withdraw_one(request: Request[Any, Any, Any]) -> ASGIApp:
    """Withdraw a measurement."""
    deps, job_id = get_dependencies(request), read_measurement_id(request)
    caller = require_principal(request.scope)
    withdraw(deps.sessions, job_id, by=caller.name, caller=caller)
    deps.corrections.refresh()
    return json_response(build_measurement_answer(measurements.read(deps.sessions, job_id)))


router = Router(path="/v1/measurements", route_handlers=[withdraw_one])
