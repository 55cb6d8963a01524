"""POST /v1/hooks/slurm: what Slurm's cli_filter asks before a job is submitted."""

from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.decoding import read_body
from service.api.http.negotiation import is_text_preferred
from service.api.http.operation import BODY_PROBLEMS, JSON, Operation, Reply
from service.api.http.responses import json_response, text_response
from service.api.resources.hooks.deciding import decide_submission, decide_unreadable
from service.api.resources.hooks.modes import read_mode
from service.api.resources.hooks.reading import read_contained, run_beside
from service.contract.schemas.hooks.kubernetes import HookMode
from service.contract.schemas.hooks.slurm import SlurmAnswer, SlurmSubmission
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.slurm import SlurmJob, make_comment, make_options, read_options
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import Action, Decision

_EXAMPLE = {
    "command": "sbatch",
    "options": {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "argv": ["job.sh"]},
    "script": "#!/bin/bash\n#HEADROOM llama-2-7b --task train --sequence-length 4096\n",
}
_OPTIONS: dict[str, Any] = {
    "tag": "hooks",
    "body": SlurmSubmission,
    "example": _EXAMPLE,
    "replies": {
        200: Reply(
            description="What becomes of the job.",
            bodies=(SlurmAnswer,),
            media_types=(JSON, "text/plain"),
            headers={"Vary": "Accept"},
        )
    },
}
_DESCRIPTION = (
    "What `deploy/slurm/cli_filter.lua` sends. The question is the variable `HEADROOM_QUESTION`, a "
    "comment that begins with `headroom:`, `#HEADROOM` lines of the script, or what it launches. "
    "Accept: text/plain answers in lines: the action, the sentence, and each option that the job "
    "gets as `name=value`: its GPUs where they are changed, and the comment that names its "
    "question to its nodes. What cannot be read or answered in time passes with a warning, unless "
    "`HEADROOM_HOOK_FAIL` is `closed`."
)


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="reviewSlurmJob",
        summary="Review a job of Slurm's, and warn where it does not fit.",
        description=_DESCRIPTION,
        problems=BODY_PROBLEMS,
        **_OPTIONS,
    ),
)
async def review(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Review a job and warn."""
    return await _review(request, body)


@post(
    "/{mode:str}",
    status_code=200,
    operation=Operation(
        id="reviewSlurmJobInMode",
        summary="Review a job of Slurm's: warn, refuse or change it.",
        description=_DESCRIPTION,
        path={"mode": HookMode},
        problems=(404, *BODY_PROBLEMS),
        **_OPTIONS,
    ),
)
async def review_in_mode(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Review a job in a mode."""
    return await _review(request, body)


async def _review(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    mode = read_mode(request)
    sent = await run_beside(body, partial(read_body, request.scope, body, SlurmSubmission))
    job: SlurmJob | None = None
    try:
        read = partial(
            read_options,
            sent.command,
            sent.options,
            script=sent.script,
            user=sent.user,
            environment=sent.environment,
        )
        job = await read_contained(request, body, read)
    except EstimatorError as error:
        unread = Submission(scheduler="slurm", user=sent.user or None)
        decision = decide_unreadable(request, unread, mode, error)
    else:
        decision = await decide_submission(request, job.submission, mode)
    options = _list_options(sent, job, decision)
    if is_text_preferred(request.headers.get("accept")):
        lines = [decision.action.value, decision.sentence]
        return text_response(
            "\n".join([*lines, *(f"{name}={value}" for name, value in options.items())])
        )
    answer = SlurmAnswer(
        action=decision.action,
        verdict=decision.verdict,
        sentence=decision.sentence,
        gpu=decision.gpu,
        options=options,
    )
    return json_response(answer, headers={"vary": "Accept"})


def _list_options(
    sent: SlurmSubmission, job: SlurmJob | None, decision: Decision
) -> dict[str, str]:
    """Return the options that a job gets before it is submitted."""
    if job is None or decision.action is Action.REFUSE:
        return {}
    options: dict[str, str] = {}
    if decision.action is Action.CHANGE and decision.per_node is not None:
        options |= make_options(job, decision.per_node)
    if decision.question is not None:
        options["comment"] = make_comment(sent.options, decision.question.digest)
    return options


router = Router(path="/v1/hooks/slurm", route_handlers=[review, review_in_mode])
