"""POST /v1/hooks/kueue/{mode}: what ``headroom kueue`` asks about jobs that Kueue holds.

It asks again and again: what is decided alike has one row a day.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.decoding import read_body
from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.hooks.deciding import decide_alternatives, decide_unreadable
from service.api.resources.hooks.kubernetes import EXAMPLE as REVIEW
from service.api.resources.hooks.modes import read_mode
from service.api.resources.hooks.reading import read_contained, run_beside
from service.contract.schemas.hooks.kubernetes import HookMode
from service.contract.schemas.hooks.kueue import KueueAnswer, KueueRequest
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.kubernetes import PodJob, make_patch, name_object, read_object
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import Action, Decision

_SCHEDULER = "kueue"


@post(
    "/{mode:str}",
    status_code=200,
    operation=Operation(
        id="judgeKueueJob",
        tag="hooks",
        summary="Judge a job that Kueue holds: let it pass, refuse or change it.",
        description=(
            "What `headroom kueue` asks about jobs behind its gate, and about Workloads with its "
            "AdmissionCheck. The question is that of POST /v1/hooks/kubernetes."
        ),
        body=KueueRequest,
        path={"mode": HookMode},
        problems=(404, *BODY_PROBLEMS),
        example={"objects": [REVIEW["request"]["object"]]},  # type: ignore[index]  # a literal above
        replies={200: Reply(description="What becomes of the job.", bodies=(KueueAnswer,))},
    ),
)
async def judge_job(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Judge a job."""
    mode = read_mode(request)
    payload = await run_beside(body, partial(read_body, request.scope, body, KueueRequest))
    jobs: list[PodJob | None] = []
    try:
        jobs += await read_contained(request, body, partial(_read_objects, payload))
    except EstimatorError as error:
        unread = replace(name_object(payload.objects[0]), scheduler=_SCHEDULER)
        decision = decide_unreadable(
            request, unread, mode, error, fails_closed=payload.fails_closed
        )
        return json_response(_build_answer(0, None, decision))
    choice, decision = await decide_alternatives(
        request,
        [_submit(job, payload) for job in jobs],
        mode,
        fails_closed=payload.fails_closed,
        is_last=payload.is_last,
    )
    return json_response(_build_answer(choice, jobs[choice], decision))


def _read_objects(payload: KueueRequest) -> list[PodJob | None]:
    return [read_object(document) for document in payload.objects]


def _submit(job: PodJob | None, payload: KueueRequest) -> Submission | None:
    if job is None:
        return None
    return replace(job.submission, scheduler=_SCHEDULER, is_placed=payload.is_placed)


def _build_answer(choice: int, job: PodJob | None, decision: Decision) -> KueueAnswer:
    is_changed = decision.action is Action.CHANGE and job is not None
    return KueueAnswer(
        choice=choice,
        verdict=decision.verdict,
        action=decision.action,
        sentence=decision.sentence,
        gpu=decision.gpu,
        operations=make_patch(job, decision.per_node)
        if is_changed and job is not None and decision.per_node is not None
        else [],
        is_transient=decision.is_transient,
    )


router = Router(path="/v1/hooks/kueue", route_handlers=[judge_job])
