"""One recorded forward and backward pass and its autograd graph.

Storages have reference counts. The rules are PyTorch's, counted on traces of real models: an
operation keeps what its backward needs, a Python name keeps a tensor until it is rebound, backward
visits nodes in reverse order of creation, frees what a node kept once it ran, hands a gradient on
without copying where the formula is the identity, and adds a second gradient in place unless the
first is a view or shared.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

from service.estimator.tape.compiling import mypyc_attr
from service.estimator.tape.first_pass import FirstPass
from service.estimator.tape.gradients import GradientReceiver
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Backward, Hook, Node, Segment, Value, Work, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.memo import check_making


class Mode(Enum):
    """Treatment of the tensors that operations save for backward."""

    INFERENCE = auto()
    """no graph is built"""
    RECORDING = auto()
    """a graph is built and tensors are kept"""
    DISCARDING = auto()
    """forward under checkpointing: tensors are counted, not kept"""
    RECOMPUTING = auto()
    """the second forward of a checkpointed block: tensors are kept, and it ends when all that were
    counted are there
    """


def _end_here(_: Storage) -> None:
    """Pass no gradient on; no compiled lambda, which knows its caller's names."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Tape(GradientReceiver):
    """Recorder of a pass: storages, operations and their graph.

    ``accumulating`` means that stored gradients exist already, as in a second micro batch.
    """

    def __init__(
        self,
        section: Section,
        mode: Mode,
        *,
        autocast: DType | None = None,
        accumulating: bool = False,
    ) -> None:
        """Start an empty recording."""
        check_making()
        super().__init__(section, accumulating=accumulating)
        self.mode, self.autocast = mode, autocast
        self.nodes: list[Node | Hook | Segment] = []
        self.autocast_copies: dict[str, tuple[Value, int]] = {}
        self.repeat_count, self.path = 1, ""
        self.discarded_nodes: list[Node | Hook | Segment] = []
        self.returned: list[Value] | None = None
        """What a block returns beside its hidden state, where its checkpoint asks for that."""
        self.enables_grad = True
        """Whether gradients are enabled: not in the first run of a reentrant checkpoint."""
        self._releases_unpacked = False
        self._running_node: Node | None = None

    @property
    def builds_graph(self) -> bool:
        """Whether operations are part of a graph."""
        return self.mode is not Mode.INFERENCE

    def save(self, saved: list[Storage], values: Sequence[Value]) -> None:
        """Keep tensors for backward, as the mode says."""
        for value in values:
            keeps = self.mode is Mode.RECORDING or (
                self.mode is Mode.RECOMPUTING and not self.stopped
            )
            if keeps and value.storage is not None:
                saved.append(self.hold(value.storage))
            self.num_saved += 1

    def emit(  # noqa: PLR0913 - the one place where an operation meets the graph
        self,
        numel: Size,
        dtype: DType,
        *,
        inputs: Sequence[Value],
        saves: Sequence[Value] = (),
        saves_output: bool = False,
        category: Category = Category.ACTIVATIONS,
        work: Work = Work.MOVE,  # noqa: ARG002 - bytes do not depend on it, counts of launches do
        backward: Backward,
    ) -> Value:
        """Return the output of an operation.

        ``saves`` are kept before its kernel runs, its output after it.
        """
        differentiable = self.builds_graph and any(value.requires_grad for value in inputs)
        saved: list[Storage] = []
        if differentiable:
            self.save(saved, saves)
        output = Value(self.allocate(category, count_bytes(numel, dtype)), numel, dtype)
        if differentiable:
            if saves_output:
                self.save(saved, [output])
            needs_only_grad = (
                not saves and not saves_output and all(value.parameter is None for value in inputs)
            )
            output.node = self.append(Node(saved, backward, needs_only_grad=needs_only_grad))
            output.requires_grad = True
        for value in inputs:
            if differentiable and value.parameter is not None and value.requires_grad:
                value.parameter.pending_gradients += self.mode is not (
                    Mode.RECOMPUTING if value.parameter.shared else Mode.DISCARDING
                )
        return output

    def note_kernels(self, work: Work, moved: Size, nodes: Sequence[Node]) -> None:
        """Note what a recorded operator runs, and its backward in ``nodes``."""

    def append(self, node: Node) -> Node:
        """Add a node to the graph, or to the discarded ones.

        It is discarded where its block is going to be recomputed.
        """
        (self.discarded_nodes if self.mode is Mode.DISCARDING else self.nodes).append(node)
        return node

    def repeat(self, count: int, block: Callable[[Value], Value], x: Value) -> Value:
        """Run ``count`` equal blocks in a row, recording one.

        A block frees its input at its end.
        """
        start, mark, before = len(self.nodes), self.ledger.mark(), self.ledger.snapshot()
        outer, self.repeat_count = self.repeat_count, self.repeat_count * count
        y = block(x)
        self.repeat_count = outer
        if count > 1:
            growth = self.ledger.growth_since(before)
            shrinks = any(part < 0 for size in growth.values() for part in size)
            (self.ledger.repeat_points if shrinks else self.ledger.raise_points)(
                mark, growth, count - 1
            )
        segment = Segment(count, self.nodes[start:])
        del self.nodes[start:]
        self.nodes.append(segment)
        return y

    def revive(self, mark: int, storage: Storage) -> None:
        """Count a freed storage as alive since ``mark``.

        An outer name kept it while repeated blocks rebound theirs.
        """
        if storage.references == 0:
            self.ledger.raise_points(mark, {storage.category: storage.size}, 1)
        storage.references += 1

    def run_backward(self) -> None:
        """Visit all nodes in reverse order of creation."""
        nodes, self.nodes = self.nodes, []
        self._visit(nodes)
        # The last node knows this tape, and all nodes before it: a circle that nothing would free.
        self._running_node = None

    def _visit(self, nodes: "list[Node | Hook | Segment]") -> None:
        for node in reversed(nodes):
            if isinstance(node, Segment):
                mark, before = self.ledger.mark(), self.ledger.snapshot()
                self._visit(node.nodes)
                if node.count > 1:
                    self.ledger.repeat_points(
                        mark, self.ledger.growth_since(before), node.count - 1
                    )
            elif isinstance(node, Hook):
                node.callback()
            elif node.grad is not None:
                self._run(node)
            elif node.saved:
                # No loss reads its output (a pooler's beside masked tokens): its name ended.
                self.release(*node.saved)
                node.saved = []

    def _run(self, node: Node) -> None:
        assert node.grad is not None  # noqa: S101 - whoever asks has looked
        grad, node.grad, self._running_node = node.grad, None, node
        node.backward(grad)
        # The gradient dies with the call, what was saved after it (autograd's ``engine.cpp``); what
        # a checkpoint handed out are names within the call.
        grads = [] if node.consumes_grad else [grad]
        if self._releases_unpacked:
            self.release(*reversed(node.saved), *grads)
        else:
            self.release(*grads, *node.saved)
        frame, node.frame = node.frame, []
        self.release(*frame)
        self.deliver_outbox()

    def pass_on(self, target: Value, grad: Storage) -> None:
        """Hand the running node's gradient itself to ``target``.

        A view of another tensor stays one.
        """
        is_view = self._running_node is not None and self._running_node.grad_is_view
        self.send(target, self.hold(grad), is_view=is_view)

    def release_unpacked(self) -> None:
        """Drop what the running node saved, once its formula is through.

        A checkpoint hands each tensor out once and forgets it. Without checkpointing the node holds
        it until its gradients are reduced and cast as well.
        """
        if self._releases_unpacked and self._running_node is not None:
            self.release(*reversed(self._running_node.saved))
            self._running_node.saved = []

    def hook(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` when backward comes by this place."""
        if self.builds_graph:
            self.nodes.append(Hook(callback))

    def require_grad(self, x: Value) -> None:
        """Make ``x`` a leaf with a gradient.

        Its tensor lives as long as the graph, and its gradient stays.
        """
        self.hold_value(x)
        x.node = self.append(Node([], self.hold))
        x.requires_grad = True

    def checkpoint(self, block: Callable[[Value], Value], x: Value) -> Value:
        """Run a block that backward recomputes (non-reentrant checkpoint).

        Only its input is kept.
        """
        if not self.builds_graph:
            return block(x)
        block_input, path, entry = self.alias(x), self.path, Node([], _end_here)
        x.node = entry if x.requires_grad else None
        self.num_saved, self.discarded_nodes, self.mode = 0, [], Mode.DISCARDING
        y = block(x)
        first, self.mode = (
            FirstPass(entry, self.discarded_nodes, y.node, num_saved=self.num_saved),
            Mode.RECORDING,
        )
        self.discarded_nodes = []
        saved = [block_input.storage] if block_input.storage is not None else []
        y.node = self.append(
            Node(
                saved,
                lambda grad: self._recompute(block, block_input, first, grad, path, saved),
                consumes_grad=True,
            ),
        )
        y.requires_grad = True
        return y

    def _recompute(
        self,
        block: Callable[[Value], Value],
        block_input: Value,
        first: FirstPass,
        grad: Storage,
        path: str,
        saved: list[Storage],
    ) -> None:
        outer_path, self.path = self.path, path
        for node in first.iter_ready_nodes(grad):
            self._run(node)
        outer_nodes, outer_copies, self.nodes, self.autocast_copies = (
            self.nodes,
            self.autocast_copies,
            [],
            {},
        )
        self.mode, self.num_saved, self.stop_after = Mode.RECOMPUTING, 0, first.num_saved
        x, stub = self.alias(block_input), Node([], _end_here)
        x.node = stub if block_input.requires_grad else None
        y = block(x)
        self.mode, self.stop_after = Mode.RECORDING, None
        self.free(y, *(copy for copy, _ in self.autocast_copies.values()))
        nodes, self.nodes, self.autocast_copies = self.nodes, outer_nodes, outer_copies
        first.hand_over(stub, nodes)
        last = next((node for node in nodes if isinstance(node, Node) and node.saved), None)
        if last is not None:
            last.frame = saved.copy()
            saved.clear()
        self._releases_unpacked = True
        self._visit(nodes)
        if last is not None:
            self.release(*last.frame)
        self._releases_unpacked, self.path = False, outer_path
        if stub.grad is not None:
            self.send(block_input, stub.grad, is_view=stub.grad_is_view)
