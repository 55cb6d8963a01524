"""Decoder layer whose mixer and attention read the same input (Falcon-H1)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.layers.block import PositionwiseLayer
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, multiply_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySideBlock:
    """Layer that adds a mixer and attention, and then has a feed-forward.

    Constants multiply both outputs, and what attention reads.
    """

    norm: Norm
    mixer: Mamba2Mixer
    attention: Attention
    feed_forward_norm: Norm
    feed_forward: PositionwiseLayer

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (
            *self.mixer.linears(),
            *self.attention.linears(),
            *self.feed_forward.linears(),
        )

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for part in (
            self.feed_forward,
            self.mixer,
            self.attention,
            self.norm,
            self.feed_forward_norm,
        ):
            yield from part.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            normed = ctx.norm(self.norm, x, scope)
            mixed = chain(tape, self.mixer.record(ctx, normed, scope), multiply_scalar)
            scaled = multiply_scalar(tape, normed)
            attended = self.attention.record(ctx, scaled, scope)
            tape.free(scaled)
            attended = chain(tape, attended, multiply_scalar)
            summed = add(tape, mixed, attended)
            tape.free(normed)
            middle = chain(tape, summed, lambda t, value: add(t, x, value))
            normed = ctx.norm(self.feed_forward_norm, middle, scope)
            fed = self.feed_forward.record(ctx, normed, scope)
            tape.free(normed)
            y = add(tape, middle, fed)
            tape.free(fed, mixed, attended, middle, x)
        return y
