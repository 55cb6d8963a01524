"""Plans of measurements, made without submitting them.

The plan is the one that the worker would make.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from service.base.errors import InvalidRequestError
from service.base.typed import convert
from service.catalog.gpus import resolve_device
from service.db.queries.told_plans import list_newest_plans
from service.db.records.measurements import ReportedPlan
from service.db.session import transaction
from service.estimator.values.dtypes import DType
from service.jobs.contract import (
    FailureKind,
    MeasureRequest,
    Planned,
    ProbeDevice,
    ProbeFailure,
    ProtocolError,
    parse_measure_request,
)
from service.jobs.host import Host
from service.probing.asking import AnalyticEstimates, get_compute_dtype, parse_question
from service.probing.planning import make_plan, to_planned
from service.probing.reference import make_cpu_host, make_gpu_host, make_tracing_host
from service.probing.refusal import Refusal
from service.runtime.settings import Settings
from service.usecases.jobs.measurable import check_measurable
from service.usecases.jobs.workers import WorkerState, WorkerSummary, list_workers
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedHost:
    """A host, the worker that reported it, and when.

    ``worker`` is None where none has reported, and ``note`` says what stands in.
    """

    host: Host
    worker: str | None = None
    told_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """A plan or a refusal, and the host that it rests on."""

    outcome: Planned | ProbeFailure
    reported: ReportedHost


def plan_dry_run(sessions: Sessions, request: MeasureRequest, *, settings: Settings) -> DryRun:
    """Return the plan or refusal that a worker would give.

    Raises InvalidRequestError for what no worker would start.
    """
    check_measurable(request)
    reported = _find_reported_host(sessions, request, gone_after_s=settings.lease_s)
    if "recording" in request.model.architecture:
        message = "a probe records this model before it plans its run: ask without dry_run"
        outcome = ProbeFailure(kind=FailureKind.UNSUPPORTED, message=message)
        return DryRun(outcome=outcome, reported=reported)
    try:
        question, _ = parse_question(
            request.make_probe_request(deadline_s=settings.probe_deadline_s)
        )
        analytic, host = AnalyticEstimates(question), reported.host
        plan = make_plan(
            question, host, analytic.get_peak_function(host), analytic.get_host_share_function(host)
        )
    except Refusal as refusal:
        return DryRun(
            outcome=ProbeFailure(kind=refusal.kind, message=refusal.message), reported=reported
        )
    return DryRun(outcome=to_planned(plan, reported.host), reported=reported)


def _find_reported_host(
    sessions: Sessions, request: MeasureRequest, *, gone_after_s: float
) -> ReportedHost:
    """Return the host that the most likely worker reported last.

    Workers that are alive come before those that are gone.
    """
    with transaction(sessions) as session:
        plans = list_newest_plans(session, device=request.device.value)
    workers = {worker.name: worker for worker in list_workers(sessions, gone_after_s=gone_after_s)}
    dtype = get_compute_dtype(request.task.workload)
    matching = [
        plan
        for plan in plans
        if _is_applicable(plan, request, dtype, workers.get(plan.worker or ""))
    ]
    for plan in sorted(
        matching, key=lambda candidate: not _is_alive(workers.get(candidate.worker or ""))
    ):
        if (host := _read_host(plan)) is not None:
            return ReportedHost(host=host, worker=plan.worker, told_at=plan.told_at)
    gpu = request.gpu or _find_live_gpu(workers.values())
    return _get_reference_host(request, dtype, gpu=gpu)


def _find_live_gpu(workers: Iterable[WorkerSummary]) -> str | None:
    """Return the GPU of a living worker, by the catalogue's name."""
    names = (
        device.get("sku")
        for worker in workers
        if _is_alive(worker)
        for device in worker.devices
        if device.get("device") == ProbeDevice.CUDA.value
    )
    return next((str(name) for name in names if name), None)


def _is_applicable(
    plan: ReportedPlan, request: MeasureRequest, dtype: DType, worker: WorkerSummary | None
) -> bool:
    """Return whether a plan's host is known for this request.

    Its speed is that of a dtype and of a GPU.
    """
    if request.device is ProbeDevice.TRACE:
        return True
    if request.device is ProbeDevice.CUDA and request.gpu is not None:
        worker_gpu = None if worker is None or not worker.devices else worker.devices[0].get("sku")
        if worker_gpu != request.gpu:
            return False
    try:
        measured_request = parse_measure_request(plan.request)
    except ProtocolError:
        return False
    return get_compute_dtype(measured_request.task.workload) is dtype


def _is_alive(worker: WorkerSummary | None) -> bool:
    return worker is not None and worker.state in {WorkerState.IDLE, WorkerState.BUSY}


def _read_host(plan: ReportedPlan) -> Host | None:
    """Return the host of a plan.

    ``None`` for a plan of a version that reported no host, or another form of it.
    """
    try:
        return convert(plan.plan.get("host"), Host)
    except msgspec.ValidationError:
        return None


def _get_reference_host(request: MeasureRequest, dtype: DType, *, gpu: str | None) -> ReportedHost:
    host, source = _select_stand_in(request, dtype, gpu)
    note = (
        f"no worker of device {request.device.value} has told of itself in {dtype.value} yet, so "
        f"speeds are {source}; the first measurement tells"
    )
    return ReportedHost(host=host, note=note)


def _select_stand_in(request: MeasureRequest, dtype: DType, gpu: str | None) -> tuple[Host, str]:
    """Return the stand-in for an unreported host, and its source in words."""
    if request.device is ProbeDevice.TRACE:
        return make_tracing_host(), "those of two cores of a virtual machine"
    if request.device is ProbeDevice.CPU:
        return make_cpu_host(
            dtype
        ), "those of two cores of a virtual machine, and its free memory is not known"
    if gpu is None:
        message = (
            "no worker of device cuda has told how fast its GPU is: name the GPU, and its data "
            "sheet stands in"
        )
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    return make_gpu_host(resolve_device(gpu), dtype), f"those of the data sheet of {gpu}, idle"
