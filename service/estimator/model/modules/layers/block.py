"""Plain decoder layer of norm, attention, norm and feed-forward.

Each of the two sublayers has a residual around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, multiply_scalar


class SubLayer(Protocol):
    """Interface of the two sublayers of a decoder layer."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the sublayer; ``x`` stays with the caller."""
        ...


class Mixer(SubLayer, Protocol):
    """Sublayer that mixes tokens: attention or a state-space model."""

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        ...

    @property
    def sliding_window(self) -> int | None:
        """Maximum number of tokens that are read; None is all."""
        ...


class PositionwiseLayer(SubLayer, Protocol):
    """Sublayer that treats each token on its own."""

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One decoder layer of norm, attention, norm and feed-forward.

    Each sublayer has a residual around it.
    """

    attention_norm: Norm
    attention: Mixer
    feed_forward_norm: Norm
    feed_forward: PositionwiseLayer
    scales_residual: bool = False
    """Each sublayer's output is multiplied by a constant before it is added (granite)."""
    names_attention: bool = False
    """The layer's code names the attention output until its end (GPT-2)."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors.

        Layers with layer norms register them first (GPT-2, GPT-NeoX), those with RMS norms last
        (Llama).
        """
        norms = (self.attention_norm, self.feed_forward_norm)
        names_first = self.attention_norm.style == "layer"
        for norm in norms if names_first else ():
            yield from norm.weights()
        yield from self.attention.weights()
        yield from self.feed_forward.weights()
        for norm in () if names_first else norms:
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use.

        These are the parameters of the experts that it is not sent to.
        """
        return (
            sum(weight.numel for weight in self.feed_forward.weights())
            - self.feed_forward.active_parameters
        )

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Maximum number of tokens in this layer's cache; None is all."""
        return self.attention.sliding_window

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            normed = ctx.norm(self.attention_norm, x, scope)
            mixed = self.attention.record(ctx, normed, scope)
            tape.free(normed)
            named = (tape.alias(mixed),) if self.names_attention else ()
            middle = self._add_residual(ctx, x, mixed)
            normed = ctx.norm(self.feed_forward_norm, middle, scope)
            fed = self.feed_forward.record(ctx, normed, scope)
            tape.free(normed)
            y = self._add_residual(ctx, middle, fed)
            tape.free(middle, x, *named)
        return y

    def _add_residual(self, ctx: Recording, residual: Value, branch: Value) -> Value:
        """Return the residual plus a branch, which is dropped."""
        tape = ctx.tape
        scaled = multiply_scalar(tape, branch) if self.scales_residual else tape.alias(branch)
        y = add(tape, residual, scaled)
        tape.free(scaled, branch)
        return y
