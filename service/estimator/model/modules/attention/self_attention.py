"""Self-attention of the families that rotate, normalise, slice or cap in a way of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.rotary import Rotation, Style, rotate_both
from service.estimator.tape.ops.views import clamp_in_place, concatenate, narrow

CONCATENATED = {Style.INLINE, Style.JOINED, Style.INTERLEAVED, Style.OUTER}
"""Rotations whose query lies head after head, since it was concatenated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAttention:
    """Attention of one block; ``projections`` are (q, k, v), or one fused layer that is sliced into them.

    ``rotation`` None leaves positions out; ``norm_each_head`` normalises heads apart, else a query's heads are one row.
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
    """A norm of its own for every head (stablelm's qk_layernorm)."""
    norm_each_head: bool = True
    norms_before_value: bool = False
    clips: bool = False
    """Whether query, key and value are clamped in place (olmo's clip_qkv)."""
    softcap: bool = False
    sliding_window: int | None = None
    dropout: float = 0.0
    output_dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
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
    def scoring(self) -> Scoring:
        """How queries meet keys."""
        return Scoring(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            dropout=self.dropout,
            head_major=self.rotation is not None and self.rotation.style in CONCATENATED,
            softcap=self.softcap,
            sliding_window=self.sliding_window,
        )

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = run.tape
        query, key, value, held = self._projected(run, x, scope)
        if self.rotation is not None:
            rotated = rotate_both(tape, query, key, self.rotation, table=run.table_dtype, positions=run.extent.positions(1))
            tape.free(query, key)
            query, key, names = rotated
            held = [*held, *names]
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim, self.sliding_window)
        mixed = attend(run, query, key, value, self.scoring)
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed)
        result = chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))
        tape.free(query, key, value, *held)
        return result

    def _projected(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value, list[Value]]:
        """Return query, key, value, and what else keeps a name until attention is over."""
        if len(self.projections) == 1:
            return self._sliced(run, x, scope)
        to_query, to_key, to_value = self.projections
        if self.norms_before_value:
            query = self._normalised(run, run.linear(to_query, x, scope), scope, norm=self.query_norm, heads=self.num_heads)
            key = self._normalised(run, run.linear(to_key, x, scope), scope, norm=self.key_norm, heads=self.num_kv_heads)
            return query, key, run.linear(to_value, x, scope), []
        query, key, value = (run.linear(layer, x, scope) for layer in self.projections)
        if self.clips:
            query, key, value = (clamp_in_place(run.tape, part) for part in (query, key, value))
        query = self._normalised(run, query, scope, norm=self.query_norm, heads=self.num_heads)
        key = self._normalised(run, key, scope, norm=self.key_norm, heads=self.num_kv_heads)
        if self.query_norms:
            query, key = (self._apart(run, x, scope, norms) for x, norms in ((query, self.query_norms), (key, self.key_norms)))
        return query, key, value, []

    def _sliced(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value, list[Value]]:
        fused = run.linear(self.projections[0], x, scope)
        query, key, value = (
            narrow(run.tape, fused, run.extent.tokens(heads * self.head_dim))
            for heads in (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        )
        return query, key, value, [fused]

    def _apart(self, run: Recording, states: Value, scope: str, norms: tuple[Norm, ...]) -> Value:
        """Return the heads normalised one by one and put together again; ``states`` is dropped."""
        views = split(run.tape, states, (run.extent.tokens(self.head_dim),) * len(norms))
        heads = tuple(run.norm(norm, view, scope) for norm, view in zip(norms, views, strict=True))
        joined = concatenate(run.tape, heads)
        run.tape.free(*heads, *views)
        return joined

    def _normalised(self, run: Recording, x: Value, scope: str, *, norm: Norm | None, heads: int) -> Value:
        if norm is None:
            return x
        rows = run.extent.tokens(heads if self.norm_each_head else 1)
        return chain(run.tape, x, lambda _, value: run.norm(norm, value, scope, rows=rows))
