"""LitGPT's linear layers: plain, packed, and with its own adapters.

``litgpt/lora.py``; packed ones are bitsandbytes' under Lightning's ``BitsandbytesPrecision``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from service.estimator.backends.litgpt.loss import CHUNK_TOKENS, scale_in_chunks, watch_input
from service.estimator.backends.litgpt.products import multiply_weight
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value, Work, as_value
from service.estimator.tape.ops.elementwise import (
    add,
    chain,
    dropout,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous, linear, split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.sizes import Size
from service.estimator.values.releases.litgpt import Adapter, LitGptCode
from service.estimator.values.workload import Lora

INDEX_BYTES = 8
SHIFT, SCALE = "adapter_bias", "adapter_scale"


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
    """Return a layer's output without that of LoRA."""
    if code.adapter is not Adapter.V2:
        return multiply_weight(ctx, layer, x, scope, code=code, category=category)
    if category is Category.LOGITS:
        return _scale_head(ctx, layer, x, scope, code)
    y = multiply_weight(ctx, layer, x, scope, code=code, category=category)
    shifted, scale = _shift(ctx, layer, y, scope)
    scaled = multiply(ctx.tape, scale, shifted)
    ctx.tape.free(shifted)
    return scaled


def _shift(ctx: Recording, layer: Linear, y: Value, scope: str) -> tuple[Value, Value]:
    """Return a shifted output, and its scale; ``y`` is dropped (``AdapterV2Linear.forward``)."""
    shift, scale = (
        as_value(ctx.adapter(f"{scope}{layer.name}.{name}", layer.out_features, y.dtype))
        for name in (SHIFT, SCALE)
    )
    shifted = add(ctx.tape, y, shift)
    ctx.tape.free(y)
    return shifted, scale


def _scale_head(ctx: Recording, layer: Linear, x: Value, scope: str, code: LitGptCode) -> Value:
    """Return scaled logits.

    Each chunk goes back through its product before the next one does: what the others keep is
    there as long, beside a weight that is unpacked.
    """
    tape, storages = ctx.tape, list[Storage]()
    source = watch_input(tape, x, storages)
    y = multiply_weight(ctx, layer, source, scope, code=code, category=Category.LOGITS)
    tape.free(source)
    shifted, scale = _shift(ctx, layer, y, scope)
    if shifted.storage is not None:
        storages.append(tape.hold(shifted.storage))
    chunk = sizes.per_sequence(CHUNK_TOKENS * layer.out_features)
    scaled = scale_in_chunks(tape, shifted, scale, chunk)
    tape.free(shifted)
    return scaled


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
