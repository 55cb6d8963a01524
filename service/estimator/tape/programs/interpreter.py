"""Runs recorded instructions on a tape."""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Parameter, Value
from service.estimator.tape.programs.backward import run_backward
from service.estimator.tape.programs.kernels import get_work
from service.estimator.tape.programs.program import (
    CacheUpdate,
    Embedded,
    Gradient,
    GraphNode,
    Instruction,
    Leaf,
    LinearCall,
    Loop,
    Operation,
    Release,
    ValueSpec,
)
from service.estimator.tape.programs.stepped_sizes import count_turns, resolve_size
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

CallLinear = Callable[[str, Value, Size], Value]
"""Records a linear layer by its name, on a value, with so many elements of output."""
UpdateCache = Callable[[tuple[Value, ...], int | None], tuple[Value, ...]]
"""Records an update of the cache by a layer's parts, with a window or without."""
GetParameter = Callable[[str], Parameter | None]
Targets = list[tuple[Gradient, Value]]
"""Where the gradients of a node go."""


_PRODUCT_WITH_BIAS = "aten.addmm.default"
_PRODUCTS = frozenset(
    {"aten.mm.default", "aten.bmm.default", "aten.baddbmm.default", _PRODUCT_WITH_BIAS}
)
"""Operators that a matrix library runs, in a workspace of its own."""
_EMBEDDING = "EmbeddingBackward0"


class Frame:
    """Values and storages of one run of a program."""

    __slots__ = (
        "cached",
        "call_linear",
        "end_loss",
        "get_parameter",
        "length",
        "requires_grad",
        "specs",
        "storages",
        "tape",
        "update_cache",
        "values",
    )

    def __init__(
        self,
        tape: Tape,
        specs: Sequence[ValueSpec],
        num_storages: int,
        *,
        call_linear: CallLinear,
        get_parameter: GetParameter,
        update_cache: UpdateCache,
    ) -> None:
        """Start without any of them.

        ``call_linear`` records a linear layer by its name, ``get_parameter`` returns a weight by
        its name, None where it is not trained.
        """
        self.tape = tape
        self.specs = specs
        self.values: list[Value | None] = [None] * len(specs)
        self.storages: list[Storage | None] = [None] * num_storages
        self.call_linear, self.get_parameter = call_linear, get_parameter
        self.update_cache = update_cache
        self.length: int | None = None
        """Tokens of a sequence, where sizes have steps of it."""
        self.cached: list[Value] = []
        """Names of what the cache gave out, which end with the program."""
        self.requires_grad = False
        """Whether token embeddings get a gradient, as PEFT gives checkpointed blocks a graph."""
        self.end_loss: GraphNode | None = None
        """Last node of the loss in backward; what follows is the model's."""

    def bind(self, number: int, value: Value) -> None:
        """Let a number stand for a value that is there already."""
        self.values[number] = value
        place = self.specs[number].storage
        if place is not None:
            self.storages[place] = value.storage

    def count_elements(self, number: int) -> Size:
        """Return the elements of a value."""
        return resolve_size(self.specs[number].numel, self.length)

    def get_value(self, number: int) -> Value:
        """Return a value, made where it has none yet."""
        value = self.values[number]
        if value is None:
            spec = self.specs[number]
            storage = None if spec.storage is None else self.storages[spec.storage]
            value = self.values[number] = Value(
                storage, resolve_size(spec.numel, self.length), spec.dtype or DType.FP32
            )
        return value

    def run(self, instructions: Iterable[Instruction], category: Category) -> None:
        """Run instructions; storages that they make are counted as ``category``."""
        for instruction in instructions:
            if type(instruction) is Operation:
                self._run_operation(instruction, category)
            elif type(instruction) is LinearCall:
                numel = self.count_elements(instruction.output)
                output = self.call_linear(instruction.layer, self.get_value(instruction.x), numel)
                self.bind(instruction.output, output)
            elif type(instruction) is Release:
                storage = self.storages[instruction.storage]
                if storage is not None:
                    self.tape.release(storage)
            elif type(instruction) is CacheUpdate:
                self._update_cache(instruction)
            elif type(instruction) is Loop:
                self._run_loop(instruction, category)
            elif type(instruction) is Embedded or type(instruction) is Leaf:
                self._require_grad(instruction)

    def _require_grad(self, instruction: Embedded | Leaf) -> None:
        """Make a tensor a leaf where its gradient is asked for."""
        asks = self.requires_grad if type(instruction) is Embedded else self.tape.builds_graph
        if asks:
            self.tape.require_grad(self.get_value(instruction.value))

    def _run_loop(self, loop: Loop, category: Category) -> None:
        """Run a loop, each turn on what the one before made."""
        values, storages = self.values, self.storages
        for turn in range(count_turns(loop.turns, self.length)):
            if turn:
                carried = [(place, values[produced]) for place, produced in loop.values]
                carried_storages = [
                    (place, storages[produced]) for place, produced in loop.storages
                ]
                for number in loop.produced:
                    values[number] = None
                for place, value in carried:
                    values[place] = value
                for place, storage in carried_storages:
                    storages[place] = storage
            self.run(loop.instructions, category)

    def _update_cache(self, update: CacheUpdate) -> None:
        parts = tuple(map(self.get_value, update.parts))
        for part in parts:
            # The cache takes a name over; the program's own ends where it was heard to.
            self.tape.hold_value(part)
        joined = self.update_cache(parts, update.window)
        for number, value in zip(update.joined, joined, strict=True):
            self.bind(number, value)
        self.cached += joined

    def _run_operation(self, operation: Operation, category: Category) -> None:
        tape = self.tape
        active: list[tuple[GraphNode, Targets]] = []
        for node in operation.nodes if tape.builds_graph else ():
            targets = self._list_targets(node, active)
            if targets:
                active.append((node, targets))
        saved: list[list[Storage]] = [[] for _ in active]
        for storages, (node, _) in zip(saved, active, strict=True):
            self._save(storages, node.saved_before)
        for allocation in operation.allocated:
            size = resolve_size(allocation.size, self.length)
            self.storages[allocation.storage] = tape.allocate(category, size)
        for scratch in operation.scratch:
            size = resolve_size(scratch, self.length)
            tape.release(tape.allocate(Category.TEMPORARIES, size))
        if operation.operator in _PRODUCTS:
            tape.use_workspace(has_bias=operation.operator == _PRODUCT_WITH_BIAS)
        nodes: list[Node] = []
        for storages, (node, targets) in zip(saved, active, strict=True):
            self._save(storages, node.saved_after)
            nodes.append(self._append(node, targets, storages))
        if operation.moved is not None:
            tape.note_kernels(get_work(operation.operator), operation.moved, nodes)

    def _save(self, storages: list[Storage], places: Sequence[int | None]) -> None:
        parts = (None if place is None else self.storages[place] for place in places)
        self.tape.save(storages, [Value(storage, sizes.ZERO, DType.FP32) for storage in parts])

    def _list_targets(
        self, node: GraphNode, earlier: Sequence[tuple[GraphNode, Targets]]
    ) -> Targets:
        """Return where a node's gradients go, of those that need one.

        Outputs of ``earlier`` nodes of its operation do: a view that an operator wrote through
        leads to the tensor below it. One that writes a tensor again, by the same number in old
        recordings, does not lead to itself.
        """
        targets = []
        for gradient in node.gradients:
            if gradient.value is not None:
                value = self.get_value(gradient.value)
            else:
                parameter = self.get_parameter(gradient.parameter or "")
                if parameter is None:
                    continue
                value = Value(None, (parameter.numel, 0, 0, 0, 0, 0), parameter.dtype)
                value.parameter, value.requires_grad = parameter, parameter.trainable
            number = gradient.value if gradient.value not in node.outputs else None
            if value.requires_grad or _is_made_by(earlier, number):
                targets.append((gradient, value))
        return targets

    def _append(self, node: GraphNode, targets: Targets, storages: list[Storage]) -> Node:
        """Add a node to the graph, and count the gradients of parameters."""
        tape, incoming = self.tape, [None] * len(node.outputs)
        joint: list[Storage | None] = list(incoming)

        def backward(grad: Storage) -> None:
            gradients = [grad] if len(node.outputs) == 1 else joint
            run_backward(tape, node, targets, gradients, self.length)
            if node.name == _EMBEDDING:
                self._note_embedding(node, targets)
            if len(node.outputs) > 1:
                tape.release(*(part for part in joint if part is not None))
                joint[:] = incoming
            if node is self.end_loss:
                tape.ledger.enter(Section.BACKWARD)

        only_grad = (
            not node.saved_before
            and not node.saved_after
            and all(value.parameter is None for _, value in targets)
        )
        shared = tape.append(Node(storages, backward, needs_only_grad=only_grad))
        for index, number in enumerate(node.outputs):
            if number is None:
                continue
            value = self.get_value(number)
            value.requires_grad = True
            value.node = (
                shared
                if len(node.outputs) == 1
                else tape.append(Node([], _make_collector(tape, shared, joint, index)))
            )
        for _, value in targets:
            if value.parameter is not None:
                value.parameter.pending_gradients += tape.mode is not (
                    Mode.RECOMPUTING if value.parameter.shared else Mode.DISCARDING
                )
        return shared

    def _note_embedding(self, node: GraphNode, targets: Sequence[tuple[Gradient, Value]]) -> None:
        """Note the sums of a gradient of a table of tokens."""
        numel = self.get_value(node.outputs[0] or 0).numel
        width = numel[3]
        parameter = targets[0][1].parameter
        if width and parameter is not None and numel == sizes.per_token(width):
            rows = parameter.numel // width
            self.tape.use_embedding_sums(width, sizes.per_token(1), rows)


def _is_made_by(nodes: Sequence[tuple[GraphNode, Targets]], number: int | None) -> bool:
    """Return whether a value is an output of one of the nodes."""
    return number is not None and any(number in node.outputs for node, _ in nodes)


def _make_collector(
    tape: Tape, shared: Node, joint: list[Storage | None], index: int
) -> Callable[[Storage], None]:
    """Return the backward of one output of several.

    Its gradient waits for those of the others.
    """

    def collect(grad: Storage) -> None:
        joint[index] = tape.hold(grad)
        if shared.grad is None:
            shared.grad = tape.hold(grad)

    return collect
