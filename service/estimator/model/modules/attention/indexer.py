"""Lightning indexer: it chooses the keys that each query reads.

Its heads score all keys; it runs without gradients, so that its weights get none (transformers
5.23, ``models/deepseek_v32/modeling_deepseek_v32.py``, ``DeepseekV32Indexer``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight, iterate_weights
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain, multiply_scalar, rotate
from service.estimator.tape.ops.latent_attention import rotate_interleaved
from service.estimator.tape.ops.products import allocate_integers, autocast_input, split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention

_CHOSEN_BYTES = 4
"""Bytes of a position that the indexer returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Indexer of one block.

    It makes queries of the latent, a key of each token and a weight of each head.
    """

    wide: Linear
    key: Linear
    key_norm: Norm
    weighing: Linear
    num_index_heads: int
    index_dim: int
    rope_dim: int
    num_chosen: int
    interleaved: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.wide, self.key, self.weighing)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors, as the model makes them."""
        yield from iterate_weights(self.wide, self.key, self.key_norm, self.weighing)

    def choose(self, ctx: Recording, x: Value, latent: Value, scope: str) -> Value:
        """Record the choice of keys for each query; returns their positions.

        ``latent`` is the query's; it and ``x`` stay with the caller.
        """
        tape = ctx.tape
        mode, tape.mode = tape.mode, Mode.INFERENCE
        query, key, names = self._project(ctx, x, latent, scope)
        (key,) = ctx.update_cache_parts(key)
        scores = self._score(ctx, query, key)
        weights = chain(tape, ctx.linear(self.weighing, x, scope), _to_fp32)
        weights = chain(tape, weights, multiply_scalar)
        pairs = ctx.shape.scores(1)
        operand = autocast_input(tape, weights)
        summed = _allocate(tape, pairs, scores.dtype)
        tape.free(operand)
        is_added = ctx.settings.attention is Attention.EAGER
        mask = () if is_added else (allocate_integers(tape, pairs, bytes_each=1),)
        filled = _allocate(tape, pairs, scores.dtype)
        tape.free(summed, *mask)
        chosen = self._choose_highest(ctx, scores.dtype)
        tape.free(filled, weights, scores, query, key, *names)
        tape.mode = mode
        return chosen

    def _project(
        self, ctx: Recording, x: Value, latent: Value, scope: str
    ) -> tuple[Value, Value, tuple[Value, ...]]:
        """Return rotated queries and keys, and what has names."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        heads, rotated = self.num_index_heads, self.rope_dim
        passed = self.index_dim - rotated
        wide = ctx.linear(self.wide, latent, scope)
        query_rot, query_pass = split(tape, wide, (tokens(heads * rotated), tokens(heads * passed)))
        narrow = chain(
            tape,
            ctx.linear(self.key, x, scope),
            lambda _, value: ctx.norm(self.key_norm, value, scope),
        )
        key_rot, key_pass = split(tape, narrow, (tokens(rotated), tokens(passed)))
        if self.interleaved:
            query_rot, key_rot = rotate_interleaved(tape, query_rot, key_rot, ctx.table_dtype)
        else:
            turned = rotate(tape, query_rot, ctx.table_dtype)
            other = rotate(tape, key_rot, ctx.table_dtype)
            tape.free(query_rot, key_rot)
            query_rot, key_rot = turned, other
        query = concatenate(tape, (query_rot, query_pass))
        key = concatenate(tape, (key_rot, key_pass))
        return query, key, (query_rot, query_pass, key_rot, key_pass)

    def _score(self, ctx: Recording, query: Value, key: Value) -> Value:
        """Return the scores of all heads, none below zero.

        They are in fp32 unless autocast casts them.

        A key is copied for each query of several sequences (``matmul``, which expands it).
        """
        tape, shape = ctx.tape, ctx.shape
        operands = [cast(tape, part, DType.FP32) for part in (query, key)]
        operands += [autocast_input(tape, part) for part in operands]
        dtype = operands[-1].dtype
        if ctx.settings.batched and not shape.decoding:
            operands.append(_allocate(tape, shape.scores(self.index_dim), dtype))
        raw = _allocate(tape, shape.scores(self.num_index_heads), dtype)
        tape.free(*operands)
        return chain(tape, chain(tape, raw, multiply_scalar), multiply_scalar)

    def _choose_highest(self, ctx: Recording, dtype: DType) -> Value:
        """Return the positions of the highest sums."""
        tape, count = ctx.tape, count_chosen(ctx, self.num_chosen)
        values = _allocate(tape, count, dtype)
        positions = allocate_integers(tape, count)
        tape.free(values)
        chosen = hand_on(ctx, self.num_chosen)
        tape.free(positions)
        return chosen


def count_chosen(ctx: Recording, limit: int) -> Size:
    """Return the positions that all queries choose."""
    length = ctx.settings.length
    assert length is not None  # noqa: S101 - a model with an indexer is recorded for one length
    return ctx.shape.tokens(min(limit, length))


def hand_on(ctx: Recording, limit: int) -> Value:
    """Return the positions of chosen keys, as layers hand them on."""
    return allocate_integers(ctx.tape, count_chosen(ctx, limit), bytes_each=_CHOSEN_BYTES)


def _to_fp32(tape: Tape, x: Value) -> Value:
    return cast(tape, x, DType.FP32)


def _allocate(tape: Tape, numel: Size, dtype: DType) -> Value:
    """Return a new tensor that no gradient goes through."""
    return tape.emit(numel, dtype, inputs=(), backward=lambda _: None)
