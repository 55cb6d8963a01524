"""GET /v1/measurements: whole measurements, or the rows of a table as JSON or as CSV."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio.to_thread
from litestar import Request, get
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import ASGIApp
from msgspec import UnsetType

from service.api.http.decoding import read_query
from service.api.http.dependencies import Parts, parts_of
from service.api.http.negotiation import prefers
from service.api.http.operation import JSON, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import page_request
from service.api.http.responses import json_answer
from service.api.resources.measurements.shapes import shape
from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_gpu
from service.contract.schemas.fields import given, optional
from service.contract.schemas.measurement_rows import MeasurementTable
from service.contract.schemas.measurements import MeasurementPage, MeasurementQuery
from service.contract.to_answer.measurement_rows import COLUMNS, csv_of, row_of
from service.usecases.jobs import measurements
from service.usecases.stored import MeasurementFilter, MeasurementLine, MeasurementSort, Page, PageRequest, Sessions

CSV = "text/csv"
PAGE = 50
LARGE_PAGE = 200
_VARY = {"vary": "Accept"}


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listMeasurements",
        tag="measurements",
        summary="List measurements, newest first unless `sort` says otherwise.",
        description="Pages do not shift when measurements are added. `format=rows` answers flat rows with predicted and "
        "measured bytes of every quantity, errors before and after calibration, and the environment; `format=csv`, or "
        "Accept: text/csv, streams the same columns of everything that the filters let through.",
        query=MeasurementQuery,
        replies={
            200: Reply(
                description="One page, or the whole table.",
                bodies=(MeasurementPage, MeasurementTable),
                media_types=(JSON, CSV),
                headers={"Vary": "Accept"},
            )
        },
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List measurements."""
    parts = parts_of(request)
    query = read_query(request.scope, MeasurementQuery)
    wanted = _filter(parts, query)
    match given(query.format, "csv" if prefers(request.headers.get("accept"), CSV) else "json"):
        case "csv":
            return _table(parts.sessions, query, wanted)
        case "rows":
            rows = measurements.list_lines(parts.sessions, _page(query), wanted, query.sort)
            items = [row_of(line) for line in rows.items]
            return json_answer(MeasurementTable(columns=COLUMNS, items=items, next_cursor=rows.next_cursor), headers=_VARY)
        case _:
            page = measurements.list_page(parts.sessions, _page(query), wanted, query.sort)
            items_whole = [shape(item) for item in page.items]
            return json_answer(MeasurementPage(items=items_whole, next_cursor=page.next_cursor), headers=_VARY)


def _page(query: MeasurementQuery) -> PageRequest:
    return page_request(given(query.limit, PAGE), query.cursor)


def _table(sessions: Sessions, query: MeasurementQuery, wanted: MeasurementFilter) -> ASGIApp:
    """Return everything as CSV; its first rows are read before it is promised, so that a refusal still is one."""
    for name in ("limit", "cursor"):
        if not isinstance(getattr(query, name), UnsetType):
            message = f"{name} belongs to pages, and CSV is streamed as a whole; leave it out, or ask for format=rows"
            raise InvalidRequestError(message, errors=[{"field": name, "message": message}])
    first = measurements.list_lines(sessions, PageRequest(limit=LARGE_PAGE), wanted, query.sort)
    return ASGIStreamingResponse(
        iterator=_chunks(sessions, first, wanted, query.sort),
        media_type=CSV,
        headers={"content-type": f"{CSV}; charset=utf-8; header=present", **_VARY},
    )


async def _chunks(
    sessions: Sessions, first: Page[MeasurementLine], wanted: MeasurementFilter, sort: MeasurementSort
) -> AsyncIterator[bytes]:
    """Yield the table page by page: no more of it is in memory than one page, and no transaction stays open meanwhile."""
    yield csv_of((row_of(line) for line in first.items), header=True)
    cursor = first.next_cursor
    while cursor is not None:
        request = PageRequest(limit=LARGE_PAGE, cursor=cursor)
        page = await anyio.to_thread.run_sync(partial(measurements.list_lines, sessions, request, wanted, sort))
        yield csv_of(row_of(line) for line in page.items)
        cursor = page.next_cursor


def _filter(parts: Parts, query: MeasurementQuery) -> MeasurementFilter:
    name, gpu, device = optional(query.model), optional(query.gpu), optional(query.device)
    known = None if name is None else parts.specs.at_hand(name)
    least, most = optional(query.error_at_least), optional(query.error_at_most)
    if least is not None and most is not None and least > most:
        message = f"error_at_least is {least} and error_at_most {most}; no error lies between them"
        raise InvalidRequestError(message, errors=[{"field": "error_at_least", "message": message}])
    return MeasurementFilter(
        model=name if known is None else known.name,
        gpu=None if gpu is None else resolve_gpu(gpu).name,
        family=optional(query.family),
        task=optional(query.task),
        source=optional(query.source),
        status=optional(query.status),
        device=None if device is None else device.value,
        created_after=optional(query.created_after),
        created_before=optional(query.created_before),
        error_at_least=least,
        error_at_most=most,
    )
