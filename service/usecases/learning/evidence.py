"""Stored measurements as evidence, each beside its analytic answer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from msgspec import structs

from service.calibration.apply import ONLY_PART
from service.calibration.environment import Environment, parse_environment, split_place
from service.calibration.evidence import Evidence, MeasuredPoint
from service.calibration.field import DeviceReading
from service.db.records.measurements import StoredMeasurement, StoredResult
from service.estimator.cache import PlanCache
from service.jobs.contract import ProbeDevice, ProtocolError, parse_measure_request
from service.runtime.logs import get_logger
from service.usecases.learning.analytic_answers import (
    AnalyticAnswer,
    compute_analytic_answer,
    has_run_its_tokens,
    resolve_gpu,
)
from service.usecases.learning.gpu_evidence import collect_gpu_evidence, compute_spread
from service.usecases.learning.sizes import iter_other_sizes, make_task_at

CLUSTER = "cluster"
"""Word of a measurement's environment that names its cluster."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSet:
    """Evidence of one measurement, with its environment.

    It covers every quantity that its device can tell.
    """

    environment: Environment
    analytic: AnalyticAnswer
    evidence: tuple[Evidence, ...]
    device_reading: DeviceReading | None = None
    """All memory in use on the GPU, where nothing else tells of it or a probe watched it."""
    cluster: str = ""
    """The stored cluster whose GPU it is; empty where nobody named one."""

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is evidence of its cluster's GPUs alone."""
        return bool(split_place(self.environment.gpu or "")[1])

    def place_in_cluster(self) -> "EvidenceSet":
        """Return the same as evidence of its cluster's GPUs alone."""
        return replace(self, environment=self.environment.in_cluster(self.cluster))


def build_evidence_set(stored: StoredMeasurement, plans: PlanCache) -> EvidenceSet | None:
    """Return a measurement as evidence.

    ``None`` where it cannot be compared with an answer.
    """
    result = stored.result
    if result is None:
        return None
    try:
        request = parse_measure_request(stored.request)
    except ProtocolError as error:
        _log.warning("evidence.unreadable", job_id=str(stored.id), reason=str(error))
        return None
    is_gpu = request.device is ProbeDevice.CUDA
    environment = parse_environment(
        result.environment, gpu=resolve_gpu(request, result.environment) if is_gpu else None
    )
    analytic = compute_analytic_answer(request, plans, environment=result.environment)
    if environment is None or analytic is None:
        return None
    exhausted = bool(result.peaks["out_of_memory"])
    if not exhausted and not has_run_its_tokens(
        analytic.point, result.probes, extrapolated=result.extrapolated
    ):
        return None
    counted = result.peaks["allocated_bytes"] is not None
    return EvidenceSet(
        environment=environment,
        analytic=analytic,
        evidence=(
            *_collect_evidence(stored, result, analytic, plans),
            *_collect_size_evidence(stored, result, analytic, plans),
        )
        if counted
        else (),
        device_reading=_build_device_reading(stored, result, analytic) if is_gpu else None,
        cluster="" if environment.gpu is None else str(result.environment.get(CLUSTER) or ""),
    )


def _build_device_reading(
    stored: StoredMeasurement, result: StoredResult, analytic: AnalyticAnswer
) -> DeviceReading | None:
    """Return the reading of all memory in use on the GPU.

    It comes from a field tool, which knows no parts, or from a probe, which saw the peak itself.

    Memory of a whole GPU is the job's own as far as whoever imported it says that nobody else was
    there.
    """
    peaks, is_probe = result.peaks, stored.source == "probe"
    on_device = peaks.get("device_bytes") or peaks.get("device_total_used_bytes")
    has_parts = peaks["allocated_bytes"] is not None and peaks.get("reserved_bytes") is not None
    if (
        on_device is None
        or is_probe != has_parts
        or (is_probe and (result.extrapolated or not result.transferable))
    ):
        return None
    return DeviceReading(
        measurement=str(stored.id),
        point=analytic.point,
        bytes=_to_int(on_device) if is_probe else _compute_lower_bound(result, _to_int(on_device)),
        predicted=analytic.estimate.device_bytes,
        is_full_peak=is_probe and not result.peaks["out_of_memory"],
    )


def _compute_lower_bound(result: StoredResult, value: int) -> int:
    """Return the lower bound of a reading, printed in coarse units."""
    lows = [
        _to_int(reading["low"]) for reading in result.readings or () if reading["value"] == value
    ]
    return min([value, *lows])


def _collect_evidence(
    stored: StoredMeasurement, result: StoredResult, analytic: AnalyticAnswer, plans: PlanCache
) -> Iterator[Evidence]:
    """Yield evidence of each quantity that the device tells.

    Any device tells allocated bytes; only a GPU tells reserved bytes, those beside the allocator,
    and time.
    """
    make = partial(
        Evidence,
        measurement=str(stored.id),
        point=analytic.point,
        transferable=result.transferable,
        extrapolated=result.extrapolated,
        claimed=stored.source != "probe",
    )
    predicted = analytic.estimate
    if result.peaks["out_of_memory"]:
        yield _build_out_of_memory_evidence(stored, result, analytic)
        return
    yield make(
        measured=_read_instants(result, analytic),
        predicted={instant.name: instant.allocated_bytes for instant in predicted.instants},
        spread=compute_spread(predicted.allocated_interval, predicted.allocated_bytes),
    )
    if analytic.request.device is not ProbeDevice.CUDA:
        return
    yield from collect_gpu_evidence(
        result,
        analytic,
        plans,
        make,
        is_lone_rank=stored.source == "probe" and analytic.request.layout.num_gpus > 1,
    )


def _collect_size_evidence(
    stored: StoredMeasurement, result: StoredResult, analytic: AnalyticAnswer, plans: PlanCache
) -> Iterator[Evidence]:
    """Yield allocated bytes of other sizes of the full model.

    Each is a question of the same key.
    """
    for size in iter_other_sizes(result, analytic.point):
        request = structs.replace(
            analytic.request, task=make_task_at(analytic.request.task, size.point)
        )
        answer = compute_analytic_answer(request, plans, environment=result.environment)
        if answer is None:
            continue
        predicted = answer.estimate
        yield Evidence(
            measurement=str(stored.id),
            point=size.point,
            measured=size.measured,
            predicted={instant.name: instant.allocated_bytes for instant in predicted.instants},
            transferable=result.transferable,
            spread=compute_spread(predicted.allocated_interval, predicted.allocated_bytes),
            is_extra_size=True,
        )


def _build_out_of_memory_evidence(
    stored: StoredMeasurement, result: StoredResult, analytic: AnalyticAnswer
) -> Evidence:
    """Return the memory in use when memory ran out.

    The size is the one that was run, which may be a slice of the requested one. It needs that much
    whatever else was on the GPU, and whichever kernels ran.
    """
    return Evidence(
        measurement=str(stored.id),
        point=_get_last_point(result, analytic.point),
        measured={ONLY_PART: _to_int(result.peaks["allocated_bytes"])},
        predicted={ONLY_PART: analytic.estimate.allocated_bytes},
        out_of_memory=True,
    )


def _get_last_point(result: StoredResult, requested: MeasuredPoint) -> MeasuredPoint:
    if not result.probes:
        return requested
    last = {
        name: _to_int(result.probes[-1][name])
        for name in ("num_layers", "micro_batch_size", "output_tokens")
    }
    length = _to_int(result.probes[-1]["sequence_length"]) - last["output_tokens"]
    return MeasuredPoint(**last, sequence_length=length, num_gpus=requested.num_gpus)


def _read_instants(result: StoredResult, analytic: AnalyticAnswer) -> dict[str, int]:
    """Return the bytes of each instant.

    A peak that was imported without instants is that of the deciding instant; no other was higher,
    whatever is answered.
    """
    if not result.instants:
        peak, predicted = _to_int(result.peaks["allocated_bytes"]), analytic.estimate
        higher = {
            instant.name: peak for instant in predicted.instants if instant.allocated_bytes > peak
        }
        return {predicted.peak_instant: peak, **higher}
    return {
        str(reading["name"]): _to_int(reading["allocated_bytes"]) for reading in result.instants
    }


def _to_int(value: object) -> int:
    return int(str(value))
