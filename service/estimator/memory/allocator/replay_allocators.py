"""Allocators that replays run on.

That is the native heap where it was compiled (``native/``), and Python's form of the same rules
elsewhere: both give the same counts, request by request.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from service.estimator.memory.allocator.addresses import AscendingAddresses
from service.estimator.memory.allocator.caching_allocator import CancelCheck, make_allocator
from service.estimator.memory.allocator.pressure import DeviceFullError, limit_allocator
from service.estimator.values.workload import Allocator

if TYPE_CHECKING:
    from service.estimator.memory.allocator.native_heap import NativeHeap
else:
    try:
        from service.estimator.memory.allocator.native_heap import NativeHeap
    except ImportError:  # where nothing was compiled
        NativeHeap = None

BlockT = TypeVar("BlockT")
"""A block, as an allocator refers to it."""


class Requests(Protocol[BlockT]):
    """Taker of a job's requests: an allocator."""

    def allocate_all(self, sizes: Iterable[int], /) -> list[BlockT]:
        """Return a block for each size in bytes that is not zero."""

    def free_all(self, blocks: Iterable[BlockT], /) -> None:
        """Take blocks back in their order."""

    def run(
        self,
        order: tuple[int, ...],
        sizes: list[int],
        check: CancelCheck | None = None,
        streams: list[int] | None = None,
        /,
    ) -> dict[int, BlockT]:
        """Allocate and free in order, by stream; return the blocks that stay."""


class ReplayAllocator(Requests[BlockT], Protocol[BlockT]):
    """An allocator with its counts, in blocks of 512 bytes."""

    @property
    def reserved(self) -> int:
        """The memory that is taken from the GPU."""

    @property
    def highest(self) -> int:
        """The highest sum of blocks in use."""

    @property
    def highest_requested(self) -> int:
        """The highest sum of what was asked for."""

    def allocate(self, size: int, stream: int = 0, /) -> BlockT:
        """Return a block of a size in blocks."""

    def free(self, block: BlockT, /) -> None:
        """Take a block back."""

    def reset_peak(self) -> None:
        """Count the highest sum of blocks from here on."""


def make_replay_allocator(
    kind: Allocator, *, limit: int | None = None, is_cuda: bool = True
) -> ReplayAllocator[Any]:
    """Return an empty allocator of a kind.

    It raises DeviceFullError where a job needs more than ``limit`` blocks of 512 bytes. Without
    CUDA's addresses segments are one above the other.
    """
    if NativeHeap is not None:
        is_expandable = kind is Allocator.EXPANDABLE_SEGMENTS
        if limit is None:
            return NativeHeap(is_expandable, is_cuda)
        return NativeHeap(is_expandable, is_cuda, limit, DeviceFullError)
    allocator = make_allocator(kind, None if is_cuda else AscendingAddresses())
    if limit is not None:
        limit_allocator(allocator, limit)
    return allocator
