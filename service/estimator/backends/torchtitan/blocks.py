"""torchtitan's transformer block.

It has complex rotation in fp32, repeated keys and values, and its own recomputation (torchtitan
``models/llama3/model.py``; ``models/llama/model.py`` before 2025; ``models/qwen3/model/model.py``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from service.estimator.backends.torchtitan.saving import SavedOutputs
from service.estimator.backends.torchtitan.sequence import (
    gather_sequence,
    split_by_rank,
    use_full_sequence,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.collectives import scatter_to_ranks
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.context_attention import ring_flash
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    add,
    cast,
    chain,
    multiply,
    multiply_by_table,
    rotate,
)
from service.estimator.tape.ops.norms import fused_rms_norm
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class TitanBlock:
    """Transformer block as torchtitan runs it.

    ``h = x + attention(norm(x)); y = h + feed_forward(norm(h))``. ``compiled``: inductor fuses what
    stands between products into one kernel each.
    """

    attention_norm: Norm
    attention: Attention | SelfAttention
    feed_forward_norm: Norm
    feed_forward: GatedFeedForward
    selects: bool
    compiled: bool
    context_ranks: int = 1
    """Context-parallel ranks, whose keys and values pass by."""
    tensor_ranks: int = 1
    """Tensor-parallel ranks, each of which has its part of every sequence between attention and
    feed-forward layers.
    """
    rotates_halves: bool = False
    """Whether cosine and sine, cast to the query's dtype in every layer, rotate it (qwen3), not
    complex exponentials.
    """

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.attention_norm.weights()
        yield from self.attention.weights()
        yield from self.feed_forward_norm.weights()
        yield from self.feed_forward.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block, which drops its input."""
        tape = ctx.tape
        saved = SavedOutputs(tape, ctx.saved_outputs.setdefault(scope, []), selects=self.selects)
        normed = self._normalise(ctx, self.attention_norm, x, scope)
        mixed = self._apply_to_all_tokens(
            ctx, normed, lambda tokens: self._record_attention(ctx, tokens, scope, saved)
        )
        middle = add(tape, x, mixed)
        tape.free(mixed)
        normed = self._normalise(ctx, self.feed_forward_norm, middle, scope)
        fed = self._apply_to_all_tokens(
            ctx, normed, lambda tokens: self._record_feed_forward(ctx, tokens, scope, saved)
        )
        y = add(tape, middle, fed)
        tape.free(fed, middle, x)
        return y

    def _apply_to_all_tokens(
        self, ctx: Recording, x: Value, layer: Callable[[Value], Value]
    ) -> Value:
        """Apply a layer to all ranks' tokens.

        Returns its output for this rank's ``x``, which is dropped. A caller's frame has ``x`` and
        what was gathered until the layer's last product is reduced.
        """
        tokens = gather_sequence(ctx.tape, x, self.tensor_ranks)
        with use_full_sequence(ctx, self.tensor_ranks):
            y = layer(tokens)
        ctx.tape.free(tokens, x)
        return y

    def _reduce_scatter(self, ctx: Recording, partial: Value, saved: SavedOutputs) -> Value:
        """Return the sum over the ranks of this rank's tokens.

        ``partial`` is dropped.
        """
        if self.tensor_ranks == 1:
            return partial
        parts = split_by_rank(ctx.tape, partial)
        y = saved.save_reduced(lambda: scatter_to_ranks(ctx.tape, parts, self.tensor_ranks))
        ctx.tape.free(parts, partial)
        return y

    def _normalise(self, ctx: Recording, norm: Norm, x: Value, scope: str) -> Value:
        if not self.compiled:
            return ctx.norm(norm, x, scope)
        (weight,) = ctx.parameters(norm.weights(), scope)
        return fused_rms_norm(ctx.tape, x, weight, ctx.shape.tokens(1))

    def _record_attention(self, ctx: Recording, x: Value, scope: str, saved: SavedOutputs) -> Value:
        tape, attention = ctx.tape, self.attention
        query, key, value = (
            saved.save_product(partial(ctx.linear, layer, x, scope))
            for layer in attention.projections
        )
        if attention.query_norm is not None and attention.key_norm is not None:
            query = self._normalise_heads(
                ctx, attention.query_norm, query, scope, attention.num_heads
            )
            key = self._normalise_heads(ctx, attention.key_norm, key, scope, attention.num_kv_heads)
        query, key = self._rotate(ctx, query, key)
        heads = Heads(
            num_heads=attention.num_heads,
            num_kv_heads=attention.num_heads,
            rows=ctx.shape.tokens(attention.num_heads),
            scores=ctx.shape.scores(attention.num_heads),
        )
        repeats = attention.num_heads // attention.num_kv_heads
        wide = sizes.scale(key.numel, repeats)
        keys, values = (
            part if repeats == 1 else copy_contiguous(tape, part, numel=wide)
            for part in (key, value)
        )
        statistics = sizes.scale(heads.rows, DType.FP32.bytes_per_element)
        kernel = (
            partial(ring_flash, ranks=self.context_ranks)
            if self.context_ranks > 1
            else kernels.run_flash_attention
        )
        mixed = saved.save_attention(lambda: kernel(tape, query, keys, values, heads), statistics)
        tape.free(query, keys, values, *((key, value) if repeats > 1 else ()))
        result = self._reduce_scatter(
            ctx, saved.save_product(lambda: ctx.linear(attention.output, mixed, scope)), saved
        )
        tape.free(mixed)
        return result

    def _normalise_heads(
        self, ctx: Recording, norm: Norm, x: Value, scope: str, heads: int
    ) -> Value:
        return chain(
            ctx.tape, x, lambda _, value: ctx.norm(norm, value, scope, rows=ctx.shape.tokens(heads))
        )

    def _rotate(self, ctx: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        """Return query and key times complex exponentials.

        They are cast to fp32, multiplied and cast back; one kernel when compiled.
        """
        tape = ctx.tape
        if self.compiled:
            return (
                chain(tape, query, lambda t, x: multiply_by_table(t, x, x.dtype)),
                chain(tape, key, lambda t, x: multiply_by_table(t, x, x.dtype)),
            )
        if self.rotates_halves:
            return self._rotate_halves(ctx, query, key)
        upcast = [cast(tape, part, DType.FP32) for part in (query, key)]
        turned = [multiply_by_table(tape, part, DType.FP32) for part in upcast]
        rotated = [cast(tape, part, query.dtype) for part in turned]
        tape.free(*upcast, *turned, query, key)
        return rotated[0], rotated[1]

    def _rotate_halves(self, ctx: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        """Return ``x * cos + rotate_half(x) * sin`` of query and key.

        The layer's own tables are kept by their products.
        """
        tape, dtype = ctx.tape, query.dtype
        numel = sizes.scale(ctx.shape.positions(1), self.attention.head_dim)
        names = () if dtype is DType.FP32 else ("cosine", "sine")
        tables = tuple(
            Value(tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype)), numel, dtype)
            for _ in names
        )
        rotated = [rotate(tape, part, dtype, tables) for part in (query, key)]
        tape.free(*tables, query, key)
        return rotated[0], rotated[1]

    def _record_feed_forward(
        self, ctx: Recording, x: Value, scope: str, saved: SavedOutputs
    ) -> Value:
        tape, feed_forward = ctx.tape, self.feed_forward
        gate = saved.save_product(lambda: ctx.linear(feed_forward.gate, x, scope))
        activated = chain(tape, gate, activate_saving_input)
        up = saved.save_product(lambda: ctx.linear(feed_forward.up, x, scope))
        product = multiply(tape, activated, up)
        tape.free(activated, up)
        result = self._reduce_scatter(
            ctx, saved.save_product(lambda: ctx.linear(feed_forward.down, product, scope)), saved
        )
        tape.free(product)
        return result
