"""Self-attention: separate or fused projections, grouped heads, rotary positions, norms on query and key."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import rotate_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one block; ``projections`` are (q, k, v) or one fused layer."""

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
    def scoring(self) -> Scoring:
        """How queries meet keys."""
        return Scoring(
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

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = run.tape
        query, key, value = self._projected(run, x, scope)
        if self.rotary:
            query, key = self._rotated(run, query, key)
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim, self.sliding_window)
        mixed = attend(run, query, key, value, self.scoring)
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value)
        return chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))

    def _rotated(self, run: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        tape, dim = run.tape, self.rotary_dim or self.head_dim
        rotated = (
            rotate_part(tape, query, run.extent.tokens(self.num_heads * dim), run.table_dtype),
            rotate_part(tape, key, run.extent.tokens(self.num_kv_heads * dim), run.table_dtype),
        )
        tape.free(query, key)
        return rotated

    def _projected(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value]:
        if len(self.projections) == 1:
            key_size = run.extent.tokens(self.num_kv_heads * self.head_dim)
            sizes = (run.extent.tokens(self.num_heads * self.head_dim), key_size, key_size)
            query, key, value = split(run.tape, run.linear(self.projections[0], x, scope), sizes)
            return query, key, value
        query, key, value = (run.linear(layer, x, scope) for layer in self.projections)
        if self.scaled_query:
            query = chain(run.tape, query, multiply_scalar)
        if self.query_norm is not None and self.key_norm is not None:
            query = _normalised(run, self.query_norm, query, scope, self.num_heads * self.head_dim)
            key = _normalised(run, self.key_norm, key, scope, self.num_kv_heads * self.head_dim)
        return query, key, value


def _normalised(run: Recording, norm: Norm, x: Value, scope: str, width: int) -> Value:
    """Return query or key normalised: each head on its own, or all of them in one row, as wide as the norm is."""
    y = run.norm(norm, x, scope, rows=run.extent.tokens(width // norm.size))
    run.tape.free(x)
    return y
