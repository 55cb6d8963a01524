"""POST /v1/launches/import: launch files, commands and scripts' arguments as questions."""

from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.computing import run_in_thread_until_disconnect
from service.api.http.decoding import read_body
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.resolving import resolve_model
from service.contract.schemas.imports.launches import LaunchImportAnswer, LaunchImportRequest
from service.contract.schemas.models import HubToken
from service.contract.to_answer.imports.launches import build_launch_answer
from service.contract.to_question.launches import read_launch_request

EXAMPLE = {
    "launcher": "trl_sft",
    "arguments": {
        "per_device_train_batch_size": 2,
        "max_length": 2048,
        "peft": {"r": 16, "target_modules": "all-linear"},
        "model_kwargs": {"dtype": "bfloat16"},
    },
    "model": "llama-3-8b",
    "gpu": "H100-SXM5-80GB",
}


@post(
    "/import",
    status_code=200,
    operation=Operation(
        id="importLaunch",
        tag="launches",
        summary="Read a launch file, a command or a script's arguments as a question.",
        description="Every setting is read, known to have no effect, or ignored and named. What "
        "the launch leaves open is asked in `questions`; `question` is a body of /v1/fit, whole "
        "where nothing is `missing`. Nothing is run or stored.",
        body=LaunchImportRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={200: Reply(description="The question.", bodies=(LaunchImportAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def import_launch(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Read a launch as a question."""
    return await run_in_thread_until_disconnect(request, partial(_import, request, body))


def _import(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    deps = get_dependencies(request)
    payload = read_body(request.scope, body, LaunchImportRequest)
    question = read_launch_request(payload, partial(resolve_model, deps, scope=request.scope))
    return json_response(build_launch_answer(question))


router = Router(path="/v1/launches", route_handlers=[import_launch])
