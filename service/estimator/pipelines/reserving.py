"""Bytes that PyTorch's allocator reserves over a call's phases."""

from collections.abc import Sequence

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES
from service.estimator.memory.allocator.replay_allocators import (
    BlockT,
    ReplayAllocator,
    make_replay_allocator,
)
from service.estimator.pipelines.call import Phase
from service.estimator.pipelines.logs import Log
from service.estimator.pipelines.phases import iterate_requests
from service.estimator.pipelines.workload import PipelineOffload
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Allocator


def replay_call(phases: Sequence[Phase], offload: PipelineOffload, *, workspaces: bool) -> int:
    """Return the highest reserved bytes of phases with ordered events.

    Where nothing is offloaded one history runs from the weights to the picture; a hook of
    accelerate empties the cache before each model that it brings, so that each phase is one.
    ``workspaces``: with the most that convolutions take.

    Raises:
        InvalidInputError: they hold 2^53 bytes or more.

    """
    try:
        if offload is PipelineOffload.NONE:
            return _replay(phases, phases[0], workspaces=workspaces)
        return max(_replay([phase], phase, workspaces=workspaces) for phase in phases)
    except OverflowError as error:
        message = "this call needs 2^53 bytes per GPU or more, and no GPU has so many; ask for less"
        raise InvalidInputError(message) from error


def _replay(phases: Sequence[Phase], first: Phase, *, workspaces: bool) -> int:
    allocator = make_replay_allocator(Allocator.DEFAULT)
    for component, dtype in first.idle:
        allocator.allocate_all(component.list_tensors(dtype))
    allocator.allocate_all(first.residence.constant)
    for phase in phases:
        inputs = allocator.allocate_all([phase.held_bytes])
        _replay_phase(allocator, phase, workspaces=workspaces)
        allocator.free_all(inputs)
    return allocator.reserved * BLOCK_BYTES


def _replay_phase(allocator: ReplayAllocator[BlockT], phase: Phase, *, workspaces: bool) -> None:
    """Make a phase's requests; what it leaves is freed."""
    assert isinstance(phase.recorded, Log)  # noqa: S101 - the caller looked
    live: dict[object, BlockT] = {}
    for asks, key, size in iterate_requests(
        phase.recorded, phase.extents, phase.residence, workspaces=workspaces
    ):
        if not size:
            continue
        if asks:
            live[key] = allocator.allocate(-(-size // BLOCK_BYTES))
        else:
            allocator.free(live.pop(key))
    allocator.free_all(live.values())
