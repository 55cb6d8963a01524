"""Attention with a learnt sink per head (gpt_oss).

No fused kernel of PyTorch's has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.joined import apply_output, project_each
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value
from service.estimator.tape.ops.attention_kernels import add_mask
from service.estimator.tape.ops.elementwise import (
    cast,
    chain,
    dropout,
    multiply_scalar,
    softmax,
)
from service.estimator.tape.ops.latent_attention import rotate_halves, transpose
from service.estimator.tape.ops.products import copy_contiguous, multiply_heads
from service.estimator.tape.ops.routing import top_k
from service.estimator.tape.ops.views import concatenate, narrow, rearrange
from service.estimator.tape.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAttention:
    """Grouped-query attention with a sink column in the softmax.

    The head's sink is one more column of the scores.
    """

    projections: tuple[Linear, Linear, Linear]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    sliding_window: int | None = None
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield self._sinks()
        for layer in self.linears():
            yield from layer.weights()

    def _sinks(self) -> Weight:
        return Weight("self_attn.sinks", "attention", (self.num_heads,))

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = ctx.tape
        raw_query, raw_key, value = (
            transpose(tape, part) for part in project_each(ctx, self.projections, x, scope)
        )
        query, key = (
            rotate_halves(tape, raw_query, ctx.table_dtype),
            rotate_halves(tape, raw_key, ctx.table_dtype),
        )
        tape.free(raw_query, raw_key)
        key, value = ctx.update_cache(
            key, value, self.num_kv_heads * self.head_dim, self.sliding_window
        )
        mixed = self._attend(ctx, query, key, value, ctx.parameter(self._sinks(), scope))
        result = apply_output(ctx, self.output, mixed, scope)
        tape.free(mixed, query, key, value)
        return result

    def _attend(
        self, ctx: Recording, query: Value, key: Value, value: Value, sinks: Parameter
    ) -> Value:
        tape, shape = ctx.tape, ctx.get_read_shape(self.sliding_window)
        width = shape.cached(self.num_heads * self.head_dim)
        keys, values = (copy_contiguous(tape, part, numel=width) for part in (key, value))
        scores, as_is = shape.scores(self.num_heads), (Tape.alias, Tape.alias)
        product = multiply_heads(tape, query, keys, scores, reads=as_is)
        scaled = chain(tape, product, multiply_scalar)
        weights = chain(tape, scaled, lambda t, x: add_mask(t, x, ctx.settings.dtype))
        shifted = self._subtract_max(ctx, weights, sinks)
        probabilities = softmax(tape, shifted, names_dtype=True)
        view = chain(tape, probabilities, lambda t, p: narrow(t, p, scores))
        tape.free(weights)
        kept = dropout(tape, view, self.dropout)
        cast_weights = cast(tape, kept, value.dtype)  # under autocast the sinks make them fp32
        tape.free(kept)
        read = multiply_heads(tape, cast_weights, values, query.numel, reads=as_is)
        if ctx.settings.batched:
            read = chain(tape, read, rearrange)
        mixed = chain(tape, read, copy_contiguous)
        tape.free(view)
        ctx.discard_weights(cast_weights)
        tape.free(shifted, keys, values)
        return mixed

    def _subtract_max(self, ctx: Recording, weights: Value, sinks: Parameter) -> Value:
        """Return scores and sinks less the maximum of each row."""
        tape, rows = ctx.tape, ctx.shape.tokens(self.num_heads)
        column = _expand(tape, as_value(sinks), rows)
        combined = concatenate(tape, (weights, column))
        largest, indices = top_k(tape, combined, rows)
        tape.free(indices)
        shifted = _subtract(tape, combined, largest)
        tape.free(largest, combined, column)
        return shifted


def _expand(tape: Tape, x: Value, numel: Size) -> Value:
    """Return an expanded view of ``x``; its gradient is summed back."""
    view = Value(None, numel, x.dtype)
    if tape.builds_graph and x.requires_grad:
        if x.parameter is not None:
            x.parameter.pending_gradients += 1
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def _subtract(tape: Tape, x: Value, largest: Value) -> Value:
    def backward(grad: Storage) -> None:
        tape.send(x, tape.hold(grad))
        negated, reduced = tape.scratch(x.numel, x.dtype), tape.scratch(largest.numel, x.dtype)
        tape.release(negated)
        tape.send(largest, reduced)

    return tape.emit(x.numel, x.dtype, inputs=(x, largest), backward=backward)
