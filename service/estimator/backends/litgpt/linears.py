"""LitGPT's linear layers: plain, packed, and with its own adapters.

``litgpt/lora.py``; packed ones are bitsandbytes' under Lightning's ``BitsandbytesPrecision``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from service.estimator.model.recording import Recording
from service.estimator.model.weights.packing import BLOCK_4BIT
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value, Work, as_value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous, linear, split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import LitGptCode
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Lora

INDEX_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedProjection:
    """Query, key and value in one layer.

    Each of them may have an adapter. ``parts`` are those three as layers of their own, which own no
    weight.
    """

    fused: Linear
    parts: tuple[Linear, Linear, Linear]

    @property
    def is_grouped(self) -> bool:
        """Whether keys are fewer than queries."""
        return self.parts[0].out_features != self.parts[1].out_features


def apply_linear(
    ctx: Recording,
    layer: Linear,
    x: Value,
    scope: str,
    *,
    code: LitGptCode,
    category: Category = Category.ACTIVATIONS,
) -> Value:
    """Return a layer's output with its adapter's (``LoRALinear.forward``)."""
    pretrained = apply_base(ctx, layer, x, scope, code=code, category=category)
    lora, tape = ctx.settings.lora, ctx.tape
    if lora is None or not ctx.settings.has_adapter(layer):
        return pretrained
    down, up = (
        _get_factor(ctx, layer, scope, name, lora, features)
        for name, features in (("lora_A", layer.in_features), ("lora_B", layer.out_features))
    )
    low = _reduce_rank(ctx, x, down, lora, lora.rank)
    out = ctx.shape.tokens(layer.out_features)
    product = chain(tape, low, lambda t, value: linear(t, value, up, out, category=category))
    scaled = chain(tape, product, multiply_scalar)
    y = add(tape, pretrained, scaled)
    tape.free(pretrained, scaled)
    return y


def apply_fused(
    ctx: Recording, projection: FusedProjection, x: Value, scope: str, code: LitGptCode
) -> Value:
    """Return query, key and value with their adapters (``LoRAQKVLinear.forward``).

    The adapters of all that have one are a single A and a grouped convolution, whose output is put
    into zeros where not all three have one.
    """
    tape, lora, shape = ctx.tape, ctx.settings.lora, ctx.shape
    pretrained = apply_base(ctx, projection.fused, x, scope, code=code)
    adapted = [layer for layer in projection.parts if ctx.settings.has_adapter(layer)]
    if lora is None or not adapted:
        return pretrained
    num_adapted = len(adapted)
    down = _get_factor(
        ctx, projection.fused, scope, "lora_A", lora, num_adapted * projection.fused.in_features
    )
    low = _reduce_rank(ctx, x, down, lora, lora.rank * num_adapted)
    widths = [layer.out_features for layer in adapted]
    up = _get_factor(ctx, projection.fused, scope, "lora_B", lora, sum(widths))
    if projection.is_grouped and num_adapted > 1:
        update = _convolve_apart(ctx, low, up, [shape.tokens(width) for width in widths])
    else:
        update = _convolve(ctx, low, up, shape.tokens(sum(widths)))
    padded = _pad(ctx, update, projection, sum(widths), code)
    scaled = chain(tape, padded, multiply_scalar)
    y = add(tape, pretrained, scaled)
    tape.free(pretrained, low, update, scaled)
    return y


def apply_base(
    ctx: Recording,
    layer: Linear,
    x: Value,
    scope: str,
    *,
    code: LitGptCode,
    category: Category = Category.ACTIVATIONS,
) -> Value:
    """Return a layer's output without its adapter's."""
    out = ctx.shape.tokens(layer.out_features)
    if ctx.settings.packs(layer):
        return _multiply_packed(ctx, layer, x, out, code=code, category=category)
    weight, *bias = ctx.parameters(layer.weights(), scope)
    return linear(ctx.tape, x, weight, out, bias=bias[0] if bias else None, category=category)


def _multiply_packed(
    ctx: Recording, layer: Linear, x: Value, out: Size, *, code: LitGptCode, category: Category
) -> Value:
    """Record bitsandbytes' 4-bit product (``MatMul4Bit``).

    Lightning packs weights as fp16, so that they are unpacked to that first. Until 0.43.3 the
    input was an attribute of the graph's node, which lives as long as the graph does.
    """
    tape, dtype = ctx.tape, x.dtype
    unpack = partial(unpack_weight, ctx, layer, dtype)

    def backward(_: Storage) -> None:
        weight = unpack()
        grad = tape.scratch(x.numel, dtype)
        tape.release(*weight)
        tape.send(x, grad)

    weight = unpack()
    y = tape.emit(out, dtype, inputs=(x,), category=category, work=Work.PRODUCT, backward=backward)
    tape.release(*weight)
    if x.requires_grad and tape.builds_graph and not code.frees_packed_inputs:
        tape.hold_value(x)
    return y


def unpack_weight(ctx: Recording, layer: Linear, dtype: DType) -> list[Storage]:
    """Return the storages of a weight that is unpacked for a product."""
    tape, elements = ctx.tape, layer.in_features * layer.out_features
    scheme, scales = ctx.settings.scheme, list[Storage]()
    if scheme is not None and scheme.double:
        scales.append(tape.scratch(sizes.constant(ceil_div(elements, BLOCK_4BIT)), DType.FP32))
    weight = tape.scratch(sizes.constant(elements), DType.FP16)
    if dtype is not DType.FP16:
        tape.release(*scales)
        scales = []
        converted = tape.scratch(sizes.constant(elements), dtype)
        tape.release(weight)
        weight = converted
    return [*scales, weight]


def _get_factor(
    ctx: Recording, layer: Linear, scope: str, name: str, lora: Lora, features: int
) -> Parameter:
    return ctx.adapter(f"{scope}{layer.name}.{name}", lora.rank * features, lora.dtype)


def _reduce_rank(ctx: Recording, x: Value, down: Parameter, lora: Lora, rank: int) -> Value:
    """Return ``A(dropout(x))``."""
    tape = ctx.tape
    read = dropout(tape, x, lora.dropout)
    low = linear(tape, read, down, ctx.shape.tokens(rank))
    tape.free(read)
    return low


def _convolve(ctx: Recording, low: Value, up: Parameter, out: Size) -> Value:
    """Return a convolution over single positions; it keeps input and weight."""
    weight = as_value(up)
    return _emit_convolution(ctx, low, weight, weight.numel, out)


def _emit_convolution(
    ctx: Recording, low: Value, weight: Value, elements: Size, out: Size
) -> Value:
    tape = ctx.tape

    def backward(_: Storage) -> None:
        grads = [(low, tape.scratch(low.numel, low.dtype))]
        grads.append((weight, tape.scratch(elements, weight.dtype)))
        for side, grad in grads:
            tape.send(side, grad)

    return tape.emit(
        out,
        low.dtype,
        inputs=(low, weight),
        saves=(low, weight),
        work=Work.PRODUCT,
        backward=backward,
    )


def _convolve_apart(ctx: Recording, low: Value, up: Parameter, outs: list[Size]) -> Value:
    """Return the convolutions of parts of unequal width, one after another.

    Both sides are views of the parts (``LoRAQKVLinear.conv1d``).
    """
    tape, rank = ctx.tape, sizes.count_rows(low.numel, len(outs))
    lows = split(tape, tape.alias(low), (rank,) * len(outs))
    width = sum(sum(size) for size in outs)
    elements = [sizes.constant(up.numel * sum(size) // width) for size in outs]
    weights = _split_parameter(ctx, up, elements)
    parts = tuple(
        _emit_convolution(ctx, piece, weight, numel, out)
        for piece, weight, numel, out in zip(lows, weights, elements, outs, strict=True)
    )
    joined = concatenate(tape, parts)
    tape.free(*parts, *lows)
    return joined


def _split_parameter(ctx: Recording, up: Parameter, elements: list[Size]) -> tuple[Value, ...]:
    """Return views of a parameter, whose gradients are put together."""
    fused = Value(None, sizes.constant(up.numel), up.dtype)
    tape, source = ctx.tape, as_value(up)
    view = tape.emit(
        sizes.ZERO,
        up.dtype,
        inputs=(source,),
        backward=lambda grad: tape.send(source, tape.hold(grad), is_view=True),
    )
    fused.node, fused.requires_grad = view.node, view.requires_grad
    tape.free(view)
    return split(tape, fused, tuple(elements))


def _pad(
    ctx: Recording, update: Value, projection: FusedProjection, width: int, code: LitGptCode
) -> Value:
    """Return an update of some parts among zeros for the others.

    ``update`` stays with the caller, and is kept for its width (``index_copy`` in torch's
    ``derivatives.yaml``).
    """
    tape, full_width = ctx.tape, projection.fused.out_features
    if width == full_width:
        return tape.alias(update)
    out = ctx.shape.tokens(full_width)
    index = allocate_integers(tape, sizes.constant(width), bytes_each=INDEX_BYTES)
    read: Callable[[Value], Value] = tape.alias
    zeros: tuple[Storage, ...] = ()
    if not code.pads_in_place:
        zeros = (tape.scratch(out, update.dtype),)
        if ctx.settings.batched:
            read = partial(copy_contiguous, tape)
    source = read(update)
    padded = tape.emit(
        out,
        update.dtype,
        inputs=(source,),
        saves=(index, source),
        backward=lambda _: tape.send(source, tape.scratch(source.numel, source.dtype)),
    )
    tape.free(source, index)
    tape.release(*zeros)
    return padded
