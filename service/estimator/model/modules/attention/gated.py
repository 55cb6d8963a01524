"""Attention whose output passes a sigmoid gate that comes with its query (Qwen3-Next, transformers 5.23)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, from_output, multiply
from service.estimator.tape.ops.products import copy_of, split
from service.estimator.tape.ops.views import rotate_part


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedAttention:
    """Grouped heads, normalised one by one, a part of each rotated; the first projection makes query and gate."""

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

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, wide = run.tape, run.extent.tokens(self.num_heads * self.head_dim)
        to_query, to_key, to_value = self.projections
        query, gate = split(tape, run.linear(to_query, x, scope), (wide, wide))
        gate = chain(tape, gate, copy_of)
        query = self._normed(run, query, self.query_norm, self.num_heads, scope)
        key = self._normed(run, run.linear(to_key, x, scope), self.key_norm, self.num_kv_heads, scope)
        value = run.linear(to_value, x, scope)
        query, key = self._rotated(run, query, self.num_heads), self._rotated(run, key, self.num_kv_heads)
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim)
        scoring = Scoring(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            dropout=self.dropout,
            head_major=0 < self.rotary_dim < self.head_dim,
        )
        mixed = attend(run, query, key, value, scoring)
        opened = from_output(tape, gate)
        passed = multiply(tape, mixed, opened)
        tape.free(opened, mixed)
        y = run.linear(self.output, passed, scope)
        tape.free(passed, query, key, value, gate)
        return y

    def _normed(self, run: Recording, x: Value, norm: Norm, heads: int, scope: str) -> Value:
        return chain(run.tape, x, lambda _, value: run.norm(norm, value, scope, rows=run.extent.tokens(heads)))

    def _rotated(self, run: Recording, x: Value, heads: int) -> Value:
        rotary = run.extent.tokens(heads * self.rotary_dim)
        return chain(run.tape, x, lambda t, value: rotate_part(t, value, rotary, run.table_dtype))
