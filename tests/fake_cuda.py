"""A fake GPU on the processor.

It has real tensors, a clock that ticks, and an allocator that counts what it is told to.
"""

from dataclasses import dataclass, field

import torch

from service.estimator.values.workload import Allocator
from worker.probes.cuda.driver import AllocatorBytes, DeviceFacts, GpuEvent

MIB = 1024**2
CONTEXT_BYTES = 500 * MIB
WORKSPACE_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class FakeEvent:
    """A tick of the fake clock."""

    tick: int


@dataclass(slots=True, kw_only=True)
class FakeDriver:
    """Driver whose counts grow by one MiB at each read.

    There are 64 MiB of workspaces until they are dropped; it runs out of memory at event
    ``fails_at``.
    """

    device: str = "cpu"
    uuid: str | None = "GPU-1111"
    fails_at: int | None = None
    starts: bool = True
    calls: list[str] = field(default_factory=list)
    _ticks: int = 0
    _looks: int = 0
    _has_workspaces: bool = False

    def start(self) -> None:
        """Start, or raise torch's error for a machine without a GPU."""
        self.calls.append("start")
        if not self.starts:
            message = "No CUDA GPUs are available"
            raise RuntimeError(message)

    def set_allocator(self, allocator: Allocator) -> None:
        """Record the call."""
        self.calls.append(f"set_allocator {allocator.value}")

    def facts(self) -> DeviceFacts:
        """Return an H200."""
        return DeviceFacts(
            name="NVIDIA H200",
            uuid=self.uuid,
            memory_bytes=139 * 1024**3,
            compute_capability="9.0",
            num_processors=132,
        )

    def runtime_version(self) -> str | None:
        """Return a CUDA."""
        return "13.0"

    def free_bytes(self) -> int:
        """Return 100 GiB."""
        return 100 * 1024**3

    def counts(self) -> AllocatorBytes:
        """Return what has grown by one MiB since the last look."""
        self._looks += 1
        workspace_bytes = WORKSPACE_BYTES if self._has_workspaces else 0
        current = self._looks * MIB + workspace_bytes
        return AllocatorBytes(
            requested=current,
            allocated=current + 512,
            reserved=2 * current,
            requested_peak=current + 3,
            allocated_peak=current + 515,
            reserved_peak=2 * current,
        )

    def forget_peaks(self) -> None:
        """Record the call."""
        self.calls.append("forget_peaks")

    def finish(self) -> None:
        """Have nothing to wait for."""

    def release(self) -> None:
        """Record the call."""
        self.calls.append("release")

    def drop_workspaces(self) -> None:
        """Drop the workspaces; this read is no growth."""
        self._has_workspaces = False
        self._looks -= bool(self._looks)

    def record_event(self) -> GpuEvent:
        """Return the next tick; there are workspaces from here.

        Products have run by now.
        """
        self._ticks += 1
        self._has_workspaces = True
        if self._ticks == self.fails_at:
            message = (
                "CUDA out of memory. Tried to allocate 2.26 GiB.\nGPU 0 has a total capacity of "
                "139 GiB"
            )
            raise torch.OutOfMemoryError(message)
        return FakeEvent(self._ticks)

    def seconds(self, begin: GpuEvent, end: GpuEvent) -> float:
        """Return the ticks between."""
        assert isinstance(begin, FakeEvent)
        assert isinstance(end, FakeEvent)
        return float(end.tick - begin.tick)

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether it is torch's own error."""
        return isinstance(error, torch.OutOfMemoryError)

    def has_expandable_segments(self) -> bool | None:
        """Return what was set last."""
        return self.calls[-1] == "set_allocator expandable_segments" if self.calls else None

    def record_history(self) -> None:
        """Record the call."""
        self.calls.append("record_history")

    def history(self) -> object:
        """Return a snapshot without entries, as torch's is before CUDA's start."""
        self.calls.append("history")
        return {"segments": [], "device_traces": [[]]}
