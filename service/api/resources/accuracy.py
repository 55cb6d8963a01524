"""/v1/accuracy: how far answers were from what was measured here."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.dependencies import parts_of
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_answer
from service.catalog.gpus import resolve_gpu
from service.contract.schemas.calibrations import AccuracyAnswer, AccuracyQuery, ClassAnswer, ErrorAnswer, ShippedAnswer
from service.contract.schemas.fields import optional
from service.estimator.memory.intervals.ends import LEVEL, PER_MILLION, width_of
from service.estimator.memory.intervals.table import WIDTHS
from service.usecases.learning.accuracy import accuracy
from service.usecases.stored import AccuracyFilter, ClassAccuracy, ErrorSummary


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="readAccuracy",
        tag="calibrations",
        summary="Say how far answers were from what was measured here, before and after calibration.",
        description="`after` is honest: each measurement is held against an answer that rests on all others but not on it.",
        query=AccuracyQuery,
        replies={200: Reply(description="By kind of run and quantity, the largest class first.", bodies=(AccuracyAnswer,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def read(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say how far answers were from what was measured here."""
    classes = accuracy(parts_of(request).sessions, _filter(read_query(request.scope, AccuracyQuery)))
    shipped = [_shipped(kind, quantity) for kind, quantity in sorted(WIDTHS)]
    return json_answer(AccuracyAnswer(level=LEVEL, classes=[_class(each) for each in classes], shipped=shipped))


def _shipped(kind: str, quantity: str) -> ShippedAnswer:
    low, high = width_of(kind, quantity)
    return ShippedAnswer(kind=kind, quantity=quantity, low=low / PER_MILLION, high=high / PER_MILLION)


def _filter(query: AccuracyQuery) -> AccuracyFilter:
    gpu, device = optional(query.gpu), optional(query.device)
    return AccuracyFilter(
        family=optional(query.family),
        gpu=None if gpu is None else resolve_gpu(gpu).name,
        device=None if device is None else device.value,
        quantity=optional(query.quantity),
        since=optional(query.since),
    )


def _class(found: ClassAccuracy) -> ClassAnswer:
    return ClassAnswer(
        kind=found.kind,
        quantity=found.quantity,
        count=found.count,
        before=_errors(found.before),
        after=_errors(found.after),
    )


def _errors(found: ErrorSummary) -> ErrorAnswer:
    return ErrorAnswer(median=found.median, p95=found.p95, bias=found.bias, coverage=found.coverage, width=found.width)


router = Router(path="/v1/accuracy", route_handlers=[read])
