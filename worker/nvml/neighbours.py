"""Identification of this process on a GPU, and of its neighbours. Pure.

The driver does not see PID namespaces: in a container it may list this process under its number
outside, or not at all (NVIDIA/nvidia-docker#1483).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.nvml.readers import MemoryReading

Processes = Mapping[int, int | None]


def find_own_pid(before: Processes | None, after: Processes | None, pid: int) -> int | None:
    """Return the number that NVML lists this process under.

    It follows from what NVML listed before and after CUDA was initialised. None when it lists no
    such process, or several that could be it.
    """
    candidates = find_own_candidates(before, after, pid)
    return next(iter(candidates)) if len(candidates) == 1 else None


def find_own_candidates(
    before: Processes | None, after: Processes | None, pid: int
) -> frozenset[int]:
    """Return all numbers that NVML may list this process under.

    These are the processes that came with CUDA's start, or this process's own number where that is
    among them.
    """
    # A process that was there before is another one, even under this one's number: outside, numbers
    # are given anew.
    appeared = frozenset(after or {}) - frozenset(before or {})
    return frozenset({pid}) if pid in appeared else appeared


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """Other processes on the GPU and their lowest and highest bytes.

    The bytes are None where NVML does not report them. ``own_pids`` has this process's number, or
    all that could be it: among several nobody can tell which one grows.
    """

    own_pids: frozenset[int]
    byte_ranges: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    has_changed: bool = False
    _present: frozenset[int] | None = None
    _last: Processes | None = None

    def record(self, reading: MemoryReading) -> None:
        """Record the processes of one reading.

        A process that comes, goes, grows or shrinks changes the memory that is left on the GPU.
        """
        processes = reading.processes
        if processes is None or processes == self._last:
            # Most readings are like the one before.
            return
        self._last = processes
        foreign = {
            pid: num_bytes for pid, num_bytes in processes.items() if pid not in self.own_pids
        }
        # One of several that could be this process and goes was another.
        present = frozenset(foreign) | (
            self.own_pids & processes.keys() if self.is_ambiguous else frozenset()
        )
        self.has_changed = self.has_changed or (
            self._present is not None and present != self._present
        )
        self._present = present
        for pid, num_bytes in foreign.items():
            self._record_bytes(pid, num_bytes)

    @property
    def is_ambiguous(self) -> bool:
        """Whether several processes could be this one."""
        return len(self.own_pids) > 1

    def describe(self) -> str | None:
        """Describe the neighbours in a sentence, None without any."""
        sentences = [
            sentence
            for sentence in (self._describe_ambiguity(), self._describe_neighbours())
            if sentence is not None
        ]
        return "; ".join(sentences) or None

    def _describe_ambiguity(self) -> str | None:
        if not self.is_ambiguous:
            return None
        pids = ", ".join(str(pid) for pid in sorted(self.own_pids))
        gone = "; one of them left meanwhile" if self.has_changed and not self.byte_ranges else ""
        return (
            f"processes {pids} came to this GPU together, and NVML does not tell which of them is "
            f"this one{gone}"
        )

    def _describe_neighbours(self) -> str | None:
        if not self.byte_ranges:
            return None
        processes = ", ".join(
            f"process {pid}{_format_bytes(byte_range)}"
            for pid, byte_range in sorted(self.byte_ranges.items())
        )
        change = ", and this changed while it was measured" if self.has_changed else ""
        return f"others use this GPU: {processes}{change}"

    def _record_bytes(self, pid: int, num_bytes: int | None) -> None:
        byte_range = self.byte_ranges.get(pid)
        if num_bytes is None:
            self.byte_ranges.setdefault(pid, None)
        elif byte_range is None:
            self.byte_ranges[pid] = (num_bytes, num_bytes)
        else:
            low, high = min(byte_range[0], num_bytes), max(byte_range[1], num_bytes)
            self.has_changed = self.has_changed or (low, high) != byte_range
            self.byte_ranges[pid] = (low, high)


def _format_bytes(byte_range: tuple[int, int] | None) -> str:
    return "" if byte_range is None else f" with {byte_range[1]} bytes"
