"""Multi-head latent attention (arXiv:2405.04434, section 2.1): keys and values are made from a small latent that is cached."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.cross_shape import Span
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.latent_attention import assembled, reordered, turn_as_complex, turn_interleaved
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.pass_shape import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Attention whose query may come through a latent as well; ``passed_dim`` of a head is not rotated, ``turned_dim`` is."""

    query: tuple[Linear, ...]
    query_norm: Norm | None
    compress: Linear
    latent_norm: Norm
    expand: Linear
    output: Linear
    num_heads: int
    passed_dim: int
    turned_dim: int
    value_dim: int
    complex_rotation: bool
    dropout: float = 0.0

    @property
    def latent_size(self) -> int:
        """Elements of a token's latent."""
        return self.latent_norm.size

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.query, self.compress, self.expand, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.query_norm, self.latent_norm):
            if norm is not None:
                yield from norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token: the latent and the rotated key that all heads share."""
        return self.latent_size + self.turned_dim

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most: all of them."""
        return None

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, tokens = run.tape, run.extent.tokens
        whole = reordered(tape, self._query(run, x, scope))
        named = tape.alias(whole)
        passed, turning = split(
            tape, whole, (tokens(self.num_heads * self.passed_dim), tokens(self.num_heads * self.turned_dim))
        )
        compressed = run.linear(self.compress, x, scope)
        rest = tape.alias(compressed)
        raw, key = split(tape, compressed, (tokens(self.latent_size), tokens(self.turned_dim)))
        latent = run.norm(self.latent_norm, raw, scope)
        turned, key = self._turned(run, turning, key)
        latent, key = run.cached_apart(latent, key)
        queries = concatenate(tape, (passed, turned))
        keys, values = self._expanded(run, latent, key, scope)
        mixed = attend(run, queries, keys, values, self._scoring(run))
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, named, rest, passed, raw, latent, turned, key, queries, keys, values)
        return result

    def _query(self, run: Recording, x: Value, scope: str) -> Value:
        first, *rest = self.query
        query = run.linear(first, x, scope)
        if self.query_norm is None:
            return query
        norm = self.query_norm
        normed = chain(run.tape, query, lambda _, value: run.norm(norm, value, scope))
        return chain(run.tape, normed, lambda _, value: run.linear(rest[0], value, scope))

    def _turned(self, run: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        if self.complex_rotation:
            return turn_as_complex(run.tape, query, key, run.extent.positions(self.turned_dim))
        return turn_interleaved(run.tape, query, key, run.table_dtype)

    def _expanded(self, run: Recording, latent: Value, key: Value, scope: str) -> tuple[Value, Value]:
        """Return keys and values of every head, of all tokens that are attended to."""
        tape, now, everything = run.tape, run.extent, self._everything(run)
        run.extent = everything
        whole = reordered(tape, run.linear(self.expand, latent, scope))
        run.extent = now
        heads = self.num_heads
        own, values = split(
            tape, whole, (everything.tokens(heads * self.passed_dim), everything.tokens(heads * self.value_dim))
        )
        keys = assembled(tape, own, key, everything.tokens(heads * self.turned_dim))
        tape.free(own)
        return keys, values

    def _everything(self, run: Recording) -> Extent:
        """Return the extent of what the cache gives: all tokens, or all that a static one has room for."""
        room = run.store.length if run.store is not None else None
        return replace(run.extent, decoding=False) if room is None else Span(queries=room)

    def _scoring(self, run: Recording) -> Scoring:
        return Scoring(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            dropout=self.dropout,
            values=run.extent.tokens(self.num_heads * self.value_dim),
        )
