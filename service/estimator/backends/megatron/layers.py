"""Transformer layers of one rank.

As Megatron Core's specifications compose them, Transformer Engine's and the local one
(core/models/gpt/gpt_layer_specs.py). A local norm is a module of its own and keeps what a fused one
keeps (apex ``FusedLayerNormAffineFunction``); products are those of core/tensor_parallel/layers.py.
"""

from service.estimator.backends.megatron.attention import attend, build_core_attention
from service.estimator.backends.megatron.experts import record_sparse_mlp
from service.estimator.backends.megatron.local_attention import arrange_heads, attend_locally
from service.estimator.backends.megatron.operations import (
    Products,
    apply_activation,
    apply_norm,
    bias_dropout_add,
    build_products,
    column_linear,
    rearrange,
    row_linear,
    tokens,
)
from service.estimator.backends.megatron.shape import LatentShape, RankShape, Switches
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value


def record_layer(
    tape: Tape, x: Value, shape: RankShape, switches: Switches, *, sparse: bool
) -> Value:
    """Record one layer, which drops ``x`` at its end.

    Attention, then MLP or experts, each added onto the residual.
    """
    mixed = record_attention(tape, x, shape, switches)
    middle = bias_dropout_add(tape, mixed, x, shape.hidden_dropout)
    tape.free(mixed, x)
    fed = (
        record_sparse_mlp(tape, middle, shape, switches)
        if sparse
        else record_dense_mlp(tape, middle, shape, switches)
    )
    y = bias_dropout_add(tape, fed, middle, shape.hidden_dropout)
    tape.free(fed, middle)
    return y


def record_attention(tape: Tape, x: Value, shape: RankShape, switches: Switches) -> Value:
    """Record attention and return its share of the residual.

    ``x`` stays with the caller.
    """
    fused = (
        _project_latent(tape, x, shape, shape.latent, build_products(shape, switches))
        if shape.latent is not None
        else _project_qkv(tape, x, shape, switches)
    )
    core = build_core_attention(shape)
    mixed = (
        attend_locally(tape, fused, shape, core, switches)
        if switches.local
        else attend(tape, fused, core, switches)
    )
    y = row_linear(tape, mixed, shape.hidden, build_products(shape, switches))
    tape.free(mixed, fused)
    return y


def record_dense_mlp(tape: Tape, x: Value, shape: RankShape, switches: Switches) -> Value:
    """Record the MLP and return its share of the residual.

    A norm fused with the first product, a fused activation, the second product.
    """
    products = build_products(shape, switches)
    normalised = apply_norm(tape, x, shape.statistics)
    wide = column_linear(tape, normalised, shape.inner * (2 if shape.gated else 1), products)
    tape.free(normalised)
    activated = apply_activation(tape, wide, tokens(shape.inner))
    tape.free(wide)
    y = row_linear(tape, activated, shape.hidden, products)
    tape.free(activated)
    return y


def _project_qkv(tape: Tape, x: Value, shape: RankShape, switches: Switches) -> Value:
    """Return query, key and value as attention keeps them.

    Where they do not lie as the kernels take them (grouped heads, rotated or normalised ones) they
    are made anew, and the fused tensor that they came from is dropped.
    """
    normalised = apply_norm(tape, x, shape.statistics)
    width = shape.query + 2 * shape.key
    fused = column_linear(tape, normalised, width, build_products(shape, switches))
    tape.free(normalised)
    if shape.query_key_norm:
        fused = _normalise_heads(tape, fused, shape)
    if switches.local:
        return arrange_heads(tape, fused, shape)
    if shape.query == shape.key and shape.learned_positions and not shape.query_key_norm:
        return fused
    return rearrange(tape, fused, tokens(width))


def _normalise_heads(tape: Tape, fused: Value, shape: RankShape) -> Value:
    """Return query and key normalised head by head.

    Their inputs stay, as views of the fused tensor made contiguous.
    """
    normalised = apply_norm(tape, fused, 2 * shape.heads * shape.row_statistics)
    tape.free(fused)
    return normalised


def _project_latent(
    tape: Tape, x: Value, shape: RankShape, latent: LatentShape, products: Products
) -> Value:
    """Return query, key and value of latent attention.

    Both latents are kept (transformer/multi_latent_attention.py).
    """
    core, sequence_shards = build_core_attention(shape), products.sequence_shards
    normalised = apply_norm(tape, x, shape.statistics)
    query_width = core.query
    if latent.query_latent:
        down = _apply_replicated_linear(tape, normalised, latent.query_latent // sequence_shards)
        small = apply_norm(tape, down, 1)
        query = column_linear(tape, small, query_width, products)
        tape.free(down, small)
    else:
        query = column_linear(tape, normalised, query_width, products)
    compressed = _apply_replicated_linear(
        tape, normalised, (latent.key_value_latent + latent.rope_dim) // sequence_shards
    )
    tape.free(normalised)
    small = apply_norm(tape, compressed, 1)
    expanded = column_linear(
        tape, small, shape.heads * (latent.nope_dim + latent.value_dim), products
    )
    tape.free(compressed, small)
    width = tokens(core.query + core.keys_values)

    def backward(_: object) -> None:
        tape.send(query, tape.scratch(query.numel, query.dtype))
        tape.send(expanded, tape.scratch(expanded.numel, expanded.dtype))

    fused = tape.emit(width, query.dtype, inputs=(query, expanded), backward=backward)
    tape.free(query, expanded)
    return fused


def _apply_replicated_linear(tape: Tape, x: Value, out: int) -> Value:
    """Return a product whose weight every rank has.

    It runs on the rank's own part of the sequence.
    """
    return tape.emit(
        tokens(out),
        x.dtype,
        inputs=(x,),
        saves=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
