"""POST /v1/fit: answered from memory, in the event loop.

Only a name that this process never saw asks the database. What takes longer is computed beside the
event loop: the first answer about a configuration, and remedies where it does not fit, which are
dozens of questions. Both are cancelled when the client has left, as a page does at the next key.
"""

from functools import partial
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.from_thread import check_cancelled
from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.decoding import read_body
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.disconnect import make_cancellable, run_until_disconnect
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.batch import fit_batch
from service.api.resources.resolving import resolve_model
from service.contract.schemas.fit import FitAnswer, FitRequest, ModelReference
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_question.fits import ResolvedModel, read_fit
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import Verdict
from service.telemetry.spans import span
from service.usecases.questions.fit import FitQuestion, add_fit_remedies, judge_fit

EXAMPLE = {
    "model": "llama-2-7b",
    "workload": {
        "task": "train",
        "method": "full",
        "precision": "bf16_mixed",
        "optimizer": "adamw",
        "micro_batch_size": 1,
        "sequence_length": 4096,
        "activation_checkpointing": "full",
        "attention": "flash",
    },
    "gpu": "A100-SXM4-80GB",
    "layout": {"data_parallel": 8, "zero_stage": 3, "sharding": "deepspeed"},
}


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="fit",
        tag="fit",
        summary="Say whether a workload fits on a GPU in a layout, and why.",
        description=(
            "Answers at once. That it does not fit is an answer, with the deficit and what would "
            "help."
        ),
        body=FitRequest,
        example=EXAMPLE,
        replies={
            200: Reply(description="The verdict, and everything it rests on.", bodies=(FitAnswer,))
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def fit(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say whether a workload fits."""
    deps = get_dependencies(request)
    payload = read_body(request.scope, body, FitRequest)
    question = read_fit(payload, await _resolve_model(deps, payload.model))
    if not deps.answered_questions.has_answered(question):
        return await run_until_disconnect(
            request, partial(_answer_first, deps, question, is_helped=payload.remedies)
        )
    with span("fit.judge"):
        report = judge_fit(question, plans=deps.plans, find_corrections=deps.corrections.find)
    if payload.remedies and report.verdict is not Verdict.FITS:
        return await run_until_disconnect(
            request, partial(_answer_with_remedies, deps, question, report, deps.remedy_limiter)
        )
    return _respond(deps, question, report)


async def _answer_first(deps: Dependencies, question: FitQuestion, *, is_helped: bool) -> ASGIApp:
    plans = deps.plans.with_cancellation(check_cancelled)
    judge = partial(judge_fit, question, plans=plans, find_corrections=deps.corrections.find)
    with span("fit.judge"):
        report = await anyio.to_thread.run_sync(judge, limiter=deps.first_answer_limiter)
    deps.answered_questions.record(question)
    if is_helped and report.verdict is not Verdict.FITS:
        return await _answer_with_remedies(deps, question, report, deps.first_answer_limiter)
    return _respond(deps, question, report)


async def _answer_with_remedies(
    deps: Dependencies, question: FitQuestion, report: FitReport, limiter: CapacityLimiter
) -> ASGIApp:
    find, plans = (
        make_cancellable(deps.corrections.find),
        deps.plans.with_cancellation(check_cancelled),
    )
    with span("fit.help"):
        remedied = await anyio.to_thread.run_sync(
            add_fit_remedies, report, question, plans, find, limiter=limiter
        )
    return _respond(deps, question, remedied)


def _respond(deps: Dependencies, question: FitQuestion, report: FitReport) -> ASGIApp:
    deps.metrics.count_fit(report.verdict.value)
    return json_response(build_fit_answer(report, assumptions=question.assumptions))


async def _resolve_model(deps: Dependencies, reference: ModelReference) -> ResolvedModel:
    if isinstance(reference, str) and deps.specs.get_cached(reference) is None:
        return await anyio.to_thread.run_sync(partial(resolve_model, deps.specs, reference))
    return resolve_model(deps.specs, reference)


router = Router(path="/v1/fit", route_handlers=[fit, fit_batch])
