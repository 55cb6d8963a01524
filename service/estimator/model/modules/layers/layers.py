"""Decoder layers with optional norms, scales or dropout.

One kind runs attention and feed-forward in sequence, the other on the same input.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.mlp.feedforward import (
    FeedForward,
    FusedGatedFeedForward,
    GatedFeedForward,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Base of both layers: two sublayers and their optional norms.

    Each sublayer has a norm before and after it where the family has one.
    """

    attention: SelfAttention
    feed_forward: GatedFeedForward | FusedGatedFeedForward | FeedForward
    attention_norm: Norm | None = None
    attention_output_norm: Norm | None = None
    feed_forward_norm: Norm | None = None
    feed_forward_output_norm: Norm | None = None
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.attention.weights()
        yield from self.feed_forward.weights()
        for norm in (
            self.attention_norm,
            self.attention_output_norm,
            self.feed_forward_norm,
            self.feed_forward_output_norm,
        ):
            if norm is not None:
                yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Maximum number of tokens in this layer's cache; None is all."""
        return self.attention.sliding_window

    def _apply_dropout(self, ctx: Recording, x: Value) -> Value:
        return chain(ctx.tape, x, lambda t, value: dropout(t, value, self.dropout))


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialLayer(Layer):
    """Attention, then feed-forward, each with a residual.

    ``scaled`` multiplies both sublayers' outputs by a constant (granite).
    """

    scaled: bool = False
    keeps_names: bool = False
    """Whether the normalised input and attention's output have names of their own until the layer
    ends (stablelm).
    """

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape, ctx.layer_locals = ctx.tape, []
        normed = _normalise(ctx, self.attention_norm, x, scope)
        mixed = self.attention.record(ctx, normed, scope)
        names = [tape.alias(value) for value in (normed, mixed) if self.keeps_names]
        tape.free(normed)
        middle = self._add_residual(ctx, x, mixed, scope, norm=self.attention_output_norm)
        normed = _normalise(ctx, self.feed_forward_norm, middle, scope)
        fed = self.feed_forward.record(ctx, normed, scope)
        tape.free(normed)
        y = self._add_residual(ctx, middle, fed, scope, norm=self.feed_forward_output_norm)
        tape.free(middle, x, *names)
        _drop_weights(ctx)
        return y

    def _add_residual(
        self, ctx: Recording, residual: Value, branch: Value, scope: str, *, norm: Norm | None
    ) -> Value:
        """Return the residual plus a branch, which is dropped."""
        tape = ctx.tape
        if norm is not None:
            branch = chain(tape, branch, lambda _, value: ctx.norm(norm, value, scope))
        scaled = (
            multiply_scalar(tape, branch) if self.scaled else dropout(tape, branch, self.dropout)
        )
        y = add(tape, residual, scaled)
        tape.free(scaled, branch)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputLayer(Layer):
    """Attention and feed-forward on the same normalised input.

    ``residual_first`` adds them to the residual one after the other.
    """

    residual_first: bool = True

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape, ctx.layer_locals = ctx.tape, []
        normed = _normalise(ctx, self.attention_norm, x, scope)
        mixed = self.attention.record(ctx, normed, scope)
        if not self.residual_first:
            mixed = self._apply_dropout(ctx, mixed)
        fed = self._apply_dropout(ctx, self.feed_forward.record(ctx, normed, scope))
        first, second, third = (x, mixed, fed) if self.residual_first else (mixed, fed, x)
        y = chain(tape, add(tape, first, second), lambda t, value: add(t, value, third))
        tape.free(normed, mixed, fed, x)
        _drop_weights(ctx)
        return y


def _drop_weights(ctx: Recording) -> None:
    """Drop the attention weights that eager attention returned.

    (``hidden_states, _ = self.self_attn(...)``.)
    """
    ctx.tape.release(*ctx.layer_locals or ())
    ctx.layer_locals = None


def _normalise(ctx: Recording, norm: Norm | None, x: Value, scope: str) -> Value:
    return ctx.norm(norm, x, scope) if norm is not None else ctx.tape.alias(x)
