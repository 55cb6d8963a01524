"""POST /v1/launches/import: launch files, commands and scripts' arguments as questions."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.from_thread
from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.computing.budgets import Budget
from service.api.computing.reading import SMALL_BYTES
from service.api.http.computing import compute_import, run_in_thread_until_disconnect
from service.api.http.decoding import read_json, require_json
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.handed_in.checkpoints import Checkpoints, read_with_models
from service.api.resources.handed_in.jobs import read_launch_body
from service.api.resources.resolving import resolve_model
from service.contract.schemas.imports.launches import LaunchImportAnswer, LaunchImportRequest
from service.contract.schemas.models import HubToken
from service.contract.to_answer.imports.launches import build_launch_answer
from service.contract.to_question.launches import LaunchQuestion, find_by, read_launch_by

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
    require_json(request.scope)
    find = find_by(partial(resolve_model, get_dependencies(request), scope=request.scope))
    if len(body) <= SMALL_BYTES:
        question = read_launch_by(read_json(body, LaunchImportRequest), find)
    else:
        question = read_with_models(LargeLaunch(request=request, body=body).read, find)
    return json_response(build_launch_answer(question))


@dataclass(slots=True, kw_only=True)
class LargeLaunch:
    """A launch that is read in a process of its own.

    It is read anew with each model that it asks for, and all of that has one budget.
    """

    request: Request[Any, Any, Any]
    body: RawBody
    spent_s: float = 0.0

    def read(self, checkpoints: Checkpoints) -> LaunchQuestion:
        """Read it with models that are given.

        It takes a turn at files, which ends before anybody waits for a database or a hub.
        """
        read = partial(self._read_at_turn, checkpoints)
        return anyio.from_thread.run(compute_import, self.request, read)

    def _read_at_turn(self, checkpoints: Checkpoints, budget: Budget) -> LaunchQuestion:
        budget.earlier_s = self.spent_s
        try:
            return get_dependencies(self.request).files.call(
                partial(read_launch_body, self.body, checkpoints), len(self.body), budget
            )
        finally:
            self.spent_s += budget.count()


router = Router(path="/v1/launches", route_handlers=[import_launch])
