"""Stored measurements as evidence: beside the analytic answer to the same question, quantity by quantity."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import log
from statistics import NormalDist

from msgspec import structs

from service.calibration.apply import ONLY_PART, point_of
from service.calibration.environment import Environment, environment_of
from service.calibration.evidence import Evidence, MeasuredPoint, Quantity
from service.calibration.field import Seen
from service.catalog.gpus import entries_named
from service.db.records.measurements import StoredMeasurement, StoredResult
from service.estimator.estimate import PlanCache, estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.speed.throughput import throughput_of
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail, Estimate, Interval
from service.jobs.contract import MeasureRequest, ProbeDevice, ProtocolError, parse_measure_request
from service.runtime.logs import logger
from service.usecases.learning.sizes import sizes_beside, task_at

LARGE_SEGMENT_BYTES = 20 * 1024**2
"""What the caching allocator takes at once for a middling request (kLargeBuffer, c10/cuda/CUDACachingAllocator.cpp): with less
left on the device, the run made do with what it had."""
_P95 = NormalDist().inv_cdf(0.95)
# Allocated bytes do not depend on the device; this one holds whatever is asked.
ANY_DEVICE = Device(name="any", vendor="any", capacity_bytes=1 << 60, usable_bytes=1 << 60)

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question, and what the estimator says about it without any measurement."""

    request: MeasureRequest
    architecture: Architecture
    device: Device
    estimate: Estimate

    @property
    def point(self) -> MeasuredPoint:
        """Where on its curve the question lies."""
        return point_of(self.architecture, self.request.task.workload, self.request.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One measurement as evidence about every quantity that its device can tell, where and with what it ran."""

    environment: Environment
    answered: Answered
    evidence: tuple[Evidence, ...]
    seen: Seen | None = None
    """All that was on the GPU, where nothing else tells of it or a probe watched it."""


def gpu_name(text: str) -> str:
    """Return the catalogue's name of a GPU that a driver names; what the catalogue does not know stays as it is."""
    found = entries_named(text)
    return found[0].name if len(found) == 1 else text


def answer(request: MeasureRequest, plans: PlanCache, *, environment: Mapping[str, object] | None = None) -> Answered | None:
    """Return the analytic answer; ``None`` for what the estimator has no term for yet."""
    device = _device(request, environment or {})
    detail = Detail.FULL if device is ANY_DEVICE else Detail.REPLAYED
    try:
        architecture = architecture_from_spec(request.model.architecture)
        found = estimate(architecture, request.task.workload, layout=request.layout, device=device, plans=plans, detail=detail)
    except EstimatorError as error:
        _log.info("prediction.none", reason=error.message, field=error.field)
        return None
    return Answered(request=request, architecture=architecture, device=device, estimate=found)


def ran_its_tokens(point: MeasuredPoint, probes: Iterable[Mapping[str, object]], *, extrapolated: bool) -> bool:
    """Tell whether the asked batch and lengths were run: where fewer were, the answer is the analytic one with a shift."""
    asked = (point.micro_batch_size, point.sequence_length + point.output_tokens, point.output_tokens)
    sizes = ((probe["micro_batch_size"], probe["sequence_length"], probe["output_tokens"]) for probe in probes)
    return not extrapolated or asked in sizes


def found_in(stored: StoredMeasurement, plans: PlanCache) -> Found | None:
    """Return a measurement as evidence; ``None`` where it cannot be held against an answer."""
    result = stored.result
    if result is None:
        return None
    try:
        request = parse_measure_request(stored.request)
    except ProtocolError as error:
        _log.warning("evidence.unreadable", job_id=str(stored.id), reason=str(error))
        return None
    ran_on = request.device is ProbeDevice.CUDA
    environment = environment_of(result.environment, gpu=_ran_on(request, result.environment) if ran_on else None)
    answered = answer(request, plans, environment=result.environment)
    if environment is None or answered is None:
        return None
    exhausted = bool(result.peaks["out_of_memory"])
    if not exhausted and not ran_its_tokens(answered.point, result.probes, extrapolated=result.extrapolated):
        return None
    counted = result.peaks["allocated_bytes"] is not None
    return Found(
        environment=environment,
        answered=answered,
        evidence=(*_evidence(stored, result, answered), *_sizes(stored, result, answered, plans)) if counted else (),
        seen=_seen(stored, result, answered) if ran_on else None,
    )


def _seen(stored: StoredMeasurement, result: StoredResult, answered: Answered) -> Seen | None:
    """Return all that was seen on the GPU: by the field, which knows no parts, or by a probe, which saw the peak itself.

    What is seen of a whole GPU is the job's own as far as whoever brought it says that nobody else was there.
    """
    peaks, is_probe = result.peaks, stored.source == "probe"
    on_device = peaks.get("device_bytes") or peaks.get("device_total_used_bytes")
    parted = peaks["allocated_bytes"] is not None and peaks.get("reserved_bytes") is not None
    if on_device is None or is_probe != parted or (is_probe and (result.extrapolated or not result.transferable)):
        return None
    return Seen(
        measurement=str(stored.id),
        point=answered.point,
        bytes=_whole(on_device) if is_probe else _least(result, _whole(on_device)),
        predicted=answered.estimate.device_bytes,
        whole=is_probe and not result.peaks["out_of_memory"],
    )


def _least(result: StoredResult, value: int) -> int:
    """Return what a reading was at least: counters are printed in coarse units."""
    lows = [_whole(one["low"]) for one in result.readings or () if one["value"] == value]
    return min([value, *lows])


def _device(request: MeasureRequest, environment: Mapping[str, object]) -> Device:
    if request.device is not ProbeDevice.CUDA:
        return ANY_DEVICE
    found = entries_named(_ran_on(request, environment))
    return found[0].device() if len(found) == 1 else ANY_DEVICE


def _ran_on(request: MeasureRequest, environment: Mapping[str, object]) -> str:
    """Return the GPU that ran: as its driver names it, where the catalogue knows that, else the one that was asked for."""
    told = environment.get("gpu")
    if environment.get("mig") is not None:
        # A slice is no whole GPU of its kind.
        return str(environment["mig"])
    names = [str(told)] if told else []
    names += [request.gpu] if request.gpu is not None else []
    known = [name for name in names if len(entries_named(name)) == 1]
    return gpu_name(known[0]) if known else (names[0] if names else "unknown GPU")


def _evidence(stored: StoredMeasurement, result: StoredResult, answered: Answered) -> Iterator[Evidence]:
    """Give the allocated bytes of any device; only a GPU tells of what is reserved, of what lies beside it, and of time."""
    make = partial(
        Evidence,
        measurement=str(stored.id),
        point=answered.point,
        transferable=result.transferable,
        extrapolated=result.extrapolated,
        claimed=stored.source != "probe",
    )
    found = answered.estimate
    if result.peaks["out_of_memory"]:
        yield _exhausted(stored, result, answered)
        return
    yield make(
        measured=_instants(result, answered),
        predicted={instant.name: instant.allocated_bytes for instant in found.instants},
        spread=_spread(found.allocated_interval, found.allocated_bytes),
    )
    if answered.request.device is not ProbeDevice.CUDA:
        return
    yield from _beyond(result, answered, make)
    yield from _timed(result, answered, make)


def _sizes(stored: StoredMeasurement, result: StoredResult, answered: Answered, plans: PlanCache) -> Iterator[Evidence]:
    """Give the allocated bytes of the other sizes that the whole model was run at: each is a question of the same key."""
    for size in sizes_beside(result, answered.point):
        asked = structs.replace(answered.request, task=task_at(answered.request.task, size.point))
        if (there := answer(asked, plans, environment=result.environment)) is not None:
            yield Evidence(
                measurement=str(stored.id),
                point=size.point,
                measured=size.measured,
                predicted={instant.name: instant.allocated_bytes for instant in there.estimate.instants},
                transferable=result.transferable,
                spread=_spread(there.estimate.allocated_interval, there.estimate.allocated_bytes),
                beside=True,
            )


def _exhausted(stored: StoredMeasurement, result: StoredResult, answered: Answered) -> Evidence:
    """Return what a run held when memory ran out: at the size that was run, which may be a slice of what was asked.

    It needs that much whatever else was on the GPU, and whichever kernels ran.
    """
    return Evidence(
        measurement=str(stored.id),
        point=_last_run(result, answered.point),
        measured={ONLY_PART: _whole(result.peaks["allocated_bytes"])},
        predicted={ONLY_PART: answered.estimate.allocated_bytes},
        out_of_memory=True,
    )


def _last_run(result: StoredResult, asked: MeasuredPoint) -> MeasuredPoint:
    if not result.probes:
        return asked
    last = {name: _whole(result.probes[-1][name]) for name in ("num_layers", "micro_batch_size", "output_tokens")}
    length = _whole(result.probes[-1]["sequence_length"]) - last["output_tokens"]
    return MeasuredPoint(**last, sequence_length=length, num_gpus=asked.num_gpus)


def _instants(result: StoredResult, answered: Answered) -> dict[str, int]:
    """Return the bytes of each instant.

    A peak that was imported without them is that of the instant that decides; no other was higher, whatever is answered.
    """
    if not result.instants:
        peak, found = _whole(result.peaks["allocated_bytes"]), answered.estimate
        higher = {instant.name: peak for instant in found.instants if instant.allocated_bytes > peak}
        return {found.peak_instant: peak, **higher}
    return {str(reading["name"]): _whole(reading["allocated_bytes"]) for reading in result.instants}


Make = partial[Evidence]


def _beyond(result: StoredResult, answered: Answered, make: Make) -> Iterator[Evidence]:
    peaks, found = result.peaks, answered.estimate
    allocated, reserved = _whole(peaks["allocated_bytes"]), peaks.get("reserved_bytes")
    if reserved is None:
        return
    on_device = peaks.get("device_bytes") or peaks.get("device_total_used_bytes")
    outside = None if on_device is None else _whole(on_device) - _whole(reserved)
    usable = answered.device.usable_bytes
    # The allocated bytes have a correction of their own: what is learnt here is what is reserved beyond them.
    yield make(
        quantity=Quantity.RESERVED,
        measured={ONLY_PART: _whole(reserved)},
        predicted={ONLY_PART: allocated + found.reserved_bytes - found.allocated_bytes},
        spread=_spread(found.reserved_interval, found.reserved_bytes),
        at_capacity=_whole(reserved) + (outside or 0) > usable - LARGE_SEGMENT_BYTES,
    )
    if outside is not None and outside > 0:
        yield make(
            quantity=Quantity.DEVICE,
            measured={ONLY_PART: outside},
            predicted={ONLY_PART: found.device_bytes - found.reserved_bytes},
            spread=_spread(_outside(found), found.device_bytes - found.reserved_bytes),
        )


def _outside(found: Estimate) -> Interval:
    whole, inside = found.device_interval, found.reserved_interval
    return Interval(max(0, whole.low - inside.low), whole.high - inside.high)


def _spread(around: Interval, point: int) -> float:
    """Return how far an interval reaches to its wider side, as a share of its point."""
    return max(around.high - point, point - around.low, 0) / max(point, 1)


def _timed(result: StoredResult, answered: Answered, make: Make) -> Iterator[Evidence]:
    times, request = result.step_time_s, answered.request
    if times is None or answered.device is ANY_DEVICE:
        return
    timed = throughput_of(
        answered.architecture, request.task.workload, request.layout, answered.device, answered.estimate, PlanCache().works
    )
    median, p95 = float(str(times["median"])), float(str(times["p95"]))
    if timed is None or median <= 0:
        return
    yield make(
        quantity=Quantity.STEP_TIME,
        measured={ONLY_PART: round(median * 1e9)},
        predicted={ONLY_PART: max(1, round(timed.step_time_s * 1e9))},
        noise=log(max(p95, median) / median) / _P95,
    )


def _whole(value: object) -> int:
    return int(str(value))
