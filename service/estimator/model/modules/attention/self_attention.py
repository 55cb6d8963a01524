"""Self-attention of families with their own rotation, norms or clipping."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import (
    AttentionConfig,
    attend,
    view_projection,
)
from service.estimator.model.modules.joined import (
    apply_output,
    project,
    rotate,
    rotate_normalised,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.rotary import RotaryStyle, Rotated, Rotation, rotate_both
from service.estimator.tape.ops.views import clamp_in_place, concatenate, narrow

CONCATENATED = {RotaryStyle.INLINE, RotaryStyle.JOINED, RotaryStyle.INTERLEAVED, RotaryStyle.OUTER}
"""Rotations whose query lies head after head, since it was concatenated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAttention:
    """Attention of one block.

    ``projections`` are (q, k, v), or one fused layer that is sliced into them. ``rotation`` None
    leaves positions out; ``norm_each_head`` normalises heads apart, else a query's heads are one
    row.
    """

    projections: tuple[Linear, ...]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotation: Rotation | None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    query_norms: tuple[Norm, ...] = ()
    key_norms: tuple[Norm, ...] = ()
    """Separate norms for every head (stablelm's qk_layernorm)."""
    norm_each_head: bool = True
    norms_before_value: bool = False
    clips: bool = False
    """Whether query, key and value are clamped in place (olmo's clip_qkv)."""
    softcap: bool = False
    sliding_window: int | None = None
    dropout: float = 0.0
    output_dropout: float = 0.0
    output_first: bool = False
    """Whether the class makes the output layer before the others, as optimizers then step it."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        if self.output_first:
            return (self.output, *self.projections)
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.query_norm, self.key_norm, *self.query_norms, *self.key_norms):
            if norm is not None:
                yield from norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    @property
    def attention_config(self) -> AttentionConfig:
        """Settings of this attention for the kernel dispatch."""
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            dropout=self.dropout,
            head_major=self.rotation is not None and self.rotation.style in CONCATENATED,
            softcap=self.softcap,
            sliding_window=self.sliding_window,
        )

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = ctx.tape
        query, key, value, intermediates = self._project(ctx, x, scope)
        if self.rotation is not None:
            query, key, names = self._rotate(ctx, self.rotation, query, key, scope)
            intermediates = [*intermediates, *names]
        key, value = ctx.update_cache(
            key, value, self.num_kv_heads * self.head_dim, self.sliding_window
        )
        mixed = attend(ctx, query, key, value, self.attention_config)
        result = apply_output(ctx, self.output, mixed, scope)
        tape.free(mixed)
        result = chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))
        tape.free(query, key, value, *intermediates)
        return result

    def _rotate(
        self, ctx: Recording, rotation: Rotation, query: Value, key: Value, scope: str
    ) -> Rotated:
        """Return rotated query and key, and the values still named.

        Both arguments are dropped. Unsloth's kernel has the norms in it.
        """
        tape = ctx.tape
        rotated: Rotated
        if ctx.settings.unsloth:
            turned = rotate_normalised(ctx, query, self.query_norm, scope, heads=self.num_heads)
            other = rotate_normalised(ctx, key, self.key_norm, scope, heads=self.num_kv_heads)
            rotated = turned, other, []
        elif ctx.settings.fuses_kernels:
            rotated = rotate(ctx, query), rotate(ctx, key), []
        else:
            rotated = rotate_both(
                tape,
                query,
                key,
                rotation,
                table=ctx.table_dtype,
                positions=ctx.shape.positions(1),
            )
        tape.free(query, key)
        return rotated

    def _project(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, Value, Value, list[Value]]:
        """Return query, key and value.

        The last value has the other tensors that keep a name until attention is over.
        """
        if len(self.projections) == 1:
            return self._slice_fused(ctx, x, scope)
        joined = project(ctx, self.projections, x, scope)
        if joined:
            query, key, value = self._arrange(ctx, joined, scope)
            return query, key, value, []
        to_query, to_key, to_value = self.projections
        query = ctx.linear(to_query, x, scope)
        query = self._view(ctx, query, scope, norm=self.query_norm, heads=self.num_heads)
        key = ctx.linear(to_key, x, scope)
        key = self._view(ctx, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
        value = ctx.linear(to_value, x, scope)
        if self.clips:
            query, key, value = (clamp_in_place(ctx.tape, part) for part in (query, key, value))
        else:
            config = self.attention_config
            value = view_projection(ctx, value, config, heads=self.num_kv_heads)
        if not self.norms_before_value:
            query = self._normalise(ctx, query, scope, norm=self.query_norm, heads=self.num_heads)
            key = self._normalise(ctx, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
        if self.clips or (self.query_norm is not None and not self.norm_each_head):
            query = self._view_heads(ctx, query, self.num_heads)
            key = self._view_heads(ctx, key, self.num_kv_heads)
        if self.query_norms:
            query, key = (
                self._normalise_each_head(ctx, x, scope, norms)
                for x, norms in ((query, self.query_norms), (key, self.key_norms))
            )
        return query, key, value, []

    def _arrange(
        self, ctx: Recording, projected: tuple[Value, ...], scope: str
    ) -> tuple[Value, ...]:
        """Return what one function projected head by head, then normalised."""
        if ctx.settings.unsloth:
            return projected
        query, key, value = projected
        query = self._view_heads(ctx, query, self.num_heads)
        key = self._view_heads(ctx, key, self.num_kv_heads)
        value = view_projection(ctx, value, self.attention_config, heads=self.num_kv_heads)
        query = self._normalise(ctx, query, scope, norm=self.query_norm, heads=self.num_heads)
        key = self._normalise(ctx, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
        return query, key, value

    def _view(
        self, ctx: Recording, x: Value, scope: str, *, norm: Norm | None, heads: int
    ) -> Value:
        """Return a projection head by head.

        It is normalised where the norm comes before the value; a norm over all heads takes it as
        it is.
        """
        is_row = norm is not None and not self.norm_each_head
        if not is_row and not self.clips:
            x = self._view_heads(ctx, x, heads)
        if not self.norms_before_value:
            return x
        return self._normalise(ctx, x, scope, norm=norm, heads=heads)

    def _view_heads(self, ctx: Recording, x: Value, heads: int) -> Value:
        turns = self.rotation is not None
        return view_projection(ctx, x, self.attention_config, heads=heads, rotated=turns)

    def _slice_fused(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, Value, Value, list[Value]]:
        fused = ctx.linear(self.projections[0], x, scope)
        query, key, value = (
            narrow(ctx.tape, fused, ctx.shape.tokens(heads * self.head_dim))
            for heads in (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        )
        query = self._view_heads(ctx, query, self.num_heads)
        key = self._view_heads(ctx, key, self.num_kv_heads)
        config = self.attention_config
        value = view_projection(ctx, value, config, heads=self.num_kv_heads)
        return query, key, value, [fused]

    def _normalise_each_head(
        self, ctx: Recording, states: Value, scope: str, norms: tuple[Norm, ...]
    ) -> Value:
        """Return the heads normalised one by one and concatenated.

        ``states`` is dropped.
        """
        views = split(ctx.tape, states, (ctx.shape.tokens(self.head_dim),) * len(norms))
        heads = tuple(ctx.norm(norm, view, scope) for norm, view in zip(norms, views, strict=True))
        joined = concatenate(ctx.tape, heads)
        ctx.tape.free(*heads, *views)
        return joined

    def _normalise(
        self, ctx: Recording, x: Value, scope: str, *, norm: Norm | None, heads: int
    ) -> Value:
        if norm is not None and not ctx.settings.unsloth:
            rows = ctx.shape.tokens(heads if self.norm_each_head else 1)
            x = chain(ctx.tape, x, lambda _, value: ctx.norm(norm, value, scope, rows=rows))
        return x
