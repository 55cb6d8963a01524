"""Replays that their owner keeps, so that the same question is replayed once."""

from copy import copy
from dataclasses import replace
from typing import TypeVar

from service.estimator.memory.allocator.caching_allocator import Check
from service.estimator.memory.allocator.replay import Replayed, replay
from service.estimator.memory.allocator.tensors import training_tensors
from service.estimator.memory.timeline import Timeline
from service.estimator.memory.training_pass import training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import TrainingPass, log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Allocator, TrainWorkload

V = TypeVar("V")

MAX_LOGS = 8
"""A pass of a deep model is some ten thousand events."""
MAX_REPLAYS = 1024
MAX_BYTES = 2**44
"""Nobody needs to know what is reserved beyond 16 TiB on one GPU, and addresses end somewhere."""
_LOWEST_PER_MILLE, _HIGHEST_PER_MILLE = 995, 1060
"""A replay is believed when its blocks add up to the peak that the timeline knows, rounding up included."""


def least_replay(kind: Allocator, timeline: Timeline) -> Replayed:
    """Return what no replay is below: segments without a hole, and blocks as large as what is in them."""
    peak = _peak_of(timeline)
    return Replayed(kind=kind, reserved_bytes=peak, allocated_bytes=peak, peak_bytes=peak)


class ReplayCache:
    """Replays of questions, and the logs of the passes that they stand on; the oldest are dropped first."""

    def __init__(self) -> None:
        """Start empty."""
        self._logs: dict[object, Events] = {}
        self._replays: dict[object, Replayed | None] = {}
        self._check: Check = lambda: None

    def given_up_by(self, check: Check) -> "ReplayCache":
        """Return the same cache for a question whose replays end, with what ``check`` raises, once nobody waits for them."""
        shared = copy(self)
        shared._check = check  # noqa: SLF001 - of its own kind
        return shared

    def training(self, model: Architecture, workload: TrainWorkload, layout: Layout, timeline: Timeline) -> Replayed | None:
        """Return what the allocator makes of a training job; None where the order of its allocations is not known."""
        key = (model.spec, model.quantization, workload, layout)
        if key not in self._replays:
            _keep(self._replays, key, self._replayed(model, workload, layout, timeline), MAX_REPLAYS)
        return self._replays[key]

    def _replayed(self, model: Architecture, workload: TrainWorkload, layout: Layout, timeline: Timeline) -> Replayed | None:
        peak = _peak_of(timeline)
        if peak > MAX_BYTES:
            return None
        how = training_pass(model, workload, layout)
        first = replace(how, accumulating=False)
        passes = [first, how] if how.accumulating and workload.gradient_accumulation_steps > 1 else [how]
        tensors = training_tensors(model, workload, layout, timeline.trained, timeline.states, timeline.footing.buckets)
        values = sizes.monomials(workload.micro_batch_size, workload.sequence_length)
        kind, logs = workload.allocator, [self._log(model, each) for each in passes]
        reserved, allocated = replay(kind, tensors, logs, values, self._check)
        if not peak * _LOWEST_PER_MILLE <= allocated * 1000 <= peak * _HIGHEST_PER_MILLE:
            return None
        return Replayed(kind=kind, reserved_bytes=max(reserved, peak), allocated_bytes=allocated, peak_bytes=peak)

    def _log(self, model: Architecture, how: TrainingPass) -> Events:
        key = (model.spec, how)
        if key not in self._logs:
            _keep(self._logs, key, log_training(model, how), MAX_LOGS)
        return self._logs[key]


def _peak_of(timeline: Timeline) -> int:
    return max(moment.allocated_bytes for moment in timeline.moments)


def _keep(kept: dict[object, V], key: object, value: V, most: int) -> None:
    for oldest in list(kept)[: len(kept) - most + 1]:
        kept.pop(oldest, None)
    kept[key] = value
