"""Layers that one autograd function runs together with their adapters.

What Unsloth's functions have in common with axolotl's and foak's, which began as those.
"""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.model.adapters.low_rank import get_factors
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.packing import BLOCK_4BIT
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Parameter, Value, Work, as_value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Lora

Factors = tuple[Parameter, Parameter]
"""The parameters A and B of an adapter."""


class FusedLayer:
    """One of a function's layers, and the products with it."""

    def __init__(self, site: Site, lora: Lora, dtype: DType) -> None:
        """Set up a layer whose input is of ``dtype``."""
        self.site, self.dtype = site, dtype
        self._tape: Tape = site.tape
        self.factors: Factors = get_factors(site, rank=lora.rank, dtype=lora.dtype)
        self._low: Size = site.tokens(lora.rank)

    def cast(self, *factors: Parameter) -> list[Storage]:
        """Return factors in the input's format, nothing where they have that."""
        return [
            self._tape.scratch(sizes.constant(factor.numel), self.dtype)
            for factor in factors
            if factor.dtype is not self.dtype
        ]

    def make_gradients(self) -> list[Storage]:
        """Return empty gradients of both factors, in the input's format."""
        return [
            self._tape.scratch(sizes.constant(factor.numel), self.dtype) for factor in self.factors
        ]

    def project_gradient(self) -> Storage:
        """Return the product of the output's gradient and B."""
        product = self._tape.scratch(self._low, self.dtype)
        self._tape.use_workspace()
        return product

    def use_low_input(self) -> None:
        """Make the product of A and the input, which B's gradient reads."""
        self._tape.release(self._tape.scratch(self._low, self.dtype))

    def dequantise(self) -> list[Storage]:
        """Return the weight dequantised into a tensor of its own."""
        if self.site.scheme is None:
            return []
        return [self._tape.scratch(sizes.constant(self.site.elements), self.dtype)]

    def send_gradients(self, gradients: Sequence[Storage]) -> None:
        """Hand on the factors' gradients, in the formats of the factors."""
        for factor, gradient in zip(self.factors, gradients, strict=True):
            if factor.dtype is not self.dtype:
                cast = self._tape.scratch(sizes.constant(factor.numel), factor.dtype)
                self._tape.release(gradient)
                self._tape.send(as_value(factor), cast)
            else:
                self._tape.send(as_value(factor), gradient)


class DequantisedLayer(FusedLayer):
    """A layer whose quantised weight is dequantised anew by every product."""

    def dequantise(self) -> list[Storage]:
        """Return the weight; its scales are dropped where they were quantised."""
        weight = super().dequantise()
        if self.site.scheme is not None and self.site.scheme.double:
            blocks = sizes.constant(ceil_div(self.site.elements, BLOCK_4BIT))
            self._tape.release(self._tape.scratch(blocks, DType.FP32))
        return weight


def make(tape: Tape, numel: Size, dtype: DType, work: Work) -> Value:
    """Return the output of a kernel that has no node."""
    return tape.emit(numel, dtype, inputs=(), work=work, backward=lambda _: None)


def send_input_gradient(
    tape: Tape, x: Value, gradient: Storage | None, *, is_view: bool = False
) -> None:
    """Hand on an input's gradient where one is needed."""
    if gradient is None:
        return
    if x.requires_grad:
        tape.send(x, gradient, is_view=is_view)
    else:
        tape.release(gradient)


def join(
    tape: Tape,
    layers: Iterable[FusedLayer],
    outputs: Sequence[Value],
    backward: Callable[[Storage], None],
    *,
    saved_values: Sequence[Value],
) -> None:
    """Make one node of outputs, which waits for all their gradients."""
    if not tape.builds_graph:
        return
    saved: list[Storage] = []
    tape.save(saved, saved_values)
    waiting: list[Storage] = []

    def run(grad: Storage) -> None:
        backward(grad)
        tape.release(*waiting)
        waiting.clear()

    joint = tape.append(Node(saved, run))
    tape.note_kernels(Work.PRODUCT, sizes.ZERO, [joint])

    def hand_on(grad: Storage) -> None:
        if joint.grad is None:
            joint.grad = tape.hold(grad)
        else:
            waiting.append(tape.hold(grad))

    for output in outputs:
        output.node, output.requires_grad = tape.append(Node([], hand_on)), True
    for layer in layers:
        for factor in layer.factors:
            factor.pending_gradients += tape.mode is not Mode.DISCARDING
