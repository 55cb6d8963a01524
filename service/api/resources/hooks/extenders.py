"""Extenders of kube-scheduler and Volcano: where a pod may run.

A node is left out where its GPU cannot hold the pod's question; nothing is known of nodes without a
label of their GPU, and they stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.hooks.deciding import decide_submission
from service.api.resources.hooks.extender_bodies import (
    MAX_EXTENDER_BYTES,
    read_extender_args,
    read_job,
    read_placement,
    read_predicate,
    read_prioritization,
)
from service.api.resources.hooks.faults import contain_faults
from service.api.resources.hooks.modes import read_mode
from service.catalog.gpus import find_driver_name
from service.contract.schemas.hooks.extenders import (
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
    JobEnqueueableAnswer,
    JobEnqueueableRequest,
    PredicateAnswer,
    PredicateRequest,
    PrioritizeAnswer,
    PrioritizeRequest,
)
from service.contract.schemas.hooks.kubernetes import HookMode
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.extenders import LabelledNode, read_pod
from service.formats.submissions.submission import GpuRequest, Submission
from service.usecases.hooks.decision import Action, Decision, Mode
from service.usecases.hooks.nodes import rank_skus, settle_node

_KUBE, _VOLCANO = "kube_scheduler", "volcano"
_MAX_SKUS = 16
"""Kinds of GPUs of one call that are answered for; nodes with others stay."""
_UNRESOLVABLE, _REJECT, _ABSTAIN = 3, -1, 0
"""Volcano's ``UnschedulableAndUnresolvable``, and its votes ``Reject`` and ``Abstain``."""
_DESCRIPTION = (
    "The question is that of the pod: its annotation `headroom.dev/question`, its variable "
    "`HEADROOM_QUESTION`, or what it launches. `warn` leaves no node out."
)
AnyRequest = Request[Any, Any, Any]


def _describe(name: str, summary: str, body: type, answer: object) -> Operation:
    return Operation(
        id=name,
        tag="hooks",
        summary=summary,
        description=_DESCRIPTION,
        path={"mode": HookMode},
        body=body,
        replies={200: Reply(description="The answer.", bodies=(answer,))},
        problems=(404, *BODY_PROBLEMS),
    )


@post(
    "/kube-scheduler/{mode:str}/filter",
    status_code=200,
    request_max_body_size=MAX_EXTENDER_BYTES,
    operation=_describe(
        "filterNodes",
        "Leave out the nodes of kube-scheduler whose GPUs cannot hold a pod.",
        ExtenderArgs,
        ExtenderFilterResult,
    ),
)
async def filter_nodes(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Leave nodes out."""
    mode = read_mode(request)
    placement = await read_placement(request, body, read_extender_args)
    skus = _find_skus(placement.nodes)
    decisions = await _decide(
        request, _read_pod(request, placement.pod, _KUBE), skus.values(), mode
    )
    failed = {
        name: decisions[sku].sentence
        for name, sku in skus.items()
        if sku in decisions and decisions[sku].action is Action.REFUSE
    }
    pairs = zip(placement.raw_nodes or (), placement.nodes, strict=True)
    left = [raw for raw, node in pairs if node.name not in failed]
    result = ExtenderFilterResult(
        nodes=None
        if placement.raw_nodes is None
        else {"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": left},
        node_names=list(placement.names) or None,
        failed_nodes={},
        failed_and_unresolvable_nodes=failed,
        error="",
    )
    return json_response(result)


@post(
    "/kube-scheduler/{mode:str}/prioritize",
    status_code=200,
    request_max_body_size=MAX_EXTENDER_BYTES,
    operation=_describe(
        "prioritizeNodes",
        "Prefer the cheapest nodes of kube-scheduler that hold a pod.",
        ExtenderArgs,
        list[HostPriority],
    ),
)
async def prioritize_nodes(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Score nodes."""
    read_mode(request)
    placement = await read_placement(request, body, read_extender_args)
    scores = await _score(request, _read_pod(request, placement.pod, _KUBE), placement.nodes)
    names = [node.name for node in placement.nodes] or placement.names
    return json_response([HostPriority(host=name, score=scores.get(name, 0)) for name in names])


@post(
    "/volcano/{mode:str}/predicate",
    status_code=200,
    request_max_body_size=MAX_EXTENDER_BYTES,
    operation=_describe(
        "predicateNode",
        "Say whether a task of Volcano may run on a node.",
        PredicateRequest,
        PredicateAnswer,
    ),
)
async def predicate_node(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Let a task run on a node, or not."""
    mode = read_mode(request)
    placement = await read_placement(request, body, read_predicate)
    skus = _find_skus(placement.nodes)
    decisions = await _decide(
        request, _read_pod(request, placement.pod, _VOLCANO), skus.values(), mode
    )
    refused = (each for each in decisions.values() if each.action is Action.REFUSE)
    line = next((decision.sentence for decision in refused), "")
    return json_response(PredicateAnswer(status=line, code=_UNRESOLVABLE if line else 0))


@post(
    "/volcano/{mode:str}/prioritize",
    status_code=200,
    request_max_body_size=MAX_EXTENDER_BYTES,
    operation=_describe(
        "prioritizeVolcanoNodes",
        "Prefer the cheapest nodes that hold a task of Volcano.",
        PrioritizeRequest,
        PrioritizeAnswer,
    ),
)
async def prioritize_volcano_nodes(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Score nodes."""
    read_mode(request)
    placement = await read_placement(request, body, read_prioritization)
    scores = await _score(request, _read_pod(request, placement.pod, _VOLCANO), placement.nodes)
    by_node = {node.name: float(scores.get(node.name, 0)) for node in placement.nodes}
    return json_response(PrioritizeAnswer(node_score=by_node, error_message=""))


@post(
    "/volcano/{mode:str}/jobEnqueueable",
    status_code=200,
    request_max_body_size=MAX_EXTENDER_BYTES,
    operation=_describe(
        "enqueueJob",
        "Say whether a job of Volcano may be queued.",
        JobEnqueueableRequest,
        JobEnqueueableAnswer,
    ),
)
async def enqueue_job(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Let a job be queued, or not."""
    mode = read_mode(request)
    placement = await read_placement(request, body, read_job)
    submission = _read_pod(request, placement.pod, _VOLCANO)
    decision = await decide_submission(
        request, submission, mode, settle=partial(settle_node, mode=mode)
    )
    is_refused = decision.action is Action.REFUSE
    return json_response(JobEnqueueableAnswer(status=_REJECT if is_refused else _ABSTAIN))


def _read_pod(
    request: AnyRequest, pod: Mapping[str, object] | None, scheduler: str
) -> Submission | None:
    """Return a pod as a submission, None where it is none."""
    try:
        with contain_faults(request):
            return None if pod is None else read_pod(pod, scheduler)
    except EstimatorError:
        return None


def _find_skus(nodes: Iterable[LabelledNode]) -> dict[str, str]:
    """Return the SKU of each node whose GPU is known."""
    kinds: dict[str, tuple[str, int | None]] = {
        node.name: (node.product, node.memory_bytes) for node in nodes if node.product is not None
    }
    answered = list(dict.fromkeys(kinds.values()))[:_MAX_SKUS]
    skus = {kind: find_driver_name(*kind) for kind in answered}
    return {name: sku for name, kind in kinds.items() if (sku := skus.get(kind)) is not None}


async def _score(
    request: AnyRequest, submission: Submission | None, nodes: Sequence[LabelledNode]
) -> dict[str, int]:
    skus = _find_skus(nodes)
    # A ranking refuses nothing: it is counted, and the log has what the filter decided.
    ranks = rank_skus(await _decide(request, submission, skus.values(), Mode.WARN, is_logged=False))
    return {name: ranks.get(sku, 0) for name, sku in skus.items()}


async def _decide(
    request: AnyRequest,
    submission: Submission | None,
    skus: Iterable[str],
    mode: Mode,
    *,
    is_logged: bool = True,
) -> dict[str, Decision]:
    """Return what is decided about a job on each SKU."""
    decisions: dict[str, Decision] = {}
    if submission is None:
        return decisions
    gpus = submission.gpus or GpuRequest(per_node=0)

    async def decide(sku: str) -> None:
        requested = replace(submission, gpus=replace(gpus, names=(sku,)))
        decisions[sku] = await decide_submission(
            request,
            requested,
            # A node changes no job.
            Mode.REFUSE if mode is Mode.CHANGE else mode,
            settle=partial(settle_node, mode=mode, sku=sku),
            is_logged=is_logged,
        )

    async with anyio.create_task_group() as group:
        for sku in dict.fromkeys(skus):
            group.start_soon(decide, sku)
    return decisions


router = Router(
    path="/v1/hooks",
    route_handlers=[
        filter_nodes,
        prioritize_nodes,
        predicate_node,
        prioritize_volcano_nodes,
        enqueue_job,
    ],
)
