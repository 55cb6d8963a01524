"""Counts of a pass's kernels and of the bytes they move.

A recording that counts no live bytes: what an operation makes is a kernel, and its kind says what
decides the kernel's time. Held against the operations that a dispatch mode sees in transformers
5.23's own models (``tests/unit/estimator/speed``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.estimator.tape import sizes
from service.estimator.tape.event_log import NullLedger
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Backward, Hook, Node, Segment, Value, Work, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

ATTENTION_BACKWARD_KERNELS = 3
"""Row sums of the output and its gradient, the gradients, and the cast of the query's
(flash-attn ``flash_bwd_launch_template.h``).
"""
FUSED_BACKWARD_KERNELS = 2
"""Towards the input, and towards the weights together (ATen ``layer_norm_kernel.cu``)."""
ADDED_READS_AND_WRITES = 3
"""A sum in place reads both sides and writes one."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Kernels of one section of a pass.

    ``moved`` are the bytes that operations other than products and fused attention read and write.
    """

    kernels: int = 0
    products: int = 0
    attentions: int = 0
    saved: int = 0
    """Tensors kept for backward."""
    moved: Size = sizes.ZERO

    def add(self, kernels: int, moved: Size, repeats: int) -> None:
        """Add so many kernels, and what they move, ``repeats`` times."""
        self.kernels += kernels * repeats
        if moved != sizes.ZERO:
            self.moved = sizes.add(self.moved, sizes.scale(moved, repeats))


@dataclass(slots=True)
class _BackwardRun:
    """Tensors that a running node made, and gradients it sent."""

    made: list[Size] = field(default_factory=list)
    num_sent: int = 0
    reduced: bool = False
    """Whether a bias has its gradient from a sum of all rows."""


class CountingTape(Tape):
    """A tape that counts kernels instead of live bytes."""

    def __init__(self, *, autocast: DType | None, mode: Mode = Mode.RECORDING) -> None:
        """Start without kernels."""
        super().__init__(Section.FORWARD, mode, autocast=autocast)
        self.ledger = NullLedger(Section.FORWARD)
        self.sections: dict[Section, Counts] = {}
        self.batched_dtypes: set[DType] = set()
        """Of batched products in forward."""
        self._works: dict[int, Work] = {}
        self._emitting = False
        self._pending: list[Size] = []
        self._running: _BackwardRun | None = None
        self._segment_repeats = 1

    @property
    def counts(self) -> Counts:
        """The counts of the section that is recorded."""
        section = self.ledger.section
        counts = self.sections.get(section)
        if counts is None:
            counts = self.sections[section] = Counts()
        return counts

    def allocate(self, category: Category, size: Size) -> Storage:
        """Return a new storage; it is one kernel's output."""
        storage = super().allocate(category, size)
        if self._running is not None:
            self._running.made.append(size)
        elif not self._emitting:
            self._pending.append(size)
        return storage

    def emit(  # noqa: PLR0913 - as the tape's own
        self,
        numel: Size,
        dtype: DType,
        *,
        inputs: Sequence[Value],
        saves: Sequence[Value] = (),
        saves_output: bool = False,
        category: Category = Category.ACTIVATIONS,
        work: Work = Work.MOVE,
        backward: Backward,
    ) -> Value:
        """Return the output of an operation, and count its kernels."""
        self._emitting = True
        output = super().emit(
            numel,
            dtype,
            inputs=inputs,
            saves=saves,
            saves_output=saves_output,
            category=category,
            backward=backward,
        )
        self._emitting = False
        if work is Work.BATCHED:
            self.batched_dtypes.add(dtype)
            work = Work.PRODUCT
        if output.node is not None:
            self._works[id(output.node)] = work
        self._count_forward(output, inputs, work)
        return output

    def save(self, saved: list[Storage], values: Sequence[Value]) -> None:
        """Keep tensors for backward, and count them."""
        self.counts.saved += len(values) * self.repeat_count
        super().save(saved, values)

    def _count_forward(self, output: Value, inputs: Sequence[Value], work: Work) -> None:
        counts, repeats, pending = self.counts, self.repeat_count, self._pending
        self._pending = []
        if work is Work.PRODUCT:
            counts.products += repeats
        elif work is Work.ATTENTION:
            counts.attentions += repeats
        if work in {Work.PRODUCT, Work.ATTENTION}:
            moved = sizes.ZERO
        else:
            moved = count_bytes(output.numel, output.dtype)
            for value in inputs:
                # Of a table that is no operand of the same size a few rows are read.
                if value.parameter is None or value.numel == output.numel:
                    moved = sizes.add(moved, count_bytes(value.numel, value.dtype))
        extra = [] if work in {Work.FUSED, Work.ATTENTION} else pending
        for size in extra:
            moved = sizes.add(moved, sizes.scale(size, 2))
        counts.add(1 + len(extra), moved, repeats)

    def note_kernels(self, work: Work, moved: Size, nodes: Sequence[Node]) -> None:
        """Count what a recorded operator runs."""
        counts, repeats = self.counts, self.repeat_count
        self._pending = []
        for node in nodes:
            self._works[id(node)] = work
        if moved == sizes.ZERO:
            return
        if work is Work.BATCHED:
            work = Work.PRODUCT
        counts.products += repeats * (work is Work.PRODUCT)
        counts.attentions += repeats * (work is Work.ATTENTION)
        is_compute = work in {Work.PRODUCT, Work.ATTENTION}
        counts.add(1, sizes.ZERO if is_compute else moved, repeats)

    def _visit(self, nodes: "list[Node | Hook | Segment]") -> None:
        for node in reversed(nodes):
            if isinstance(node, Segment):
                outer, self._segment_repeats = (
                    self._segment_repeats,
                    self._segment_repeats * node.count,
                )
                self._visit(node.nodes)
                self._segment_repeats = outer
            elif isinstance(node, Hook):
                node.callback()
            elif node.grad is not None:
                self._run(node)

    def _run(self, node: Node) -> None:
        work = self._works.get(id(node), Work.MOVE)
        assert node.grad is not None  # noqa: S101 - whoever asks has looked
        counts, repeats = self.counts, self._segment_repeats
        grad_size = node.grad.size
        read = sizes.total((grad_size, *(storage.size for storage in node.saved)))
        self._running = run = _BackwardRun()
        super()._run(node)
        self._running = None
        made = run.made
        if not made:
            return
        match work:
            case Work.PRODUCT | Work.BATCHED:
                # What a product makes beside the gradients that it sends are weights, unpacked.
                num_unpacked = max(len(made) - run.num_sent, 0)
                moved = sizes.scale(sizes.total(made[:num_unpacked]), 2)
                moved = sizes.add(moved, grad_size) if run.reduced else moved
                counts.add(len(made), moved, repeats)
                counts.products += (len(made) - num_unpacked) * repeats
            case Work.ATTENTION:
                counts.add(ATTENTION_BACKWARD_KERNELS, sizes.ZERO, repeats)
                counts.attentions += repeats
            case Work.FUSED:
                kernels = min(run.num_sent, FUSED_BACKWARD_KERNELS)
                counts.add(kernels, sizes.add(read, made[-1]), repeats)
            case Work.MOVE:
                counts.add(len(made), sizes.add(read, sizes.total(made)), repeats)

    def send(self, target: Value, grad: Storage, *, is_view: bool = False) -> None:
        """Hand a gradient on, and count it."""
        if self._running is not None:
            self._running.num_sent += 1
        super().send(target, grad, is_view=is_view)

    def use_reduction(self, outputs: Size, total: Size) -> None:
        """Sum rows; the bias of a product reads its whole output's gradient."""
        if self._running is not None:
            self._running.reduced = True
        super().use_reduction(outputs, total)

    def deliver_outbox(self) -> None:
        """Hand on the gradients; sums of them are kernels of their own."""
        run, self._running = self._running, None
        super().deliver_outbox()
        self._pending, self._running = [], run

    def _accumulate(
        self, old: Storage | None, new: Storage, size: Size, views: tuple[bool, bool]
    ) -> tuple[Storage, bool]:
        if old is not None:
            moved = sizes.scale(size, ADDED_READS_AND_WRITES)
            self.counts.add(1, moved, self._segment_repeats)
        return super()._accumulate(old, new, size, views)
