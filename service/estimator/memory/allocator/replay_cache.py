"""Cache of replays.

Its owner keeps it, so that the same question is replayed once.
"""

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import replace
from functools import cache, partial
from typing import Any

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, CancelCheck
from service.estimator.memory.allocator.kernel_buffers import (
    KernelBuffers,
    find_kernel_buffers,
    select_kernels,
)
from service.estimator.memory.allocator.packed_weights import place_packed_weights
from service.estimator.memory.allocator.replay import (
    EvaluationEvents,
    JobTensors,
    ReplayPeaks,
    ReplayResult,
    count_workspace_bytes,
    read_peaks,
    replay,
)
from service.estimator.memory.allocator.replay_allocators import make_replay_allocator
from service.estimator.memory.allocator.serving_replay import ReplicaHistory, replay_replica
from service.estimator.memory.allocator.tensors import list_training_tensors
from service.estimator.memory.evaluated_batch import EvaluatedBatch
from service.estimator.memory.timeline import Timeline
from service.estimator.memory.training_pass import (
    build_setup_pass,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import TrainingPass
from service.estimator.passes.padded_recordings import SharedRecordings, log_unpadded
from service.estimator.passes.stored_recordings import RecordingStore, load_training_log
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo, check_making
from service.estimator.values.workload import Allocator, TrainWorkload

MAX_LOGS = 48
"""Those of the remedies of two configurations; a pass of a deep model is some ten thousand events,
half a megabyte."""
MAX_REPLAYS = 2048
MAX_BYTES = 2**44
"""Nobody needs to know what is reserved beyond 16 TiB on one GPU, and addresses end somewhere."""
_LOWEST_PER_MILLE, _HIGHEST_PER_MILLE = 995, 1060
"""A replay is believed when its blocks add up to the peak that the timeline knows, rounding up
included.
"""


def make_minimal_replay(kind: Allocator, peak: int) -> ReplayResult:
    """Return the lower bound of all replays of a peak in bytes.

    Its segments have no hole, and its blocks are as large as the tensors in them.
    """
    return ReplayResult(
        kind=kind,
        reserved_bytes=peak,
        allocated_bytes=peak,
        peak_bytes=peak,
        run_within=lambda room_bytes: peak if peak <= room_bytes else None,
    )


class ReplayCache:
    """Cache of replays of questions, and of the logs of their passes.

    The oldest are dropped first.
    """

    def __init__(self, store: RecordingStore | None = None) -> None:
        """Start empty; ``store`` keeps logs between processes."""
        self._store = store
        self._logs: Memo[Events] = Memo(MAX_LOGS)
        self._shared_logs = SharedRecordings(log_unpadded, capacity=MAX_LOGS)
        self._tensors: Memo[JobTensors] = Memo(MAX_LOGS)
        # In a tuple each, because None is a result too.
        self._replays: Memo[tuple[ReplayResult | None]] = Memo(MAX_REPLAYS)
        self._check: CancelCheck = lambda: None
        self.builds_on_gpu = False
        """Whether models are built with random weights on the GPU itself: one that ties its head
        makes it first, and then drops it.
        """
        self.keeps_first_bucket = False
        """Whether DDP keeps the bucket that it makes first, as a rank does that is run alone."""
        self.single_stream = False
        """Whether all allocations are on one stream, as on a CPU."""

    def clear(self) -> None:
        """Keep nothing any more."""
        for memo in self.list_memos().values():
            memo.clear()

    def list_memos(self) -> dict[str, Memo[Any]]:
        """Return what is kept, by a name of each kind."""
        return {
            "logs": self._logs,
            **self._shared_logs.list_memos("logs"),
            "tensors": self._tensors,
            "replays": self._replays,
        }

    def with_cancellation(self, check: CancelCheck) -> "ReplayCache":
        """Return the same cache with replays that can be cancelled.

        A replay ends, with the exception that ``check`` raises, once nobody waits for its question
        any more.
        """
        shared = copy(self)
        shared._check = check  # noqa: SLF001 - of its own kind
        return shared

    def replay_training(
        self,
        model: Architecture,
        workload: TrainWorkload,
        layout: Layout,
        timeline: Timeline,
        device: Device | None = None,
    ) -> ReplayResult | None:
        """Return the allocator's replay of a training job on a GPU.

        None where the order of its allocations is not known.
        """
        kernels = None if device is None else find_kernel_buffers(device)
        key = (model.spec, model.quantization, workload, layout, kernels)
        return self._replays.get_or_make(
            key, lambda: (self._replay(model, workload, layout, timeline, kernels),)
        )[0]

    def replay_serving(
        self,
        key: Hashable,
        make_history: Callable[[], ReplicaHistory],
        kind: Allocator,
        kernels: KernelBuffers,
        peak: int,
    ) -> ReplayResult | None:
        """Return the allocator's replay of a replica on a GPU.

        It is made once for each key. ``peak`` is its peak in bytes. None where its requests do not
        add up to that.
        """
        return self._replays.get_or_make(
            key, lambda: (self._replay_replica(make_history, kind, kernels, peak),)
        )[0]

    def _replay_replica(
        self,
        make_history: Callable[[], ReplicaHistory],
        kind: Allocator,
        kernels: KernelBuffers,
        peak: int,
    ) -> ReplayResult | None:
        if peak > MAX_BYTES:
            return None
        check_making()
        allocator = make_replay_allocator(kind)
        workspaces = replay_replica(allocator, make_history(), kernels, self._check)
        peaks = read_peaks(allocator)

        def run(room_bytes: int) -> int:
            check_making()
            limited = make_replay_allocator(kind, limit=room_bytes // BLOCK_BYTES)
            replay_replica(limited, make_history(), kernels)
            return limited.reserved * BLOCK_BYTES

        return _make_result(kind, peaks, peak, workspaces, run)

    def _replay(
        self,
        model: Architecture,
        workload: TrainWorkload,
        layout: Layout,
        timeline: Timeline,
        kernels: KernelBuffers | None,
    ) -> ReplayResult | None:
        peak, evaluation = find_peak_bytes(timeline), workload.evaluation
        if peak > MAX_BYTES or (evaluation is not None and (evaluation.kept_batches or 0) > 1):
            # Copies of kept logits grow batch by batch, and leave each size before to the cache.
            return None
        setup = timeline.static_memory.setup
        shape = resolve_batch_shape(model, workload)
        config = select_kernels(build_setup_pass(setup, shape), kernels)
        first = replace(config, accumulating=False)
        passes = (
            [first, config]
            if config.accumulating and workload.gradient_accumulation_steps > 1
            else [config]
        )
        tensors = self._list_tensors(model, workload, layout, timeline)
        values = sizes.evaluate_monomials(*workload.rows)
        kind, logs = workload.allocator, [self._log(model, pass_config) for pass_config in passes]

        def run(check: CancelCheck, room_bytes: int | None = None) -> ReplayPeaks:
            again = [self._log(model, pass_config) for pass_config in passes]
            evaluated = self._log_evaluation(model, timeline.evaluation, kernels)
            return replay(kind, tensors, again, values, check, kernels, room_bytes, evaluated)

        return _make_result(
            kind,
            run(self._check),
            peak,
            count_workspace_bytes(logs, values, kernels),
            lambda room_bytes: run(lambda: None, room_bytes).reserved_bytes,
        )

    def _log_evaluation(
        self, model: Architecture, batch: EvaluatedBatch | None, kernels: KernelBuffers | None
    ) -> EvaluationEvents | None:
        """Return the events of an evaluated batch, where there is one."""
        if batch is None:
            return None
        events = self._log(model, select_kernels(batch.config, kernels))
        return EvaluationEvents(events=events, values=batch.values)

    def _list_tensors(
        self, model: Architecture, workload: TrainWorkload, layout: Layout, timeline: Timeline
    ) -> JobTensors:
        """Return the tensors outside of the passes.

        No batch and no sequence changes them.
        """
        static = timeline.static_memory
        return self._tensors.get_or_make(
            static, lambda: self._make_tensors(model, workload, layout, timeline)
        )

    def _make_tensors(
        self, model: Architecture, workload: TrainWorkload, layout: Layout, timeline: Timeline
    ) -> JobTensors:
        static = timeline.static_memory
        tensors = place_packed_weights(
            list_training_tensors(
                model, workload, layout, static.trained, static.states, static.buckets
            ),
            model,
            static.setup.base_weights,
            static.states.weights,
        )
        if self.keeps_first_bucket:
            tensors = replace(tensors, rebuilt=())
        ties = self.builds_on_gpu and model.tied
        return replace(tensors, dropped=tensors.dropped + tensors.loaded[:1]) if ties else tensors

    def _log(self, model: Architecture, config: TrainingPass) -> Events:
        key = (model.spec, config)
        return self._logs.get_or_make(key, lambda: self._load_log(model, config))

    def _load_log(self, model: Architecture, config: TrainingPass) -> Events:
        events = load_training_log(model, config, self._store, self._shared_logs)
        return replace(events, streams=()) if self.single_stream else events


def _make_result(
    kind: Allocator,
    peaks: ReplayPeaks,
    peak: int,
    workspaces: int,
    run: Callable[[int], int],
) -> ReplayResult | None:
    """Return a replay that agrees with a peak in bytes.

    ``run`` replays the same in so many bytes. None where the two do not agree.
    """
    allocated = peaks.allocated_bytes - workspaces
    if not _agrees(allocated, peak):
        return None
    return ReplayResult(
        kind=kind,
        reserved_bytes=max(peaks.reserved_bytes, peak + workspaces),
        allocated_bytes=allocated,
        peak_bytes=peak,
        workspace_bytes=workspaces,
        run_within=cache(lambda room_bytes: peaks.run_within(room_bytes, partial(run, room_bytes))),
    )


def _agrees(allocated: int, peak: int) -> bool:
    return peak * _LOWEST_PER_MILLE <= allocated * 1000 <= peak * _HIGHEST_PER_MILLE


def find_peak_bytes(timeline: Timeline) -> int:
    """Return the highest allocated bytes of a timeline."""
    return max(moment.allocated_bytes for moment in timeline.peaks)
