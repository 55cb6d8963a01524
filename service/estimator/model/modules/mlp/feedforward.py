"""Feed-forward layers: gated (SwiGLU) and plain."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.joined import feed_forward
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    chain,
    dropout,
    multiply,
)
from service.estimator.tape.ops.liger import multiply_activated
from service.estimator.tape.ops.products import split


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedFeedForward:
    """``down(act(gate(x)) * up(x))`` with dropout on its output."""

    gate: Linear
    up: Linear
    down: Linear
    activation: str
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.gate, self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.numel for weight in self.weights())

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer; ``x`` stays with the caller."""
        joined = feed_forward(ctx, self.linears(), x, scope)
        if joined is not None:
            return joined
        tape, fuses = ctx.tape, ctx.settings.fuses_gates
        gated = ctx.linear(self.gate, x, scope)
        if not fuses:
            gated = chain(tape, gated, ACTIVATIONS[self.activation])
        up = ctx.linear(self.up, x, scope)
        product = multiply_activated(tape, gated, up) if fuses else multiply(tape, gated, up)
        tape.free(gated, up)
        result = chain(tape, product, lambda _, value: ctx.linear(self.down, value, scope))
        return (
            chain(tape, result, lambda t, value: dropout(t, value, self.dropout))
            if self.dropout
            else result
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGatedFeedForward:
    """``down(up * act(gate))`` with gate and up in one layer.

    Both are halves of that layer's output (phi3, glm).
    """

    gate_up: Linear
    down: Linear
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.gate_up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.numel for weight in self.weights())

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer; ``x`` stays with the caller.

        The gate keeps its name until the end.
        """
        tape, half = ctx.tape, ctx.shape.tokens(self.down.features_read)
        gate, up = split(tape, ctx.linear(self.gate_up, x, scope), (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, up, activated)
        tape.free(activated, up)
        result = ctx.linear(self.down, product, scope)
        tape.free(product, gate)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForward:
    """``down(act(up(x)))`` with dropout on its output."""

    up: Linear
    down: Linear
    activation: str
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.numel for weight in self.weights())

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer; ``x`` stays with the caller."""
        tape = ctx.tape
        hidden = ctx.linear(self.up, x, scope)
        activated = chain(tape, hidden, ACTIVATIONS[self.activation])
        result = chain(tape, activated, lambda _, value: ctx.linear(self.down, value, scope))
        return chain(tape, result, lambda t, y: dropout(t, y, self.dropout))
