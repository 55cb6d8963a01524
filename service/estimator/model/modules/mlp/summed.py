"""Routed experts and a gated feed-forward layer, whose outputs are added."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.experts import SparseFeedForward
from service.estimator.model.modules.mlp.feedforward import FusedGatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedFeedForward:
    """Experts beside a layer that every token passes (Granite 4).

    The layer itself adds both, so that nothing of the routing is left when the second runs.
    """

    routed: SparseFeedForward
    shared: FusedGatedFeedForward

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.routed.linears(), *self.shared.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.routed.weights()
        yield from self.shared.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return self.routed.active_parameters + self.shared.active_parameters

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record both; ``x`` stays with the caller."""
        chosen = self.routed.record(ctx, x, scope)
        shared = self.shared.record(ctx, x, scope)
        y = add(ctx.tape, chosen, shared)
        ctx.tape.free(chosen, shared)
        return y
