"""A recording of every allocation and release of one pass, in order.

All repeats are written out. A frontier of points is enough for what is allocated; what an allocator
reserves depends on the order in which blocks of different sizes come and go. Nothing is counted
here, and nothing of it is made unless an answer replays the allocator. Of long repeats the blocks
at both ends are recorded; ``unrolling`` writes out those between them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.compiling import mypyc_attr
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.kernel_buffers import BufferKind, KernelBuffer
from service.estimator.tape.ledger import Category, Ledger, Section, Storage
from service.estimator.tape.loops import RECORDED, Loop
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Allocations and releases of one pass.

    An event ``i`` allocates storage ``i``, an event ``~i`` frees it. ``kinds[i]`` is the index of
    the storage's size in ``sizes``, and of its stream in ``streams``, which is empty where all are
    on the default stream, 0. ``gradients`` are the storages that stay as gradients until the
    optimizer's step is over; ``shards`` of them have no size of their own: so many elements, cut
    over the ranks. ``buffers`` are sized by the GPU, and have no size where it is unknown.
    """

    sizes: tuple[Size, ...]
    kinds: tuple[int, ...]
    order: tuple[int, ...]
    gradients: frozenset[int]
    shards: tuple[tuple[int, int], ...]
    buffers: tuple[tuple[KernelBuffer, tuple[int, ...]], ...] = ()
    streams: tuple[int, ...] = ()

    def list_streams(self) -> list[int] | None:
        """Return the stream of every storage.

        None where all are on the default one.
        """
        streams = self.streams
        return [streams[kind] for kind in self.kinds] if streams else None


def group_buffers(
    buffers: Iterable[tuple[int, KernelBuffer]],
) -> tuple[tuple[KernelBuffer, tuple[int, ...]], ...]:
    """Return each buffer with the storages that are such."""
    groups: dict[KernelBuffer, list[int]] = {}
    for index, buffer in buffers:
        groups.setdefault(buffer, []).append(index)
    return tuple((buffer, tuple(indices)) for buffer, indices in groups.items())


@mypyc_attr(allow_interpreted_subclasses=True)
class LoggingTape(Tape):
    """A tape that logs events instead of counting bytes."""

    def __init__(
        self,
        section: Section,
        mode: Mode,
        *,
        autocast: DType | None = None,
        accumulating: bool = False,
        shorten_repeats: bool = False,
    ) -> None:
        """Start with an empty log.

        ``shorten_repeats`` leaves out the blocks in the middle of long repeats.
        """
        super().__init__(section, mode, autocast=autocast, accumulating=accumulating)
        self.loops: list[Loop] = []
        self._shorten_repeats = shorten_repeats
        self.ledger = NullLedger(section)
        self._stream_kinds: dict[int, dict[Size, int]] = {}
        """The kind of each size, by stream."""
        self._sizes: list[Size] = []
        self._streams: list[int] = []
        self._kinds: list[int] = []
        self._order: list[int] = []
        self._gradients: list[int] = []
        self._shards: list[tuple[int, int]] = []
        self._buffers: list[tuple[int, KernelBuffer]] = []
        self._workspaces: set[tuple[BufferKind, bool]] = set()

    def events(self) -> Events:
        """Return the logged events."""
        return Events(
            sizes=tuple(self._sizes),
            kinds=tuple(self._kinds),
            order=tuple(self._order),
            gradients=frozenset(self._gradients),
            shards=tuple(self._shards),
            buffers=group_buffers(self._buffers),
            streams=tuple(self._streams) if any(self._streams) else (),
        )

    def allocate(self, category: Category, size: Size) -> Storage:
        """Return a new storage with one reference, and log it.

        An empty one takes no memory.
        """
        storage = super().allocate(category, size)
        if storage.size != sizes.ZERO:
            storage.event = self._log_allocation(storage.size)
        return storage

    def release(self, *storages: Storage) -> None:
        """Drop a reference of each storage, and log the last one."""
        for storage in storages:
            storage.references -= 1
            if storage.references == 0 and storage.event is not None:
                self._order.append(~storage.event)

    def repeat(self, count: int, block: Callable[[Value], Value], x: Value) -> Value:
        """Run every one of the equal blocks, or those at both ends.

        Each has parameters of its own.
        """
        if not self._shorten_repeats or count <= RECORDED or self.mode is not Mode.RECORDING:
            return self._run_blocks(count, block, x)
        loop = Loop(count=count)
        self.loops.append(loop)
        self._shorten_repeats = False  # a block is recorded whole
        # Compiled, a named function in place of this one would be in a circle with this call.
        x = self._run_blocks(RECORDED, lambda value: block(self._mark(loop, value)), x)
        self._shorten_repeats = True
        return self._mark(loop, x)

    def _mark(self, loop: Loop, x: Value) -> Value:
        """Note where a block of a loop begins, and return its input."""
        loop.forward.append(len(self._order))
        self.hook(lambda: loop.backward.append(len(self._order)))
        return x

    def _run_blocks(self, count: int, block: Callable[[Value], Value], x: Value) -> Value:
        outer = self.path
        for index in range(count):
            self.path = f"{outer}{index}/"
            x = block(x)
        self.path = outer
        return x

    def revive(self, _: int, storage: Storage) -> None:
        """Remove the release of a storage that an outer name kept."""
        if storage.references == 0 and storage.event is not None:
            index = self._order.index(~storage.event)
            del self._order[index]
            for loop in self.loops:
                loop.drop_event(index)
        storage.references += 1

    def gather(self, elements: int, bytes_each: int, *, casts: bool = False) -> list[Storage]:
        """Return the gathered parameters one by one."""
        return self.gather_tensors(elements, bytes_each, casts=casts)

    def keep_gradient(self, grad: Storage, _: Parameter) -> None:
        """Keep the storage as the parameter's gradient."""
        if grad.event is not None:
            self._gradients.append(grad.event)

    def keep_gradient_shard(self, elements: int) -> None:
        """Allocate the rank's share of so many gradient elements."""
        if elements:
            index = self._log_allocation(sizes.ZERO)
            self._shards.append((index, elements))
            self._gradients.append(index)

    def use_workspace(self, *, has_bias: bool = False) -> None:
        """Log the workspaces of a thread's first product.

        Backward runs in a thread of its own, with handles of its own.
        """
        if self.stopped:
            return
        in_backward = self._running_node is not None
        kinds = (BufferKind.CUBLAS, *([BufferKind.CUBLASLT] if has_bias else []))
        for kind in kinds:
            if (kind, in_backward) not in self._workspaces:
                self._workspaces.add((kind, in_backward))
                self._log_buffer(KernelBuffer(kind, sizes.ZERO, sizes.ZERO))

    def use_reduction(self, outputs: Size, total: Size) -> None:
        """Log a sum's buffer, which lives as long as its kernel."""
        count = outputs[0]
        if self.stopped or not count or any(outputs[1:]):
            return
        rows = sizes.count_rows(total, count)
        self._order.append(~self._log_buffer(KernelBuffer(BufferKind.REDUCTION, outputs, rows)))

    def use_embedding_sums(self, width: int, indices: Size, table_rows: int) -> None:
        """Log the sums that an embedding's gradient is put together from."""
        buffer = KernelBuffer(BufferKind.EMBEDDING, sizes.constant(width), indices, table_rows)
        self._order.append(~self._log_buffer(buffer))

    def _log_buffer(self, buffer: KernelBuffer) -> int:
        index = self._log_allocation(sizes.ZERO)
        self._buffers.append((index, buffer))
        return index

    def _log_allocation(self, size: Size) -> int:
        index, kinds = len(self._kinds), self._stream_kinds.setdefault(self.stream, {})
        kind = kinds.get(size)
        if kind is None:
            kind = kinds[size] = len(self._sizes)
            self._sizes.append(size)
            self._streams.append(self.stream)
        self._kinds.append(kind)
        self._order.append(index)
        return index


@mypyc_attr(allow_interpreted_subclasses=True)
class NullLedger(Ledger):
    """A ledger that counts nothing."""

    __slots__ = ()

    def add(self, category: Category, size: Size) -> None:
        """Count nothing."""

    def remove(self, category: Category, size: Size) -> None:
        """Count nothing."""

    def store_gradients(self, elements: int, *, new: bool = False) -> None:
        """Count nothing."""
