"""Foak's autograd functions: attention's projections over 4 bits with their adapters.

fms-acceleration-foak 0.7 ``fused_ops/unsloth_lora/bnb/fast_lora.py`` (``LoRA_QKV``, ``LoRA_W``) and
``utils.py`` (``matmul_lora``, ``fast_dequantize``), which began as an older Unsloth's. A weight is
dequantised into a new tensor each time, an adapter's product is another tensor of the output's
size, and each layer drops its input for itself. The gradient of what query, key and value read is
written over it, but for GPTQ's (``gptq/fast_lora.py``), whose three weights are all there before
the first product.
"""

from collections.abc import Sequence

from service.estimator.model.adapters.fused_layer import (
    DequantisedLayer,
    join,
    make,
    send_input_gradient,
)
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Parameter, Value, Work, count_bytes
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Lora


class _Layer(DequantisedLayer):
    """One of a function's layers."""

    @property
    def is_gptq(self) -> bool:
        """Whether the functions are those for GPTQ's weights."""
        return self.site.is_packed_as(Packing.GPTQ)

    def multiply(self, x: Value, lora: Lora) -> tuple[Value, Value]:
        """Return the layer's product, and the input that its adapter read."""
        tape, numel, (down, up) = self._tape, self.site.output_numel, self.factors
        weight = [] if self.is_gptq else self.dequantise()
        product = make(tape, numel, self.dtype, Work.PRODUCT)
        tape.use_workspace()
        tape.release(*weight)
        read = self._drop(x, lora)
        cast = self.cast(down)
        low = make(tape, self._low, self.dtype, Work.PRODUCT)
        tape.release(*cast)
        scaled = self._scale(up)
        added = make(tape, numel, self.dtype, Work.PRODUCT)
        tape.free(low)
        tape.release(scaled)
        tape.note_kernels(Work.MOVE, count_bytes(numel, self.dtype), ())
        tape.free(added)
        return product, read

    def differentiate(self) -> list[Storage]:
        """Return the gradients of both factors."""
        gradients = []
        for factor, other in zip(self.factors, reversed(self.factors), strict=True):
            cast = self.cast(other)
            low = self.project_gradient()
            self._tape.release(*cast)
            gradients.append(self._tape.scratch(sizes.constant(factor.numel), self.dtype))
            self._tape.release(low)
        return gradients

    def add_input_gradient(self, x: Value) -> None:
        """Add the adapter's part, where its input was not dropped."""
        tape, (down, up) = self._tape, self.factors
        mask = tape.scratch(x.numel, DType.FP8)
        cast = self.cast(up)
        low = self.project_gradient()
        tape.release(*cast)
        scaled = self._scale(down)
        product = tape.scratch(x.numel, x.dtype)
        tape.release(low, scaled)
        kept = tape.scratch(x.numel, x.dtype)
        tape.release(mask, product)
        tape.release(kept)

    def _scale(self, factor: Parameter) -> Storage:
        """Return a factor in the input's format times the adapter's scale."""
        cast = self.cast(factor)
        scaled = self._tape.scratch(sizes.constant(factor.numel), self.dtype)
        self._tape.release(*cast)
        return scaled

    def _drop(self, x: Value, lora: Lora) -> Value:
        """Return the input with dropout, whose mask nothing keeps."""
        tape = self._tape
        if not (lora.dropout and tape.builds_graph):
            return tape.alias(x)
        mask = tape.scratch(x.numel, DType.FP8)
        dropped = make(tape, x.numel, x.dtype, Work.FUSED)
        tape.release(mask)
        return dropped


def project_separately(
    sites: Sequence[Site], lora: Lora, x: Value, *, in_place: bool
) -> tuple[Value, ...]:
    """Return several layers' products with one input.

    ``in_place``: the gradient of ``x`` is written over it.
    """
    tape, layers = sites[0].tape, [_Layer(site, lora, x.dtype) for site in sites]
    ahead = [part for layer in layers if layer.is_gptq for part in layer.dequantise()]
    outputs, reads = zip(*(layer.multiply(x, lora) for layer in layers), strict=True)
    tape.release(*ahead)
    writes_over = in_place and not layers[0].is_gptq

    def backward(_: Storage) -> None:
        gradients = [layer.differentiate() for layer in layers]
        summed: Storage | None = None
        for layer in layers:
            weight = layer.dequantise()
            if summed is not None:
                tape.release(tape.scratch(x.numel, x.dtype), *weight)
            elif writes_over and x.storage is not None:
                summed = tape.hold(x.storage)
                tape.release(*weight)
            else:
                summed = tape.scratch(x.numel, x.dtype)
                tape.release(*weight)
            layer.add_input_gradient(x)
        tape.release_unpacked()
        for layer, pair in zip(layers, gradients, strict=True):
            layer.send_gradients(pair)
        send_input_gradient(tape, x, summed, is_view=True)

    join(tape, layers, outputs, backward, saved_values=(x, *reads))
    tape.free(*reads)
    return outputs
