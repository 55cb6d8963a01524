"""Balance of a GPU at a failure: requested, free and used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from service.estimator.memory.overheads.cuda_context import find_context
from service.estimator.values.units import MIB
from service.formats.failures.failure import (
    NOTHING,
    Failure,
    FailureQuantity,
    ProcessUse,
    Span,
)

CONTEXT = find_context("H100")
"""The largest of the contexts with libraries that were read: what lies beside the allocator of one
process, where nothing tells it.
"""
_EAGER_KERNELS = (636 - 274) * MIB
"""More of it where all kernels are loaded at once, as before CUDA 11.7 (pytorch/pytorch pull
request 86509); the messages that name no process are of those years.
"""
_SMALLEST_STRANGER = 64 * MIB
"""Below it nobody else's memory is told from rounding of the printed numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Bytes at a failure, ``None`` where nothing tells them.

    ``process`` is what the failing process had in all, ``other_processes`` what others had that are
    named; ``strangers`` is used by nobody that the message names. ``outside`` is what the process
    had beside PyTorch's allocator.
    """

    requested: Span | None
    total: Span | None
    free: Span | None
    limit: Span | None
    allocated: Span | None
    unallocated: Span | None
    reserved: Span | None
    process: Span | None
    process_pid: int | None
    other_processes: Span
    other_pids: tuple[int, ...]
    strangers: Span
    outside: Span | None

    @property
    def missing(self) -> Span | None:
        """Requested less free bytes, negative where enough was free."""
        if self.requested is None or self.free is None:
            return None
        return self.requested - self.free

    @property
    def foreign(self) -> Span:
        """Bytes of everybody else."""
        return self.other_processes + self.strangers

    @property
    def is_unsure(self) -> bool:
        """Whether nothing tells which process failed."""
        reserved = self.reserved
        return self.process_pid is not None and reserved is not None and reserved.high == 0

    @property
    def available(self) -> Span | None:
        """Bytes that the GPU had for this process, with its context."""
        if self.total is None:
            return None
        available = self.total - self.foreign
        if self.limit is None or self.limit.value > available.value:
            return available
        return self.limit


def compute_balance(failure: Failure) -> Balance:
    """Return the balance of a GPU by the numbers of one failure."""
    allocated, unallocated, reserved = _read_allocator(failure)
    failing, remaining = _split_processes(failure.processes, reserved)
    total, free = failure.get(FailureQuantity.TOTAL), failure.get(FailureQuantity.FREE)
    other_bytes = _sum(process.span for process in remaining)
    outside = None if failing is None or reserved is None else _floor(failing.span - reserved)
    return Balance(
        requested=failure.get(FailureQuantity.REQUESTED),
        total=total,
        free=free,
        limit=failure.get(FailureQuantity.LIMIT),
        allocated=allocated,
        unallocated=unallocated,
        reserved=reserved,
        process=None if failing is None else failing.span,
        process_pid=None if failing is None else failing.pid,
        other_processes=other_bytes,
        other_pids=tuple(process.pid for process in remaining if process.pid is not None),
        strangers=_compute_strangers(
            total,
            free,
            process=None if failing is None else failing.span,
            reserved=reserved,
            other_processes=other_bytes,
        ),
        outside=outside,
    )


def _read_allocator(failure: Failure) -> tuple[Span | None, Span | None, Span | None]:
    """Return allocated, reserved but unallocated, and reserved bytes.

    Older messages print the last, newer ones the second.
    """
    allocated = failure.get(FailureQuantity.ALLOCATED)
    unallocated, reserved = (
        failure.get(FailureQuantity.UNALLOCATED),
        failure.get(FailureQuantity.RESERVED),
    )
    if allocated is None:
        return None, unallocated, reserved
    if reserved is None and unallocated is not None:
        reserved = allocated + unallocated
    elif unallocated is None and reserved is not None:
        unallocated = _floor(reserved - allocated)
    return allocated, unallocated, reserved


def _split_processes(
    processes: Sequence[ProcessUse], reserved: Span | None
) -> tuple[ProcessUse | None, tuple[ProcessUse, ...]]:
    """Return the failing process and the others.

    PyTorch knows its process by its id, which in a container is another one than the driver's: it
    is then listed like the others, with at least what its allocator has reserved.
    """
    failing = next((process for process in processes if process.pid is None), None)
    if failing is None and reserved is not None:
        failing = min(
            (process for process in processes if process.span.high >= reserved.low),
            key=lambda process: process.span.value,
            default=None,
        )
    return failing, tuple(process for process in processes if process is not failing)


def _compute_strangers(
    total: Span | None,
    free: Span | None,
    *,
    process: Span | None,
    reserved: Span | None,
    other_processes: Span,
) -> Span:
    if total is None or free is None:
        return NOTHING
    used = total - free - other_processes
    if process is not None:
        unnamed = used - process
        return unnamed if unnamed.low > _SMALLEST_STRANGER else NOTHING
    if reserved is None:
        return NOTHING
    unnamed = used - reserved
    if unnamed.low <= CONTEXT.high + _EAGER_KERNELS:
        return NOTHING
    return unnamed - Span(low=CONTEXT.low, value=CONTEXT.point, high=CONTEXT.high)


def _sum(spans: Iterable[Span]) -> Span:
    return reduce(Span.__add__, spans, NOTHING)


def _floor(span: Span) -> Span:
    return replace(span, low=max(0, span.low), value=max(0, span.value), high=max(0, span.high))
