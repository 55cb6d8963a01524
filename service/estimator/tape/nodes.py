"""Parameters, values, graph nodes and kinds of operations on a tape."""

from collections.abc import Callable
from enum import Enum, auto

from service.estimator.tape import sizes
from service.estimator.tape.ledger import Storage
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

Backward = Callable[[Storage], object]


class Work(Enum):
    """Kernels behind one operation.

    A recording of bytes does not look at them; a count of launches does.
    """

    MOVE = auto()
    """one kernel for each tensor that is made, as long as what it reads and writes"""
    FUSED = auto()
    """one kernel with all its outputs; so is its backward, whatever is held inside"""
    PRODUCT = auto()
    """a matrix product"""
    BATCHED = auto()
    """matrix products of a batch, as those of attention without a fused kernel"""
    ATTENTION = auto()
    """a fused attention kernel"""


class Parameter:
    """A weight tensor of ``numel`` elements in ``dtype``.

    Its bytes are states, not part of the tape. A parameter that layers have in common is
    ``shared``: its gradient is complete when the backward of the first of them has run, so its uses
    are counted in the first forward, which makes the graph, and not in a recomputation.
    ``cast_node`` is autocast's one cast operation for all of them. Products read a ``viewed``
    parameter as a view of it. Its gradient is stored as ``grad_elements``: fewer than its own where
    stored gradients are counted in a wider format.
    """

    __slots__ = (
        "cast_node",
        "dtype",
        "grad",
        "grad_elements",
        "grad_is_view",
        "name",
        "numel",
        "pending_gradients",
        "shared",
        "trainable",
        "viewed",
    )

    def __init__(
        self,
        name: str,
        numel: int,
        dtype: DType,
        *,
        trainable: bool,
        shared: bool = False,
        viewed: bool = False,
    ) -> None:
        """Start without gradients under way."""
        self.grad_elements = numel
        self.shared, self.viewed = shared, viewed
        self.cast_node: Node | None = None
        self.name = name
        self.numel = numel
        self.dtype = dtype
        self.trainable = trainable
        self.pending_gradients = 0
        self.grad: Storage | None = None
        self.grad_is_view = False


class Node:
    """One differentiable operation of the autograd graph.

    It has the storages saved for backward, the backward formula, and the gradient that waits for
    it. ``consumes_grad``: its backward drops the gradient itself, before it is through.
    ``needs_only_grad``: its backward needs nothing but its gradient. ``frame`` is what a checkpoint
    holds until the last of its block's nodes with saved tensors has run.
    """

    __slots__ = (
        "backward",
        "consumes_grad",
        "frame",
        "grad",
        "grad_is_view",
        "needs_only_grad",
        "saved",
    )

    def __init__(
        self,
        saved: list[Storage],
        backward: Backward,
        *,
        consumes_grad: bool = False,
        needs_only_grad: bool = False,
    ) -> None:
        """Start without a gradient."""
        self.consumes_grad = consumes_grad
        self.needs_only_grad = needs_only_grad
        self.saved = saved
        self.frame: list[Storage] = []
        self.backward = backward
        self.grad: Storage | None = None
        self.grad_is_view = False


class Value:
    """A tensor that a Python name refers to.

    ``storage`` None means a parameter.
    """

    __slots__ = ("dtype", "node", "numel", "parameter", "requires_grad", "storage")

    def __init__(
        self, storage: Storage | None, numel: Size, dtype: DType, node: Node | None = None
    ) -> None:
        """Refer to a storage, and to its node if differentiable."""
        self.storage = storage
        self.numel = numel
        self.dtype = dtype
        self.node = node
        self.parameter: Parameter | None = None
        self.requires_grad = node is not None


def as_value(parameter: Parameter) -> Value:
    """Return the parameter as an input of operations."""
    value = Value(None, sizes.constant(parameter.numel), parameter.dtype)
    value.parameter = parameter
    value.requires_grad = parameter.trainable
    return value


class Hook:
    """A callback that backward runs in passing, gradient or not."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        """Store the callback."""
        self.callback = callback


class Segment:
    """Nodes of one block that stands for ``count`` equal blocks."""

    __slots__ = ("count", "nodes")

    def __init__(self, count: int, nodes: "list[Node | Hook | Segment]") -> None:
        """Stand for ``count`` blocks."""
        self.count = count
        self.nodes = nodes


def count_bytes(numel: Size, dtype: DType) -> Size:
    """Return the bytes of so many elements."""
    return sizes.scale(numel, dtype.bytes_per_element)
