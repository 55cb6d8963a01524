"""Requests of a job to the caching allocator, and where they come from."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import FrameType

from service.estimator.memory.allocator.caching_allocator import (
    BLOCK_BYTES,
    CachingAllocator,
    CancelCheck,
)
from service.estimator.memory.allocator.pool import Block
from service.estimator.tape.event_log import LoggingTape
from service.estimator.tape.graph import Mode
from service.estimator.tape.kernel_buffers import KernelBuffer
from service.estimator.tape.ledger import Section, Storage
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_TAPE = "service/estimator/tape/"
_PLUMBING = ("graph.py", "storages.py", "gradients.py", "event_log.py", "loops.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An allocation or a release, of bytes rounded up to blocks."""

    num_bytes: int
    phase: str
    tensor: int
    """Number of the allocation, and on its release the same."""
    is_release: bool = False
    origin: str = ""
    """Operation and module on the tape that made it; empty for a recorded one."""

    def __str__(self) -> str:
        """Return the request as a line of a report."""
        origin = f"  {self.origin}" if self.origin else ""
        return (
            f"{'frees' if self.is_release else 'takes'} {self.num_bytes:,} B ({self.phase}){origin}"
        )


class OriginTape(LoggingTape):
    """A tape that knows of every event which operation made it, for which module."""

    def __init__(self, section: Section, mode: Mode, *, autocast: DType | None) -> None:
        """Start with an empty log."""
        super().__init__(section, mode, autocast=autocast)
        self.origins: list[str] = []

    def release(self, *storages: Storage) -> None:
        """Drop references, and keep the origin of each release."""
        super().release(*storages)
        self._note()

    def revive(self, mark: int, storage: Storage) -> None:
        """Remove a release, and its origin."""
        if storage.references == 0 and storage.event is not None:
            del self.origins[self._order.index(~storage.event)]
        super().revive(mark, storage)

    def use_reduction(self, outputs: Size, total: Size) -> None:
        """Log a sum's buffer with its origin."""
        super().use_reduction(outputs, total)
        self._note()

    def use_embedding_sums(self, width: int, indices: Size, table_rows: int) -> None:
        """Log an embedding's sums with their origin."""
        super().use_embedding_sums(width, indices, table_rows)
        self._note()

    def _log_buffer(self, buffer: KernelBuffer) -> int:
        index = super()._log_buffer(buffer)
        self.origins[-1] = f"{buffer.kind} in {self.origins[-1]}"
        return index

    def _log_allocation(self, size: Size) -> int:
        index = super()._log_allocation(size)
        self._note()
        return index

    def _note(self) -> None:
        self.origins += [self._describe_origin()] * (len(self._order) - len(self.origins))

    def _describe_origin(self) -> str:
        operation = module = ""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who called
        while frame is not None and not module:
            path, name = frame.f_code.co_filename, frame.f_code.co_qualname
            if _TAPE in path and not path.endswith(_PLUMBING):
                operation = operation or name.replace("<locals>.", "")
            elif "service/estimator/model/" in path or path.endswith("passes/step.py"):
                module = name
            frame = frame.f_back
        return f"{operation or 'tape'} of {self.path}{module}"


class RequestLog:
    """Log of the requests that an allocator gets."""

    def __init__(self, allocator: CachingAllocator, origins: Sequence[str]) -> None:
        """Hand requests on to an allocator; ``origins`` are those of a pass's events."""
        self.allocator, self.origins = allocator, origins
        self.requests: list[Request] = []
        self._phase = "load"
        self._allocations: dict[int, Request] = {}
        self._num_passes = 0

    def allocate_all(self, sizes: Iterable[int]) -> list[Block]:
        """Allocate each size in bytes that is not zero."""
        return [
            self._allocate(-(-size // BLOCK_BYTES), "outside of the pass") for size in sizes if size
        ]

    def free_all(self, blocks: Iterable[Block]) -> None:
        """Free blocks in their order."""
        for block in blocks:
            self._free(block, "outside of the pass")

    def run(
        self,
        order: tuple[int, ...],
        sizes: list[int],
        _check: CancelCheck | None = None,
        _streams: list[int] | None = None,
    ) -> dict[int, Block]:
        """Allocate and free in the order of events, on the only stream that a loop has."""
        live: dict[int, Block] = {}
        origins = self.origins
        if len(order) == len(origins):
            self._phase = f"step{self._num_passes}"
            self._num_passes += 1
        else:
            origins = ["the optimizer"] * len(order)
        for event, origin in zip(order, origins, strict=True):
            if event >= 0 and sizes[event]:
                live[event] = self._allocate(sizes[event], origin)
            elif ~event in live:
                self._free(live.pop(~event), origin)
        return live

    def _allocate(self, size: int, origin: str) -> Block:
        block, number = self.allocator.allocate(size), len(self.requests)
        request = Request(
            num_bytes=size * BLOCK_BYTES, phase=self._phase, tensor=number, origin=origin
        )
        self._allocations[block.address] = request
        self.requests.append(request)
        return block

    def _free(self, block: Block, origin: str) -> None:
        allocation = self._allocations.pop(block.address)
        self.requests.append(replace(allocation, phase=self._phase, is_release=True, origin=origin))
        self.allocator.free(block)
