"""Gated feed-forward layer with constants on its gate and its output (Falcon-H1)."""

from dataclasses import dataclass

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply, multiply_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledFeedForward(GatedFeedForward):
    """``b * down(up(x) * act(a * gate(x)))``."""

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer; ``x`` stays with the caller."""
        tape = ctx.tape
        up = ctx.linear(self.up, x, scope)
        gate = chain(tape, ctx.linear(self.gate, x, scope), multiply_scalar)
        gate = chain(tape, gate, ACTIVATIONS[self.activation])
        product = multiply(tape, up, gate)
        tape.free(up, gate)
        y = chain(tape, ctx.linear(self.down, product, scope), multiply_scalar)
        tape.free(product)
        return y
