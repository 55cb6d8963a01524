"""Every word that this program says to CUDA, and to torch's caching allocator, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from service.estimator.values.workload import Allocator

ALLOCATOR_SETTINGS = {Allocator.EXPANDABLE_SEGMENTS: "expandable_segments:True", Allocator.DEFAULT: "expandable_segments:False"}
"""``PYTORCH_CUDA_ALLOC_CONF`` by the contract's word."""
_HISTORY_ENTRIES = 200_000
_OUT_OF_MEMORY_WORDS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    # The driver's calls, through which expandable segments map memory (C10_CUDA_DRIVER_CHECK, c10/cuda/driver_api.h).
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
    """What the caching allocator counts: what tensors asked for, what they were given, what it holds; now and at most.

    ``requested`` is exact; ``allocated`` is in blocks of 512 bytes, a large one with up to 1 MiB too much; ``reserved`` is
    what CUDA gave. ``num_retries`` counts how often it gave its cache back to find room.
    """

    requested: int
    allocated: int
    reserved: int
    requested_peak: int
    allocated_peak: int
    reserved_peak: int
    num_retries: int = 0

    def __or__(self, later: "AllocatorBytes") -> "AllocatorBytes":
        """Return what is there later, with the highest peaks of both."""
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
    """The GPU as CUDA shows it; ``memory_bytes`` is what a process can be given, less than NVML's total."""

    name: str
    uuid: str | None
    memory_bytes: int
    compute_capability: str
    num_processors: int


class Moment(Protocol):
    """A point in the GPU's own time."""


class Driver(Protocol):
    """What a CUDA probe needs of a GPU; a test plays one."""

    device: str
    """In torch's words."""

    def start(self) -> None:
        """Make CUDA's context, before the first tensor."""

    def set_allocator(self, allocator: Allocator) -> None:
        """Have the allocator get memory in this way from here; it must hold none."""

    def facts(self) -> DeviceFacts:
        """Return what the GPU is."""

    def runtime_version(self) -> str | None:
        """Return the CUDA that torch was built with."""

    def free_bytes(self) -> int:
        """Return what CUDA can still give."""

    def counts(self) -> AllocatorBytes:
        """Return what the allocator counts; the GPU need not have come that far, since it is the host that allocates."""

    def forget_peaks(self) -> None:
        """Begin the allocator's peaks anew."""

    def finish(self) -> None:
        """Wait until the GPU has done what it was given."""

    def release(self) -> None:
        """Give back what the allocator holds and no tensor uses."""

    def drop_workspaces(self) -> None:
        """Free the workspaces of cuBLAS, which count as allocated; the next product makes new ones."""

    def now(self) -> Moment:
        """Return when the GPU gets here."""

    def seconds(self, begin: Moment, end: Moment) -> float:
        """Return the GPU's time between two moments that it has passed."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Tell whether an error says that the GPU has no more memory."""

    def has_expandable_segments(self) -> bool | None:
        """Return what the allocator says of itself, None where it does not say."""

    def record_history(self) -> None:
        """Have the allocator remember what it does from here."""

    def history(self) -> object:
        """Return the allocator's memory as torch's viewer reads it, and stop remembering."""


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
        """Have the allocator get memory in this way from here; it must hold none."""
        _set_allocator(ALLOCATOR_SETTINGS[allocator])

    def facts(self) -> DeviceFacts:
        """Return what the GPU is."""
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
        """Return what CUDA can still give."""
        free, _total = torch.cuda.mem_get_info(self._index)
        return int(free)

    def counts(self) -> AllocatorBytes:
        """Return what the allocator counts."""
        # The flat form of the same statistics takes ten times as long, and this is asked at every layer's border.
        return counts_of(torch.cuda.memory.memory_stats_as_nested_dict(self._index))

    def forget_peaks(self) -> None:
        """Begin the allocator's peaks anew."""
        torch.cuda.reset_peak_memory_stats(self._index)

    def finish(self) -> None:
        """Wait until the GPU has done what it was given."""
        torch.cuda.synchronize(self._index)

    def release(self) -> None:
        """Give back what the allocator holds and no tensor uses."""
        torch.cuda.synchronize(self._index)
        torch.cuda.empty_cache()

    def drop_workspaces(self) -> None:
        """Free the workspaces of cuBLAS."""
        torch.cuda.synchronize(self._index)
        torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - torch has no public name for it

    def now(self) -> "torch.cuda.Event":
        """Return when the GPU gets here."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        event.record()
        return event

    def seconds(self, begin: Moment, end: Moment) -> float:
        """Return the GPU's time between two moments that it has passed."""
        assert isinstance(begin, torch.cuda.Event)  # noqa: S101 - made by now()
        assert isinstance(end, torch.cuda.Event)  # noqa: S101 - made by now()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    def is_out_of_memory(self, error: Exception) -> bool:
        """Tell whether an error says that the GPU has no more memory: the allocator's own, or a library's below it."""
        return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY_WORDS)

    def has_expandable_segments(self) -> bool | None:
        """Return what the allocator says of itself, None where it does not say."""
        settings = torch.cuda.memory._snapshot().get("allocator_settings", {})  # noqa: SLF001 - the only way to ask it
        said = settings.get("expandable_segments")
        return None if said is None else bool(said)

    def record_history(self) -> None:
        """Have the allocator remember what it does from here."""
        memory: Any = torch.cuda.memory
        memory._record_memory_history(max_entries=_HISTORY_ENTRIES, stacks="python")  # noqa: SLF001 - its documented name

    def history(self) -> object:
        """Return the allocator's memory as torch's viewer reads it, and stop remembering."""
        memory: Any = torch.cuda.memory
        snapshot: object = memory._snapshot()  # noqa: SLF001 - its documented name
        memory._record_memory_history(enabled=None)  # noqa: SLF001 - its documented name
        return snapshot


def counts_of(statistics: Mapping[str, Any]) -> AllocatorBytes:
    """Return the counts out of ``torch.cuda.memory_stats_as_nested_dict``; all zero before CUDA's start."""

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
    """Set the allocator at run time; torch 2.10 moved the function that does so."""
    library: Any = torch._C  # noqa: SLF001 - torch has no public name for it
    if hasattr(library, "_accelerator_setAllocatorSettings"):
        library._accelerator_setAllocatorSettings(settings)  # noqa: SLF001 - see above
    else:
        library._cuda_cudaCachingAllocator_set_allocator_settings(settings)  # noqa: SLF001 - see above
