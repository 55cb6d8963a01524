"""A GPU that is a processor: real tensors, a clock that ticks, and an allocator that counts what it is told to."""

from dataclasses import dataclass, field

import torch

from service.estimator.values.workload import Allocator
from worker.probes.cuda.driver import AllocatorBytes, DeviceFacts, Moment

MIB = 1024**2
CONTEXT_BYTES = 500 * MIB
WORKSPACE_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class FakeMoment:
    """A tick of the fake clock."""

    tick: int


@dataclass(slots=True, kw_only=True)
class FakeDriver:
    """Counts one MiB more at each look, and 64 MiB of workspaces until they are dropped; ``fails_at`` moments it is full."""

    device: str = "cpu"
    uuid: str | None = "GPU-1111"
    fails_at: int | None = None
    starts: bool = True
    calls: list[str] = field(default_factory=list)
    _ticks: int = 0
    _looks: int = 0
    _has_workspaces: bool = False

    def start(self) -> None:
        """Start, or say as torch does that there is nothing to start."""
        self.calls.append("start")
        if not self.starts:
            message = "No CUDA GPUs are available"
            raise RuntimeError(message)

    def set_allocator(self, allocator: Allocator) -> None:
        """Take note."""
        self.calls.append(f"set_allocator {allocator.value}")

    def facts(self) -> DeviceFacts:
        """Return an H200."""
        return DeviceFacts(
            name="NVIDIA H200", uuid=self.uuid, memory_bytes=139 * 1024**3, compute_capability="9.0", num_processors=132
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
        beside = WORKSPACE_BYTES if self._has_workspaces else 0
        now = self._looks * MIB + beside
        return AllocatorBytes(
            requested=now,
            allocated=now + 512,
            reserved=2 * now,
            requested_peak=now + 3,
            allocated_peak=now + 515,
            reserved_peak=2 * now,
        )

    def forget_peaks(self) -> None:
        """Take note."""
        self.calls.append("forget_peaks")

    def finish(self) -> None:
        """Have nothing to wait for."""

    def release(self) -> None:
        """Take note."""
        self.calls.append("release")

    def drop_workspaces(self) -> None:
        """Count them no more; looking is no growth here."""
        self._has_workspaces = False
        self._looks -= bool(self._looks)

    def now(self) -> Moment:
        """Return the next tick; products have run, so there are workspaces from here."""
        self._ticks += 1
        self._has_workspaces = True
        if self._ticks == self.fails_at:
            message = "CUDA out of memory. Tried to allocate 2.26 GiB.\nGPU 0 has a total capacity of 139 GiB"
            raise torch.OutOfMemoryError(message)
        return FakeMoment(self._ticks)

    def seconds(self, begin: Moment, end: Moment) -> float:
        """Return the ticks between."""
        assert isinstance(begin, FakeMoment)
        assert isinstance(end, FakeMoment)
        return float(end.tick - begin.tick)

    def is_out_of_memory(self, error: Exception) -> bool:
        """Tell torch's own error."""
        return isinstance(error, torch.OutOfMemoryError)

    def has_expandable_segments(self) -> bool | None:
        """Return what was set last."""
        return self.calls[-1] == "set_allocator expandable_segments" if self.calls else None

    def record_history(self) -> None:
        """Take note."""
        self.calls.append("record_history")

    def history(self) -> object:
        """Return books without an entry, as torch's are before CUDA's start."""
        self.calls.append("history")
        return {"segments": [], "device_traces": [[]]}
