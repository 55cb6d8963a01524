"""Replay of a job's whole history of allocations.

It is load, a first step that makes the optimizer's states, and a steady one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, CancelCheck
from service.estimator.memory.allocator.kernel_buffers import KernelBuffers
from service.estimator.memory.allocator.pressure import DeviceFullError
from service.estimator.memory.allocator.replay_allocators import (
    BlockT,
    ReplayAllocator,
    Requests,
    make_replay_allocator,
)
from service.estimator.memory.optimizers.events import StepEvents
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.sizes import Size
from service.estimator.values.memo import check_making
from service.estimator.values.workload import Allocator

STEPS = 2
"""The steady state: a second step finds the optimizer's states in place, and a third one repeats
it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpdate:
    """The update of one group of parameters.

    ``states`` are made by the first one, ``step`` has what each makes and drops.
    """

    states: tuple[int, ...] = ()
    step: StepEvents = field(default_factory=StepEvents)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTensors:
    """Bytes of every tensor outside of the passes, in order.

    The order is that in which they are made. ``updates`` are those of the optimizer's groups, one
    after another; ``gradient_bytes`` prices an element of a gradient shard.
    """

    loaded: tuple[int, ...]
    main_gradients: tuple[int, ...]
    updates: tuple[GroupUpdate, ...]
    gradient_bytes: int
    gradient_shards: int
    dropped: tuple[int, ...] = ()
    """Tensors that loading makes and drops, last of all."""
    rebuilt: tuple[int, ...] = ()
    """Buckets that take the place of the last tensor of ``loaded`` before the second step ends."""
    backward: tuple[int, ...] = ()
    """Buffers of communication that live through backward, held here from the start of their micro
    batch.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationEvents:
    """A batch of an evaluation, with the values of its monomials."""

    events: Events
    values: Size


RunWithin = Callable[[int], int | None]
"""What a job reserves on a GPU with so many bytes for it; None where it runs out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPeaks:
    """Highest counts of an allocator that replayed a job.

    They are the memory that it took from the GPU, the highest sum of blocks in use, and the highest
    sum of what the job asked for, rounded up to blocks.
    """

    reserved_bytes: int
    allocated_bytes: int
    requested_bytes: int

    def run_within(self, room_bytes: int, run: Callable[[], int]) -> int | None:
        """Return the reserved bytes of the same job in ``room_bytes``.

        None where it does not run there. ``run`` replays it, or raises DeviceFullError, and is
        called where the room binds: a job that never asks for more than there is runs as it did,
        and none runs in less than it asks for at once.
        """
        if room_bytes >= self.reserved_bytes:
            return self.reserved_bytes
        if room_bytes < self.requested_bytes:
            return None
        try:
            return run()
        except DeviceFullError:
            return None


def read_peaks(allocator: ReplayAllocator[Any]) -> ReplayPeaks:
    """Return the counts of an allocator."""
    return ReplayPeaks(
        reserved_bytes=allocator.reserved * BLOCK_BYTES,
        allocated_bytes=allocator.highest * BLOCK_BYTES,
        requested_bytes=allocator.highest_requested * BLOCK_BYTES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Reserved and allocated peaks of a replay.

    They are the memory that the allocator took from the GPU, the highest sum of blocks in use, and
    the same peak as a sum of tensors. ``workspace_bytes`` of it are workspaces of libraries.
    """

    kind: Allocator
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int
    workspace_bytes: int = 0
    run_within: RunWithin = field(default=lambda _: None, compare=False)


def replay(  # noqa: PLR0913, PLR0917 - a job, and the GPU that it is replayed on
    kind: Allocator,
    tensors: JobTensors,
    passes: Sequence[Events],
    values: Size,
    check: CancelCheck = lambda: None,
    kernels: KernelBuffers | None = None,
    room_bytes: int | None = None,
    evaluation: EvaluationEvents | None = None,
) -> ReplayPeaks:
    """Return the highest counts of a job.

    The job's step is ``passes``. ``values`` are those of the monomials;
    ``check`` is called now and then, and may raise. ``kernels`` size the buffers of a known GPU.
    Raises DeviceFullError where the job does not run in ``room_bytes``.
    """
    check_making()
    # Of a GPU that nobody knows nobody knows the addresses.
    allocator = make_replay_allocator(
        kind,
        limit=None if room_bytes is None else room_bytes // BLOCK_BYTES,
        is_cuda=kernels is not None,
    )
    replay_job(allocator, tensors, passes, values, check, kernels, evaluation)
    return read_peaks(allocator)


def replay_job(  # noqa: PLR0913, PLR0917 - the same
    allocator: Requests[BlockT],
    tensors: JobTensors,
    passes: Sequence[Events],
    values: Size,
    check: CancelCheck = lambda: None,
    kernels: KernelBuffers | None = None,
    evaluation: EvaluationEvents | None = None,
) -> None:
    """Make the requests of a job.

    They are those of load, and of steps until they repeat; after an evaluation comes another step.
    """
    num_steps = STEPS + (evaluation is not None)
    loaded = allocator.allocate_all(tensors.loaded)
    allocator.free_all(allocator.allocate_all(tensors.dropped))
    priced = [_count_blocks(events, tensors, values, kernels) for events in passes]
    for step in range(num_steps):
        if step == STEPS and evaluation is not None:
            _replay_evaluation(allocator, tensors, evaluation, check, kernels)
        gradients: list[BlockT] = []
        for index, (events, blocks) in enumerate(zip(passes, priced, strict=True)):
            if step or index:
                _drop_workspaces(events, blocks)
            if step == 1 and index == len(passes) - 1 and tensors.rebuilt:
                allocator.free_all(loaded[-1:])
                allocator.allocate_all(tensors.rebuilt)
            buffers = allocator.allocate_all(tensors.backward)
            gradients += _replay_pass(allocator, events, blocks, check)
            allocator.free_all(buffers)
        main = allocator.allocate_all(tensors.main_gradients)
        for update in tensors.updates:
            if step == 0:
                allocator.allocate_all(update.states)
            temporaries = [-(-size // BLOCK_BYTES) for size in update.step.sizes]
            allocator.run(update.step.order, temporaries, check)
        if step + 1 < num_steps:  # what is freed last of all changes no peak
            allocator.free_all(main)
            allocator.free_all(gradients)


def _replay_evaluation(
    allocator: Requests[BlockT],
    tensors: JobTensors,
    evaluation: EvaluationEvents,
    check: CancelCheck,
    kernels: KernelBuffers | None,
) -> None:
    events = evaluation.events
    blocks = _count_blocks(events, tensors, evaluation.values, kernels)
    _drop_workspaces(events, blocks)
    _replay_pass(allocator, events, blocks, check)


def _drop_workspaces(events: Events, blocks: list[int]) -> None:
    """Size workspaces at nothing: an earlier pass has made them."""
    for buffer, indices in events.buffers:
        for index in indices if buffer.stays else ():
            blocks[index] = 0


def count_workspace_bytes(
    passes: Sequence[Events], values: Size, kernels: KernelBuffers | None
) -> int:
    """Return the bytes of the workspaces that a job's passes make."""
    if kernels is None:
        return 0
    return sum(
        kernels.count_bytes(buffer, values) * len(indices)
        for buffer, indices in passes[0].buffers
        if buffer.stays
    )


def _count_blocks(
    events: Events, tensors: JobTensors, values: Size, kernels: KernelBuffers | None
) -> list[int]:
    """Return the size of every storage in blocks."""
    priced = [-(-sizes.evaluate(size, values) // BLOCK_BYTES) for size in events.sizes]
    blocks = [priced[kind] for kind in events.kinds]
    for index, elements in events.shards:
        blocks[index] = -(
            -elements * tensors.gradient_bytes // (tensors.gradient_shards * BLOCK_BYTES)
        )
    if kernels is not None:
        for buffer, indices in events.buffers:
            size = -(-kernels.count_bytes(buffer, values) // BLOCK_BYTES)
            for index in indices:
                blocks[index] = size
    return blocks


def _replay_pass(
    allocator: Requests[BlockT], events: Events, blocks: list[int], check: CancelCheck
) -> list[BlockT]:
    """Replay one pass; return its gradients and free the rest."""
    live = allocator.run(events.order, blocks, check, events.list_streams())
    for buffer, indices in events.buffers:
        for index in indices if buffer.stays else ():
            live.pop(index, None)
    gradients = [live.pop(index) for index in tuple(live) if index in events.gradients]
    allocator.free_all(live.values())
    return gradients
