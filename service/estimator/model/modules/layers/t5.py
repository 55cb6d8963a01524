"""Layers of T5's encoder and decoder.

Each sublayer normalises its input, and adds its output to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.attention.t5 import T5Attention
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import get_shared_inputs
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add,
    add_scalar,
    cast,
    chain,
    dropout,
    multiply,
    power,
    reduce_mean,
)
from service.estimator.values.dtypes import DType


def normalise(ctx: Recording, norm: Norm, x: Value, scope: str) -> Value:
    """Return ``x`` normalised by T5LayerNorm.

    The variance is in fp32, its inverse root multiplies ``x`` itself; the result is cast for 16-bit
    weights alone.
    """
    tape = ctx.tape
    (weight,) = ctx.parameters(norm.weights(), scope)
    squared = chain(tape, cast(tape, x, DType.FP32), power)
    variance = chain(tape, squared, lambda t, y: reduce_mean(t, y, ctx.shape.tokens(1)))
    inverse = chain(tape, add_scalar(tape, variance), activate_saving_output)
    scaled = chain(tape, inverse, lambda t, y: multiply(t, x, y))
    if weight.dtype is not DType.FP32:
        scaled = chain(tape, scaled, lambda t, y: cast(t, y, weight.dtype))
    y = multiply(tape, as_value(weight), scaled)
    tape.free(scaled, variance)
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class T5FeedForward:
    """Feed-forward ``wo(dropout(act(wi(x))))``.

    ``gate`` multiplies the activation's output (T5 1.1).
    """

    up: Linear
    gate: Linear | None
    down: Linear
    activation: str
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return tuple(layer for layer in (self.up, self.gate, self.down) if layer is not None)

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the feed-forward; ``x`` stays with the caller."""
        tape = ctx.tape
        inner = chain(tape, ctx.linear(self.up, x, scope), ACTIVATIONS[self.activation])
        named: tuple[Value, ...] = ()
        if self.gate is not None:
            named = (inner, ctx.linear(self.gate, x, scope))
            inner = multiply(tape, *named)
        dropped = chain(tape, inner, lambda t, y: dropout(t, y, self.dropout))
        read = chain(tape, dropped, lambda t, y: cast(t, y, ctx.settings.dtype))
        y = chain(tape, read, lambda _, z: ctx.linear(self.down, z, scope))
        tape.free(*named)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Layer:
    """Encoder or decoder layer (``T5Block.forward``).

    The encoder's has no ``cross_attention``.
    """

    norms: tuple[Norm, ...]
    attention: T5Attention
    cross_attention: T5Attention | None
    feed_forward: T5FeedForward
    dropout: float

    @property
    def reads_memory(self) -> bool:
        """Whether the layer belongs to a decoder."""
        return self.cross_attention is not None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        cross_attention = self.cross_attention.linears() if self.cross_attention is not None else ()
        return (*self.attention.linears(), *cross_attention, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.attention.weights()
        if self.cross_attention is not None:
            yield from self.cross_attention.weights()
        for layer in self.feed_forward.linears():
            yield from layer.weights()
        for norm in self.norms:
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Key and value elements that the cache keeps per decoder token."""
        return 2 * self.attention.key.out_features if self.reads_memory else 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            states = self._record_sublayer(ctx, tape.alias(x), self.norms[0], self.attention, scope)
            if self.cross_attention is not None:
                earlier = len(ctx.layer_locals or ())
                states = self._record_sublayer(
                    ctx, states, self.norms[1], self.cross_attention, scope
                )
                tape.release(*(ctx.layer_locals or [])[:earlier])
                del (ctx.layer_locals or [])[:earlier]
            states = self._record_sublayer(ctx, states, self.norms[-1], self.feed_forward, scope)
            tape.free(x, *get_shared_inputs(ctx).remade)
            get_shared_inputs(ctx).remade.clear()
        return states

    def _record_sublayer(
        self, ctx: Recording, x: Value, norm: Norm, part: T5Attention | T5FeedForward, scope: str
    ) -> Value:
        """Return ``x + dropout(part(norm(x)))``; ``x`` is dropped at the end."""
        tape = ctx.tape
        normed = normalise(ctx, norm, x, scope)
        branch = part.record(ctx, normed, scope)
        if isinstance(part, T5FeedForward):
            tape.free(normed)
        dropped = dropout(tape, branch, self.dropout)
        y = add(tape, x, dropped)
        tape.free(dropped, branch, x)
        if not isinstance(part, T5FeedForward):
            tape.free(normed)
        return y
