"""Llama 4's text layers: every expert computes every token, weighed by a sigmoid that is zero where it was not chosen."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS, GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Node, Parameter, Value
from service.estimator.tape.ops.elementwise import cast, chain, from_output, multiply, times_table
from service.estimator.tape.ops.latent_attention import turn_together
from service.estimator.tape.ops.norms import weightless_norm
from service.estimator.tape.ops.products import autocast_input, autocast_weight, batched_product, copy_of, split
from service.estimator.tape.ops.routing import sum_over_chosen, top_k
from service.estimator.tape.ops.views import add_in_place
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledAttention:
    """Attention with rotated and normalised heads, or, in layers without positions, with queries scaled by position."""

    projections: tuple[Linear, Linear, Linear]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary: bool
    normalised: bool
    scaled: bool
    sliding_window: int | None = None
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, tokens = run.tape, run.extent.tokens
        query, key, value = (run.linear(layer, x, scope) for layer in self.projections)
        if self.rotary:
            query, key = turn_together(tape, query, key, run.extent.positions(self.head_dim))
            if self.normalised:
                query = chain(tape, query, lambda t, heads: weightless_norm(t, heads, tokens(self.num_heads)))
                key = chain(tape, key, lambda t, heads: weightless_norm(t, heads, tokens(self.num_kv_heads)))
        elif self.scaled:
            dtype = query.dtype
            wide = chain(tape, query, lambda t, heads: times_table(t, heads, DType.FP32))
            query = chain(tape, wide, lambda t, heads: cast(t, heads, dtype))
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim, self.sliding_window)
        mixed = attend(run, query, key, value, self._scoring())
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value)
        return result

    def _scoring(self) -> Scoring:
        return Scoring(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            upcast=False,
            sliding_window=self.sliding_window,
            dropout=self.dropout,
            casts_back=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedExperts:
    """A router, stacked experts that all compute every token, and a shared expert to which their sum is added."""

    router: Linear
    shared: GatedFeedForward
    hidden_size: int
    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target: stacked experts are bare parameters."""
        return (self.router, *self.shared.linears())

    def _stacks(self) -> Iterator[Weight]:
        num, hidden, inner = self.num_experts, self.hidden_size, self.intermediate_size
        yield Weight("feed_forward.experts.gate_up_proj", "mlp_experts", (num, hidden, 2 * inner), transposed=True)
        yield Weight("feed_forward.experts.down_proj", "mlp_experts", (num, inner, hidden), transposed=True)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._stacks()
        for layer in self.linears():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token is meant for: those of the experts that were chosen for it."""
        stacked = sum(weight.numel for weight in self._stacks())
        everything = sum(weight.numel for weight in self.weights())
        return everything - stacked + stacked * self.num_experts_per_token // self.num_experts

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record router, all experts on all tokens, the shared expert and the sum; ``x`` stays with the caller."""
        tape, everywhere = run.tape, run.extent.tokens(self.num_experts * self.hidden_size)
        logits = run.linear(self.router, x, scope)
        scores = self._scores(run, logits)
        column = copy_of(tape, scores)
        routed = chain(tape, copy_of(tape, x, numel=everywhere), lambda t, value: multiply(t, value, column))
        tape.free(column)
        out = self._computed(run, routed, scope)
        shared = self.shared.record(run, x, scope)
        summed = sum_over_chosen(tape, out, run.extent.tokens(self.hidden_size))
        y = add_in_place(tape, shared, summed)
        tape.free(summed, shared, out, routed, scores, logits)
        return y

    def _scores(self, run: Recording, logits: Value) -> Value:
        """Return the sigmoid of the chosen logits, written into a tensor of minus infinity."""
        tape = run.tape
        top, indices = top_k(tape, logits, run.extent.tokens(self.num_experts_per_token))
        written = Value(tape.scratch(logits.numel, logits.dtype), logits.numel, logits.dtype)
        if tape.records and top.requires_grad:
            written.node = tape.append(Node([], lambda _: tape.send(top, tape.scratch(top.numel, top.dtype))))
            written.requires_grad = True
        opened = chain(tape, cast(tape, written, DType.FP32), from_output)
        scores = chain(tape, opened, lambda t, value: cast(t, value, logits.dtype))
        tape.free(written, top, indices)
        return scores

    def _computed(self, run: Recording, routed: Value, scope: str) -> Value:
        tape, tokens = run.tape, run.extent.tokens
        gate_up, down = run.parameters(self._stacks(), scope)
        half = tokens(self.num_experts * self.intermediate_size)
        fused = _product(tape, routed, gate_up, tokens(2 * self.num_experts * self.intermediate_size))
        gate, up = split(tape, fused, (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, up, activated)
        tape.free(activated)
        out = chain(tape, product, lambda t, value: _product(t, value, down, routed.numel))
        tape.free(gate, up)
        return out


def _product(tape: Tape, x: Value, stack: Parameter, out: Size) -> Value:
    """Return each expert's product of its rows; autocast takes both sides to 16 bit, as for a linear layer."""
    rows, table = autocast_input(tape, x), autocast_weight(tape, stack)
    y = batched_product(tape, rows, table, out)
    tape.free(rows, table)
    return y
