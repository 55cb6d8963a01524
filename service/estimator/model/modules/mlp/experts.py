"""Mixture of experts as grouped matrix products.

Gated experts are stacked, and run over tokens sorted by expert.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.mlp.fused_experts import get_fused_parameter
from service.estimator.model.modules.mlp.routers import Router, Routing
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add,
    add_scalar,
    cast,
    chain,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import allocate_integers, batched_product, split
from service.estimator.tape.ops.routing import (
    clamp,
    gather,
    grouped_product,
    keep_router_logits,
    sum_over_experts,
)
from service.estimator.tape.ops.views import add_in_place, narrow

COUNT_BYTES = 4
"""Tokens per expert and their running sum are 32-bit integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Stacked gated experts (transformers' ``grouped_mm_experts_forward``)."""

    name: str
    hidden_size: int
    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    activation: str
    clamped: bool = False
    """Biases on both projections, and a gate that is clamped on both sides (gpt_oss)."""
    ranks: int = 1
    """Tensor-parallel ranks that share the inner features of every expert."""

    @property
    def entering_size(self) -> int:
        """Features that leave the first product: gate and up."""
        return 2 * self.intermediate_size

    def _stacks(self) -> tuple[Weight, Weight]:
        num, hidden, inner, split = (
            self.num_experts,
            self.hidden_size,
            self.intermediate_size,
            self.ranks > 1,
        )
        return (
            Weight(
                f"{self.name}.gate_up_proj", "mlp_experts", (num, 2 * inner, hidden), split=split
            ),
            Weight(f"{self.name}.down_proj", "mlp_experts", (num, hidden, inner), split=split),
        )

    def weights(self) -> Iterator[Weight]:
        """Yield the stacked experts."""
        yield from self._stacks()
        yield from self._biases()

    def _biases(self) -> Iterator[Weight]:
        num, hidden, inner = self.num_experts, self.hidden_size, self.intermediate_size
        if self.clamped:
            yield Weight(f"{self.name}.gate_up_proj_bias", "mlp_experts", (num, 2 * inner))
            yield Weight(f"{self.name}.down_proj_bias", "mlp_experts", (num, hidden))

    def record(self, ctx: Recording, x: Value, routing: Routing, scope: str) -> Value:
        """Record the sorted experts and the weighted sum.

        ``x`` and the routing stay with the caller.
        """
        if ctx.settings.copies_experts:
            return self._record_copied(ctx, x, routing, scope)
        tape, tokens, top_k = ctx.tape, ctx.shape.tokens, self.num_experts_per_token
        biases = ctx.parameters(self._biases(), scope)
        down, gate_up = (
            get_fused_parameter(ctx, weight, scope) for weight in reversed(self._stacks())
        )
        sorted_ids, order, source = (allocate_integers(tape, tokens(top_k)) for _ in range(3))
        selected = gather(tape, x, source, tokens(top_k * self.hidden_size))
        tape.free(source)
        weights = gather(tape, routing.weights, order, tokens(top_k))
        ids = allocate_integers(tape, tokens(top_k), bytes_each=COUNT_BYTES)
        counts, offsets = (
            allocate_integers(tape, sizes.constant(self.num_experts), bytes_each=COUNT_BYTES)
            for _ in range(2)
        )
        wide_rows, narrow_rows = (
            tokens(top_k * self.entering_size),
            tokens(top_k * self.hidden_size),
        )
        added = [gather(tape, as_value(bias), sorted_ids, wide_rows) for bias in biases[:1]]
        first = gate_up.value()
        fused = self._add_biases(
            ctx, grouped_product(tape, selected, first, offsets, wide_rows), added
        )
        product = self._activate_clamped(ctx, fused) if self.clamped else self._activate(ctx, fused)
        late = [gather(tape, as_value(bias), sorted_ids, narrow_rows) for bias in biases[1:]]
        tape.free(*added)
        second = down.value()
        out = chain(tape, product, lambda t, v: grouped_product(t, v, second, offsets, narrow_rows))
        out = self._add_biases(ctx, out, late)
        weighted = multiply(tape, out, weights)
        restored = self._restore_order(ctx, weighted)
        summed = sum_over_experts(tape, restored, tokens(self.hidden_size))
        y = cast(tape, summed, x.dtype)
        tape.free(
            summed, restored, out, selected, weights, sorted_ids, order, ids, counts, offsets, *late
        )
        tape.free(first, second, *gate_up.factors, *down.factors)
        return y

    def _record_copied(self, ctx: Recording, x: Value, routing: Routing, scope: str) -> Value:
        """Record batched products with copied weights for each row.

        (``batched_mm_experts_forward``, to which ``generate`` switches for decode.)
        """
        tape, tokens, top_k = ctx.tape, ctx.shape.tokens, self.num_experts_per_token
        biases = ctx.parameters(self._biases(), scope)
        gate_up, down = (get_fused_parameter(ctx, weight, scope) for weight in self._stacks())
        hidden, inner, entering = self.hidden_size, self.intermediate_size, self.entering_size
        wide_rows = tokens(top_k * entering)
        chosen = narrow(tape, routing.indices, tokens(top_k))
        selected = gather(tape, x, chosen, tokens(top_k * hidden))
        wide = gather(tape, gate_up.value(), chosen, tokens(top_k * entering * hidden))
        added = [gather(tape, as_value(bias), chosen, wide_rows) for bias in biases[:1]]
        fused = self._add_biases(ctx, batched_product(tape, selected, wide, wide_rows), added)
        product = self._activate_clamped(ctx, fused) if self.clamped else self._activate(ctx, fused)
        narrow_rows = gather(tape, down.value(), chosen, tokens(top_k * hidden * inner))
        tape.free(wide, *added)
        late = [gather(tape, as_value(bias), chosen, tokens(top_k * hidden)) for bias in biases[1:]]
        out = chain(
            tape, product, lambda t, v: batched_product(t, v, narrow_rows, tokens(top_k * hidden))
        )
        out = self._add_biases(ctx, out, late)
        weighted = multiply(tape, out, routing.weights)
        summed = sum_over_experts(tape, weighted, tokens(hidden))
        y = cast(tape, summed, x.dtype)
        tape.free(summed, weighted, out, narrow_rows, selected, chosen, *late)
        return y

    def _add_biases(self, ctx: Recording, x: Value, biases: list[Value]) -> Value:
        """Return ``x`` with its experts' biases added in place.

        Does nothing where there are none; ``x`` is dropped.
        """
        tape = ctx.tape
        for bias in biases:
            summed = add_in_place(tape, x, bias)
            tape.free(x)
            x = summed
        return x

    def _activate_clamped(self, ctx: Recording, fused: Value) -> Value:
        """Return the clamped gated activation of ``fused``.

        It is ``(up + 1) * gate * sigmoid(alpha * gate)`` of both clamped halves, each every other
        element of ``fused``.
        """
        tape, half = ctx.tape, ctx.shape.tokens(self.num_experts_per_token * self.intermediate_size)
        halves = narrow(tape, fused, half), narrow(tape, fused, half)
        # The gate has no lower limit.
        gate, up = (
            chain(tape, part, partial(clamp, limits=limits))
            for part, limits in zip(halves, (1, 2), strict=True)
        )
        openness = chain(tape, multiply_scalar(tape, gate), activate_saving_output)
        glu = multiply(tape, gate, openness)
        tape.free(openness)
        shifted = add_scalar(tape, up)
        product = multiply(tape, shifted, glu)
        tape.free(shifted, glu, gate, up, fused)
        return product

    def _activate(self, ctx: Recording, fused: Value) -> Value:
        tape, half = ctx.tape, ctx.shape.tokens(self.num_experts_per_token * self.intermediate_size)
        gate, up = split(tape, fused, (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, activated, up)
        tape.free(activated, gate, up)
        return product

    def _restore_order(self, ctx: Recording, weighted: Value) -> Value:
        """Return the rows in the order of the tokens.

        The inverse order is kept, its ramp is not.
        """
        tape, routed = ctx.tape, ctx.shape.tokens(self.num_experts_per_token)
        inverse, ramp = allocate_integers(tape, routed), allocate_integers(tape, routed)
        tape.free(ramp)
        restored = chain(tape, weighted, lambda t, v: gather(t, v, inverse, v.numel))
        tape.free(inverse)
        return restored


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedExpert:
    """Feed-forward layer that every token passes.

    It may have a gate of its own; some models run it before the experts.
    """

    layer: GatedFeedForward | FeedForward
    gate: Linear | None = None
    runs_first: bool = False

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers."""
        return (*self.layer.linears(), *((self.gate,) if self.gate is not None else ()))

    def apply_gate(self, ctx: Recording, x: Value, shared: Value, scope: str) -> Value:
        """Return the shared output times the sigmoid of its gate.

        The output ``shared`` is dropped.
        """
        if self.gate is None:
            return shared
        openness = chain(ctx.tape, ctx.linear(self.gate, x, scope), activate_saving_output)
        y = multiply(ctx.tape, openness, shared)
        ctx.tape.free(openness, shared)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseFeedForward:
    """Router, routed experts and an optional shared expert."""

    router: Router
    experts: Experts
    shared: SharedExpert | None = None
    experts_first: bool = False
    """Whether the model makes its experts before their router."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target.

        Stacked experts are bare parameters.
        """
        return (*self.router.linears(), *(self.shared.linears() if self.shared is not None else ()))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        parts = (self.router, self.experts)
        for part in reversed(parts) if self.experts_first else parts:
            yield from part.weights()
        for layer in self.shared.linears() if self.shared is not None else ():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        experts = self.experts
        stacked = sum(weight.numel for weight in experts.weights())
        everything = sum(weight.numel for weight in self.weights())
        return everything - stacked + stacked * experts.num_experts_per_token // experts.num_experts

    def _record_experts(self, ctx: Recording, x: Value, routing: Routing, scope: str) -> Value:
        return self.experts.record(ctx, x, routing, scope)

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record routing, experts and the shared expert; ``x`` stays with the caller."""
        tape, shared = ctx.tape, self.shared
        early = (
            shared.layer.record(ctx, x, scope) if shared is not None and shared.runs_first else None
        )
        routing = self.router.record(ctx, x, scope)
        if ctx.settings.balances_experts:
            keep_router_logits(tape, routing.names[0])
        y = self._record_experts(ctx, x, routing, scope)
        if shared is not None:
            late = early if early is not None else shared.layer.record(ctx, x, scope)
            late = shared.apply_gate(ctx, x, late, scope)
            summed = add(tape, y, late)
            tape.free(y, late)
            y = summed
        tape.free(routing.weights, routing.indices, *routing.names)
        return y
