"""Unsloth's autograd functions: projections and a gated layer with their adapters.

unsloth 2026.10 ``kernels/fast_lora.py`` (``LoRA_QKV``, ``LoRA_W``, ``LoRA_MLP``) and
``kernels/utils.py`` (``matmul_lora``, ``fast_dequantize``). Each is one node of the graph: it keeps
its input once for all of its layers, adds the adapters' outputs in place, and writes gradients over
what it kept. A quantised weight is dequantised into one buffer that all layers share in forward
(``count_buffer_bytes``), and into a tensor of its own in backward.
"""

from collections.abc import Sequence

from service.estimator.model.adapters.fused_layer import (
    FusedLayer,
    join,
    make,
    send_input_gradient,
)
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, Work, count_bytes
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


class _Layer(FusedLayer):
    """One of a function's layers.

    Its weight is dequantised into the shared buffer.
    """

    def multiply(self) -> Value:
        """Return the layer's product, the adapter's added in place."""
        tape, (down, up) = self._tape, self.factors
        numel = self.site.output_numel
        product = make(tape, numel, self.dtype, Work.PRODUCT)
        tape.use_workspace()
        cast = self.cast(down)
        low = make(tape, self._low, self.dtype, Work.PRODUCT)
        tape.release(*cast)
        cast = self.cast(up)
        tape.note_kernels(Work.PRODUCT, count_bytes(numel, self.dtype), ())
        tape.release(*cast)
        tape.free(low)
        return product


def project_together(
    sites: Sequence[Site], lora: Lora, x: Value, *, in_place: bool
) -> tuple[Value, ...]:
    """Return several layers' products with one input, their adapters' added in place.

    ``in_place``: the gradient of ``x`` is written over it.
    """
    tape, layers = sites[0].tape, [_Layer(site, lora, x.dtype) for site in sites]
    outputs = [layer.multiply() for layer in layers]

    def backward(_: Storage) -> None:
        copies = [copy for layer in layers for copy in layer.cast(*layer.factors)]
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
        send_input_gradient(tape, x, input_gradient)

    join(tape, layers, outputs, backward, saved_values=(x,))
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
    product = make(tape, inner, x.dtype, Work.MOVE)
    output = down.multiply()

    def backward(_: Storage) -> None:
        layers = (gate, up, down)
        copies = [copy for layer in layers for copy in layer.cast(*layer.factors)]
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
        send_input_gradient(tape, x, input_gradient)

    join(tape, (gate, up, down), [output], backward, saved_values=(x, gated, other))
    tape.free(product, gated, other)
    return output


def _make_input_gradient(tape: Tape, x: Value, *, in_place: bool) -> Storage | None:
    """Return the gradient of ``x``, over it or in another storage."""
    if x.storage is None:
        return None
    return tape.hold(x.storage) if in_place else tape.scratch(x.numel, x.dtype)
