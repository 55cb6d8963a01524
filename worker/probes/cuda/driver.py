"""All calls to CUDA and to torch's caching allocator, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from service.estimator.values.workload import Allocator

ALLOCATOR_SETTINGS = {
    Allocator.EXPANDABLE_SEGMENTS: "expandable_segments:True",
    Allocator.DEFAULT: "expandable_segments:False",
}
"""``PYTORCH_CUDA_ALLOC_CONF`` by the contract's word."""
_HISTORY_ENTRIES = 200_000
_OUT_OF_MEMORY_MESSAGES = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    # The driver's calls, through which expandable segments map memory (C10_CUDA_DRIVER_CHECK,
    # c10/cuda/driver_api.h).
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    # cuDNN 9 says which memory was short (cudnnStatus_t); that of the host is another error.
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    # Loading and launching Triton's kernels (gpuAssert, triton/backends/nvidia/driver.c).
    "Triton Error [CUDA]: out of memory",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorBytes:
    """Counts of the caching allocator, in bytes: now and at most.

    ``requested`` is what tensors asked for, and exact; ``allocated`` is in blocks of 512 bytes, a
    large one with up to 1 MiB too much; ``reserved`` is what CUDA gave. ``num_retries`` counts how
    often it gave its cache back to find room.
    """

    requested: int
    allocated: int
    reserved: int
    requested_peak: int
    allocated_peak: int
    reserved_peak: int
    num_retries: int = 0

    def __or__(self, later: "AllocatorBytes") -> "AllocatorBytes":
        """Return the later counts with the highest peaks of both."""
        return AllocatorBytes(
            requested=later.requested,
            allocated=later.allocated,
            reserved=later.reserved,
            requested_peak=max(self.requested_peak, later.requested_peak),
            allocated_peak=max(self.allocated_peak, later.allocated_peak),
            reserved_peak=max(self.reserved_peak, later.reserved_peak),
            num_retries=later.num_retries,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """Properties of the GPU as CUDA reports them.

    ``memory_bytes`` is what a process can be given, less than NVML's total.
    """

    name: str
    uuid: str | None
    memory_bytes: int
    compute_capability: str
    num_processors: int


class GpuEvent(Protocol):
    """An event in the GPU's own time."""


class Driver(Protocol):
    """The GPU operations that a CUDA probe needs; tests fake them."""

    device: str
    """In torch's words."""

    def start(self) -> None:
        """Make CUDA's context, before the first tensor."""

    def set_allocator(self, allocator: Allocator) -> None:
        """Set how the allocator gets memory from here on.

        It must hold none.
        """

    def facts(self) -> DeviceFacts:
        """Return the GPU's properties."""

    def runtime_version(self) -> str | None:
        """Return the CUDA that torch was built with."""

    def free_bytes(self) -> int:
        """Return the bytes that CUDA can still give."""

    def counts(self) -> AllocatorBytes:
        """Return the allocator's counts.

        The GPU need not have come that far, since it is the host that allocates.
        """

    def forget_peaks(self) -> None:
        """Reset the allocator's peaks."""

    def finish(self) -> None:
        """Wait until the GPU has finished its work."""

    def release(self) -> None:
        """Return unused memory of the allocator to the GPU."""

    def drop_workspaces(self) -> None:
        """Free the workspaces of cuBLAS, which count as allocated.

        The next product makes new ones.
        """

    def record_event(self) -> GpuEvent:
        """Record an event at this point of the GPU's work."""

    def seconds(self, begin: GpuEvent, end: GpuEvent) -> float:
        """Return the GPU's time between two events that it has passed."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether an error means that the GPU has no more memory."""

    def has_expandable_segments(self) -> bool | None:
        """Return the allocator's own setting, None where it is not reported."""

    def record_history(self) -> None:
        """Begin to record the allocator's history."""

    def history(self) -> object:
        """Return the allocator's snapshot for torch's viewer and stop recording."""


@dataclass(slots=True)
class TorchDriver:
    """The first GPU that CUDA shows this process."""

    device: str = "cuda"
    _index: int = field(default=0)

    def start(self) -> None:
        """Make CUDA's context, before the first tensor."""
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.cuda.set_device(self._index)
        # CUDA makes the context with the first call that needs one.
        torch.cuda.synchronize(self._index)
        torch.cuda.mem_get_info(self._index)

    def set_allocator(self, allocator: Allocator) -> None:
        """Set how the allocator gets memory from here on.

        It must hold none.
        """
        _set_allocator(ALLOCATOR_SETTINGS[allocator])

    def facts(self) -> DeviceFacts:
        """Return the GPU's properties."""
        properties: Any = torch.cuda.get_device_properties(self._index)
        uuid = getattr(properties, "uuid", None)
        return DeviceFacts(
            name=properties.name,
            uuid=None if uuid is None else f"GPU-{uuid}",
            memory_bytes=properties.total_memory,
            compute_capability=f"{properties.major}.{properties.minor}",
            num_processors=properties.multi_processor_count,
        )

    def runtime_version(self) -> str | None:
        """Return the CUDA that torch was built with."""
        return torch.version.cuda

    def free_bytes(self) -> int:
        """Return the bytes that CUDA can still give."""
        free, _total = torch.cuda.mem_get_info(self._index)
        return int(free)

    def counts(self) -> AllocatorBytes:
        """Return the allocator's counts."""
        # The flat form of the same statistics takes ten times as long, and this is asked at every
        # layer's border.
        return parse_counts(torch.cuda.memory.memory_stats_as_nested_dict(self._index))

    def forget_peaks(self) -> None:
        """Reset the allocator's peaks."""
        torch.cuda.reset_peak_memory_stats(self._index)

    def finish(self) -> None:
        """Wait until the GPU has finished its work."""
        torch.cuda.synchronize(self._index)

    def release(self) -> None:
        """Return unused memory of the allocator to the GPU."""
        torch.cuda.synchronize(self._index)
        torch.cuda.empty_cache()

    def drop_workspaces(self) -> None:
        """Free the workspaces of cuBLAS."""
        torch.cuda.synchronize(self._index)
        torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - torch has no public name for it

    def record_event(self) -> "torch.cuda.Event":
        """Record an event at this point of the GPU's work."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        event.record()
        return event

    def seconds(self, begin: GpuEvent, end: GpuEvent) -> float:
        """Return the GPU's time between two events that it has passed."""
        assert isinstance(begin, torch.cuda.Event)  # noqa: S101 - made by now()
        assert isinstance(end, torch.cuda.Event)  # noqa: S101 - made by now()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether an error means that the GPU has no more memory.

        It is the allocator's own error, or that of a library below it.
        """
        return isinstance(error, torch.OutOfMemoryError) or any(
            message in str(error) for message in _OUT_OF_MEMORY_MESSAGES
        )

    def has_expandable_segments(self) -> bool | None:
        """Return the allocator's own setting, None where it is not reported."""
        settings = torch.cuda.memory._snapshot().get("allocator_settings", {})  # noqa: SLF001 - the only way to ask it
        value = settings.get("expandable_segments")
        return None if value is None else bool(value)

    def record_history(self) -> None:
        """Begin to record the allocator's history."""
        memory: Any = torch.cuda.memory
        memory._record_memory_history(max_entries=_HISTORY_ENTRIES, stacks="python")  # noqa: SLF001 - its documented name

    def history(self) -> object:
        """Return the allocator's snapshot for torch's viewer and stop recording."""
        memory: Any = torch.cuda.memory
        snapshot: object = memory._snapshot()  # noqa: SLF001 - its documented name
        memory._record_memory_history(enabled=None)  # noqa: SLF001 - its documented name
        return snapshot


def parse_counts(statistics: Mapping[str, Any]) -> AllocatorBytes:
    """Parse the counts of ``torch.cuda.memory_stats_as_nested_dict``.

    They are all zero before CUDA's start.
    """

    def read(name: str, which: str) -> int:
        return int(statistics.get(name, {}).get("all", {}).get(which, 0))

    return AllocatorBytes(
        requested=read("requested_bytes", "current"),
        allocated=read("allocated_bytes", "current"),
        reserved=read("reserved_bytes", "current"),
        requested_peak=read("requested_bytes", "peak"),
        allocated_peak=read("allocated_bytes", "peak"),
        reserved_peak=read("reserved_bytes", "peak"),
        num_retries=int(statistics.get("num_alloc_retries", 0)),
    )


def _set_allocator(settings: str) -> None:
    """Set the allocator at run time.

    Torch 2.10 moved the function that does so.
    """
    library: Any = torch._C  # noqa: SLF001 - torch has no public name for it
    if hasattr(library, "_accelerator_setAllocatorSettings"):
        library._accelerator_setAllocatorSettings(settings)  # noqa: SLF001 - see above
    else:
        library._cuda_cudaCachingAllocator_set_allocator_settings(settings)  # noqa: SLF001 - see above
