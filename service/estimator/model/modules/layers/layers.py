"""Decoder layers with norms, scales or dropout around their halves, and layers whose halves read the same input."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.mlp.feedforward import FeedForward, FusedGatedFeedForward, GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What both kinds of layer hold: two halves, a norm before and after each where the family has one."""

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
        for norm in (self.attention_norm, self.attention_output_norm, self.feed_forward_norm, self.feed_forward_output_norm):
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
        """Tokens that a cache of this layer keeps at most; None is all of them."""
        return self.attention.sliding_window

    def _dropped(self, run: Recording, x: Value) -> Value:
        return chain(run.tape, x, lambda t, value: dropout(t, value, self.dropout))


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialLayer(Layer):
    """Attention, then feed-forward, each with a residual; ``scaled`` multiplies both halves by a constant (granite)."""

    scaled: bool = False
    keeps_names: bool = False
    """Whether the normalised input and attention's output have names of their own until the layer ends (stablelm)."""

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape, run.names = run.tape, []
        normed = _normed(run, self.attention_norm, x, scope)
        mixed = self.attention.record(run, normed, scope)
        names = [tape.alias(value) for value in (normed, mixed) if self.keeps_names]
        tape.free(normed)
        middle = self._onto(run, x, mixed, scope, norm=self.attention_output_norm)
        normed = _normed(run, self.feed_forward_norm, middle, scope)
        fed = self.feed_forward.record(run, normed, scope)
        tape.free(normed)
        y = self._onto(run, middle, fed, scope, norm=self.feed_forward_output_norm)
        tape.free(middle, x, *names)
        _drop_weights(run)
        return y

    def _onto(self, run: Recording, residual: Value, half: Value, scope: str, *, norm: Norm | None) -> Value:
        """Return the residual plus a half, which is dropped."""
        tape = run.tape
        if norm is not None:
            half = chain(tape, half, lambda _, value: run.norm(norm, value, scope))
        added = multiply_scalar(tape, half) if self.scaled else dropout(tape, half, self.dropout)
        y = add(tape, residual, added)
        tape.free(added, half)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputLayer(Layer):
    """Attention and feed-forward on the same normalised input; ``residual_first`` adds them to it one after the other."""

    residual_first: bool = True

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape, run.names = run.tape, []
        normed = _normed(run, self.attention_norm, x, scope)
        mixed = self.attention.record(run, normed, scope)
        if not self.residual_first:
            mixed = self._dropped(run, mixed)
        fed = self._dropped(run, self.feed_forward.record(run, normed, scope))
        first, second, third = (x, mixed, fed) if self.residual_first else (mixed, fed, x)
        y = chain(tape, add(tape, first, second), lambda t, value: add(t, value, third))
        tape.free(normed, mixed, fed, x)
        _drop_weights(run)
        return y


def _drop_weights(run: Recording) -> None:
    """Drop the attention weights that eager attention handed out (``hidden_states, _ = self.self_attn(...)``)."""
    run.tape.release(*run.names or ())
    run.names = None


def _normed(run: Recording, norm: Norm | None, x: Value, scope: str) -> Value:
    return run.norm(norm, x, scope) if norm is not None else run.tape.alias(x)
