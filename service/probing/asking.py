"""Probe questions and their analytic estimates at any point."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.speed.learning import correct_rates
from service.estimator.speed.rates import get_rates
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.contract import FailureKind, ProbeRequest
from service.jobs.host import Host
from service.probing.pace import measure_host_share
from service.probing.plan import Point, ProbeQuestion, build_workload
from service.probing.refusal import Refusal
from service.probing.stack import keep_layers

_UNBOUNDED_DEVICE = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
"""Device without a limit: analytic estimates need its bytes, not a verdict."""

ReadArchitecture = Callable[[Mapping[str, object]], Architecture]
"""Returns the architecture of a config.json."""


def parse_question(
    request: ProbeRequest, read: ReadArchitecture = architecture_from_config
) -> tuple[ProbeQuestion, Mapping[str, object]]:
    """Parse a request into its question and the model's config.

    ``read`` may know types that are written nowhere here. Raises Refusal for a request that lacks
    either.
    """
    config = request.model.hf_config
    if config is None:
        message = (
            "a probe builds a real model, so it needs the model's config.json: ask with "
            '{"hf_config": {...}}'
        )
        raise Refusal(FailureKind.INVALID_REQUEST, message)
    try:
        architecture = read(config)
    except EstimatorError as error:
        raise Refusal(FailureKind.INVALID_REQUEST, error.message) from error
    question = ProbeQuestion(
        architecture=architecture,
        workload=request.task.workload,
        layout=request.layout,
        full_depth=request.full_depth,
        deadline_s=request.deadline_s,
    )
    return question, config


def get_compute_dtype(workload: Workload) -> DType:
    """Return the dtype of a workload's matrix products.

    A host's speed depends on it.
    """
    return (
        workload.precision.compute_dtype
        if isinstance(workload, TrainWorkload)
        else workload.weight_dtype
    )


class AnalyticEstimates:
    """Cached analytic estimates of one question.

    A plan asks for the same point more than once.
    """

    def __init__(self, question: ProbeQuestion) -> None:
        """Start with an empty cache."""
        self._question = question
        self._plans = PlanCache()
        self._estimates: dict[tuple[Point, Detail], Estimate] = {}

    def instant_bytes(self, point: Point) -> Mapping[str, int]:
        """Return the bytes of each instant.

        Raises Refusal where the estimator has no term.
        """
        return {
            instant.name: instant.allocated_bytes for instant in self._get_estimate(point).instants
        }

    def allocated_bytes(self, point: Point) -> int:
        """Return the bytes of the highest instant.

        Raises Refusal as ``instant_bytes`` does.
        """
        return max(self.instant_bytes(point).values())

    def reserved_bytes(self, point: Point) -> int:
        """Return an upper bound of the allocator's reserved bytes.

        It is the end of the interval of a replay; raises Refusal as ``instant_bytes`` does.
        """
        replayed = self._get_estimate(point, Detail.REPLAYED)
        return max(replayed.reserved_interval.high, self.allocated_bytes(point))

    def get_peak_function(self, host: Host) -> Callable[[Point], int]:
        """Return the function for the bytes that must fit on a host.

        These are what its caching allocator may reserve, or the tensors alone.
        """
        return self.reserved_bytes if host.reserves else self.allocated_bytes

    def get_host_share_function(self, host: Host) -> Callable[[Point], float] | None:
        """Return the function for the host's share of a point's time.

        It is on a GPU whose products and copies are as fast as it showed. None for a device that
        is no GPU.
        """
        flops, moved = host.flops_per_second, host.state_bytes_per_second
        if not host.reserves or flops is None or moved is None:
            return None
        dtype = get_compute_dtype(self._question.workload)
        device = replace(
            _UNBOUNDED_DEVICE,
            peak_flops={dtype.value: round(flops)},
            bandwidth_bytes_per_second=round(moved),
        )
        return partial(self._compute_host_share, device)

    def _compute_host_share(self, device: Device, point: Point) -> float:
        return measure_host_share(partial(self._time_point, device, point))

    def _time_point(self, device: Device, point: Point, speeds: SpeedRatios) -> float | None:
        question = self._question
        try:
            answer = self._get_estimate(point)
        except Refusal:
            return None
        throughput = estimate_throughput(
            keep_layers(question.architecture, point.layers),
            build_workload(question.workload, point),
            question.layout,
            device,
            answer,
            self._plans.works,
            rates=correct_rates(get_rates(device.name), speeds),
        )
        return None if throughput is None else throughput.step_time_s

    def _get_estimate(self, point: Point, detail: Detail = Detail.FULL) -> Estimate:
        if (point, detail) not in self._estimates:
            self._estimates[point, detail] = self._estimate(point, detail)
        return self._estimates[point, detail]

    def _estimate(self, point: Point, detail: Detail) -> Estimate:
        question = self._question
        try:
            return estimate(
                keep_layers(question.architecture, point.layers),
                build_workload(question.workload, point),
                layout=question.layout,
                device=_UNBOUNDED_DEVICE,
                plans=self._plans,
                detail=detail,
            )
        except EstimatorError as error:
            raise Refusal(FailureKind.UNSUPPORTED, error.message) from error
