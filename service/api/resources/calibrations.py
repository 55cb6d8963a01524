"""/v1/calibrations: calibrations, their drift, and measuring them again."""

from typing import Any
from uuid import UUID

from litestar import Request, Router, get, post
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.auth import require_principal
from service.api.http.decoding import read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.etags import read_request_key
from service.api.http.names import read_id
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.base.errors import NotFoundError
from service.calibration.pool import Pool
from service.contract.schemas.calibrations import (
    CalibrationAnswer,
    CalibrationPage,
    CalibrationPoolAnswer,
    CalibrationQuery,
    DriftAnswer,
    PoolPage,
    RemeasureAnswer,
)
from service.contract.schemas.fields import IdempotencyKey, MeasurementId, get_or_none
from service.contract.to_answer.timestamps import format_timestamp
from service.usecases.jobs.drift import Drift, list_drifts, remeasure
from service.usecases.learning import calibrations
from service.usecases.stored import StoredCalibration

TAG = "calibrations"
AnyRequest = Request[Any, Any, Any]


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listCalibrations",
        tag=TAG,
        summary="List what was learnt from measurements, newest first; the newest of a key holds.",
        query=CalibrationQuery,
        replies={200: Reply(description="One page.", bodies=(CalibrationPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List what was learnt from measurements."""
    query, deps = read_query(request.scope, CalibrationQuery), get_dependencies(request)
    page = make_page_request(query.limit, query.cursor)
    stored = calibrations.list_page(deps.sessions, page, key=get_or_none(query.key))
    drift_reports = list_drifts(deps.sessions, stored.items, deps.corrections.get_environment_key)
    items = [
        _build_answer(item, drift) for item, drift in zip(stored.items, drift_reports, strict=True)
    ]
    return json_response(CalibrationPage(items=items, next_cursor=stored.next_cursor))


@get(
    "/pools",
    sync_to_thread=True,
    operation=Operation(
        id="listPools",
        tag=TAG,
        summary="List what keys have in common, which answers for those that nobody measured.",
        replies={200: Reply(description="All of it.", bodies=(PoolPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def pools(request: AnyRequest) -> ASGIApp:
    """List what keys have in common."""
    corrections = get_dependencies(request).corrections
    corrections.refresh()
    ordered = sorted(
        corrections.get_pools().values(),
        key=lambda pool: (pool.group.kind, pool.group.quantity, pool.group.name),
    )
    return json_response(PoolPage(items=[_build_pool(pool) for pool in ordered]))


@post(
    "/{id:str}/remeasure",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="remeasureCalibration",
        scope=Scope.MEASURE,
        is_change=True,
        tag=TAG,
        summary="Ask again for every size that a calibration rests on.",
        description=(
            "A release, a driver or a GPU that changed makes other keys: this measures under them "
            "what was known."
        ),
        path={"id": MeasurementId},
        headers={"Idempotency-Key": IdempotencyKey},
        replies={202: Reply(description="Queued, or known already.", bodies=(RemeasureAnswer,))},
        problems=(404, 409, 422, *STORED_PROBLEMS),
    ),
)
def measure_again(request: AnyRequest) -> ASGIApp:
    """Ask again for every size that a calibration rests on."""
    deps = get_dependencies(request)
    queued = remeasure(
        deps.sessions,
        _read_calibration_id(request),
        settings=deps.settings,
        notify=deps.notify,
        key=read_request_key(request.scope, b"", route="remeasure"),
        caller=require_principal(request.scope),
    )
    return json_response(
        RemeasureAnswer(measurements=[str(stored.id) for stored in queued]), status=202
    )


def _read_calibration_id(request: AnyRequest) -> UUID:
    identity = read_id(request)
    if identity is None:
        message = f"there is no calibration {request.path_params['id']!r}"
        raise NotFoundError(message)
    return identity


def _build_answer(stored: StoredCalibration, drift: Drift) -> CalibrationAnswer:
    return CalibrationAnswer(
        id=str(stored.id),
        key=stored.key,
        quantity=stored.quantity,
        kind=stored.kind,
        family=stored.family,
        environment=stored.environment,
        scope=dict(stored.scope),
        correction=dict(stored.correction),
        evidence=[str(measurement) for measurement in stored.evidence],
        drift=DriftAnswer(
            stale=drift.is_stale,
            current_environment=drift.current_environment,
            measured=drift.measured,
            outside=drift.outside,
            drifting=drift.is_drifting,
            bias=drift.bias,
            current_bias=drift.current_bias,
        ),
        created_at=format_timestamp(stored.created_at),
    )


def _build_pool(pool: Pool) -> CalibrationPoolAnswer:
    return CalibrationPoolAnswer(
        name=pool.group.name,
        level=pool.level.value,
        quantity=pool.group.quantity.value,
        kind=pool.group.kind,
        environment=pool.group.environment,
        family=pool.group.family,
        shares=dict(pool.shares),
        keys=pool.num_keys,
        measurements=pool.num_measurements,
        half_width=pool.half_width,
        key_half_width=pool.key_half_width,
    )


router = Router(path="/v1/calibrations", route_handlers=[list_all, pools, measure_again])
