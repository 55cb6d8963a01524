"""Gated delta rule over all heads.

By chunks, or one step of decoding, as ``torch_chunk_gated_delta_rule`` and
``torch_recurrent_gated_delta_rule`` run it.
"""

from dataclasses import dataclass

from service.estimator.model.modules.ssm.chunks import Chunks, split_chunks
from service.estimator.model.modules.ssm.delta_scan import DeltaScan, Order
from service.estimator.model.modules.ssm.recurrent_step import STATE_DTYPE
from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add_scalar,
    cast,
    chain,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.tape.ops.routing import sum_rows
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

CHUNK = 64
"""Positions of a chunk: the default of ``torch_chunk_gated_delta_rule``, which no config changes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRule:
    """Delta rule of so many heads.

    Each has a state of ``key_dim`` x ``value_dim``. Where heads are ``grouped``, several share a
    query and a key, which are repeated for them.
    """

    num_heads: int
    key_dim: int
    value_dim: int
    grouped: bool

    def record(
        self, ctx: Recording, parts: tuple[Value, Value, Value], beta: Value, decay: Value
    ) -> Value:
        """Return the output of the states in the query's dtype.

        ``parts`` are query, key and value, which stay with the caller as the others do.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        wide = tokens(self.num_heads * self.key_dim)
        heads = [
            copy_contiguous(tape, part, numel=wide) if self.grouped else tape.alias(part)
            for part in parts[:2]
        ]
        exact = [_copy_to_fp32(ctx, part) for part in (*heads, parts[2], beta, decay)]
        tape.free(*heads)
        query, key, value, strength, fading = exact
        query, key = (_normalise_l2(ctx, part, tokens(self.num_heads)) for part in (query, key))
        query = chain(tape, query, multiply_scalar)
        if ctx.shape.decoding:
            return self._update_state(ctx, parts[2], (query, key, value, strength, fading))
        chunks = split_chunks(ctx, CHUNK)
        scan = DeltaScan(
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            chunks=chunks,
            order=self._find_order(parts[0].dtype, chunks),
        )
        return scan.record(ctx, parts[2], (query, key, value, strength, fading))

    def _find_order(self, dtype: DType, chunks: Chunks) -> Order:
        """Return how queries and keys lie in memory.

        A cast lays them head by head, and so does padding.
        """
        if dtype is not DType.FP32 or chunks.padding:
            return Order.HEADS
        return Order.TOKENS if self.grouped else Order.CHANNELS

    def _update_state(self, ctx: Recording, like: Value, parts: tuple[Value, ...]) -> Value:
        """Return the output of one decode step.

        The faded state, the update and the next exist at once; what else is here has names.
        """
        tape, states = ctx.tape, self.num_heads * self.key_dim * self.value_dim
        buffers = [tape.scratch(sizes.per_sequence(states), STATE_DTYPE) for _ in range(3)]
        retrieved, change = (tape.scratch(like.numel, DType.FP32) for _ in range(2))
        out = tape.scratch(like.numel, DType.FP32)
        decayed = tape.scratch(ctx.shape.tokens(self.num_heads), DType.FP32)
        tape.release(*buffers, retrieved, change, decayed)
        y = Value(tape.scratch(like.numel, like.dtype), like.numel, like.dtype)
        tape.release(out)
        tape.free(*parts)
        return y


def _copy_to_fp32(ctx: Recording, x: Value) -> Value:
    """Return ``x`` in fp32, a copy where it has another format."""
    return cast(ctx.tape, x, DType.FP32) if x.dtype is not DType.FP32 else ctx.tape.alias(x)


def _normalise_l2(ctx: Recording, x: Value, rows: Size) -> Value:
    """Return ``x`` divided by its L2 norm (``l2norm``).

    ``x`` is multiplied by the inverse root of its sum of squares, and dropped.
    """
    tape = ctx.tape
    squared = multiply(tape, x, x)
    total = chain(tape, squared, lambda t, v: sum_rows(t, v, rows))
    inverse = chain(tape, chain(tape, total, add_scalar), activate_saving_output)
    y = multiply_broadcast(tape, x, inverse, x.numel)
    tape.free(inverse, x)
    return y
