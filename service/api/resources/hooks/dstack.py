"""POST /v1/hooks/dstack/{mode}/apply_policies/{policy}: dstack's REST plugin."""

from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.decoding import read_body
from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.hooks.deciding import decide_submission, decide_unreadable
from service.api.resources.hooks.modes import read_mode
from service.api.resources.hooks.reading import read_contained, run_beside
from service.base.errors import NotFoundError
from service.contract.schemas.hooks.dstack import (
    DstackAnswer,
    DstackPolicy,
    DstackPolicyName,
    DstackRequest,
)
from service.contract.schemas.hooks.kubernetes import HookMode
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.dstack import change_run, name_question, read_run
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import Action

_SPEC = {
    "run_name": "tune",
    "configuration": {
        "type": "task",
        "nodes": 1,
        "commands": ["torchrun train.py"],
        "env": {"HEADROOM_QUESTION": "llama-2-7b --task train --sequence-length 4096"},
        "resources": {
            "gpu": {"name": ["A100"], "count": {"min": 1, "max": 1}, "memory": {"min": 80.0}}
        },
    },
}


@post(
    "/{mode:str}/apply_policies/{policy:str}",
    status_code=200,
    operation=Operation(
        id="judgeDstackSpec",
        tag="hooks",
        summary="Judge a run of dstack: let it pass, refuse or change it.",
        description=(
            "dstack's REST plugin. The question is the run's variable `HEADROOM_QUESTION`, the "
            "`#HEADROOM` lines of its commands, or what they launch. Fleets, volumes and gateways "
            "pass as they are."
        ),
        body=DstackRequest,
        path={"mode": HookMode, "policy": DstackPolicyName},
        problems=(404, *BODY_PROBLEMS),
        example={"user": "ann", "project": "main", "spec": _SPEC},
        replies={
            200: Reply(description="The specification as it is applied.", bodies=(DstackAnswer,))
        },
    ),
)
async def judge_spec(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Judge what is applied."""
    mode, policy = read_mode(request), _read_policy(request)
    applied = await run_beside(body, partial(read_body, request.scope, body, DstackRequest))
    if policy is not DstackPolicy.RUN:
        return json_response(DstackAnswer(spec=applied.spec))
    user, project = applied.user or None, applied.project or None
    try:
        read = partial(read_run, applied.spec, user=user, project=project)
        run = await read_contained(request, body, read)
    except EstimatorError as error:
        unread = Submission(scheduler="dstack", user=user, queue=project)
        decision = decide_unreadable(request, unread, mode, error)
    else:
        decision = await decide_submission(request, run, mode)
    if decision.action is Action.REFUSE:
        return json_response(DstackAnswer(spec=applied.spec, error=decision.sentence))
    spec = applied.spec
    if decision.action is Action.CHANGE and decision.per_node is not None:
        spec = change_run(spec, decision.per_node)
    if decision.question is not None:
        spec = name_question(spec, decision.question.digest)
    return json_response(DstackAnswer(spec=spec))


def _read_policy(request: Request[Any, Any, Any]) -> DstackPolicy:
    word = str(request.path_params["policy"])
    try:
        return DstackPolicy(word)
    except ValueError:
        message = f"dstack has no policy {word[:40]!r}; it has {', '.join(DstackPolicy)}"
        raise NotFoundError(message) from None


router = Router(path="/v1/hooks/dstack", route_handlers=[judge_spec])
