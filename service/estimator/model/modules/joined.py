"""Layers of a model that Unsloth's or axolotl's kernels run.

axolotl 0.19 ``monkeypatch/lora_kernels.py`` (``apply_lora_kernel_patches``); unsloth 2026.10
``models/llama.py`` (``LlamaDecoderLayer_fast_forward``, ``patch_peft_model``) and
``kernels/rms_layernorm.py``, ``rope_embedding.py``, ``qk_norm_rope.py``.
"""

from collections.abc import Iterator, Sequence

from service.estimator.model.adapters.axolotl import (
    apply_last,
    project_jointly,
    run_gated_jointly,
)
from service.estimator.model.adapters.foak import project_separately
from service.estimator.model.adapters.parameters import is_adapted
from service.estimator.model.adapters.site import Site
from service.estimator.model.adapters.unsloth import is_plain, project_together, run_gated
from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.liger import (
    normalise_and_rotate,
    normalise_in_kernel,
    rotate_in_place,
    rotate_into_copy,
)
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Lora

_ROTARY_ROWS, _ROTARY_STEP = 4 * 8192, 8192
"""Positions of a rotary table at first, and those that it grows by."""


FIRST_OF_GATED = "mlp.gate_proj"
"""Where axolotl looks for a gated layer: not in experts, nor in a layer of another name."""


def project(ctx: Recording, layers: Sequence[Linear], x: Value, scope: str) -> tuple[Value, ...]:
    """Return query, key and value as one node makes them.

    Empty where each is a module of its own. Unsloth writes the input's gradient over it.
    """
    lora = ctx.settings.lora
    if lora is None:
        return ()
    if sites := _join(ctx, layers, x, scope):
        return project_together(sites, lora, x, in_place=True)
    if sites := _join_by_foak(ctx, layers, scope):
        return project_separately(sites, lora, x, in_place=True)
    if sites := _join_in_kernel(ctx, LoraKernel.QKV, layers, scope):
        return project_jointly(sites, lora, x)
    return ()


def project_each(ctx: Recording, layers: Sequence[Linear], x: Value, scope: str) -> Iterator[Value]:
    """Yield query, key and value, together or each in turn."""
    yield from project(ctx, layers, x, scope) or (ctx.linear(layer, x, scope) for layer in layers)


def apply_output(ctx: Recording, layer: Linear, x: Value, scope: str) -> Value:
    """Return the output of attention's last layer."""
    lora = ctx.settings.lora
    if lora is None:
        return ctx.linear(layer, x, scope)
    if sites := _join(ctx, (layer,), x, scope):
        return project_together(sites, lora, x, in_place=False)[0]
    if sites := _join_by_foak(ctx, (layer,), scope):
        return project_separately(sites, lora, x, in_place=False)[0]
    if sites := _join_in_kernel(ctx, LoraKernel.OUTPUT, (layer,), scope):
        return apply_last(sites[0], lora, x)
    return ctx.linear(layer, x, scope)


def feed_forward(ctx: Recording, layers: Sequence[Linear], x: Value, scope: str) -> Value | None:
    """Return a gated layer's output; None where it is plain modules."""
    lora = ctx.settings.lora
    if lora is None:
        return None
    if sites := _join(ctx, layers, x, scope):
        return run_gated(sites, lora, x)
    is_named = layers[0].name == FIRST_OF_GATED
    if is_named and (sites := _join_in_kernel(ctx, LoraKernel.MLP, layers, scope)):
        return run_gated_jointly(sites, lora, x)
    return None


def rotate(ctx: Recording, x: Value) -> Value:
    """Return query or key rotated; ``x`` stays with the caller.

    Told positions, Unsloth's kernel writes another tensor, since the heads do not lie one after
    another.
    """
    turn = rotate_into_copy if ctx.settings.position_ids else rotate_in_place
    return turn(ctx.tape, x)


def rotate_normalised(
    ctx: Recording, x: Value, norm: Norm | None, scope: str, *, heads: int
) -> Value:
    """Return query or key normalised and rotated in one kernel."""
    if norm is None:
        return rotate(ctx, x)
    weight, *_ = ctx.parameters(norm.weights(), scope)
    return normalise_and_rotate(ctx.tape, x, weight, ctx.shape.tokens(heads))


def normalise_last(ctx: Recording, norm: Norm, x: Value) -> Value:
    """Return what the head reads, whose gradient is not written over."""
    if not ctx.settings.unsloth:
        return ctx.norm(norm, x, "")
    weight, *_ = ctx.parameters(norm.weights(), "")
    return normalise_in_kernel(ctx.tape, x, weight, ctx.shape.tokens(1), in_place=False)


def _join(ctx: Recording, layers: Sequence[Linear], x: Value, scope: str) -> tuple[Site, ...]:
    """Return the sites of layers that one function runs.

    There are none unless each has an adapter and no bias.
    """
    settings = ctx.settings
    is_joined = (
        settings.unsloth
        and settings.lora is not None
        and is_plain(settings.lora)
        and x.dtype is (ctx.tape.autocast or x.dtype)
        and all(settings.has_adapter(layer) and not layer.bias for layer in layers)
    )
    if not is_joined:
        return ()
    return _list_sites(ctx, layers, scope)


def _join_in_kernel(
    ctx: Recording, kernel: LoraKernel, layers: Sequence[Linear], scope: str
) -> tuple[Site, ...]:
    """Return the sites of layers that one of axolotl's functions runs.

    There are none unless each has an adapter; biases and dropout are in it.
    """
    settings = ctx.settings
    if kernel not in settings.lora_kernels or not all(map(settings.has_adapter, layers)):
        return ()
    return _list_sites(ctx, layers, scope)


def _join_by_foak(ctx: Recording, layers: Sequence[Linear], scope: str) -> tuple[Site, ...]:
    """Return the sites of layers that one of foak's functions runs."""
    is_joined = ctx.settings.foak and all(map(ctx.settings.has_adapter, layers))
    return _list_sites(ctx, layers, scope) if is_joined else ()


def _list_sites(ctx: Recording, layers: Sequence[Linear], scope: str) -> tuple[Site, ...]:
    return tuple(
        ctx.site(layer, scope, ctx.shape.tokens, packed=ctx.settings.packs(layer))
        for layer in layers
    )


def count_buffer_bytes(model: Architecture, lora: Lora, scheme: Scheme | None, rows: int) -> int:
    """Return the bytes of a shared buffer and of rotary tables.

    4-bit weights are dequantised into one buffer of the largest of them (``kernels/utils.py``,
    ``_scratch``). Gemma's tables are fp32 (``GemmaFixedRotaryEmbedding``).
    """
    spec = model.spec
    linears = {layer for block, _ in model.blocks for layer in block.linears()}
    elements = [
        layer.in_features * layer.out_features
        for layer in linears
        if not layer.bias and is_adapted(layer, lora)
    ]
    scratch = max(elements, default=0) if scheme is not None and is_plain(lora) else 0
    table = DType.FP32 if spec.family.startswith("gemma") else DType.BF16
    head_dim = spec.head_dim
    return scratch * DType.BF16.bytes_per_element + 2 * rows * head_dim * table.bytes_per_element


def count_rotary_rows(max_positions: int, *, tells_positions: bool) -> int:
    """Return the positions that rotary tables are made of.

    They are 32,768 where the model has as many, and all of them where rows are told their positions
    (``models/llama.py``, ``_PerDeviceRopeCache``, ``LlamaModel_fast_forward``).
    """
    minimum = min(_ROTARY_ROWS, max_positions)
    if not tells_positions or max_positions <= minimum:
        return minimum
    return ceil_div(max_positions, _ROTARY_STEP) * _ROTARY_STEP
