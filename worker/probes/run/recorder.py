"""Live tensor bytes of a CPU run, from torch's allocation events.

The profiler's memory events are used and no dispatch mode: under a dispatch mode autograd stops
accumulating the gradients of a twice-used tensor in place, so the run that is measured would not be
the run that happens.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch._C._profiler import _ExtraFields_Allocation, _ProfilerEvent
from torch.autograd.profiler import profile, record_function

MARK = "headroom::"
"""Prefix of the events that divide a recording into stretches."""

BEFORE_FIRST_MARK = "start"
Listener = Callable[[str], None]
_listeners: list[Listener] = []
"""Listeners of the process, not of a context.

Autograd runs backward in threads of its own on a GPU, and its marks count too.
"""


class RecordingError(RuntimeError):
    """The recorded allocations are inconsistent, so no number can be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes between two marks.

    ``live_peak`` counts storages that outlive the operator that made them: what any device holds.
    ``allocator_peak`` counts the scratch of CPU kernels too.
    """

    name: str
    start: int
    live_peak: int
    allocator_peak: int
    end: int


@dataclass(frozen=True, slots=True)
class _Change:
    """One allocation (positive) or release.

    ``operator`` is the kernel in which it happened; scratch is released in the same kernel.
    """

    time_ns: int
    delta: int
    total: int
    address: int
    operator: int | None


@dataclass(frozen=True, slots=True)
class _Mark:
    time_ns: int
    name: str


class Recording:
    """A recording that is under way or over.

    ``stretches`` can be read once it is over.
    """

    def __init__(self, profiler: profile) -> None:
        """Keep the profiler whose events are read afterwards."""
        self._profiler = profiler

    def stretches(self) -> tuple[Stretch, ...]:
        """Return the stretches between the marks, in order."""
        results = self._profiler.kineto_results
        if results is None:
            message = "the recording is not over"
            raise RecordingError(message)
        changes, marks = _flatten(results.experimental_event_tree(), _list_kernels())
        return _sweep(changes, marks)


@contextmanager
def record_allocations() -> Iterator[Recording]:
    """Record every allocation of this thread within a block.

    Begin before the first tensor that counts.
    """
    with profile(use_cpu=True, profile_memory=True) as profiler:
        yield Recording(profiler)


def mark(name: str) -> None:
    """End a stretch of the recording and begin the one called ``name``."""
    for listener in _listeners:
        listener(name)
    with record_function(MARK + name):
        pass


@contextmanager
def listen_to_marks(listener: Listener) -> Iterator[None]:
    """Call ``listener`` at every mark within a block.

    Other recorders than this one divide their recordings alike.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _list_kernels() -> frozenset[str]:
    """Return the names of operators that run as one kernel.

    All others are compositions of these.
    """
    names: set[str] = set()
    for key in ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)  # noqa: SLF001 - the dispatcher's only table
        names.update(name.partition(".")[0] for name in registered if not name.endswith("out"))
    return frozenset(names)


def _flatten(
    roots: Iterable[_ProfilerEvent], kernels: frozenset[str]
) -> tuple[list[_Change], list[_Mark]]:
    changes: list[_Change] = []
    marks: list[_Mark] = []
    stack: list[tuple[_ProfilerEvent, int | None]] = [(event, None) for event in roots]
    while stack:
        event, operator = stack.pop()
        fields = event.extra_fields
        if isinstance(fields, _ExtraFields_Allocation):
            time_ns, total = event.start_time_ns, fields.total_allocated
            changes.append(_Change(time_ns, fields.alloc_size, total, fields.ptr, operator))
        elif event.name.startswith(MARK):
            marks.append(_Mark(event.start_time_ns, event.name.removeprefix(MARK)))
        kernel_id = event.correlation_id if operator is None and event.name in kernels else operator
        stack.extend((child, kernel_id) for child in event.children)
    return _sort_by_time(changes), sorted(marks, key=lambda mark: mark.time_ns)


def _sort_by_time(changes: list[_Change]) -> list[_Change]:
    """Sort the changes by time and check their totals.

    Each total must follow from the one before it.
    """
    ordered = sorted(changes, key=lambda change: change.time_ns)
    # The reporter counts for the whole life of the process; what an earlier recording left there is
    # no event of this one.
    total = ordered[0].total - ordered[0].delta if ordered else 0
    for change in ordered:
        total += change.delta
        if total != change.total:
            message = (
                f"the allocator reports {change.total} live bytes where its events add up to "
                f"{total}"
            )
            raise RecordingError(message)
    return ordered


@dataclass(frozen=True, slots=True)
class _IgnoredChanges:
    """Positions of the changes that are not live bytes.

    They are scratch of one kernel, and releases of what is older than the recording.
    """

    scratch: frozenset[int]
    foreign: frozenset[int]


def _find_ignored(changes: list[_Change]) -> _IgnoredChanges:
    born: dict[int, int] = {}
    scratch: set[int] = set()
    foreign: set[int] = set()
    for position, change in enumerate(changes):
        if change.delta > 0:
            born[change.address] = position
        elif (birth := born.pop(change.address, None)) is None:
            foreign.add(position)
        elif change.operator is not None and change.operator == changes[birth].operator:
            scratch.update((birth, position))
    return _IgnoredChanges(frozenset(scratch), frozenset(foreign))


def _sweep(changes: list[_Change], marks: list[_Mark]) -> tuple[Stretch, ...]:
    ignored = _find_ignored(changes)
    stretches: list[Stretch] = []
    live = total = position = 0
    for mark_index in range(-1, len(marks)):
        name = marks[mark_index].name if mark_index >= 0 else BEFORE_FIRST_MARK
        until = marks[mark_index + 1].time_ns if mark_index + 1 < len(marks) else None
        start, live_peak, allocator_peak = live, live, total
        while position < len(changes) and (until is None or changes[position].time_ns < until):
            if position not in ignored.foreign:
                total += changes[position].delta
                live += 0 if position in ignored.scratch else changes[position].delta
            live_peak, allocator_peak = max(live_peak, live), max(allocator_peak, total)
            position += 1
        stretches.append(
            Stretch(
                name=name, start=start, live_peak=live_peak, allocator_peak=allocator_peak, end=live
            ),
        )
    return tuple(stretches)
