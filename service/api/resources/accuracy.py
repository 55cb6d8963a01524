"""/v1/accuracy: errors of answers against what was measured here."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.catalog.gpus import resolve_device
from service.contract.schemas.calibrations import (
    AccuracyAnswer,
    AccuracyQuery,
    ClassAnswer,
    ErrorAnswer,
    ShippedAnswer,
)
from service.contract.schemas.fields import get_or_none
from service.estimator.memory.intervals.ends import LEVEL, PER_MILLION, get_residual_ends
from service.estimator.memory.intervals.table import WIDTHS
from service.usecases.learning.accuracy import read_accuracy
from service.usecases.stored import AccuracyFilter, ClassAccuracy, ErrorSummary


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="readAccuracy",
        tag="calibrations",
        summary=(
            "Say how far answers were from what was measured here, before and after calibration."
        ),
        description=(
            "`after` is honest: each measurement is held against an answer that rests on all "
            "others but not on it."
        ),
        query=AccuracyQuery,
        replies={
            200: Reply(
                description="By kind of run, quantity and GPU, the largest class first.",
                bodies=(AccuracyAnswer,),
            ),
        },
        problems=(422, *STORED_PROBLEMS),
    ),
)
def read(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say how far answers were from what was measured here."""
    classes = read_accuracy(
        get_dependencies(request).sessions, _build_filter(read_query(request.scope, AccuracyQuery))
    )
    shipped = [_build_shipped(kind, quantity) for kind, quantity in sorted(WIDTHS)]
    return json_response(
        AccuracyAnswer(level=LEVEL, classes=[_build_class(row) for row in classes], shipped=shipped)
    )


def _build_shipped(kind: str, quantity: str) -> ShippedAnswer:
    low, high = get_residual_ends(kind, quantity)
    return ShippedAnswer(
        kind=kind, quantity=quantity, low=low / PER_MILLION, high=high / PER_MILLION
    )


def _build_filter(query: AccuracyQuery) -> AccuracyFilter:
    gpu, device = get_or_none(query.gpu), get_or_none(query.device)
    return AccuracyFilter(
        family=get_or_none(query.family),
        gpu=None if gpu is None else resolve_device(gpu).name,
        device=None if device is None else device.value,
        quantity=get_or_none(query.quantity),
        since=get_or_none(query.since),
    )


def _build_class(row: ClassAccuracy) -> ClassAnswer:
    return ClassAnswer(
        kind=row.kind,
        quantity=row.quantity,
        gpu=row.gpu,
        count=row.count,
        before=_build_errors(row.before),
        after=_build_errors(row.after),
    )


def _build_errors(summary: ErrorSummary) -> ErrorAnswer:
    return ErrorAnswer(
        median=summary.median,
        p95=summary.p95,
        bias=summary.bias,
        coverage=summary.coverage,
        width=summary.width,
    )


router = Router(path="/v1/accuracy", route_handlers=[read])
