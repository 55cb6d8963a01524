"""Analytic answers to what was measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.base.errors import UnknownGpuError
from service.calibration.apply import get_point
from service.calibration.evidence import MeasuredPoint
from service.catalog.gpus import find_driver_name, find_gpus, resolve_device
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail, Estimate
from service.jobs.contract import MeasureRequest, ProbeDevice
from service.planner.fit.hardware import select_attention_kernel
from service.runtime.logs import get_logger

# Allocated bytes do not depend on the device; this one holds whatever is asked.
ANY_DEVICE = Device(name="any", vendor="any", capacity_bytes=1 << 60, usable_bytes=1 << 60)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticAnswer:
    """A measurement request and the uncalibrated estimate for it."""

    request: MeasureRequest
    architecture: Architecture
    device: Device
    estimate: Estimate

    @property
    def point(self) -> MeasuredPoint:
        """Point of the request on its calibration curve."""
        return get_point(self.architecture, self.request.task.workload, self.request.layout)


def resolve_gpu_name(text: str) -> str:
    """Return the catalogue's name of a driver's GPU name.

    A name that the catalogue does not know stays as it is.
    """
    return find_driver_name(text) or text


def compute_analytic_answer(
    request: MeasureRequest, plans: PlanCache, *, environment: Mapping[str, object] | None = None
) -> AnalyticAnswer | None:
    """Return the analytic answer.

    ``None`` for what the estimator has no term for yet.
    """
    device = _resolve_device(request, environment or {})
    detail = Detail.FULL if device is ANY_DEVICE else Detail.REPLAYED
    try:
        architecture = architecture_from_spec(request.model.architecture)
        predicted = estimate_on(device, architecture, request, plans=plans, detail=detail)
    except EstimatorError as error:
        _log.info("prediction.none", reason=error.message, field=error.field)
        return None
    return AnalyticAnswer(
        request=request, architecture=architecture, device=device, estimate=predicted
    )


def estimate_on(
    device: Device,
    architecture: Architecture,
    request: MeasureRequest,
    *,
    plans: PlanCache,
    detail: Detail,
) -> Estimate:
    """Return the analytic answer that a fit on a GPU gives.

    Attention is the kernel that PyTorch chooses on it. Raises EstimatorError.
    """
    workload = request.task.workload
    if device is not ANY_DEVICE:
        workload = select_attention_kernel(device, architecture, workload)
    return estimate(
        architecture, workload, layout=request.layout, device=device, plans=plans, detail=detail
    )


def has_run_its_tokens(
    point: MeasuredPoint, probes: Iterable[Mapping[str, object]], *, extrapolated: bool
) -> bool:
    """Return whether the requested batch and lengths were run.

    Where fewer tokens were run, the reading is the analytic answer with a shift.
    """
    requested_size = (
        point.micro_batch_size,
        point.sequence_length + point.output_tokens,
        point.output_tokens,
    )
    sizes = (
        (probe["micro_batch_size"], probe["sequence_length"], probe["output_tokens"])
        for probe in probes
    )
    return not extrapolated or requested_size in sizes


def _resolve_device(request: MeasureRequest, environment: Mapping[str, object]) -> Device:
    if request.device is not ProbeDevice.CUDA:
        return ANY_DEVICE
    try:
        return resolve_device(resolve_gpu(request, environment))
    except UnknownGpuError:
        return ANY_DEVICE


def resolve_gpu(request: MeasureRequest, environment: Mapping[str, object]) -> str:
    """Return the GPU that ran the measurement.

    It is named by the driver where the catalogue knows that name, else by the request.
    """
    reported = environment.get("gpu")
    if environment.get("mig") is not None:
        # A slice is no whole GPU of its kind.
        return resolve_gpu_name(str(environment["mig"]))
    names = [str(reported)] if reported else []
    names += [request.gpu] if request.gpu is not None else []
    resolvable = [name for name in names if len(find_gpus(name)) == 1]
    return resolve_gpu_name(resolvable[0]) if resolvable else (names[0] if names else "unknown GPU")
