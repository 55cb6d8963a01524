"""Mixture of experts: a router and stacks of gated experts, run as grouped matrix products over tokens sorted by expert."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.dtypes import DType
from service.estimator.modules.feedforward import ACTIVATIONS
from service.estimator.modules.weights import Linear, Weight
from service.estimator.recording import Recording
from service.estimator.tape.elementwise import cast, chain, multiply, softmax
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.products import (
    gather,
    grouped_product,
    integers,
    linear,
    split,
    sum_of_groups,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """``num_experts`` gated feed-forward layers, of which a token uses ``num_experts_per_token`` (transformers' grouped_mm)."""

    hidden_size: int
    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target: the experts are stacked parameters, not linear layers."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the router and the stacked experts."""
        yield Weight("mlp.gate.weight", "router", (self.num_experts, self.hidden_size))
        yield Weight(
            "mlp.experts.gate_up_proj", "mlp_experts", (self.num_experts, 2 * self.intermediate_size, self.hidden_size)
        )
        yield Weight("mlp.experts.down_proj", "mlp_experts", (self.num_experts, self.hidden_size, self.intermediate_size))

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        router, *experts = (weight.numel for weight in self.weights())
        return router + sum(experts) * self.num_experts_per_token // self.num_experts

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record routing, the sorted experts and the weighted sum; ``x`` stays with the caller."""
        tape, top_k = run.tape, self.num_experts_per_token
        router, gate_up, down = run.parameters(self.weights(), scope)
        routed = run.extent.tokens(top_k)
        scores = self._routed(run, x, router)
        order = [integers(tape, routed) for _ in range(3)]
        selected = gather(tape, x, order[0], run.extent.tokens(top_k * self.hidden_size))
        weights = chain(tape, scores, lambda t, value: gather(t, value, order[1], routed))
        fused = grouped_product(tape, selected, gate_up, run.extent.tokens(2 * top_k * self.intermediate_size))
        half = run.extent.tokens(top_k * self.intermediate_size)
        gate, up = split(tape, fused, (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, activated, up)
        tape.free(activated, gate, up)
        out = chain(tape, product, lambda t, v: grouped_product(t, v, down, run.extent.tokens(top_k * self.hidden_size)))
        weighted = multiply(tape, out, weights)
        restored = chain(tape, weighted, lambda t, v: gather(t, v, order[2], v.numel))
        summed = sum_of_groups(tape, restored, run.extent.tokens(self.hidden_size))
        y = cast(tape, summed, x.dtype)
        tape.free(summed, restored, out, selected, weights, *order)
        return y

    def _routed(self, run: Recording, x: Value, router: Parameter) -> Value:
        """Return the normalised weights of the chosen experts, fp32."""
        tape = run.tape
        logits = linear(tape, x, router, run.extent.tokens(self.num_experts))
        upcast = chain(tape, logits, lambda t, v: cast(t, v, DType.FP32))
        probabilities = chain(tape, upcast, softmax)
        chosen = integers(tape, run.extent.tokens(self.num_experts_per_token))
        top = chain(tape, probabilities, lambda t, v: gather(t, v, chosen, run.extent.tokens(self.num_experts_per_token)))
        tape.free(chosen)
        total = sum_of_groups(tape, top, run.extent.tokens(1))
        normalised = multiply(tape, top, total)
        tape.free(top, total)
        return normalised
