"""Self-attention with grouped heads, rotary positions and query/key norms.

Projections are separate or fused into one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import (
    AttentionConfig,
    attend,
    view_projection,
)
from service.estimator.model.modules.joined import apply_output, project, rotate
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import split, view_heads
from service.estimator.tape.ops.views import rotate_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one block.

    ``projections`` are (q, k, v) or one fused layer.
    """

    projections: tuple[Linear, ...]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary: bool = True
    rotary_dim: int = 0
    """Rotated elements of a head; 0 is all."""
    scaled_query: bool = False
    """Whether the model itself multiplies the query by the scale."""
    scaled_key: bool = False
    """Whether a constant multiplies the key (Falcon-H1)."""
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    upcast_softmax: bool = True
    dropout: float = 0.0
    causal: bool = True
    casts_back: bool = True
    output_dropout: float = 0.0
    sliding_window: int | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                yield from norm.weights()

    @property
    def attention_config(self) -> AttentionConfig:
        """Settings of this attention for the kernel dispatch."""
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            upcast=self.upcast_softmax,
            dropout=self.dropout,
            causal=self.causal,
            casts_back=self.casts_back,
            sliding_window=self.sliding_window,
            head_major=self.rotary and 0 < self.rotary_dim < self.head_dim,
        )

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = ctx.tape
        query, key, value, names = self._project(ctx, x, scope)
        if self.rotary:
            query, key = self._rotate(ctx, query, key)
        key, value = ctx.update_cache(
            key, value, self.num_kv_heads * self.head_dim, self.sliding_window
        )
        mixed = attend(ctx, query, key, value, self.attention_config)
        result = apply_output(ctx, self.output, mixed, scope)
        tape.free(mixed, query, key, value, *names)
        return chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))

    def _rotate(self, ctx: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        tape, dim = ctx.tape, self.rotary_dim or self.head_dim
        if ctx.settings.fuses_kernels:
            turned = rotate(ctx, query), rotate(ctx, key)
            tape.free(query, key)
            return turned
        sizes = [ctx.shape.tokens(heads * dim) for heads in (self.num_heads, self.num_kv_heads)]
        rotated = rotate_parts(tape, (query, key), sizes, ctx.table_dtype)
        tape.free(query, key)
        return rotated

    def _project(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, Value, Value, tuple[Value, ...]]:
        """Return query, key and value.

        A fused projection that is rotated keeps its name until attention is over.
        """
        if len(self.projections) == 1:
            key_size = ctx.shape.tokens(self.num_kv_heads * self.head_dim)
            sizes = (ctx.shape.tokens(self.num_heads * self.head_dim), key_size, key_size)
            fused = ctx.linear(self.projections[0], x, scope)
            names: tuple[Value, ...] = ()
            if self.rotary:
                fused = view_heads(ctx.tape, fused)
                names = (ctx.tape.alias(fused),)
            query, key, value = split(ctx.tape, fused, sizes)
            return query, key, value, names
        joined = project(ctx, self.projections, x, scope)
        config = self.attention_config
        if joined:
            query, key, value = joined
            if not ctx.settings.unsloth:
                query = self._view(ctx, query, scope, norm=self.query_norm, heads=self.num_heads)
                key = self._view(ctx, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
                value = view_projection(ctx, value, config, heads=self.num_kv_heads)
            return query, key, value, ()
        to_query, to_key, to_value = self.projections
        query = ctx.linear(to_query, x, scope)
        if self.scaled_query:
            query = chain(ctx.tape, query, multiply_scalar)
        query = self._view(ctx, query, scope, norm=self.query_norm, heads=self.num_heads)
        key = ctx.linear(to_key, x, scope)
        if self.scaled_key:
            key = chain(ctx.tape, key, multiply_scalar)
        key = self._view(ctx, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
        value = ctx.linear(to_value, x, scope)
        if self._is_row(self.query_norm, self.num_heads):
            query, key = (
                view_projection(ctx, side, config, heads=heads, rotated=self.rotary)
                for side, heads in ((query, self.num_heads), (key, self.num_kv_heads))
            )
        return query, key, view_projection(ctx, value, config, heads=self.num_kv_heads), ()

    def _view(
        self, ctx: Recording, x: Value, scope: str, *, norm: Norm | None, heads: int
    ) -> Value:
        """Return a projection head by head, normalised.

        Each head is normalised on its own, or all of them in one row, as wide as the norm is,
        before any projection is viewed.
        """
        if not self._is_row(norm, heads):
            config = self.attention_config
            x = view_projection(ctx, x, config, heads=heads, rotated=self.rotary)
        if norm is None:
            return x
        rows = ctx.shape.tokens(heads * self.head_dim // norm.size)
        return chain(ctx.tape, x, lambda _, value: ctx.norm(norm, value, scope, rows=rows))

    def _is_row(self, norm: Norm | None, heads: int) -> bool:
        return norm is not None and norm.size == heads * self.head_dim
