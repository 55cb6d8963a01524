"""POST /v1/hooks/skypilot/{mode}: SkyPilot's RESTful admin policy."""

from functools import partial
from typing import Any

import msgspec
from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.decoding import read_json, require_json
from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response, text_response
from service.api.resources.hooks.deciding import decide_submission, decide_unreadable
from service.api.resources.hooks.modes import read_mode
from service.api.resources.hooks.reading import read_contained, run_beside
from service.base.typed import get_decoder
from service.contract.schemas.hooks.kubernetes import HookMode
from service.contract.schemas.hooks.skypilot import SkyPilotAnswer, SkyPilotRequest
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.skypilot import (
    SkyTask,
    change_task,
    name_question,
    read_task,
    read_user,
    write_task,
)
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import Action

_REFUSED = 400
"""The one status whose text SkyPilot shows."""
_TASK = """\
resources:
  accelerators: {A100-80GB: 1}
envs:
  HEADROOM_QUESTION: llama-2-7b --task train --sequence-length 4096
run: torchrun train.py
"""


@post(
    "/{mode:str}",
    status_code=200,
    operation=Operation(
        id="judgeSkyPilotTask",
        tag="hooks",
        summary="Judge a task of SkyPilot: let it pass, refuse or change it.",
        description=(
            "SkyPilot's RESTful admin policy. The body is a JSON object, or, as SkyPilot sends it, "
            "a JSON string of one; the answer has the same form. A refusal is `400` with one line "
            "as text, which SkyPilot shows. The question is the task's variable "
            "`HEADROOM_QUESTION`, its `#HEADROOM` lines, or what `run` launches."
        ),
        body=SkyPilotRequest,
        path={"mode": HookMode},
        problems=(404, *BODY_PROBLEMS),
        example={"task": _TASK, "skypilot_config": "{}", "request_name": "launch"},
        replies={200: Reply(description="The task as it is launched.", bodies=(SkyPilotAnswer,))},
    ),
)
async def judge_task(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Judge a task."""
    mode = read_mode(request)
    require_json(request.scope)
    is_text = body.lstrip().startswith(b'"')
    applied = await run_beside(body, partial(_read_request, body, is_text=is_text))
    task: SkyTask | None = None
    try:
        task = await read_contained(request, body, partial(_read_task, applied))
    except EstimatorError as error:
        decision = decide_unreadable(request, Submission(scheduler="skypilot"), mode, error)
    else:
        decision = await decide_submission(request, task.submission, mode)
    if decision.action is Action.REFUSE:
        return text_response(decision.sentence, status=_REFUSED)
    changed = task
    if decision.action is Action.CHANGE and changed is not None and decision.per_node is not None:
        changed = change_task(changed, decision.per_node)
    if decision.question is not None and changed is not None:
        changed = name_question(changed, decision.question.digest)
    text = applied.task
    if changed is not None and changed is not task:
        # What is not touched stays as its user wrote it.
        text = await run_beside(body, partial(write_task, changed))
    answer = SkyPilotAnswer(task=text, skypilot_config=applied.skypilot_config)
    return json_response(msgspec.json.encode(answer).decode() if is_text else answer)


def _read_request(body: bytes, *, is_text: bool) -> SkyPilotRequest:
    return read_json(_unwrap(body) if is_text else body, SkyPilotRequest)


def _read_task(applied: SkyPilotRequest) -> SkyTask:
    return read_task(applied.task, user=read_user(applied.user))


def _unwrap(body: bytes) -> bytes:
    """Return the document in a JSON string.

    What is none is refused by whoever reads it.
    """
    try:
        text: str = get_decoder(str).decode(body)
    except msgspec.DecodeError:
        return body
    return text.encode()


router = Router(path="/v1/hooks/skypilot", route_handlers=[judge_task])
