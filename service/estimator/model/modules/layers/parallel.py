"""Decoder layers with attention and feed-forward in parallel.

Both read the same input.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelBlock:
    """Layer with parallel attention and feed-forward.

    It computes ``attention(norm(x)) + feed_forward(norm(x)) + x``; both share a norm unless each
    has its own.
    """

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm | None
    feed_forward: FeedForward

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors.

        Layers with two norms register them first (GPT-NeoX), those with one last (phi).
        """
        sublayers = (self.attention, self.feed_forward)
        second = self.feed_forward_norm
        parts = (
            (*sublayers, self.attention_norm)
            if second is None
            else (self.attention_norm, second, *sublayers)
        )
        for part in parts:
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
            normed = ctx.norm(self.attention_norm, x, scope)
            mixed = self.attention.record(ctx, normed, scope)
            if self.feed_forward_norm is not None:
                tape.free(normed)
                normed = ctx.norm(self.feed_forward_norm, x, scope)
            fed = self.feed_forward.record(ctx, normed, scope)
            if self.feed_forward_norm is not None:
                tape.free(normed)  # an argument, which has no name of its own
            summed = add(tape, fed, mixed)
            y = chain(tape, summed, lambda t, value: add(t, value, x))
            tape.free(fed, mixed, x)
            if self.feed_forward_norm is None:
                tape.free(normed)
        return y
