"""A recording of one forward and backward pass: storages with reference counts, and the graph that autograd would build.

The rules are PyTorch's, counted on traces of real models: an operation keeps what its backward needs, a Python name keeps a
tensor until it is rebound, backward visits nodes in reverse order of creation, frees what a node kept once it ran, hands a
gradient on without copying where the formula is the identity, and adds a second gradient in place unless the first is a view
or shared.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

from service.estimator.tape import sizes
from service.estimator.tape.first_pass import FirstPass
from service.estimator.tape.ledger import Category, Ledger, Section, Storage
from service.estimator.tape.nodes import Backward, Hook, Node, Parameter, Segment, Value, bytes_of
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


class Mode(Enum):
    """What happens to the tensors that operations keep for backward."""

    INFERENCE = auto()
    """no graph is built"""
    RECORDING = auto()
    """a graph is built and tensors are kept"""
    DISCARDING = auto()
    """forward under checkpointing: tensors are counted, not kept"""
    RECOMPUTING = auto()
    """the second forward of a checkpointed block: tensors are kept, and it ends when all that were counted are there"""


class Tape:
    """Records operations; ``accumulating`` means that stored gradients exist already, as in a second micro batch."""

    def __init__(self, section: Section, mode: Mode, *, autocast: DType | None = None, accumulating: bool = False) -> None:
        """Start an empty recording."""
        self.ledger, self.mode, self.autocast, self.accumulating = Ledger(section), mode, autocast, accumulating
        self.steps_in_backward: int | None = None
        self.nodes: list[Node | Hook | Segment] = []
        self.copies: dict[str, tuple[Value, int]] = {}
        self.times, self.path = 1, ""
        self.discarded: list[Node | Hook | Segment] = []
        self.reused: list[Storage] = []
        self._num_saved, self._forgets = 0, False
        self._stop_after: int | None = None
        self.collected: list[Storage] | None = None
        self._outbox: list[tuple[Value, Storage, bool]] = []
        self._running: Node | None = None

    @property
    def stopped(self) -> bool:
        """Whether a recomputation has everything that backward needs: nothing is allocated any more."""
        return self._stop_after is not None and self._num_saved >= self._stop_after

    @property
    def records(self) -> bool:
        """Whether operations are part of a graph."""
        return self.mode is not Mode.INFERENCE

    def allocate(self, category: Category, size: Size) -> Storage:
        """Return a new storage with one reference, or one that a selective checkpoint kept for this operation."""
        if self.reused:
            return self.reused.pop(0)
        storage = Storage(category, sizes.ZERO if self.stopped else size)
        self.ledger.add(category, storage.size)
        return storage

    def scratch(self, numel: Size, dtype: DType) -> Storage:
        """Return a new temporary storage of so many elements."""
        return self.allocate(Category.TEMPORARIES, bytes_of(numel, dtype))

    def hold(self, storage: Storage) -> Storage:
        """Add a reference."""
        storage.references += 1
        return storage

    def hold_value(self, value: Value) -> None:
        """Add a reference to a value's storage."""
        if value.storage is not None:
            value.storage.references += 1

    def release(self, *storages: Storage) -> None:
        """Drop a reference of each; the last one frees."""
        for storage in storages:
            storage.references -= 1
            if storage.references == 0:
                self.ledger.remove(storage.category, storage.size)

    def free(self, *values: Value) -> None:
        """Drop the Python names of values."""
        for value in values:
            if value.storage is not None:
                self.release(value.storage)

    def alias(self, value: Value) -> Value:
        """Return another Python name of the same tensor."""
        if value.storage is not None:
            self.hold(value.storage)
        other = Value(value.storage, value.numel, value.dtype, value.node)
        other.parameter = value.parameter
        other.requires_grad = value.requires_grad
        return other

    def save(self, saved: list[Storage], values: Sequence[Value]) -> None:
        """Keep tensors for backward, as the mode says."""
        for value in values:
            keeps = self.mode is Mode.RECORDING or (self.mode is Mode.RECOMPUTING and not self.stopped)
            if keeps and value.storage is not None:
                saved.append(self.hold(value.storage))
            self._num_saved += 1

    def emit(  # noqa: PLR0913 - the one place where an operation meets the graph
        self,
        numel: Size,
        dtype: DType,
        *,
        inputs: Sequence[Value],
        saves: Sequence[Value] = (),
        saves_output: bool = False,
        category: Category = Category.ACTIVATIONS,
        backward: Backward,
    ) -> Value:
        """Return the output of an operation; ``saves`` are kept before its kernel runs, its output after it."""
        differentiable = self.records and any(value.requires_grad for value in inputs)
        saved: list[Storage] = []
        if differentiable:
            self.save(saved, saves)
        output = Value(self.allocate(category, bytes_of(numel, dtype)), numel, dtype)
        if differentiable:
            if saves_output:
                self.save(saved, [output])
            plain = not saves and not saves_output and all(value.parameter is None for value in inputs)
            output.node = self.append(Node(saved, backward, plain=plain))
            output.requires_grad = True
        for value in inputs:
            if differentiable and value.parameter is not None and value.requires_grad:
                value.parameter.pending += self.mode is not (Mode.RECOMPUTING if value.parameter.shared else Mode.DISCARDING)
        return output

    def append(self, node: Node) -> Node:
        """Add a node to the graph, unless its block is going to be recomputed."""
        (self.discarded if self.mode is Mode.DISCARDING else self.nodes).append(node)
        return node

    def send(self, target: Value, grad: Storage, *, is_view: bool = False) -> None:
        """Hand a gradient (and its reference) to whatever made ``target``, once the node that runs has let go of its own."""
        self._outbox.append((target, grad, is_view))

    def _deliver(self) -> None:
        outbox, self._outbox = self._outbox, []
        for target, grad, is_view in outbox:
            self._arrive(target, grad, is_view=is_view)

    def _arrive(self, target: Value, grad: Storage, *, is_view: bool) -> None:
        if target.parameter is not None:
            self._send_to_parameter(target.parameter, grad, is_view=is_view)
        elif target.node is not None:
            size, views = bytes_of(target.numel, target.dtype), (target.node.grad_is_view, is_view)
            target.node.grad, target.node.grad_is_view = self._accumulate(target.node.grad, grad, size, views)
        else:
            self.release(grad)

    def _accumulate(self, old: Storage | None, new: Storage, size: Size, views: tuple[bool, bool]) -> tuple[Storage, bool]:
        if old is None:
            return new, views[1]
        if old.references == 1 and not views[0]:
            self.release(new)
            return old, False
        result = self.allocate(Category.TEMPORARIES, size)
        self.release(old, new)
        return result, False

    def _send_to_parameter(self, parameter: Parameter, grad: Storage, *, is_view: bool) -> None:
        parameter.pending -= 1
        size, views = sizes.constant(parameter.numel * parameter.dtype.bytes_per_element), (parameter.held_is_view, is_view)
        grad, is_view = self._accumulate(parameter.held, grad, size, views)
        parameter.held, parameter.held_is_view = grad, is_view
        if parameter.pending > 0:
            return
        parameter.held = None
        if self.collected is not None:
            self.collected.append(grad)
        elif self.steps_in_backward is not None:
            self.release(self.allocate(Category.TEMPORARIES, sizes.constant(parameter.numel * self.steps_in_backward)), grad)
        elif self.accumulating:
            self.release(grad)
        else:
            self.keep_gradient(grad, parameter)

    def gather(self, elements: int, bytes_each: int) -> list[Storage]:
        """Return the gathered parameters of a unit, so many elements in all."""
        return [self.allocate(Category.GATHERED_WEIGHTS, sizes.constant(elements * bytes_each))]

    def keep_gradient(self, grad: Storage, parameter: Parameter) -> None:
        """Turn a storage into the gradient of a parameter, which stays."""
        self.ledger.convert(grad, parameter.numel)

    def keep_gradient_shard(self, elements: int) -> None:
        """Keep this rank's share of so many elements of reduced gradients."""
        self.ledger.store_gradients(elements, new=True)

    def repeat(self, count: int, block: Callable[[Value], Value], x: Value) -> Value:
        """Run ``count`` equal blocks in a row, recording one; a block frees its input at its end."""
        start, mark, before = len(self.nodes), self.ledger.mark(), self.ledger.snapshot()
        outer, self.times = self.times, self.times * count
        y = block(x)
        self.times = outer
        if count > 1:
            growth = self.ledger.growth_since(before)
            shrinks = any(part < 0 for size in growth.values() for part in size)
            (self.ledger.echo if shrinks else self.ledger.shift)(mark, growth, count - 1)
        segment = Segment(count, self.nodes[start:])
        del self.nodes[start:]
        self.nodes.append(segment)
        return y

    def revive(self, mark: int, storage: Storage) -> None:
        """Count a freed storage as alive since ``mark``: an outer name kept it while repeated blocks rebound theirs."""
        if storage.references == 0:
            self.ledger.shift(mark, {storage.category: storage.size}, 1)
        storage.references += 1

    def run_backward(self) -> None:
        """Visit all nodes in reverse order of creation."""
        nodes, self.nodes = self.nodes, []
        self._visit(nodes)

    def _visit(self, nodes: "list[Node | Hook | Segment]") -> None:
        for node in reversed(nodes):
            if isinstance(node, Segment):
                mark, before = self.ledger.mark(), self.ledger.snapshot()
                self._visit(node.nodes)
                if node.count > 1:
                    self.ledger.echo(mark, self.ledger.growth_since(before), node.count - 1)
            elif isinstance(node, Hook):
                node.run()
            elif node.grad is not None:
                self._run(node)

    def _run(self, node: Node) -> None:
        assert node.grad is not None  # noqa: S101 - whoever asks has looked
        grad, node.grad, self._running = node.grad, None, node
        node.backward(grad)
        self.release(*node.saved, *([] if node.consumes else [grad]))
        self._deliver()

    def unpacked(self) -> None:
        """Drop what the running node kept, once its formula is through: a checkpoint hands each tensor out once and forgets it.

        Without checkpointing the node holds it until its gradients are reduced and cast as well.
        """
        if self._forgets and self._running is not None:
            self.release(*self._running.saved)
            self._running.saved = []

    def hook(self, run: Callable[[], None]) -> None:
        """Arrange for ``run`` when backward comes by this place."""
        if self.records:
            self.nodes.append(Hook(run))

    def require_grad(self, x: Value) -> None:
        """Make ``x`` a leaf with a gradient: its tensor lives as long as the graph, and its gradient stays."""
        self.hold_value(x)
        x.node = self.append(Node([], self.hold))
        x.requires_grad = True

    def checkpoint(self, block: Callable[[Value], Value], x: Value) -> Value:
        """Run a block whose tensors are computed again in backward (non-reentrant); only its input is kept."""
        if not self.records:
            return block(x)
        kept, path, entry = self.alias(x), self.path, Node([], lambda _: None)
        x.node = entry if x.requires_grad else None
        self._num_saved, self.discarded, self.mode = 0, [], Mode.DISCARDING
        y = block(x)
        first, self.mode = FirstPass(entry, self.discarded, y.node, num_saved=self._num_saved), Mode.RECORDING

        saved = [kept.storage] if kept.storage is not None else []
        y.node = self.append(Node(saved, lambda grad: self._recompute(block, kept, first, grad, path), consumes=True))
        y.requires_grad = True
        return y

    def _recompute(self, block: Callable[[Value], Value], kept: Value, first: FirstPass, grad: Storage, path: str) -> None:
        outer_path, self.path = self.path, path
        for node in first.ahead(grad):
            self._run(node)
        outer_nodes, outer_copies, self.nodes, self.copies = self.nodes, self.copies, [], {}
        self.mode, self._num_saved, self._stop_after = Mode.RECOMPUTING, 0, first.num_saved
        x, stub = self.alias(kept), Node([], lambda _: None)
        x.node = stub if kept.requires_grad else None
        y = block(x)
        self.mode, self._stop_after = Mode.RECORDING, None
        self.free(y, *(copy for copy, _ in self.copies.values()))
        nodes, self.nodes, self.copies = self.nodes, outer_nodes, outer_copies
        first.hand_over(stub, nodes)
        self._forgets = True
        self._visit(nodes)
        self._forgets, self.path = False, outer_path
        if stub.grad is not None:
            self.send(kept, stub.grad, is_view=stub.grad_is_view)
