"""Scan of the gated delta rule over chunks."""

from dataclasses import dataclass
from enum import Enum, auto

from service.estimator.model.modules.ssm.chunks import Chunks
from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.ops.delta_rule.loop import ChunkLoop
from service.estimator.tape.ops.delta_rule.scan import scan_chunks, solve_triangular
from service.estimator.tape.ops.elementwise import cast, chain, multiply
from service.estimator.tape.ops.norms import subtract_broadcast
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import (
    contract,
    cumsum,
    exponentiate,
    fill_masked,
    make_triangle,
    pad_with_zeros,
)
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


class Order(Enum):
    """Order in memory of the queries and keys of all heads."""

    HEADS = auto()
    """head by head, as a copy lays them"""
    TOKENS = auto()
    """token by token, as heads are repeated"""
    CHANNELS = auto()
    """channel by channel, as a convolution leaves them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaScan:
    """Scan over chunks, with a state for each head.

    A state has ``key_dim`` x ``value_dim`` elements.
    """

    num_heads: int
    key_dim: int
    value_dim: int
    chunks: Chunks
    order: Order

    @property
    def copies_chunks(self) -> bool:
        """Whether products of all chunks copy queries and keys.

        They read sequences, heads and chunks as one dimension (ATen's ``matmul`` reshapes), which
        is a view where the steps of those that are more than one follow from each other.
        """
        several, batched = self.chunks.has_several_chunks, self.chunks.batched
        if self.order is Order.TOKENS:
            return self.num_heads > 1 and (several or batched)
        return self.order is Order.CHANNELS and several and (batched or self.num_heads > 1)

    @property
    def copies_slices(self) -> bool:
        """Whether a step's products copy its slices of queries and keys.

        They read sequences and heads as one dimension.
        """
        return self.order is Order.TOKENS and self.chunks.batched and self.num_heads > 1

    def record(self, ctx: Recording, like: Value, parts: tuple[Value, ...]) -> Value:
        """Return the output of all positions in the dtype of ``like``.

        ``parts`` are query, key, value, strength and decay, which are dropped.
        """
        tape, chunks = ctx.tape, self.chunks
        wide, heads = self.num_heads * self.key_dim, self.num_heads
        widths = (wide, wide, self.num_heads * self.value_dim, heads, heads)
        padded = [
            pad_with_zeros(tape, part, chunks.padded(width))
            for part, width in zip(parts, widths, strict=True)
        ]
        tape.free(*parts)
        state = sizes.per_sequence(self.num_heads * self.key_dim * self.value_dim)
        out, last, named, unread = self._scan_padded(ctx, padded, state)
        if ctx.cache is None:
            tape.release(last)
        if chunks.has_several_chunks:
            # Solutions of triangular systems lie by columns, and chunks are joined by rows.
            out = chain(tape, out, copy_contiguous)
        cut = chain(
            tape, out, lambda t, v: narrow(t, v, like.numel) if chunks.padding else t.alias(v)
        )
        y = chain(tape, cut, lambda t, v: _copy_to_dtype(t, v, like.dtype))
        tape.free(*named)
        if not chunks.has_several_chunks:
            # Nothing reads the only chunk's state: what leads there ends with its names.
            for node in unread:
                tape.release(*node.saved)
                node.saved = []
        if ctx.cache is not None:
            tape.release(last)
        return y

    def _scan_padded(
        self, ctx: Recording, padded: list[Value], state: Size
    ) -> tuple[Value, Storage, list[Value], list[Node]]:
        """Return the output of all chunks, padding included, and the last state.

        Also returns what else has a name until the output is there, and the nodes of what the
        chunks' states alone read.
        """
        tape, chunks = ctx.tape, self.chunks
        square = chunks.per_chunk(self.num_heads * chunks.side**2)
        query, key, value, strength, fading = padded
        entering = multiply_broadcast(tape, value, strength, value.numel)
        strong = multiply_broadcast(tape, key, strength, key.numel)
        mask = make_triangle(tape, chunks.side)
        summed = cumsum(tape, fading)
        pairs = chain(
            tape,
            _subtract_positions(ctx, summed, square),
            lambda t, v: fill_masked(t, v, mask, square),
        )
        pairs = chain(tape, pairs, exponentiate)
        copies = (self.copies_chunks, self.copies_chunks)
        system = _multiply_decayed(ctx, strong, key, pairs, copies)
        inner = _multiply_decayed(ctx, query, key, pairs, copies)
        grown = exponentiate(tape, summed)
        decayed = chain(tape, grown, lambda t, v: multiply_broadcast(t, strong, v, strong.numel))
        fresh, k_cumdecay = (solve_triangular(tape, system, right) for right in (entering, decayed))
        last = tape.scratch(state, DType.FP32)
        outputs = Value(tape.scratch(fresh.numel, fresh.dtype), fresh.numel, fresh.dtype)
        grown = exponentiate(tape, summed)
        decayed_query = chain(
            tape, grown, lambda t, v: multiply_broadcast(t, query, v, query.numel)
        )
        tape.free(query)
        before = len(tape.nodes)
        written, ending = self._fade_keys(ctx, key, summed)
        unread = [node for node in tape.nodes[before:] if isinstance(node, Node)]
        loop = ChunkLoop(
            new_values=fresh,
            decayed_keys=k_cumdecay,
            decayed_queries=decayed_query,
            intra_scores=inner,
            state_keys=written,
            final_decay=ending,
            outputs=outputs,
            state=state,
            num_chunks=chunks.count,
            copies_slices=self.copies_slices,
            chunk_of_values=sizes.per_sequence(chunks.side * self.num_heads * self.value_dim),
            chunk_of_keys=sizes.per_sequence(chunks.side * self.num_heads * self.key_dim),
        )
        corrected = scan_chunks(tape, loop)
        factors = (strong, entering, decayed, system, pairs, summed, mask)
        named = [*factors, *loop.operands, value, strength, fading, *corrected]
        return outputs, last, named, unread

    def _fade_keys(self, ctx: Recording, key: Value, summed: Value) -> tuple[Value, Value]:
        """Return the faded keys, and the decay of each chunk.

        ``key`` is dropped.
        """
        tape = ctx.tape
        last = narrow(tape, summed, self.chunks.per_chunk(self.num_heads))
        remaining_decay = chain(tape, subtract_broadcast(tape, summed, last), exponentiate)
        written = chain(
            tape, remaining_decay, lambda t, v: multiply_broadcast(t, key, v, key.numel)
        )
        tape.free(key)
        return written, chain(tape, last, exponentiate)


def _copy_to_dtype(tape: Tape, x: Value, dtype: DType) -> Value:
    return cast(tape, x, dtype) if x.dtype is not dtype else copy_contiguous(tape, x)


def _subtract_positions(ctx: Recording, x: Value, square: Size) -> Value:
    """Return the pairwise differences of a chunk's positions."""
    tape = ctx.tape

    def backward(_: Storage) -> None:
        negated = tape.scratch(square, x.dtype)
        tape.release(negated)
        tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(square, x.dtype, inputs=(x,), backward=backward)


def _multiply_decayed(
    ctx: Recording, left: Value, right: Value, decay: Value, copies: tuple[bool, bool]
) -> Value:
    """Return the products of a chunk's positions, each times its decay."""
    tape = ctx.tape
    product = contract(tape, left, right, decay.numel, copies=copies)
    return chain(tape, product, lambda t, v: multiply(t, v, decay))
