"""Attention of Falcon over one fused projection."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.model.modules.attention.dispatch import (
    AttentionConfig,
    attend_masked,
    build_heads,
)
from service.estimator.model.modules.attention.manual import add_in_fp32
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_kernels import repeat_kv, repeat_kv_heads
from service.estimator.tape.ops.broadcast_attention import run_broadcast_attention
from service.estimator.tape.ops.elementwise import add_scalar, chain, rotate, softmax
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_contiguous
from service.estimator.tape.ops.views import copy_indexed, narrow, scale_in_place
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconAttention:
    """Attention over one fused projection (``FalconAttention.forward``)."""

    fused: Linear
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    expands: bool

    @property
    def num_read_heads(self) -> int:
        """Heads of key and value as attention, and the cache, see them."""
        return self.num_heads if self.expands else self.num_kv_heads

    def record(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value | None]:
        """Record attention; return its output, and the weights that eager attention returns.

        ``x`` stays with the caller.
        """
        tape = ctx.tape
        fused = ctx.linear(self.fused, x, scope)
        query, key, value = (
            self._expand_heads(ctx, fused) if self.expands else self._split_views(ctx, fused)
        )
        rotated = rotate(tape, query, ctx.table_dtype), rotate(tape, key, ctx.table_dtype)
        tape.free(query, key)
        query = rotated[0]
        key, value = ctx.update_cache(rotated[1], value, self.num_read_heads * self.head_dim)
        config = AttentionConfig(
            num_heads=self.num_heads, num_kv_heads=self.num_read_heads, upcast=False
        )
        attend = self._select_kernel(ctx)
        mixed, weights = attend(ctx, query, key, value, config)
        result = ctx.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value, fused)
        return result, weights

    def _select_kernel(self, ctx: Recording) -> Callable[..., tuple[Value, Value | None]]:
        """Return the attention that runs.

        ``sdpa`` is called with the heads as they are.
        """
        if ctx.settings.attention is Kernel.EAGER:
            return _attend_eagerly
        has_graph = ctx.tape.builds_graph and ctx.tape.enables_grad
        broadcasts = self.num_read_heads < self.num_heads and not has_graph
        if broadcasts and ctx.settings.attention in {Kernel.SDPA, Kernel.MATH}:
            return _attend_one_head
        return _attend_all_heads

    def _split_views(self, ctx: Recording, fused: Value) -> tuple[Value, Value, Value]:
        """Return the query as a view, key and value as copies.

        A list of indices copies key and value out, one head for each; with as many key/value heads
        as query heads they are views too.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        query = narrow(tape, fused, tokens(self.num_heads * self.head_dim))
        part = tokens(self.num_kv_heads * self.head_dim)
        if self.num_kv_heads == self.num_heads:
            return query, narrow(tape, fused, part), narrow(tape, fused, part)
        return query, copy_indexed(tape, fused, part), copy_indexed(tape, fused, part)

    def _expand_heads(self, ctx: Recording, fused: Value) -> tuple[Value, Value, Value]:
        """Return query, key and value with all heads, flattened into copies."""
        tape, numel = ctx.tape, ctx.shape.tokens(self.num_heads * self.head_dim)
        part = ctx.shape.tokens(self.num_kv_heads * self.head_dim)
        views = (
            narrow(tape, fused, numel),
            copy_indexed(tape, fused, part),
            copy_indexed(tape, fused, part),
        )
        copies = [copy_contiguous(tape, view, numel=numel) for view in views]
        tape.free(*views)
        return copies[0], copies[1], copies[2]


def _attend_all_heads(
    ctx: Recording, query: Value, key: Value, value: Value, config: AttentionConfig
) -> tuple[Value, None]:
    """Record SDPA under the shared mask."""
    return attend_masked(ctx, query, key, value, config), None


def _attend_one_head(
    ctx: Recording, query: Value, key: Value, value: Value, config: AttentionConfig
) -> tuple[Value, None]:
    """Record SDPA over one key/value head, under the shared mask."""
    heads = replace(build_heads(ctx, config), bias=ctx.get_read_shape(None).mask(1))
    batched = ctx.settings.batched
    return run_broadcast_attention(ctx.tape, query, key, value, heads, batched=batched), None


def _attend_eagerly(
    ctx: Recording, query: Value, key: Value, value: Value, config: AttentionConfig
) -> tuple[Value, Value]:
    """Record eager attention.

    Scores are divided in place, a mask is added, and probabilities are returned; a single key/value
    head expands late.
    """
    tape, heads = ctx.tape, build_heads(ctx, config)
    q, k, v = (autocast_input(tape, part) for part in (query, key, value))
    side = _spread_heads(tape, k, heads)
    scores = chain(tape, batched_product(tape, q, side, heads.scores), scale_in_place)
    tape.free(side)
    probabilities = chain(
        tape, add_in_fp32(tape, scores) if tape.autocast else add_scalar(tape, scores), softmax
    )
    tape.free(scores)
    weights, side = autocast_input(tape, probabilities), _spread_heads(tape, v, heads)
    mixed = batched_product(tape, weights, side, query.numel)
    tape.free(weights, side, q, k, v)
    return chain(tape, mixed, copy_contiguous), probabilities


def _spread_heads(tape: Tape, part: Value, heads: Heads) -> Value:
    """Return key or value for a product with all heads.

    The product copies an only head for each query head, but that of one sequence is a view.
    """
    return (repeat_kv if heads.per_sequence else repeat_kv_heads)(tape, part, heads)
