"""GET /v1/measurements: measurements, or table rows as JSON or CSV."""

from typing import Any

from litestar import Request, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import JSON, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import (
    CSV,
    VARY,
    choose_format,
    make_page_request,
    stream_csv,
)
from service.api.http.responses import json_response
from service.api.resources.measurements.shapes import build_measurement_answer
from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_device
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.measurement_rows import MeasurementTable
from service.contract.schemas.measurements import MeasurementPage, MeasurementQuery
from service.contract.to_answer.measurement_rows import COLUMNS, build_row
from service.usecases.jobs import measurements
from service.usecases.stored import (
    MeasurementFilter,
    PageRequest,
)

PAGE = 50


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listMeasurements",
        tag="measurements",
        summary="List measurements, newest first unless `sort` says otherwise.",
        description="Pages do not shift when measurements are added. `format=rows` answers flat "
        "rows with predicted and "
        "measured bytes of every quantity, errors before and after calibration, and the "
        "environment; `format=csv`, or "
        "Accept: text/csv, streams the same columns of everything that the filters let through.",
        query=MeasurementQuery,
        replies={
            200: Reply(
                description="One page, or the whole table.",
                bodies=(MeasurementPage, MeasurementTable),
                media_types=(JSON, CSV),
                headers={"Vary": "Accept"},
            ),
        },
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List measurements."""
    deps = get_dependencies(request)
    query = read_query(request.scope, MeasurementQuery)
    filters = _build_filter(deps, query)
    match choose_format(query.format, request.headers.get("accept")):
        case "csv":
            return stream_csv(
                COLUMNS,
                lambda page: measurements.list_lines(deps.sessions, page, filters, query.sort),
                build_row,
                paging=query,
            )
        case "rows":
            rows = measurements.list_lines(deps.sessions, _read_page(query), filters, query.sort)
            items = [build_row(line) for line in rows.items]
            return json_response(
                MeasurementTable(columns=COLUMNS, items=items, next_cursor=rows.next_cursor),
                headers=VARY,
            )
        case _:
            page = measurements.list_page(deps.sessions, _read_page(query), filters, query.sort)
            page_items = [build_measurement_answer(item) for item in page.items]
            return json_response(
                MeasurementPage(items=page_items, next_cursor=page.next_cursor), headers=VARY
            )


def _read_page(query: MeasurementQuery) -> PageRequest:
    return make_page_request(get_or_default(query.limit, PAGE), query.cursor)


def _build_filter(deps: Dependencies, query: MeasurementQuery) -> MeasurementFilter:
    name, gpu, device = get_or_none(query.model), get_or_none(query.gpu), get_or_none(query.device)
    spec = None if name is None else deps.specs.get_cached(name)
    min_error, max_error = get_or_none(query.error_at_least), get_or_none(query.error_at_most)
    if min_error is not None and max_error is not None and min_error > max_error:
        message = (
            f"error_at_least is {min_error} and error_at_most {max_error}; no error lies between "
            "them"
        )
        raise InvalidRequestError(message, errors=[{"field": "error_at_least", "message": message}])
    return MeasurementFilter(
        model=name if spec is None else spec.name,
        gpu=None if gpu is None else resolve_device(gpu).name,
        family=get_or_none(query.family),
        task=get_or_none(query.task),
        source=get_or_none(query.source),
        status=get_or_none(query.status),
        device=None if device is None else device.value,
        created_after=get_or_none(query.created_after),
        created_before=get_or_none(query.created_before),
        error_at_least=min_error,
        error_at_most=max_error,
    )
