"""POST /v1/fit: answered in the event loop, from memory; only a name that this process never saw asks the database.

What takes longer is found beside the event loop: the first answer about a configuration, and what would help where it does
not fit, which is dozens of questions. Both are given up when whoever asked has left, as a page does at the next key.
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
from service.api.http.dependencies import Parts, parts_of
from service.api.http.disconnect import unless_left, while_wanted
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_answer
from service.api.resources.batch import fit_batch
from service.api.resources.resolving import resolve_model
from service.contract.schemas.fit import FitAnswer, FitRequest, ModelReference
from service.contract.to_answer.fits import fit_answer
from service.contract.to_question.fits import ResolvedModel, read_fit
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import Verdict
from service.telemetry.spans import span
from service.usecases.questions.fit import FitQuestion, help_fit, judge_fit

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
        description="Answers at once. That it does not fit is an answer, with the deficit and what would help.",
        body=FitRequest,
        example=EXAMPLE,
        replies={200: Reply(description="The verdict, and everything it rests on.", bodies=(FitAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def fit(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say whether a workload fits."""
    parts = parts_of(request)
    asked = read_body(request.scope, body, FitRequest)
    question = read_fit(asked, await _model(parts, asked.model))
    if not parts.answered.knows(question):
        return await unless_left(request, partial(_first_answer, parts, question, is_helped=asked.remedies))
    with span("fit.judge"):
        report = judge_fit(question, plans=parts.plans, find_corrections=parts.corrections.find)
    if asked.remedies and report.verdict is not Verdict.FITS:
        return await unless_left(request, partial(_with_help, parts, question, report, parts.helping))
    return _answer(parts, question, report)


async def _first_answer(parts: Parts, question: FitQuestion, *, is_helped: bool) -> ASGIApp:
    plans = parts.plans.given_up_by(check_cancelled)
    judge = partial(judge_fit, question, plans=plans, find_corrections=parts.corrections.find)
    with span("fit.judge"):
        report = await anyio.to_thread.run_sync(judge, limiter=parts.recording)
    parts.answered.note(question)
    if is_helped and report.verdict is not Verdict.FITS:
        return await _with_help(parts, question, report, parts.recording)
    return _answer(parts, question, report)


async def _with_help(parts: Parts, question: FitQuestion, report: FitReport, limiter: CapacityLimiter) -> ASGIApp:
    find, plans = while_wanted(parts.corrections.find), parts.plans.given_up_by(check_cancelled)
    with span("fit.help"):
        helped = await anyio.to_thread.run_sync(help_fit, report, question, plans, find, limiter=limiter)
    return _answer(parts, question, helped)


def _answer(parts: Parts, question: FitQuestion, report: FitReport) -> ASGIApp:
    parts.metrics.count_fit(report.verdict.value)
    return json_answer(fit_answer(report, assumptions=question.assumptions))


async def _model(parts: Parts, reference: ModelReference) -> ResolvedModel:
    if isinstance(reference, str) and parts.specs.at_hand(reference) is None:
        return await anyio.to_thread.run_sync(partial(resolve_model, parts.specs, reference))
    return resolve_model(parts.specs, reference)


router = Router(path="/v1/fit", route_handlers=[fit, fit_batch])
