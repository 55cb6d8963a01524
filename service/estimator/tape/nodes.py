"""The values and nodes that a tape records: parameters, tensors behind names, operations of the graph."""

from collections.abc import Callable

from service.estimator.tape import sizes
from service.estimator.tape.ledger import Storage
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

Backward = Callable[[Storage], object]


class Parameter:
    """A weight tensor: ``numel`` elements in ``dtype``; its bytes are states, not part of the tape.

    One that layers have in common is ``shared``: its gradient is whole when the backward of the first of them has been through,
    so that its uses are counted in the first forward, which makes the graph, and not in a recomputation. Autocast's
    ``casting`` is one operation for all of them. Products read a ``viewed`` one as a view of it.
    """

    __slots__ = ("casting", "dtype", "held", "held_is_view", "name", "numel", "pending", "shared", "trainable", "viewed")

    def __init__(
        self, name: str, numel: int, dtype: DType, *, trainable: bool, shared: bool = False, viewed: bool = False
    ) -> None:
        """Start without gradients under way."""
        self.shared, self.viewed = shared, viewed
        self.casting: Node | None = None
        self.name = name
        self.numel = numel
        self.dtype = dtype
        self.trainable = trainable
        self.pending = 0
        self.held: Storage | None = None
        self.held_is_view = False


class Node:
    """One differentiable operation: what it kept, how it answers a gradient, and the gradient that waits for it.

    ``consumes``: its backward drops the gradient itself, before it is through. ``plain``: it needs nothing but its gradient.
    """

    __slots__ = ("backward", "consumes", "grad", "grad_is_view", "plain", "saved")

    def __init__(self, saved: list[Storage], backward: Backward, *, consumes: bool = False, plain: bool = False) -> None:
        """Start without a gradient."""
        self.consumes = consumes
        self.plain = plain
        self.saved = saved
        self.backward = backward
        self.grad: Storage | None = None
        self.grad_is_view = False


class Value:
    """A tensor that a Python name refers to; ``storage`` None means a parameter."""

    __slots__ = ("dtype", "node", "numel", "parameter", "requires_grad", "storage")

    def __init__(self, storage: Storage | None, numel: Size, dtype: DType, node: Node | None = None) -> None:
        """Refer to a storage, and to the node that made it when it is differentiable."""
        self.storage = storage
        self.numel = numel
        self.dtype = dtype
        self.node = node
        self.parameter: Parameter | None = None
        self.requires_grad = node is not None


def value_of(parameter: Parameter) -> Value:
    """Return the parameter as an input of operations."""
    value = Value(None, sizes.constant(parameter.numel), parameter.dtype)
    value.parameter = parameter
    value.requires_grad = parameter.trainable
    return value


class Hook:
    """Something that happens when backward comes by, gradient or not."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        """Wait to be visited."""
        self.run = run


class Segment:
    """Nodes of one block that stands for ``count`` equal blocks."""

    __slots__ = ("count", "nodes")

    def __init__(self, count: int, nodes: "list[Node | Hook | Segment]") -> None:
        """Stand for ``count`` blocks."""
        self.count = count
        self.nodes = nodes


def bytes_of(numel: Size, dtype: DType) -> Size:
    """Return the bytes of so many elements."""
    return sizes.scale(numel, dtype.bytes_per_element)
