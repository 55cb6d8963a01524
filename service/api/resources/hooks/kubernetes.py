"""POST /v1/hooks/kubernetes: an admission webhook for what asks for GPUs."""

import base64
import json
from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp
from msgspec import UNSET

from service.api.http.decoding import read_body
from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.hooks.deciding import decide_submission, decide_unreadable
from service.api.resources.hooks.modes import read_mode
from service.api.resources.hooks.reading import read_contained, run_beside
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.hooks.kubernetes import (
    AdmissionAnswer,
    AdmissionResponse,
    AdmissionReview,
    AdmissionStatus,
    HookMode,
)
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.kubernetes import PodJob, make_patch, name_object, read_object
from service.usecases.hooks.decision import Action, Decision

_REFUSED = 403
EXAMPLE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "namespace": "ml",
        "object": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "tune",
                "annotations": {
                    "headroom.dev/question": "llama-2-7b --gpu A100-SXM4-80GB --task train "
                    "--sequence-length 4096"
                },
            },
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "tune", "resources": {"limits": {"nvidia.com/gpu": 1}}}
                        ]
                    }
                }
            },
        },
    },
}
_OPTIONS: dict[str, Any] = {
    "tag": "hooks",
    "body": AdmissionReview,
    "example": EXAMPLE,
    "replies": {200: Reply(description="What becomes of the object.", bodies=(AdmissionAnswer,))},
}
_DESCRIPTION = (
    "An AdmissionReview of Kubernetes (admission.k8s.io/v1) of a Pod, Job, Deployment, "
    "StatefulSet, LeaderWorkerSet, JobSet, TrainJob or RayJob. The question is the annotation "
    "`headroom.dev/question` (a body of /v1/fit, or words of `headroom fit`), the variable "
    "`HEADROOM_QUESTION`, or what the object launches. What cannot be read or answered in time is "
    "let in with a warning, unless `HEADROOM_HOOK_FAIL` is `closed`."
)


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="reviewObject",
        summary="Review an object of Kubernetes, and warn where it does not fit.",
        description=_DESCRIPTION,
        problems=BODY_PROBLEMS,
        **_OPTIONS,
    ),
)
async def review(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Review an object and warn."""
    return await _review(request, body)


@post(
    "/{mode:str}",
    status_code=200,
    operation=Operation(
        id="reviewObjectInMode",
        summary="Review an object of Kubernetes: warn, refuse or change it.",
        description=_DESCRIPTION,
        path={"mode": HookMode},
        problems=(404, *BODY_PROBLEMS),
        **_OPTIONS,
    ),
)
async def review_in_mode(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Review an object in a mode."""
    return await _review(request, body)


async def _review(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    mode = read_mode(request)
    read = partial(read_body, request.scope, body, AdmissionReview)
    reviewed = (await run_beside(body, read)).request
    user = get_or_none(reviewed.user_info)
    # Of what is not stored there is nothing to look up later.
    is_logged = get_or_none(reviewed.dry_run) is not True
    user_name = None if user is None else user.username
    document = get_or_none(reviewed.object) if reviewed.operation == "CREATE" else None
    job: PodJob | None = None
    try:
        if document is not None:
            job = await read_contained(
                request, body, partial(read_object, document, user=user_name)
            )
    except EstimatorError as error:
        unread = name_object(document or {}, user=user_name)
        decision = decide_unreadable(request, unread, mode, error, is_logged=is_logged)
    else:
        submission = None if job is None else job.submission
        decision = await decide_submission(request, submission, mode, is_logged=is_logged)
    response = _build_response(reviewed.uid, job, decision)
    return json_response(
        AdmissionAnswer(
            api_version="admission.k8s.io/v1", kind="AdmissionReview", response=response
        )
    )


def _build_response(uid: str, job: PodJob | None, decision: Decision) -> AdmissionResponse:
    notes = _note(decision) if decision.sentence else UNSET
    if decision.action is Action.REFUSE:
        return AdmissionResponse(
            uid=uid,
            allowed=False,
            status=AdmissionStatus(code=_REFUSED, message=decision.sentence),
            audit_annotations=notes,
        )
    says = decision.action in {Action.WARN, Action.CHANGE} and decision.sentence
    remarks = () if job is None else job.remarks
    patch = None
    if decision.action is Action.CHANGE and job is not None and decision.per_node is not None:
        patch = base64.b64encode(json.dumps(make_patch(job, decision.per_node)).encode()).decode()
    return AdmissionResponse(
        uid=uid,
        allowed=True,
        warnings=(decision.sentence, *remarks) if says else remarks,
        patch_type=None if patch is None else "JSONPatch",
        patch=patch,
        audit_annotations=notes,
    )


def _note(decision: Decision) -> dict[str, str]:
    """Return the notes of the cluster's audit log.

    `headroom kueue` reads them too.
    """
    notes = {"decision": decision.sentence, "verdict": decision.verdict.value}
    if decision.gpu is not None:
        notes["gpu"] = decision.gpu
    if decision.is_transient:
        notes["transient"] = "true"
    return notes


router = Router(path="/v1/hooks/kubernetes", route_handlers=[review, review_in_mode])
