"""T5 attention with a position bias that all layers share.

Scores are not scaled but get the bias, learned for distances or all zeros (transformers 5.23,
``models/t5/modeling_t5.py`` and ``create_position_bias_mask`` of
``integrations/sdpa_attention.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.attention.cross_kv import get_cross_key_value
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import SharedInputs, get_shared_inputs
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.biased_attention import (
    align_bias,
    copy_to_kernel_layout,
    run_biased_eager_attention,
    run_biased_efficient_attention,
    where,
)
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import allocate_integers, autocast_input, embedding
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention as Kernel

ALIGNED_KEYS = 8
"""Elements to which rows of a bias are padded."""
BUCKET_BYTES = 33
"""Bytes per pair of positions that ``_relative_position_bucket`` holds at its worst beside
distances and buckets: the absolute distances, a boolean, and three more 64-bit tensors.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Attention:
    """Self-attention or cross-attention sublayer of a T5 layer.

    With ``is_cross_attention`` it reads the encoder's output. ``table`` is the learned bias, where
    a layer has one; in cross-attention, the first layer makes one of zeros.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    num_heads: int
    table: Weight | None = None
    causal: bool = False
    is_cross_attention: bool = False
    makes_bias: bool = False
    """Whether this is the layer that makes its stack's bias."""
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.query, self.key, self.value, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        if self.table is not None:
            yield self.table

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape, shared_inputs = ctx.tape, get_shared_inputs(ctx)
        shape = shared_inputs.crossing if self.is_cross_attention else shared_inputs.own
        query = ctx.linear(self.query, x, scope)
        key, value = (
            get_cross_key_value(ctx, (self.key, self.value), scope)
            if self.is_cross_attention
            else self._project_self(ctx, x, scope)
        )
        bias = self._get_bias(ctx, shared_inputs, shape, query.dtype)
        mixed = self._attend(
            ctx,
            shape,
            (query, key, value),
            bias,
            masked=shared_inputs.masked if self.is_cross_attention else ctx.padded,
        )
        result = chain(tape, mixed, lambda _, y: ctx.linear(self.output, y, scope))
        tape.free(query, key, value)
        return result

    def _project_self(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        key, value = (ctx.linear(layer, x, scope) for layer in (self.key, self.value))
        return ctx.update_cache(key, value, self.key.out_features)

    def _get_bias(
        self, ctx: Recording, shared_inputs: SharedInputs, shape: CrossShape, dtype: DType
    ) -> Value:
        """Return the stack's bias, made by its first layer.

        A recomputed first layer makes the bias anew, and names it until its end.
        """
        name = "across" if self.is_cross_attention else "own"
        existing = shared_inputs.biases.get(name)
        if existing is not None and not (self.makes_bias and ctx.tape.mode is Mode.RECOMPUTING):
            return existing
        bias = (
            self._make_zero_bias(ctx, shape, dtype)
            if self.table is None
            else self._compute_bias(ctx, shape, self.table)
        )
        if existing is None:
            shared_inputs.biases[name] = bias
            return bias
        if self.table is None:
            bias.node = existing.node  # gradients of zeros meet in the first forward's leaf
        shared_inputs.remade.append(bias)
        return bias

    def _make_zero_bias(self, ctx: Recording, shape: CrossShape, dtype: DType) -> Value:
        """Return a bias of zeros.

        T5 makes it a leaf with a gradient when it is checkpointed.
        """
        tape, numel = ctx.tape, shape.shared_mask(self.num_heads)
        zeros = Value(tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype)), numel, dtype)
        if tape.mode is Mode.DISCARDING:
            tape.hold_value(zeros)  # as long as the graph, which ends in this leaf
        if tape.mode in {Mode.DISCARDING, Mode.RECOMPUTING}:
            zeros.node, zeros.requires_grad = Node([], lambda _: None), True
        return zeros

    def _compute_bias(self, ctx: Recording, shape: CrossShape, table: Weight) -> Value:
        """Return the rows of the table for each pair of positions (``compute_bias``)."""
        tape, pairs = ctx.tape, shape.shared_mask(1)
        positions = [
            allocate_integers(tape, CrossShape(queries=length).positions(1))
            for length in (shape.queries, shape.keys)
        ]
        distances = allocate_integers(tape, pairs)
        early_buckets = () if self.causal else (allocate_integers(tape, pairs),)
        tape.release(tape.allocate(Category.TEMPORARIES, shape.shared_mask(BUCKET_BYTES)))
        (buckets,) = early_buckets or (allocate_integers(tape, pairs),)
        bias = embedding(tape, ctx.parameter(table), buckets, shape.shared_mask(self.num_heads))
        tape.free(distances, buckets, *positions)
        return bias

    def _attend(
        self,
        ctx: Recording,
        shape: CrossShape,
        parts: tuple[Value, Value, Value],
        bias: Value,
        *,
        masked: bool,
    ) -> Value:
        """Record attention by its own products or by SDPA.

        SDPA has one kernel for a bias. Returns what queries read.
        """
        tape = ctx.tape
        heads = Heads(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            rows=shape.tokens(self.num_heads),
            aligned_rows=shape.aligned(self.num_heads),
            scores=shape.scores(self.num_heads),
            dropout=self.dropout,
        )
        if ctx.settings.attention is Kernel.EAGER:
            mixed, weights = run_biased_eager_attention(
                tape,
                parts,
                bias,
                heads,
                mask=ctx.settings.dtype if self.causal or masked else None,
                copies=ctx.cache is None,
            )
            ctx.discard_weights(weights)
            return mixed
        mask = self._build_mask(ctx, shape, bias, masked=masked)
        query, key, value, cast_mask = (autocast_input(tape, part) for part in (*parts, mask))
        if shape.keys is not None and shape.keys % ALIGNED_KEYS:
            padded = replace(shape, keys=-(-shape.keys // ALIGNED_KEYS) * ALIGNED_KEYS)
            numel = (padded.scores if masked else padded.shared_mask)(self.num_heads)
            cast_mask = chain(tape, cast_mask, lambda t, x: align_bias(t, x, numel))
        mixed = run_biased_efficient_attention(tape, query, key, value, cast_mask, heads)
        tape.free(query, key, value, cast_mask, mask)
        return mixed

    def _build_mask(self, ctx: Recording, shape: CrossShape, bias: Value, *, masked: bool) -> Value:
        """Return the bias as SDPA gets it.

        Under a mask the bias is selected where the mask allows; then it is laid out as it is read.
        """
        tape = ctx.tape
        if masked:
            mask = get_shared_inputs(ctx).masks["across" if self.is_cross_attention else "own"]
            masked_bias = where(tape, mask, bias, shape.scores(self.num_heads))
        elif self.causal and shape.queries != 1:
            causal_mask = allocate_integers(tape, shape.shared_mask(1), bytes_each=1)
            masked_bias = where(tape, causal_mask, bias, bias.numel)
            tape.free(causal_mask)
        else:
            masked_bias = tape.alias(bias)
        return (
            masked_bias
            if self.is_cross_attention
            else chain(tape, masked_bias, copy_to_kernel_layout)
        )
