"""Experts without gates, and a latent space around them (Nemotron-H)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.mlp.experts import Experts, SparseFeedForward
from service.estimator.model.modules.mlp.routers import Routing
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainExperts(Experts):
    """Stacked experts of two products with an activation between.

    (transformers 5.23, ``integrations/moe.py`` with ``has_gate=False``.)
    """

    @property
    def entering_size(self) -> int:
        """Features that leave the first product."""
        return self.intermediate_size

    def _stacks(self) -> tuple[Weight, Weight]:
        num, hidden, inner = self.num_experts, self.hidden_size, self.intermediate_size
        split = self.ranks > 1
        return (
            Weight(f"{self.name}.up_proj", "mlp_experts", (num, inner, hidden), split=split),
            Weight(f"{self.name}.down_proj", "mlp_experts", (num, hidden, inner), split=split),
        )

    def _activate(self, ctx: Recording, fused: Value) -> Value:
        return chain(ctx.tape, fused, ACTIVATIONS[self.activation])


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSparseFeedForward(SparseFeedForward):
    """Routed experts that read and write fewer features than the model has.

    Two layers stand around them, into the latent space and out of it; router and shared expert read
    the hidden states themselves.
    """

    entering: Linear
    leaving: Linear

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        return (*SparseFeedForward.linears(self), self.entering, self.leaving)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from SparseFeedForward.weights(self)
        for layer in (self.entering, self.leaving):
            yield from layer.weights()

    def _record_experts(self, ctx: Recording, x: Value, routing: Routing, scope: str) -> Value:
        latent = ctx.linear(self.entering, x, scope)
        y = chain(
            ctx.tape, latent, lambda _, value: self.experts.record(ctx, value, routing, scope)
        )
        return chain(ctx.tape, y, lambda _, value: ctx.linear(self.leaving, value, scope))
