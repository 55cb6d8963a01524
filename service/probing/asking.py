"""What a probe is asked, out of its request, and what the estimator says of it at any point."""

from collections.abc import Callable, Mapping

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.contract import FailureKind, ProbeRequest
from service.jobs.host import Host
from service.probing.plan import Point, Question, workload_at
from service.probing.refusal import Refusal
from service.probing.stack import keep

_BOUNDLESS = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
"""The analytic answer is asked for bytes, not for a verdict."""


def question_of(request: ProbeRequest) -> tuple[Question, Mapping[str, object]]:
    """Return what a request asks, and the config that its model is built from; raises Refusal for one that says neither."""
    config = request.model.hf_config
    if config is None:
        message = 'a probe builds a real model, so it needs the model\'s config.json: ask with {"hf_config": {...}}'
        raise Refusal(FailureKind.INVALID_REQUEST, message)
    try:
        architecture = architecture_from_config(config)
    except EstimatorError as error:
        raise Refusal(FailureKind.INVALID_REQUEST, error.message) from error
    question = Question(
        architecture=architecture,
        workload=request.task.workload,
        layout=request.layout,
        full_depth=request.full_depth,
        deadline_s=request.deadline_s,
    )
    return question, config


def compute_dtype(workload: Workload) -> DType:
    """Return the dtype of a workload's products, on which a host's speed depends."""
    return workload.precision.compute_dtype if isinstance(workload, TrainWorkload) else workload.weight_dtype


class Analytic:
    """The analytic answer at any point, remembered: a plan asks for the same point more than once."""

    def __init__(self, question: Question) -> None:
        """Begin with nothing asked."""
        self._question = question
        self._known: dict[Point, Estimate] = {}

    def instants(self, point: Point) -> Mapping[str, int]:
        """Return the bytes of each instant; raises Refusal where the estimator has no term."""
        return {instant.name: instant.allocated_bytes for instant in self._at(point).instants}

    def allocated(self, point: Point) -> int:
        """Return the bytes of the highest instant; raises Refusal as ``instants`` does."""
        return max(self.instants(point).values())

    def reserved(self, point: Point) -> int:
        """Return what a caching allocator may reserve at most, by its interval; raises Refusal as ``instants`` does."""
        return max(self._at(point).reserved_interval.high, self.allocated(point))

    def held(self, host: Host) -> Callable[[Point], int]:
        """Return what has to fit on a host: what its caching allocator may reserve, or the tensors alone."""
        return self.reserved if host.reserves else self.allocated

    def _at(self, point: Point) -> Estimate:
        if point not in self._known:
            self._known[point] = self._estimate(point)
        return self._known[point]

    def _estimate(self, point: Point) -> Estimate:
        question = self._question
        try:
            return estimate(
                keep(question.architecture, point.layers),
                workload_at(question.workload, point),
                layout=question.layout,
                device=_BOUNDLESS,
            )
        except EstimatorError as error:
            raise Refusal(FailureKind.UNSUPPORTED, error.message) from error
