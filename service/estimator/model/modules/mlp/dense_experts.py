"""Llama 4 text layers, in which every expert computes every token.

A token's output is weighed by a sigmoid, which is zero for experts that were not chosen.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Node, Parameter, Value, count_bytes
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    cast,
    chain,
    multiply,
    multiply_by_table,
)
from service.estimator.tape.ops.latent_attention import rotate_complex_jointly
from service.estimator.tape.ops.norms import rms_norm_without_weight
from service.estimator.tape.ops.products import (
    autocast_input,
    autocast_weight,
    batched_product,
    copy_contiguous,
    split,
)
from service.estimator.tape.ops.routing import sum_over_experts, top_k
from service.estimator.tape.ops.views import add_in_place
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama4Attention:
    """Attention of a Llama 4 text layer.

    Heads are rotated and normalised or, in layers without positions, queries are scaled by
    position.
    """

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

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        scales: tuple[Value, ...] = ()
        query, key, value = (ctx.linear(layer, x, scope) for layer in self.projections)
        if self.rotary:
            query, key = rotate_complex_jointly(
                tape, query, key, ctx.shape.positions(self.head_dim)
            )
            if self.normalised:
                query = chain(
                    tape,
                    query,
                    lambda t, heads: rms_norm_without_weight(t, heads, tokens(self.num_heads)),
                )
                key = chain(
                    tape,
                    key,
                    lambda t, heads: rms_norm_without_weight(t, heads, tokens(self.num_kv_heads)),
                )
        elif self.scaled:
            dtype, scales = query.dtype, (_make_scales(ctx),)
            wide = chain(
                tape, query, lambda t, heads: multiply_by_table(t, heads, DType.FP32, scales)
            )
            query = chain(tape, wide, lambda t, heads: cast(t, heads, dtype))
        key, value = ctx.update_cache(
            key, value, self.num_kv_heads * self.head_dim, self.sliding_window
        )
        mixed = attend(ctx, query, key, value, self._build_attention_config())
        result = ctx.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value, *scales)
        return result

    def _build_attention_config(self) -> AttentionConfig:
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            upcast=False,
            sliding_window=self.sliding_window,
            dropout=self.dropout,
            casts_back=False,
        )


def _make_scales(ctx: Recording) -> Value:
    """Return a layer's own scale of each position, which its product keeps."""
    numel = ctx.shape.positions(1)
    storage = ctx.tape.allocate(Category.ACTIVATIONS, count_bytes(numel, DType.FP32))
    return Value(storage, numel, DType.FP32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseExperts:
    """Experts that all compute every token, with router and shared expert.

    The sum of the stacked experts is added to the shared expert's output.
    """

    router: Linear
    shared: GatedFeedForward
    hidden_size: int
    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target.

        Stacked experts are bare parameters.
        """
        return (self.router, *self.shared.linears())

    def _stacks(self) -> Iterator[Weight]:
        num, hidden, inner = self.num_experts, self.hidden_size, self.intermediate_size
        yield Weight(
            "feed_forward.experts.gate_up_proj",
            "mlp_experts",
            (num, hidden, 2 * inner),
            transposed=True,
        )
        yield Weight(
            "feed_forward.experts.down_proj", "mlp_experts", (num, inner, hidden), transposed=True
        )

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._stacks()
        for layer in self.linears():
            yield from layer.weights()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token is routed to.

        Of the experts, only those that were chosen for the token count.
        """
        stacked = sum(weight.numel for weight in self._stacks())
        everything = sum(weight.numel for weight in self.weights())
        return everything - stacked + stacked * self.num_experts_per_token // self.num_experts

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the router, all experts on all tokens, and the sum.

        The shared expert is added; ``x`` stays with the caller.
        """
        tape, everywhere = ctx.tape, ctx.shape.tokens(self.num_experts * self.hidden_size)
        logits = ctx.linear(self.router, x, scope)
        scores = self._compute_scores(ctx, logits)
        column = copy_contiguous(tape, scores)
        routed = chain(
            tape,
            copy_contiguous(tape, x, numel=everywhere),
            lambda t, value: multiply(t, value, column),
        )
        tape.free(column)
        out = self._run_experts(ctx, routed, scope)
        shared = self.shared.record(ctx, x, scope)
        summed = sum_over_experts(tape, out, ctx.shape.tokens(self.hidden_size))
        y = add_in_place(tape, shared, summed)
        tape.free(summed, shared, out, routed, scores, logits)
        return y

    def _compute_scores(self, ctx: Recording, logits: Value) -> Value:
        """Return the sigmoid of the chosen logits.

        They are written into a tensor of minus infinity first.
        """
        tape = ctx.tape
        top, indices = top_k(tape, logits, ctx.shape.tokens(self.num_experts_per_token))
        written = Value(tape.scratch(logits.numel, logits.dtype), logits.numel, logits.dtype)
        if tape.builds_graph and top.requires_grad:
            written.node = tape.append(
                Node([], lambda _: tape.send(top, tape.scratch(top.numel, top.dtype)))
            )
            written.requires_grad = True
        opened = chain(tape, cast(tape, written, DType.FP32), activate_saving_output)
        scores = chain(tape, opened, lambda t, value: cast(t, value, logits.dtype))
        tape.free(written, top, indices)
        return scores

    def _run_experts(self, ctx: Recording, routed: Value, scope: str) -> Value:
        tape, tokens = ctx.tape, ctx.shape.tokens
        gate_up, down = ctx.parameters(self._stacks(), scope)
        half = tokens(self.num_experts * self.intermediate_size)
        fused = _multiply_experts(
            tape, routed, gate_up, tokens(2 * self.num_experts * self.intermediate_size)
        )
        gate, up = split(tape, fused, (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, up, activated)
        tape.free(activated)
        out = chain(tape, product, lambda t, value: _multiply_experts(t, value, down, routed.numel))
        tape.free(gate, up)
        return out


def _multiply_experts(tape: Tape, x: Value, stack: Parameter, out: Size) -> Value:
    """Return each expert's product of its rows.

    Autocast takes both sides to 16 bit, the last argument first, as for a linear layer.
    """
    table = autocast_weight(tape, stack)
    rows = autocast_input(tape, x)
    y = batched_product(tape, rows, table, out)
    tape.free(rows, table)
    return y
