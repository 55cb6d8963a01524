"""Transformer layers of one rank, as Megatron Core's Transformer Engine specification composes them."""

from service.estimator.backends.megatron.attention import attended, core_of
from service.estimator.backends.megatron.experts import sparse_mlp
from service.estimator.backends.megatron.operations import (
    activation,
    bias_dropout_add,
    column_linear,
    copied,
    normed,
    row_linear,
    tokens,
)
from service.estimator.backends.megatron.shape import LatentShape, Shape, Switches
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value


def layer(tape: Tape, x: Value, shape: Shape, how: Switches, *, sparse: bool) -> Value:
    """Record one layer: attention, then MLP or experts, each onto the residual; ``x`` is dropped at its end."""
    mixed = attention(tape, x, shape, how)
    middle = bias_dropout_add(tape, mixed, x, shape.hidden_dropout)
    tape.free(mixed, x)
    fed = sparse_mlp(tape, middle, shape) if sparse else dense_mlp(tape, middle, shape)
    y = bias_dropout_add(tape, fed, middle, shape.hidden_dropout)
    tape.free(fed, middle)
    return y


def attention(tape: Tape, x: Value, shape: Shape, how: Switches) -> Value:
    """Return attention's share of the residual; ``x`` stays with the caller."""
    fused = _latent(tape, x, shape, shape.latent) if shape.latent is not None else _projected(tape, x, shape)
    mixed = attended(tape, fused, core_of(shape), how)
    y = row_linear(tape, mixed, shape.hidden, spread=shape.spread)
    tape.free(mixed, fused)
    return y


def dense_mlp(tape: Tape, x: Value, shape: Shape) -> Value:
    """Return the MLP's share of the residual: a norm fused with the first product, a fused activation, the second product."""
    normal = normed(tape, x, shape.statistics)
    wide = column_linear(tape, normal, shape.inner * (2 if shape.gated else 1), spread=shape.spread)
    tape.free(normal)
    activated = activation(tape, wide, tokens(shape.inner))
    tape.free(wide)
    y = row_linear(tape, activated, shape.hidden, spread=shape.spread)
    tape.free(activated)
    return y


def _projected(tape: Tape, x: Value, shape: Shape) -> Value:
    """Return query, key and value as attention keeps them.

    Where they do not lie as the kernels take them (grouped heads, rotated or normalised ones) they are made anew, and the
    fused tensor that they came from is dropped.
    """
    normal = normed(tape, x, shape.statistics)
    width = shape.query + 2 * shape.key
    fused = column_linear(tape, normal, width, spread=shape.spread)
    tape.free(normal)
    if shape.query_key_norm:
        fused = _head_norms(tape, fused, shape)
    if shape.query == shape.key and shape.learned_positions and not shape.query_key_norm:
        return fused
    return copied(tape, fused, tokens(width))


def _head_norms(tape: Tape, fused: Value, shape: Shape) -> Value:
    """Return query and key normalised head by head: their inputs stay, views of the fused tensor made contiguous."""
    normal = normed(tape, fused, 2 * shape.heads * shape.row_statistics)
    tape.free(fused)
    return normal


def _latent(tape: Tape, x: Value, shape: Shape, latent: LatentShape) -> Value:
    """Return query, key and value of latent attention: both latents are kept (transformer/multi_latent_attention.py)."""
    core, spread = core_of(shape), shape.spread
    normal = normed(tape, x, shape.statistics)
    query_width = core.query
    if latent.query_latent:
        down = _whole_linear(tape, normal, latent.query_latent // spread)
        small = normed(tape, down, 1)
        query = column_linear(tape, small, query_width, spread=spread)
        tape.free(down, small)
    else:
        query = column_linear(tape, normal, query_width, spread=spread)
    compressed = _whole_linear(tape, normal, (latent.key_value_latent + latent.turned) // spread)
    tape.free(normal)
    small = normed(tape, compressed, 1)
    own = column_linear(tape, small, shape.heads * (latent.passed + latent.value), spread=spread)
    tape.free(compressed, small)
    width = tokens(core.query + core.keys_values)

    def backward(_: object) -> None:
        tape.send(query, tape.scratch(query.numel, query.dtype))
        tape.send(own, tape.scratch(own.numel, own.dtype))

    fused = tape.emit(width, query.dtype, inputs=(query, own), backward=backward)
    tape.free(query, own)
    return fused


def _whole_linear(tape: Tape, x: Value, out: int) -> Value:
    """Return a product whose weight every rank has: it runs on the rank's own part of the sequence."""
    return tape.emit(
        tokens(out), x.dtype, inputs=(x,), saves=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )
