"""POST /v1/measurements/import: measurements taken without a probe."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from litestar import Request, post
from litestar.params import RawBody
from litestar.types import ASGIApp, HTTPScope
from msgspec import UNSET, UnsetType, structs

from service.access.keys import Scope
from service.api.computing.budgets import Budget
from service.api.http.computing import compute_import
from service.api.http.decoding import require_json
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.handed_in.bodies import read_measured_file
from service.api.resources.measurements.field_data import get_claimant
from service.api.resources.resolving import resolve_model
from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_gpu
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.imports.measurements import (
    MAX_IMPORT_BYTES,
    ImportAnswer,
    ImportEnvironment,
    ImportItem,
    ImportJob,
    ImportMatch,
    ImportRequest,
    LeftOutAnswer,
    ReadingAnswer,
)
from service.contract.schemas.models import HubToken
from service.contract.schemas.serving import ServeRequest
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import prefix_error_field
from service.contract.to_question.validation_errors import decode
from service.contract.to_question.workloads import read_workload
from service.formats.measured.observe import Match
from service.formats.measured.reading import Parsed
from service.jobs.contract import ModelSource
from service.usecases.hooks.log import find_question
from service.usecases.hooks.pods import Pod, find_pod_question
from service.usecases.imports import imports, stored_imports
from service.usecases.imports.identities import make_reading_document
from service.usecases.imports.imports import ImportQuestion, ImportReport, Item
from service.usecases.jobs.measurable import refuse_recording

MAX_LEFT_OUT = 100
EXAMPLE = {
    "content": "JobID|JobName|NTasks|AllocTRES|TRESUsageInMax\n18194943|sft||cpu=8,gres/gpu:a100=1|\n"  # noqa: E501
    "18194943.batch|batch|1|cpu=8,gres/gpu:a100=1|cpu=00:56:24,gres/gpumem=38888M,gres/gpuutil=100\n",
    "model": "llama-3.2-1b",
    "workload": {"task": "train", "sequence_length": 2048, "precision": "bf16"},
    "gpu": "A100-SXM4-80GB",
    "dry_run": True,
}
ANSWER_EXAMPLE = {
    "dry_run": True,
    "format": "sacct",
    "num_stored": 0,
    "items": [
        {
            "job": "18194943",
            "status": "new",
            "id": None,
            "gpu": "A100-SXM4-80GB",
            "environment": {"format": "sacct", "gpu": "a100"},
            "peaks": {"device_bytes": 40777023488},
            "prediction": None,
            "readings": [],
            "notes": [],
            "problems": [],
            "approval": "pending",
            "held_reason": None,
        },
    ],
    "num_left_out": 1,
    "left_out": [
        {
            "line": 2,
            "what": "job 18194943",
            "reason": "the row of a job sums nothing up; its steps have the readings",
        },
    ],
    "notes": [],
}


@post(
    "/import",
    status_code=200,
    request_max_body_size=MAX_IMPORT_BYTES,
    operation=Operation(
        id="importMeasurements",
        scope=Scope.FIELD,
        is_change=True,
        tag="measurements",
        summary="Store what was measured without a probe.",
        description="Reads Slurm's accounting (`sacct -P`, `sacct --json`), Prometheus and the "
        "DCGM exporter, PyTorch's memory "
        "snapshots and `memory_stats()`, start-up logs of vLLM and SGLang, `nvidia-smi`, and the "
        "Trainer's results, and what nodes send of Slurm's jobs and of pods. A dry run, "
        "which is the default, answers what would be stored beside what the estimator says; "
        "nothing of a file is stored when "
        "any of its jobs contradicts its question, and nothing is stored twice. What is stored "
        "teaches once an operator approves it (`approval`); an operator's own does at once.",
        body=ImportRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={
            200: Reply(
                description="What would be stored, or was stored before.",
                bodies=(ImportAnswer,),
                example=ANSWER_EXAMPLE,
            ),
            201: Reply(description="Stored.", bodies=(ImportAnswer,)),
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def import_file(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Store what was measured without a probe."""
    return await compute_import(request, partial(_import, request, body))


def _import(request: Request[Any, Any, Any], body: RawBody, budget: Budget) -> ASGIApp:
    require_json(request.scope)
    deps = get_dependencies(request)
    sent, parsed = deps.files.read(read_measured_file, body, budget)
    payload = _fill_from_hook(deps, sent)
    deps.cluster_names.require(get_or_default(payload.cluster, ""))
    report = imports.read_import(
        parsed,
        list(_iter_questions(deps, payload, request.scope)),
        environment=_read_environment(payload.environment),
        plans=deps.plans,
        find_corrections=deps.corrections,
    )
    claimant = get_claimant(request)
    report = (
        stored_imports.look_up(deps.sessions, report, claimant)
        if payload.dry_run
        else stored_imports.store(deps.sessions, report, claimant)
    )
    answer = _build_answer(parsed, report, dry_run=payload.dry_run)
    return json_response(answer, status=201 if answer.num_stored else 200)


def _fill_from_hook(deps: Dependencies, payload: ImportRequest) -> ImportRequest:
    """Return a request with the question that a hook was asked."""
    digest, pod = get_or_none(payload.question), get_or_none(payload.pod)
    if digest is None and pod is None:
        return payload
    asked_by = "pod" if digest is None else "question"
    for name in ("pod", "model", "workload", "layout", "gpu", "jobs"):
        if name != asked_by and not isinstance(getattr(payload, name), UnsetType):
            message = f"{asked_by} says what ran, and {name} too: say one of them"
            raise InvalidRequestError(message, errors=[{"field": name, "message": message}])
    document = (
        find_pod_question(
            deps.sessions, Pod(namespace=pod.namespace, name=pod.name, seen_at=pod.seen_at)
        )
        if pod is not None
        else find_question(deps.sessions, str(digest))
    )
    asked_question = decode(dict(document), FitRequest)
    gpu = asked_question.gpu
    _check_cluster(payload, asked_question)
    return structs.replace(
        payload,
        model=asked_question.model,
        workload=asked_question.workload,
        layout=asked_question.layout,
        cluster=asked_question.cluster
        if isinstance(payload.cluster, UnsetType)
        else payload.cluster,
        gpu=gpu if isinstance(gpu, str) else UNSET,
    )


def _check_cluster(payload: ImportRequest, question: FitRequest) -> None:
    """Refuse a measurement of another cluster than its question was asked about."""
    brought, asked_about = get_or_none(payload.cluster), get_or_none(question.cluster)
    if brought is not None and asked_about is not None and brought != asked_about:
        message = (
            f"the question was asked about cluster {asked_about!r}, and this was measured on "
            f"{brought!r}"
        )
        raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])


def _iter_questions(
    deps: Dependencies, request: ImportRequest, scope: HTTPScope
) -> Iterator[ImportQuestion]:
    """Yield each job's question, then that of all others.

    The last one only where there is one.
    """
    jobs = get_or_none(request.jobs) or []
    for index, job in enumerate(jobs):
        with prefix_error_field(f"jobs[{index}]"):
            yield _build_question(deps, request, job, scope)
    if not isinstance(request.match, UnsetType) or not jobs:
        yield _build_question(
            deps, request, ImportJob(match=get_or_none(request.match) or ImportMatch()), scope
        )


def _build_question(
    deps: Dependencies, request: ImportRequest, job: ImportJob, scope: HTTPScope
) -> ImportQuestion:
    model = request.model if isinstance(job.model, UnsetType) else job.model
    workload = request.workload if isinstance(job.workload, UnsetType) else job.workload
    if isinstance(model, UnsetType) or isinstance(workload, UnsetType):
        missing = "model" if isinstance(model, UnsetType) else "workload"
        message = f"{missing} is missing: say what ran, for all of the file or under each of jobs"
        raise InvalidRequestError(message, errors=[{"field": missing, "message": message}])
    resolved = resolve_model(deps, model, scope)
    refuse_recording(resolved.architecture)
    gpu = get_or_none(request.gpu) if isinstance(job.gpu, UnsetType) else job.gpu
    source = ModelSource(
        architecture=resolved.architecture.describe(),
        hf_config=None if resolved.hf_config is None else dict(resolved.hf_config),
        name=None if resolved.has_other_head else resolved.name,
        revision=None if resolved.has_other_head else resolved.revision,
    )
    return ImportQuestion(
        architecture=resolved.architecture,
        source=source,
        workload=read_workload(workload)[0],
        layout=read_layout(
            request.layout if isinstance(job.layout, UnsetType) else job.layout,
            serves=isinstance(workload, ServeRequest),
        )[0],
        gpu=None if gpu is None else resolve_gpu(gpu).name,
        match=Match(**_collect_set_fields(job.match)),
        cluster=get_or_default(request.cluster, ""),
    )


def _read_environment(environment: ImportEnvironment | UnsetType) -> dict[str, str]:
    return {} if isinstance(environment, UnsetType) else _collect_set_fields(environment)


def _collect_set_fields(struct: ImportMatch | ImportEnvironment) -> dict[str, Any]:
    return {
        name: value
        for name, value in structs.asdict(struct).items()
        if not isinstance(value, UnsetType)
    }


def _build_answer(parsed: Parsed, report: ImportReport, *, dry_run: bool) -> ImportAnswer:
    items = [_build_item(item, dry_run=dry_run) for item in report.items]
    return ImportAnswer(
        dry_run=dry_run,
        format=parsed.format,
        num_stored=sum(item.status == "stored" for item in items),
        items=items,
        num_left_out=len(report.left_out),
        left_out=[
            LeftOutAnswer(line=part.line, what=part.what, reason=part.reason)
            for part in report.left_out[:MAX_LEFT_OUT]
        ],
        notes=report.notes,
    )


def _build_item(item: Item, *, dry_run: bool) -> ImportItem:
    return ImportItem(
        job=item.job,
        status="refused"
        if item.problems
        else "known"
        if not item.is_new
        else "new"
        if dry_run
        else "stored",
        id=None if item.id is None else str(item.id),
        gpu=item.request.gpu,
        environment=item.environment,
        peaks=stored_imports.make_peaks_document(item),
        prediction=stored_imports.make_prediction_document(item),
        readings=[
            ReadingAnswer(**make_reading_document(reading))  # type: ignore[arg-type]  # by name
            for reading in item.observation.readings
        ],
        notes=item.notes,
        problems=item.problems,
        approval=None if item.claim is None or item.problems else item.claim.state,
        held_reason=None if item.claim is None or item.problems else item.claim.reason,
    )
