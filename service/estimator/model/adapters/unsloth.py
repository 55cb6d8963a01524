"""Unsloth's autograd functions: projections and a gated layer with their adapters.

unsloth 2026.10 ``kernels/fast_lora.py`` (``LoRA_QKV``, ``LoRA_W``, ``LoRA_MLP``) and
``kernels/utils.py`` (``matmul_lora``, ``fast_dequantize``). Each is one node of the graph: it keeps
its input once for all of its layers, adds the adapters' outputs in place, and writes gradients over
what it kept. A quantised weight is dequantised into one buffer that all layers share in forward
(``count_buffer_bytes``), and into a tensor of its own in backward.
"""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.model.adapters.low_rank import get_factors
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Parameter, Value, Work, as_value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import UNSLOTH_FAMILIES, Kernels
from service.estimator.values.workload import Lora


def has_own_layers(family: str, kernels: Kernels, lora: Lora | None, scheme: Scheme | None) -> bool:
    """Return whether Unsloth runs a family's layers by its own functions."""
    return (
        kernels is Kernels.UNSLOTH
        and lora is not None
        and family in UNSLOTH_FAMILIES
        and (scheme is None or scheme.packing is Packing.BLOCKS_4BIT)
    )


def is_plain(lora: Lora) -> bool:
    """Return whether adapters are such that Unsloth's functions run them.

    (``models/llama.py``, ``patch_peft_model``: no dropout, no magnitudes.)
    """
    return lora.variant == "lora" and lora.dropout == 0


Factors = tuple[Parameter, Parameter]
"""The parameters A and B of an adapter."""


class _Layer:
    """One of a function's layers, and the products with it."""

    def __init__(self, site: Site, lora: Lora, dtype: DType) -> None:
        """Set up a layer whose input is of ``dtype``."""
        self.site, self.dtype = site, dtype
        self._tape: Tape = site.tape
        self.factors: Factors = get_factors(site, rank=lora.rank, dtype=lora.dtype)
        self._low: Size = site.tokens(lora.rank)

    def multiply(self) -> Value:
        """Return the layer's product, the adapter's added in place."""
        tape, (down, up) = self._tape, self.factors
        numel = self.site.output_numel
        product = _make(tape, numel, self.dtype, Work.PRODUCT)
        tape.use_workspace()
        cast = self.cast(down)
        low = _make(tape, self._low, self.dtype, Work.PRODUCT)
        tape.release(*cast)
        cast = self.cast(up)
        tape.note_kernels(Work.PRODUCT, count_bytes(numel, self.dtype), ())
        tape.release(*cast)
        tape.free(low)
        return product

    def cast(self, factor: Parameter) -> list[Storage]:
        """Return the factor in the input's format, nothing where it has that."""
        if factor.dtype is self.dtype:
            return []
        return [self._tape.scratch(sizes.constant(factor.numel), self.dtype)]

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


def project_together(
    sites: Sequence[Site], lora: Lora, x: Value, *, in_place: bool
) -> tuple[Value, ...]:
    """Return several layers' products with one input, their adapters' added in place.

    ``in_place``: the gradient of ``x`` is written over it.
    """
    tape, layers = sites[0].tape, [_Layer(site, lora, x.dtype) for site in sites]
    outputs = [layer.multiply() for layer in layers]

    def backward(_: Storage) -> None:
        copies = [
            copy for layer in layers for factor in layer.factors for copy in layer.cast(factor)
        ]
        gradients = [layer.make_gradients() for layer in layers]
        lows = [layer.project_gradient() for layer in layers]
        for layer in layers:
            layer.use_low_input()
        input_gradient = None
        for index, layer in enumerate(layers):
            weight = layer.dequantise()
            if index == 0:
                input_gradient = _make_input_gradient(tape, x, in_place=in_place)
            tape.release(*weight)
        tape.release(*lows, *copies)
        for layer, pair in zip(layers, gradients, strict=True):
            layer.send_gradients(pair)
        _send_input_gradient(tape, x, input_gradient)

    _join(tape, layers, outputs, backward, saved_values=(x,))
    return tuple(outputs)


def run_gated(sites: Sequence[Site], lora: Lora, x: Value) -> Value:
    """Return ``down(act(gate(x)) * up(x))`` with adapters on all three.

    It keeps the input, the gate's product and the other one; backward writes the activated product
    and both gradients over them and over the output's gradient times the last weight.
    """
    tape = sites[0].tape
    gate, up, down = (_Layer(site, lora, x.dtype) for site in sites)
    gated, other = gate.multiply(), up.multiply()
    inner = gated.numel
    product = _make(tape, inner, x.dtype, Work.MOVE)
    output = down.multiply()

    def backward(_: Storage) -> None:
        layers = (gate, up, down)
        copies = [
            copy for layer in layers for factor in layer.factors for copy in layer.cast(factor)
        ]
        activated = tape.scratch(inner, x.dtype)
        tape.release(down.project_gradient())
        gradients = {layer: layer.make_gradients() for layer in (down, gate, up)}
        tape.release(down.project_gradient())
        down.use_low_input()
        lows = [up.project_gradient(), gate.project_gradient()]
        for layer in (up, gate):
            layer.use_low_input()
        weight = up.dequantise()
        input_gradient = _make_input_gradient(tape, x, in_place=True)
        tape.release(*weight)
        tape.release(*gate.dequantise())
        tape.release(*lows, activated, *copies)
        for layer in layers:
            layer.send_gradients(gradients[layer])
        _send_input_gradient(tape, x, input_gradient)

    _join(tape, (gate, up, down), [output], backward, saved_values=(x, gated, other))
    tape.free(product, gated, other)
    return output


def _cast_factors(layers: Iterable[_Layer]) -> list[Storage]:
    return [copy for layer in layers for factor in layer.factors for copy in layer.cast(factor)]


def _make(tape: Tape, numel: Size, dtype: DType, work: Work) -> Value:
    """Return the output of a kernel that has no node."""
    return tape.emit(numel, dtype, inputs=(), work=work, backward=lambda _: None)


def _make_input_gradient(tape: Tape, x: Value, *, in_place: bool) -> Storage | None:
    """Return the gradient of ``x``, over it or in another storage."""
    if x.storage is None:
        return None
    return tape.hold(x.storage) if in_place else tape.scratch(x.numel, x.dtype)


def _send_input_gradient(tape: Tape, x: Value, gradient: Storage | None) -> None:
    if gradient is None:
        return
    if x.requires_grad:
        tape.send(x, gradient)
    else:
        tape.release(gradient)


def _join(
    tape: Tape,
    layers: Iterable[_Layer],
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
