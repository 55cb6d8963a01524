"""LitGPT's attention (``litgpt/model.py``, ``CausalSelfAttention``).

One projection, rotation in fp32 with tables that the model keeps, keys and values repeated for all
heads, and SDPA on heads that lie one after another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.backends.litgpt.linears import FusedProjection, apply_fused, apply_linear
from service.estimator.backends.litgpt.prompts import Prompt
from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight, iterate_weights
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, multiply_by_table, rotate_half
from service.estimator.tape.ops.products import copy_contiguous, split, view, view_heads
from service.estimator.tape.ops.views import concatenate, expand, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import LitGptCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGptAttention:
    """Attention of one layer; ``rope_dim`` elements of a head are rotated."""

    projection: FusedProjection
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_dim: int
    code: LitGptCode
    prompt: Prompt | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the layers that are packed or adapted, in order of use."""
        return (self.projection.fused, *self.projection.parts, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        return iterate_weights(self.projection.fused, self.output)

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    @property
    def repeats(self) -> int:
        """Query heads that share a key."""
        return self.num_heads // self.num_kv_heads

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer's attention; ``x`` stays with the caller."""
        tape = ctx.tape
        fused = apply_fused(ctx, self.projection, x, scope, self.code)
        name = tape.alias(fused)
        query, key, value = self._divide(ctx, fused)
        rotated = [self._rotate(tape, side) for side in (query, key)]
        query, key = (
            self._join(tape, side, turned)
            for side, turned in zip((query, key), rotated, strict=True)
        )
        if self.code.splits_by_kind and self.repeats > 1:
            key, value = (self._repeat(tape, side) for side in (key, value))
        config = AttentionConfig(
            num_heads=self.num_heads, num_kv_heads=self.num_heads, head_major=self.prompt is None
        )
        mixed = attend(ctx, query, key, value, config)
        if self.prompt is not None:
            joined = self.prompt.add(ctx, query, mixed, scope)
            tape.free(mixed)
            mixed = joined
        y = apply_linear(ctx, self.output, mixed, scope, code=self.code)
        tape.free(mixed, query, key, value, *rotated, name)
        return y

    def _divide(self, ctx: Recording, fused: Value) -> tuple[Value, Value, Value]:
        """Return query, key and value, head after head; ``fused`` is dropped."""
        tape, count = ctx.tape, ctx.shape.tokens
        widths = [heads * self.head_dim for heads in (self.num_heads, *[self.num_kv_heads] * 2)]
        numels = tuple(count(width) for width in widths)
        if self.code.splits_by_kind:
            query, key, value = split(tape, fused, numels)
            is_copied = self.repeats > 1
            return (
                view_heads(tape, query),
                view_heads(tape, key),
                view_heads(tape, value) if is_copied else view(tape, value),
            )
        query, key, value = split(tape, view_heads(tape, fused), numels)
        if self.repeats == 1:
            return query, key, value
        if self.num_kv_heads == 1:
            # An only head is shown again and again, without a copy.
            return query, self._show(tape, key), self._show(tape, value)
        query = _copy(tape, query, query.numel)
        return query, self._repeat(tape, key), self._repeat(tape, value)

    def _show(self, tape: Tape, side: Value) -> Value:
        view_of_all = expand(tape, side, sizes.scale(side.numel, self.repeats))
        tape.free(side)
        return view_of_all

    def _repeat(self, tape: Tape, side: Value) -> Value:
        """Return key or value for every query head; ``side`` is dropped."""
        return _copy(tape, side, sizes.scale(side.numel, self.repeats))

    def _rotate(self, tape: Tape, side: Value) -> Value:
        """Return the rotated part of each head, in its own dtype (``apply_rope``)."""
        part = self._slice(tape, side)
        halves = rotate_half(tape, part)
        left = multiply_by_table(tape, part, DType.FP32)
        right = multiply_by_table(tape, halves, DType.FP32)
        turned = add(tape, left, right)
        tape.free(left, right)
        y = cast(tape, turned, part.dtype)
        tape.free(halves, turned, part)
        return y

    def _slice(self, tape: Tape, side: Value) -> Value:
        if self.rope_dim == self.head_dim:
            return tape.alias(side)
        return narrow(tape, side, _take_part(side.numel, self.rope_dim, self.head_dim))

    def _join(self, tape: Tape, side: Value, turned: Value) -> Value:
        """Return the rotated part with what passes, which may be empty.

        ``side`` is dropped.
        """
        passed = sizes.subtract(side.numel, turned.numel)
        passing = narrow(tape, side, passed)
        y = concatenate(tape, (turned, passing))
        tape.free(passing, side)
        return y


def _copy(tape: Tape, x: Value, numel: Size) -> Value:
    y = copy_contiguous(tape, x, numel=numel)
    tape.free(x)
    return y


def _take_part(numel: Size, part: int, width: int) -> Size:
    a, b, c, d, e, f = (count * part // width for count in numel)
    return (a, b, c, d, e, f)
