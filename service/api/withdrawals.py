"""/v1/measurements/{id}/withdraw: take a measurement back."""

import re
from typing import Any
from uuid import UUID

from litestar import Request, Router, post
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.measurement_shapes import shape
from service.api.operation import STORED_PROBLEMS, Operation, Reply
from service.api.parts import parts_of
from service.api.responses import json_answer
from service.api.schemas.fields import MeasurementId
from service.api.schemas.measurements import MeasurementAnswer
from service.errors import MeasurementNotFoundError
from service.usecases import measurements
from service.usecases.withdrawals import withdraw

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
    parts, text = parts_of(request), str(request.path_params["id"])
    if not _UUID.fullmatch(text):
        message = f"there is no measurement {text!r}"
        raise MeasurementNotFoundError(message)
    withdraw(parts.sessions, UUID(text))
    parts.corrections.refresh()
    return json_answer(shape(measurements.read(parts.sessions, UUID(text))))


router = Router(path="/v1/measurements", route_handlers=[withdraw_one])
