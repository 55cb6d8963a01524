"""LitGPT's own adapters (``litgpt/adapter.py``, ``litgpt/adapter_v2.py``).

Both have a prompt of ten rows in each layer but the first two, which it projects anew; what queries
read from it is added behind a gate. The second kind trains norms, and a shift and a scale of each
linear layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.backends.litgpt.linears import (
    SCALE,
    SHIFT,
    FusedProjection,
    apply_linear,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_kernels import run_efficient_attention
from service.estimator.tape.ops.elementwise import add, chain, multiply
from service.estimator.tape.ops.products import copy_contiguous, split, view_heads
from service.estimator.values.releases.litgpt import LitGptCode

FIRST_LAYER = 2
"""The first layer with a prompt (``adapter_start_layer``)."""
_ROWS = 10
"""Rows of a prompt (``adapter_prompt_length``)."""
_ALIGNED_ROWS = 16
"""Columns of their mask as the memory-efficient kernel reads it."""
_KIND = "adapter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Prompt of one layer, which projects keys and values from it."""

    projection: FusedProjection
    num_heads: int
    code: LitGptCode

    @property
    def table(self) -> Weight:
        """Rows of the prompt."""
        return Weight("attn.adapter_wte.weight", _KIND, (_ROWS, self.projection.fused.in_features))

    @property
    def gate(self) -> Weight:
        """One factor per head."""
        return Weight("attn.gating_factor", _KIND, (1, 1, self.num_heads, 1))

    def add(self, ctx: Recording, query: Value, mixed: Value, scope: str) -> Value:
        """Return attention's output, ``mixed``, with what the prompt gives.

        ``query`` and ``mixed`` stay with the caller.
        """
        tape, positions = ctx.tape, ctx.shape.positions
        table, gate = (
            as_value(ctx.adapter(f"{scope}{weight.name}", weight.numel, query.dtype))
            for weight in (self.table, self.gate)
        )
        fused = apply_linear(ctx, self.projection.fused, table, scope, code=self.code)
        name = tape.alias(fused)
        key, value = self._divide(tape, fused)
        mask = tape.allocate(Category.ACTIVATIONS, positions(_ROWS))
        heads = Heads(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            rows=ctx.shape.tokens(self.num_heads),
            aligned_rows=ctx.shape.aligned(self.num_heads),
            scores=ctx.shape.tokens(self.num_heads * _ROWS),
            bias=positions(_ROWS),
            padded_bias=positions(_ALIGNED_ROWS),
        )
        read = run_efficient_attention(tape, query, key, value, heads)
        gated = multiply(tape, read, gate)
        y = add(tape, mixed, gated)
        tape.free(gated, read, key, value, name)
        tape.release(mask)
        return chain(tape, y, copy_contiguous)

    def _divide(self, tape: Tape, fused: Value) -> tuple[Value, Value]:
        """Return copies of keys and values for every query head."""
        widths = [layer.out_features for layer in self.projection.parts]
        numels = tuple(sizes.constant(_ROWS * width) for width in widths)
        query, *sides = split(tape, view_heads(tape, fused), numels)
        key, value = (
            copy_contiguous(tape, side, numel=sizes.constant(_ROWS * widths[0])) for side in sides
        )
        tape.free(query, *sides)
        return key, value


def list_second_weights(linears: tuple[Linear, ...], norms: tuple[Norm, ...]) -> Iterator[Weight]:
    """Yield what the second kind of adapter trains beside prompts."""
    for layer in linears:
        for name in (SHIFT, SCALE):
            yield Weight(f"{layer.name}.{name}", _KIND, (layer.out_features,))
    for norm in norms:
        yield from norm.weights()
