"""Axolotl's autograd functions: projections and a gated layer with their adapters.

axolotl 0.19 ``kernels/lora.py`` (``LoRA_QKV``, ``LoRA_O``, ``LoRA_MLP``, ``matmul_lora``) and
``kernels/quantize.py``. Each is one node of the graph: it keeps its input once for all of its
layers, and copies of the adapters in the input's format; it adds the adapters' outputs in place.
A quantised weight is dequantised into a new tensor each time. The gradient of the input is a new
tensor too; those of an activation are written over what was kept. Layers with one input share one
dropped copy of it.
"""

from collections.abc import Callable, Sequence

from service.estimator.model.adapters.fused_layer import (
    DequantisedLayer,
    join,
    make,
    send_input_gradient,
)
from service.estimator.model.adapters.site import Site
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, Work, count_bytes
from service.estimator.tape.ops.elementwise import dropout
from service.estimator.values.workload import Lora


class _Layer(DequantisedLayer):
    """One of a function's layers."""

    def multiply(self) -> Value:
        """Return the layer's product, the adapter's and a bias added in place."""
        tape, numel = self._tape, self.site.output_numel
        weight = self.dequantise()
        product = make(tape, numel, self.dtype, Work.PRODUCT)
        tape.use_workspace()
        tape.release(*weight)
        copies = self.cast(*self.factors)
        low = make(tape, self._low, self.dtype, Work.PRODUCT)
        tape.note_kernels(Work.PRODUCT, count_bytes(numel, self.dtype), ())
        tape.free(low)
        if self.site.layer.bias:
            tape.note_kernels(Work.MOVE, count_bytes(numel, self.dtype), ())
        tape.release(*copies)
        return product

    def copy_factors(self) -> list[Value]:
        """Return the factors as backward reads them, which are kept."""
        return [
            Value(storage, sizes.constant(factor.numel), self.dtype)
            for factor in self.factors
            for storage in self.cast(factor)
        ]

    def differentiate(self) -> tuple[Storage, list[Storage]]:
        """Return the output's gradient times B, and the gradients of both factors."""
        low, gradients = self.project_gradient(), self.make_gradients()
        self.use_low_input()
        return low, gradients


def project_jointly(sites: Sequence[Site], lora: Lora, x: Value) -> tuple[Value, ...]:
    """Return several layers' products with one input (``LoRA_QKV``)."""
    tape, layers = sites[0].tape, [_Layer(site, lora, x.dtype) for site in sites]
    read = dropout(tape, x, lora.dropout)
    outputs = [layer.multiply() for layer in layers]

    def backward(_: Storage) -> None:
        parts = [layer.differentiate() for layer in layers]
        gradient = None
        for layer in layers:
            weight = layer.dequantise()
            if gradient is None:
                gradient = tape.scratch(x.numel, x.dtype)
            tape.release(*weight)
        dropped = _make_dropped_gradient(tape, x, lora)
        tape.release(*(low for low, _ in parts))
        tape.release_unpacked()
        for layer, (_, gradients) in zip(layers, parts, strict=True):
            layer.send_gradients(gradients)
        _send_input_gradients(tape, x, read, gradient, dropped)

    _join(tape, layers, outputs, backward, x, read)
    return tuple(outputs)


def apply_last(site: Site, lora: Lora, x: Value) -> Value:
    """Return the product of attention's last layer (``LoRA_O``)."""
    tape, layer = site.tape, _Layer(site, lora, x.dtype)
    read = dropout(tape, x, lora.dropout)
    output = layer.multiply()

    def backward(_: Storage) -> None:
        low, gradients = layer.differentiate()
        weight = layer.dequantise()
        gradient = tape.scratch(x.numel, x.dtype)
        tape.release(*weight)
        product = _make_dropped_gradient(tape, x, lora)
        dropped = _make_dropped_gradient(tape, x, lora)  # the product, scaled
        if product is not None:
            tape.release(product)
        tape.release(low)
        tape.release_unpacked()
        layer.send_gradients(gradients)
        _send_input_gradients(tape, x, read, gradient, dropped)

    _join(tape, (layer,), [output], backward, x, read)
    return output


def run_gated_jointly(sites: Sequence[Site], lora: Lora, x: Value) -> Value:
    """Return ``down(act(gate(x)) * up(x))`` with adapters on all three (``LoRA_MLP``).

    What ``down`` reads is not dropped.
    """
    tape = sites[0].tape
    gate, up, down = (_Layer(site, lora, x.dtype) for site in sites)
    read = dropout(tape, x, lora.dropout)
    gated, other = gate.multiply(), up.multiply()
    inner = gated.numel
    product = make(tape, inner, x.dtype, Work.MOVE)
    output = down.multiply()

    def backward(_: Storage) -> None:
        weight = down.dequantise()
        activated = tape.scratch(inner, x.dtype)
        tape.release(*weight)
        tape.release(down.project_gradient())
        parts = {layer: layer.differentiate() for layer in (down, up, gate)}
        gradient = dropped = None
        if x.requires_grad:
            weight = up.dequantise()
            gradient = tape.scratch(x.numel, x.dtype)
            tape.release(*weight)
            tape.release(*gate.dequantise())
            dropped = _make_dropped_gradient(tape, x, lora)
        tape.release(activated, *(low for low, _ in parts.values()))
        tape.release_unpacked()
        for layer in (gate, up, down):
            layer.send_gradients(parts[layer][1])
        _send_input_gradients(tape, x, read, gradient, dropped)

    _join(tape, (gate, up, down), [output], backward, x, read, gated, other)
    tape.free(product, gated, other)
    return output


def _make_dropped_gradient(tape: Tape, x: Value, lora: Lora) -> Storage | None:
    """Return the gradient of the dropped input, where there is one."""
    return tape.scratch(x.numel, x.dtype) if lora.dropout else None


def _send_input_gradients(
    tape: Tape, x: Value, read: Value, gradient: Storage | None, dropped: Storage | None
) -> None:
    """Hand on the gradients of an input and of its dropped copy.

    Both are views of matrices.
    """
    send_input_gradient(tape, x, gradient, is_view=True)
    send_input_gradient(tape, read, dropped, is_view=True)


def _join(
    tape: Tape,
    layers: Sequence[_Layer],
    outputs: Sequence[Value],
    backward: Callable[[Storage], None],
    x: Value,
    read: Value,
    *products: Value,
) -> None:
    """Make one node of outputs.

    It keeps its inputs and copies of the adapters.
    """
    copies = [copy for layer in layers for copy in layer.copy_factors()]
    join(tape, layers, outputs, backward, saved_values=(x, read, *products, *copies))
    tape.free(read, *copies)
