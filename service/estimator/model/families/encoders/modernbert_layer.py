"""Encoder layer of ModernBERT, with rotary positions in fp32."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    add,
    cast,
    chain,
    dropout,
    multiply,
    multiply_by_table,
    rotate_half,
)
from service.estimator.tape.ops.products import split
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBertBlock:
    """Encoder layer (``ModernBertEncoderLayer.forward``).

    The first has no norm before attention, a full one no window.
    """

    attention_norm: Norm | None
    fused: Linear
    output: Linear
    attention_config: AttentionConfig
    feed_forward_norm: Norm
    up: Linear
    down: Linear
    activation: str
    mlp_dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (self.fused, self.output, self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.attention_norm, self.feed_forward_norm):
            if norm is not None:
                yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def table_window(self) -> int | None:
        """Window whose mask and rotary tables it reads."""
        return self.attention_config.sliding_window

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: none, an encoder has no cache."""
        return 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            normed = (
                ctx.norm(self.attention_norm, x, scope)
                if self.attention_norm is not None
                else tape.alias(x)
            )
            mixed = chain(tape, normed, lambda _, value: self._attend(ctx, value, scope))
            middle = add(tape, x, mixed)
            normed = ctx.norm(self.feed_forward_norm, middle, scope)
            fed = chain(tape, normed, lambda _, value: self._record_feed_forward(ctx, value, scope))
            y = chain(tape, fed, lambda t, value: add(t, middle, value))
            tape.free(middle, mixed, x)
        return y

    def _attend(self, ctx: Recording, x: Value, scope: str) -> Value:
        tape = ctx.tape
        third = ctx.shape.tokens(self.output.in_features)
        query, key, value = split(tape, ctx.linear(self.fused, x, scope), (third, third, third))
        rotated = [_rotate(ctx, part) for part in (query, key)]
        turned = [cast(tape, y, part.dtype) for y, part in zip(rotated, (query, key), strict=True)]
        tape.free(query, key, *rotated)
        mixed = attend(ctx, turned[0], turned[1], value, self.attention_config)
        result = chain(tape, mixed, lambda _, part: ctx.linear(self.output, part, scope))
        tape.free(*turned, value)
        return chain(tape, result, lambda t, y: dropout(t, y, self.attention_config.dropout))

    def _record_feed_forward(self, ctx: Recording, x: Value, scope: str) -> Value:
        tape = ctx.tape
        half = ctx.shape.tokens(self.down.in_features)
        inner, gate = split(tape, ctx.linear(self.up, x, scope), (half, half))
        activated = ACTIVATIONS[self.activation](tape, inner)
        product = chain(tape, activated, lambda t, value: multiply(t, value, gate))
        dropped = chain(tape, product, lambda t, value: dropout(t, value, self.mlp_dropout))
        y = chain(tape, dropped, lambda _, value: ctx.linear(self.down, value, scope))
        tape.free(inner, gate)
        return y


def _rotate(ctx: Recording, x: Value) -> Value:
    """Return ``x.float() * cos + rotate_half(x.float()) * sin``, which casts twice."""
    tape, table = ctx.tape, ctx.table_dtype
    cosine_part = chain(
        tape, cast(tape, x, DType.FP32), lambda t, part: multiply_by_table(t, part, table)
    )
    half_rotated = chain(tape, cast(tape, x, DType.FP32), rotate_half)
    sine_part = chain(tape, half_rotated, lambda t, part: multiply_by_table(t, part, table))
    y = add(tape, cosine_part, sine_part)
    tape.free(cosine_part, sine_part)
    return y
