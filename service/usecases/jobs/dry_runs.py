"""What a measurement would run, and for how long, without asking for it: the plan that its worker would make."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from service.base.errors import InvalidRequestError
from service.base.typed import converted
from service.catalog.gpus import resolve_gpu
from service.db.queries.told_plans import newest_plans
from service.db.records.measurements import ToldPlan
from service.db.session import transaction
from service.estimator.values.dtypes import DType
from service.jobs.contract import MeasureRequest, Planned, ProbeDevice, ProbeFailure, ProtocolError, parse_measure_request
from service.jobs.host import Host
from service.probing.asking import Analytic, compute_dtype, question_of
from service.probing.planning import make_plan, planned
from service.probing.reference import gpu_host, processor_host, tracing_host
from service.probing.refusal import Refusal
from service.runtime.settings import Settings
from service.usecases.jobs.measurable import check_measurable
from service.usecases.jobs.workers import SeenWorker, WorkerState, list_workers
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """A host, and which worker told of it when; ``None`` where none has, and ``note`` says what stands in."""

    host: Host
    worker: str | None = None
    told_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The plan, or why its worker would refuse, and the host that either rests on."""

    outcome: Planned | ProbeFailure
    known: KnownHost


def dry_run(sessions: Sessions, request: MeasureRequest, *, settings: Settings) -> DryRun:
    """Return what a worker would say before it starts; raises InvalidRequestError for what no worker would start."""
    check_measurable(request)
    known = _known_host(sessions, request, gone_after_s=settings.lease_s)
    try:
        question, _ = question_of(request.probe_request(deadline_s=settings.probe_deadline_s))
        plan = make_plan(question, known.host, Analytic(question).held(known.host))
    except Refusal as refusal:
        return DryRun(outcome=ProbeFailure(kind=refusal.kind, message=refusal.message), known=known)
    return DryRun(outcome=planned(plan, known.host), known=known)


def _known_host(sessions: Sessions, request: MeasureRequest, *, gone_after_s: float) -> KnownHost:
    """Return what the worker that is most likely to run a request told last, one that is there before one that has gone."""
    with transaction(sessions) as session:
        plans = newest_plans(session, device=request.device.value)
    workers = {worker.name: worker for worker in list_workers(sessions, gone_after_s=gone_after_s)}
    dtype = compute_dtype(request.task.workload)
    told = [plan for plan in plans if _tells_of(plan, request, dtype, workers.get(plan.worker or ""))]
    for plan in sorted(told, key=lambda one: not _is_there(workers.get(one.worker or ""))):
        if (host := _host_in(plan)) is not None:
            return KnownHost(host=host, worker=plan.worker, told_at=plan.told_at)
    return _reference(request, dtype)


def _tells_of(plan: ToldPlan, request: MeasureRequest, dtype: DType, worker: SeenWorker | None) -> bool:
    """Tell whether a host that ran that plan is known for this request: its speed is of a dtype, and of a GPU."""
    if request.device is ProbeDevice.TRACE:
        return True
    if request.device is ProbeDevice.CUDA and request.gpu is not None:
        own = None if worker is None or not worker.devices else worker.devices[0].get("sku")
        if own != request.gpu:
            return False
    try:
        ran = parse_measure_request(plan.request)
    except ProtocolError:
        return False
    return compute_dtype(ran.task.workload) is dtype


def _is_there(worker: SeenWorker | None) -> bool:
    return worker is not None and worker.state in {WorkerState.IDLE, WorkerState.BUSY}


def _host_in(plan: ToldPlan) -> Host | None:
    """Return the host of a plan; one of a version that told of none, or otherwise, tells nothing."""
    try:
        return converted(plan.plan.get("host"), Host)
    except msgspec.ValidationError:
        return None


def _reference(request: MeasureRequest, dtype: DType) -> KnownHost:
    host, whose = _stand_in(request, dtype)
    note = (
        f"no worker of device {request.device.value} has told of itself in {dtype.value} yet, so speeds are {whose}; "
        "the first measurement tells"
    )
    return KnownHost(host=host, note=note)


def _stand_in(request: MeasureRequest, dtype: DType) -> tuple[Host, str]:
    """Return what is taken for a host that nobody told of, and in words whose speed that is."""
    if request.device is ProbeDevice.TRACE:
        return tracing_host(), "those of two cores of a virtual machine"
    if request.device is ProbeDevice.CPU:
        return processor_host(dtype), "those of two cores of a virtual machine, and its free memory is not known"
    if request.gpu is None:
        message = "no worker of device cuda has told how fast its GPU is: name the GPU, and its data sheet stands in"
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    return gpu_host(resolve_gpu(request.gpu), dtype), f"those of the data sheet of {request.gpu}, idle"
