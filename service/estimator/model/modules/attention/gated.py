"""Attention with a sigmoid output gate (Qwen3-Next, transformers 5.23).

The gate comes out of the query projection.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.joined import apply_output, project_each
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import activate_saving_output, chain, multiply
from service.estimator.tape.ops.products import copy_contiguous, split
from service.estimator.tape.ops.views import rotate_part


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedAttention:
    """Grouped-query attention with an output gate.

    Heads are normalised one by one, and a part of each is rotated; the first projection makes query
    and gate.
    """

    projections: tuple[Linear, Linear, Linear]
    output: Linear
    query_norm: Norm
    key_norm: Norm
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int
    dropout: float = 0.0
    sliding_window: int | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        yield from self.query_norm.weights()
        yield from self.key_norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, wide = ctx.tape, ctx.shape.tokens(self.num_heads * self.head_dim)
        parts = project_each(ctx, self.projections, x, scope)
        query, gate = split(tape, next(parts), (wide, wide))
        gate = chain(tape, gate, copy_contiguous)
        query = self._normalise(ctx, query, self.query_norm, self.num_heads, scope)
        key = self._normalise(ctx, next(parts), self.key_norm, self.num_kv_heads, scope)
        value = next(parts)
        query, key = (
            self._rotate(ctx, query, self.num_heads),
            self._rotate(ctx, key, self.num_kv_heads),
        )
        key, value = ctx.update_cache(key, value, self.num_kv_heads * self.head_dim)
        config = AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            dropout=self.dropout,
            head_major=0 < self.rotary_dim < self.head_dim,
        )
        mixed = attend(ctx, query, key, value, config)
        opened = activate_saving_output(tape, gate)
        passed = multiply(tape, mixed, opened)
        tape.free(opened, mixed)
        y = apply_output(ctx, self.output, passed, scope)
        tape.free(passed, query, key, value, gate)
        return y

    def _normalise(self, ctx: Recording, x: Value, norm: Norm, heads: int, scope: str) -> Value:
        return chain(
            ctx.tape, x, lambda _, value: ctx.norm(norm, value, scope, rows=ctx.shape.tokens(heads))
        )

    def _rotate(self, ctx: Recording, x: Value, heads: int) -> Value:
        rotary = ctx.shape.tokens(heads * self.rotary_dim)
        return chain(ctx.tape, x, lambda t, value: rotate_part(t, value, rotary, ctx.table_dtype))
