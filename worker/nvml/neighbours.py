"""Which process on a GPU is this one, and who else is there. Pure.

The driver knows nothing of PID namespaces: in a container it may list this process under its number outside, or not at all
(NVIDIA/nvidia-docker#1483).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.nvml.readers import MemoryReading

Processes = Mapping[int, int | None]


def own_pid(before: Processes | None, after: Processes | None, pid: int) -> int | None:
    """Return the number that NVML lists this process under, from what it listed before and after CUDA was initialised.

    None when it lists no such process, or several that could be it.
    """
    found = own_candidates(before, after, pid)
    return next(iter(found)) if len(found) == 1 else None


def own_candidates(before: Processes | None, after: Processes | None, pid: int) -> frozenset[int]:
    """Return every number that NVML may list this process under: those that came with CUDA's start, unless its own is there."""
    # A process that was there before is another one, even under this one's number: outside, numbers are given anew.
    appeared = frozenset(after or {}) - frozenset(before or {})
    return frozenset({pid}) if pid in appeared else appeared


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """Other processes on the GPU, each with the lowest and highest bytes seen; None where NVML does not tell its bytes.

    ``own`` has this process's number, or all that could be it: among these nobody can tell who grows.
    """

    own: frozenset[int]
    seen: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    has_changed: bool = False
    _present: frozenset[int] | None = None
    _last: Processes | None = None

    def look(self, reading: MemoryReading) -> None:
        """Take note of who is there now; one who comes, goes, grows or shrinks changes what the GPU has left."""
        processes = reading.processes
        if processes is None or processes == self._last:
            # Most readings are like the one before.
            return
        self._last = processes
        others = {pid: num_bytes for pid, num_bytes in processes.items() if pid not in self.own}
        # One of several that could be this process and goes was another.
        present = frozenset(others) | (self.own & processes.keys() if self.is_unsure else frozenset())
        self.has_changed = self.has_changed or (self._present is not None and present != self._present)
        self._present = present
        for pid, num_bytes in others.items():
            self._look_at(pid, num_bytes)

    @property
    def is_unsure(self) -> bool:
        """Whether several processes could be this one."""
        return len(self.own) > 1

    def describe(self) -> str | None:
        """Say who is there, None when this process is alone."""
        said = [words for words in (self._unsure(), self._others()) if words is not None]
        return "; ".join(said) or None

    def _unsure(self) -> str | None:
        if not self.is_unsure:
            return None
        who = ", ".join(str(pid) for pid in sorted(self.own))
        gone = "; one of them left meanwhile" if self.has_changed and not self.seen else ""
        return f"processes {who} came to this GPU together, and NVML does not tell which of them is this one{gone}"

    def _others(self) -> str | None:
        if not self.seen:
            return None
        who = ", ".join(f"process {pid}{_with_bytes(bytes_seen)}" for pid, bytes_seen in sorted(self.seen.items()))
        change = ", and this changed while it was measured" if self.has_changed else ""
        return f"others use this GPU: {who}{change}"

    def _look_at(self, pid: int, num_bytes: int | None) -> None:
        known = self.seen.get(pid)
        if num_bytes is None:
            self.seen.setdefault(pid, None)
        elif known is None:
            self.seen[pid] = (num_bytes, num_bytes)
        else:
            low, high = min(known[0], num_bytes), max(known[1], num_bytes)
            self.has_changed = self.has_changed or (low, high) != known
            self.seen[pid] = (low, high)


def _with_bytes(bytes_seen: tuple[int, int] | None) -> str:
    return "" if bytes_seen is None else f" with {bytes_seen[1]} bytes"
