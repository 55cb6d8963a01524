"""Attention of GPT-J and CodeGen, with sinusoidal tables."""

from dataclasses import dataclass

from service.estimator.model.modules.attention.manual import attend_in_fp32, make_tensor
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain, dropout, rotate
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous, view_heads
from service.estimator.tape.ops.views import concatenate_promoted, narrow
from service.estimator.values.dtypes import DType

_FUSED_PARTS = 4
"""Parts of a fused projection, each with queries, values and keys (CodeGen's ``mp_num``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjAttention:
    """Attention of one layer.

    One projection means CodeGen's (``CodeGenAttention.forward``, ``GPTJAttention.forward``).
    """

    projections: tuple[Linear, ...]
    output: Linear
    num_heads: int
    rotary_dim: int
    num_positions: int
    dropout: float
    output_dropout: float

    def record(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        """Record attention; return its output and its probabilities.

        ``x`` stays with the caller.
        """
        tape, fused = ctx.tape, len(self.projections) == 1
        query, key, value, names = self._project(ctx, x, scope)
        table, temporaries = self._make_table(ctx, DType.FP32 if fused else key.dtype)
        names += [query, key, *temporaries]
        key, query = self._rotate(ctx, (key, query), table, names)
        if fused and ctx.cache is not None:
            key = chain(tape, key, lambda t, part: cast(t, part, x.dtype))
        key, value = ctx.update_cache(key, value, self.output.in_features)
        mixed, probabilities = attend_in_fp32(
            ctx,
            (query, key, value),
            num_heads=self.num_heads,
            probability=self.dropout,
            masks_first=fused,
        )
        merged = chain(tape, mixed, copy_contiguous)
        result = chain(tape, merged, lambda _, part: ctx.linear(self.output, part, scope))
        result = chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))
        tape.free(query, key, value, *names)
        return result, probabilities

    def _project(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, Value, Value, list[Value]]:
        """Return query, key and value.

        Heads of a fused projection are copied out, but where each of its parts has one alone. The
        last value has the tensors that keep a name
        until attention is over.
        """
        tape = ctx.tape
        if len(self.projections) > 1:
            query, key, value = (ctx.linear(layer, x, scope) for layer in self.projections)
            return query, key, view_heads(tape, value), []
        fused = ctx.linear(self.projections[0], x, scope)
        views = [narrow(tape, fused, ctx.shape.tokens(self.output.in_features)) for _ in range(3)]
        if self.num_heads > _FUSED_PARTS:
            views = [chain(tape, view, copy_contiguous) for view in views]
        query, value, key = views
        return query, key, view_heads(tape, value), [fused]

    def _make_table(self, ctx: Recording, dtype: DType) -> tuple[DType, list[Value]]:
        """Return the dtype of sine and cosine, and their temporaries.

        Sine and cosine are gathered through these tensors.
        """
        elements = ctx.shape.positions(self.rotary_dim)
        if len(self.projections) == 1:
            return dtype, [make_tensor(ctx, elements, dtype)]
        repeated = make_tensor(
            ctx, sizes.constant(self.num_positions * self.rotary_dim), DType.FP32
        )
        indices = allocate_integers(ctx.tape, elements)
        gathered = chain(
            ctx.tape,
            make_tensor(ctx, elements, DType.FP32),
            lambda t, sincos: cast(t, sincos, dtype),
        )
        return dtype, [repeated, indices, gathered]

    def _rotate(
        self, ctx: Recording, sides: tuple[Value, Value], table: DType, names: list[Value]
    ) -> list[Value]:
        """Return both sides with the first part of their heads rotated.

        Both are rotated before either is joined. The rotated parts get names; products keep tables
        of their own.
        """
        tape, part = ctx.tape, ctx.shape.tokens(self.num_heads * self.rotary_dim)
        parts = [
            (narrow(tape, x, part), narrow(tape, x, sizes.subtract(x.numel, part))) for x in sides
        ]
        rotated = [self._rotate_part(ctx, turning, table) for turning, _ in parts]
        passed = [passing for _, passing in parts]
        joined = [concatenate_promoted(tape, both) for both in zip(rotated, passed, strict=True)]
        tape.free(*passed)
        names += rotated
        return joined

    def _rotate_part(self, ctx: Recording, x: Value, table: DType) -> Value:
        tables = tuple(
            make_tensor(ctx, ctx.shape.positions(self.rotary_dim), table) for _ in range(2)
        )
        rotated = chain(ctx.tape, x, lambda t, value: rotate(t, value, table, tables))
        ctx.tape.free(*tables)
        return rotated
