"""torchtitan's transformer block: complex rotation in fp32, repeated keys and values, and its own recomputation.

(torchtitan ``models/llama3/model.py``; ``models/llama/model.py`` before 2025; ``models/qwen3/model/model.py``.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from service.estimator.backends.torchtitan.ring import ring_flash
from service.estimator.backends.torchtitan.saving import SavedOutputs
from service.estimator.backends.torchtitan.sequence import gathered_sequence, in_parts, whole_sequence
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.weights.collectives import scattered
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_kernels import Heads
from service.estimator.tape.ops.elementwise import add, cast, chain, from_input, multiply, rotate, times_table
from service.estimator.tape.ops.norms import fused_rms_norm
from service.estimator.tape.ops.products import copy_of
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class TitanBlock:
    """``h = x + attention(norm(x)); y = h + feed_forward(norm(h))`` as torchtitan runs it.

    ``compiled``: inductor fuses what stands between products into one kernel each.
    """

    attention_norm: Norm
    attention: Attention | SelfAttention
    feed_forward_norm: Norm
    feed_forward: GatedFeedForward
    selects: bool
    compiled: bool
    ranks: int = 1
    """Context-parallel ranks, whose keys and values pass by."""
    shares: int = 1
    """Tensor-parallel ranks, each of which has its part of every sequence between attention and feed-forward layers."""
    rotates_halves: bool = False
    """Whether cosine and sine, cast to the query's dtype in every layer, rotate it (qwen3), not complex exponentials."""

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

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block, which drops its input."""
        tape = run.tape
        saved = SavedOutputs(tape, run.kept_outputs.setdefault(scope, []), selects=self.selects)
        normed = self._normalised(run, self.attention_norm, x, scope)
        mixed = self._over_all_tokens(run, normed, lambda whole: self._attention(run, whole, scope, saved))
        middle = add(tape, x, mixed)
        tape.free(mixed)
        normed = self._normalised(run, self.feed_forward_norm, middle, scope)
        fed = self._over_all_tokens(run, normed, lambda whole: self._feed_forward(run, whole, scope, saved))
        y = add(tape, middle, fed)
        tape.free(fed, middle, x)
        return y

    def _over_all_tokens(self, run: Recording, x: Value, layer: Callable[[Value], Value]) -> Value:
        """Return what a layer makes of all ranks' tokens for this rank's ``x``, which is dropped.

        A caller's frame has ``x`` and what was gathered until the layer's last product is added up.
        """
        whole = gathered_sequence(run.tape, x, self.shares)
        with whole_sequence(run, self.shares):
            y = layer(whole)
        run.tape.free(whole, x)
        return y

    def _added_up(self, run: Recording, partial: Value, saved: SavedOutputs) -> Value:
        """Return the sum over the ranks of this rank's tokens; ``partial`` is dropped."""
        if self.shares == 1:
            return partial
        parts = in_parts(run.tape, partial)
        y = saved.reduced(lambda: scattered(run.tape, parts, self.shares))
        run.tape.free(parts, partial)
        return y

    def _normalised(self, run: Recording, norm: Norm, x: Value, scope: str) -> Value:
        if not self.compiled:
            return run.norm(norm, x, scope)
        (weight,) = run.parameters(norm.weights(), scope)
        return fused_rms_norm(run.tape, x, weight, run.extent.tokens(1))

    def _attention(self, run: Recording, x: Value, scope: str, saved: SavedOutputs) -> Value:
        tape, how = run.tape, self.attention
        query, key, value = (saved.product(partial(run.linear, layer, x, scope)) for layer in how.projections)
        if how.query_norm is not None and how.key_norm is not None:
            query = self._head_norm(run, how.query_norm, query, scope, how.num_heads)
            key = self._head_norm(run, how.key_norm, key, scope, how.num_kv_heads)
        query, key = self._rotated(run, query, key)
        heads = Heads(
            num_heads=how.num_heads,
            num_kv_heads=how.num_heads,
            rows=run.extent.tokens(how.num_heads),
            scores=run.extent.scores(how.num_heads),
        )
        repeats = how.num_heads // how.num_kv_heads
        wide = sizes.scale(key.numel, repeats)
        keys, values = (part if repeats == 1 else copy_of(tape, part, numel=wide) for part in (key, value))
        statistics = sizes.scale(heads.rows, DType.FP32.bytes_per_element)
        kernel = partial(ring_flash, ranks=self.ranks) if self.ranks > 1 else kernels.flash
        mixed = saved.attention(lambda: kernel(tape, query, keys, values, heads), statistics)
        tape.free(query, keys, values, *((key, value) if repeats > 1 else ()))
        result = self._added_up(run, saved.product(lambda: run.linear(how.output, mixed, scope)), saved)
        tape.free(mixed)
        return result

    def _head_norm(self, run: Recording, norm: Norm, x: Value, scope: str, heads: int) -> Value:
        return chain(run.tape, x, lambda _, value: run.norm(norm, value, scope, rows=run.extent.tokens(heads)))

    def _rotated(self, run: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        """Return query and key times complex exponentials: cast to fp32, multiplied, cast back; one kernel when compiled."""
        tape = run.tape
        if self.compiled:
            return (
                chain(tape, query, lambda t, x: times_table(t, x, x.dtype)),
                chain(tape, key, lambda t, x: times_table(t, x, x.dtype)),
            )
        if self.rotates_halves:
            return self._half_rotated(run, query, key)
        upcast = [cast(tape, part, DType.FP32) for part in (query, key)]
        turned = [times_table(tape, part, DType.FP32) for part in upcast]
        rotated = [cast(tape, part, query.dtype) for part in turned]
        tape.free(*upcast, *turned, query, key)
        return rotated[0], rotated[1]

    def _half_rotated(self, run: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        """Return ``x * cos + rotate_half(x) * sin``; the layer's own tables are kept by their products."""
        tape, dtype = run.tape, query.dtype
        numel = sizes.scale(run.extent.positions(1), self.attention.head_dim)
        names = () if dtype is DType.FP32 else ("cosine", "sine")
        tables = tuple(Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)), numel, dtype) for _ in names)
        rotated = [rotate(tape, part, dtype, tables) for part in (query, key)]
        tape.free(*tables, query, key)
        return rotated[0], rotated[1]

    def _feed_forward(self, run: Recording, x: Value, scope: str, saved: SavedOutputs) -> Value:
        tape, how = run.tape, self.feed_forward
        gate = saved.product(lambda: run.linear(how.gate, x, scope))
        activated = chain(tape, gate, from_input)
        up = saved.product(lambda: run.linear(how.up, x, scope))
        product = multiply(tape, activated, up)
        tape.free(activated, up)
        result = self._added_up(run, saved.product(lambda: run.linear(how.down, product, scope)), saved)
        tape.free(product)
        return result
