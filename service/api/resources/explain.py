"""POST /v1/explain: why a run failed for memory."""

from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp
from msgspec import UnsetType, structs

from service.api.computing.budgets import Budget
from service.api.computing.searches import FailureJob, predict_failure
from service.api.http.computing import compute_import, compute_search, run_search
from service.api.http.decoding import require_json
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.handed_in.bodies import read_failure
from service.api.resources.resolving import bring_draft, resolve_model
from service.contract.schemas.explain.answer import ExplainAnswer
from service.contract.schemas.explain.limits import MAX_EXPLAIN_BYTES
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.schemas.models import HubToken
from service.contract.to_answer.explanations import build_explain_answer
from service.contract.to_question.explanations import read_explained_question
from service.contract.to_question.models import prefix_error_field
from service.usecases.postmortem.values import Explanation
from service.usecases.questions.fit import FitQuestion

EXAMPLE = {
    "content": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total "
        "capacity of 14.61 GiB of which 1.99 GiB is free. Including non-PyTorch memory, this "
        "process has 12.62 GiB memory in use. Of the allocated memory 8.50 GiB is allocated by "
        "PyTorch, and 3.96 GiB is reserved by PyTorch but unallocated."
    )
}


@post(
    "/",
    status_code=200,
    request_max_body_size=MAX_EXPLAIN_BYTES,
    operation=Operation(
        id="explain",
        tag="explain",
        summary="Say why a run failed for memory, and what would have fitted.",
        description="Reads PyTorch's out-of-memory messages with their traceback, the refusals of "
        "vLLM, SGLang, TGI and llama.cpp, errors of NCCL and of CUDA's libraries, what the kernel, "
        "Slurm and Kubernetes say of killed processes, and memory snapshots. With a `question` it "
        "says what was predicted, and what would help. Nothing is stored.",
        body=ExplainRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={
            200: Reply(description="The failure, its causes and changes.", bodies=(ExplainAnswer,))
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def explain(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say why a run failed for memory."""
    deps = get_dependencies(request)
    require_json(request.scope)
    payload, explanation = await compute_import(
        request, partial(deps.files.read, read_failure, body)
    )
    return await compute_search(
        request,
        partial(_read_question, request, payload),
        partial(_explain, deps, explanation),
    )


def _read_question(request: Request[Any, Any, Any], payload: ExplainRequest) -> FitQuestion | None:
    """Return what ran."""
    deps = get_dependencies(request)
    if not isinstance(payload.question, UnsetType):
        brought = bring_draft(deps, payload.question, request.scope)
        payload = structs.replace(payload, question=brought)
    question = read_explained_question(payload, partial(resolve_model, deps, scope=request.scope))
    if question is not None:
        with prefix_error_field("question"):
            deps.cluster_names.require(question.cluster)
    return question


def _explain(
    deps: Dependencies, explanation: Explanation, question: FitQuestion | None, budget: Budget
) -> ASGIApp:
    prediction = None
    if question is not None:
        with prefix_error_field("question"):
            job = FailureJob(explanation=explanation, question=question)
            explanation, prediction = run_search(deps, predict_failure, job, budget)
    return json_response(build_explain_answer(explanation, prediction))


router = Router(path="/v1/explain", route_handlers=[explain])
