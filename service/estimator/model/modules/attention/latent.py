"""Multi-head latent attention (arXiv:2405.04434, section 2.1).

Keys and values are made from a small latent that is cached.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.latent_attention import (
    assemble_keys,
    rotate_complex,
    rotate_interleaved,
    transpose,
)
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.pass_shape import PassShape


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Latent attention of one block.

    The query may come through a latent as well; ``nope_dim`` of a head is not rotated, ``rope_dim``
    is.
    """

    query: tuple[Linear, ...]
    query_norm: Norm | None
    compress: Linear
    latent_norm: Norm
    expand: Linear
    output: Linear
    num_heads: int
    nope_dim: int
    rope_dim: int
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
        """Yield the parameter tensors, as the model makes them."""
        norms = (self.query_norm,) if self.query_norm is not None else ()
        first, *rest = self.query
        for part in (first, *norms, *rest, self.compress, self.latent_norm, self.expand):
            yield from part.weights()
        yield from self.output.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token.

        These are the latent and the rotated key that all heads share.
        """
        return self.latent_size + self.rope_dim

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most: all of them."""
        return None

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        query, query_latent = self._project_query(ctx, x, scope)
        query_states = transpose(tape, query)
        named = tape.alias(query_states)
        q_pass, q_rot = split(
            tape,
            query_states,
            (tokens(self.num_heads * self.nope_dim), tokens(self.num_heads * self.rope_dim)),
        )
        compressed = ctx.linear(self.compress, x, scope)
        compressed_alias = tape.alias(compressed)
        raw, key = split(tape, compressed, (tokens(self.latent_size), tokens(self.rope_dim)))
        latent = ctx.norm(self.latent_norm, raw, scope)
        rotated, key = self._rotate(ctx, q_rot, key)
        latent, key = ctx.update_cache_parts(latent, key)
        queries = concatenate(tape, (q_pass, rotated))
        keys, values = self._expand(ctx, latent, key, scope)
        names = self.choose_keys(ctx, x, query_latent, scope)
        mixed = self.attend(ctx, queries, keys, values)
        result = ctx.linear(self.output, mixed, scope)
        tape.free(
            *(mixed, named, compressed_alias, q_pass, raw, latent, rotated, key),
            *(queries, keys, values, *query_latent, *names),
        )
        return result

    def choose_keys(
        self, ctx: Recording, x: Value, query_latent: tuple[Value, ...], scope: str
    ) -> tuple[Value, ...]:
        """Record what chooses keys; returns its names. All are read."""
        del ctx, x, query_latent, scope
        return ()

    def attend(self, ctx: Recording, queries: Value, keys: Value, values: Value) -> Value:
        """Record attention to keys of all heads."""
        return attend(ctx, queries, keys, values, self.build_attention_config(ctx))

    def _project_query(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, tuple[Value, ...]]:
        """Return the query, and its latent where that has a name."""
        first, *remaining = self.query
        query = ctx.linear(first, x, scope)
        if self.query_norm is None:
            return query, ()
        norm = self.query_norm
        normed = chain(ctx.tape, query, lambda _, value: ctx.norm(norm, value, scope))
        if not self.names_latent:
            return chain(
                ctx.tape, normed, lambda _, value: ctx.linear(remaining[0], value, scope)
            ), ()
        return ctx.linear(remaining[0], normed, scope), (normed,)

    @property
    def names_latent(self) -> bool:
        """Whether its code has a name for the query's latent."""
        return False

    def _rotate(self, ctx: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        if self.complex_rotation:
            return rotate_complex(ctx.tape, query, key, ctx.shape.positions(self.rope_dim))
        return rotate_interleaved(ctx.tape, query, key, ctx.table_dtype)

    def _expand(self, ctx: Recording, latent: Value, key: Value, scope: str) -> tuple[Value, Value]:
        """Return keys and values of every head for all attended tokens."""
        tape, current, cached = ctx.tape, ctx.shape, self._get_cached_shape(ctx)
        ctx.shape = cached
        expanded = transpose(tape, ctx.linear(self.expand, latent, scope))
        ctx.shape = current
        heads = self.num_heads
        k_pass, values = split(
            tape,
            expanded,
            (cached.tokens(heads * self.nope_dim), cached.tokens(heads * self.value_dim)),
        )
        keys = assemble_keys(tape, k_pass, key, cached.tokens(heads * self.rope_dim))
        tape.free(k_pass)
        return keys, values

    def _get_cached_shape(self, ctx: Recording) -> PassShape:
        """Return the pass shape of what the cache gives.

        That is all tokens, or all that a static cache has room for.
        """
        room = ctx.cache.length if ctx.cache is not None else None
        return replace(ctx.shape, decoding=False) if room is None else CrossShape(queries=room)

    def build_attention_config(self, ctx: Recording) -> AttentionConfig:
        """Return heads and dropout, and what queries read."""
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            dropout=self.dropout,
            values=ctx.shape.tokens(self.num_heads * self.value_dim),
        )
