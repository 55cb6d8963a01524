"""T5's attention: scores are not scaled but get a bias, learned for distances or all zeros, that all layers share.

(transformers 5.23, ``models/t5/modeling_t5.py`` and ``create_position_bias_mask`` of ``integrations/sdpa_attention.py``.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.cross_kv import memorised
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import Passing, passing_of
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.cross_shape import Span
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Node, Value, bytes_of
from service.estimator.tape.ops.attention_kernels import Heads
from service.estimator.tape.ops.biased_attention import eager_biased, efficient_biased, laid_out, where
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import autocast_input, embedding, integers
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention as Kernel

BUCKET_BYTES = 33
"""Bytes per pair of positions that ``_relative_position_bucket`` holds at its worst beside distances and buckets: the
absolute distances, a boolean, and three more 64-bit tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasedAttention:
    """Attention of one half of a layer; ``across`` reads what the encoder gave.

    ``table`` is the learned bias, where a layer has one; across, the first layer makes one of zeros.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    num_heads: int
    table: Weight | None = None
    causal: bool = False
    across: bool = False
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

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape, passing = run.tape, passing_of(run)
        span = passing.crossing if self.across else passing.own
        query = run.linear(self.query, x, scope)
        key, value = memorised(run, (self.key, self.value), scope) if self.across else self._own(run, x, scope)
        bias = self._bias(run, passing, span, query.dtype)
        mixed = self._attended(run, span, (query, key, value), bias, masked=passing.masked if self.across else run.padded)
        result = chain(tape, mixed, lambda _, y: run.linear(self.output, y, scope))
        tape.free(query, key, value)
        return result

    def _own(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        key, value = (run.linear(layer, x, scope) for layer in (self.key, self.value))
        return run.cached(key, value, self.key.out_features)

    def _bias(self, run: Recording, passing: Passing, span: Span, dtype: DType) -> Value:
        """Return the stack's bias; a recomputed first layer makes one anew, which it names until its end."""
        name = "across" if self.across else "own"
        known = passing.biases.get(name)
        if known is not None and not (self.makes_bias and run.tape.mode is Mode.RECOMPUTING):
            return known
        bias = self._zeros(run, span, dtype) if self.table is None else self._learned(run, span, self.table)
        if known is None:
            passing.biases[name] = bias
            return bias
        if self.table is None:
            bias.node = known.node  # gradients of zeros meet in the first forward's leaf
        passing.remade.append(bias)
        return bias

    def _zeros(self, run: Recording, span: Span, dtype: DType) -> Value:
        """Return zeros, which T5 makes a leaf with a gradient when it is checkpointed."""
        tape, numel = run.tape, span.shared_mask(self.num_heads)
        zeros = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)), numel, dtype)
        if tape.mode is Mode.DISCARDING:
            tape.hold_value(zeros)  # as long as the graph, which ends in this leaf
        if tape.mode in {Mode.DISCARDING, Mode.RECOMPUTING}:
            zeros.node, zeros.requires_grad = Node([], lambda _: None), True
        return zeros

    def _learned(self, run: Recording, span: Span, table: Weight) -> Value:
        """Return the rows of the table for each pair of positions (``compute_bias``)."""
        tape, pairs = run.tape, span.shared_mask(1)
        places = [integers(tape, Span(queries=length).positions(1)) for length in (span.queries, span.keys)]
        distances = integers(tape, pairs)
        made_before = () if self.causal else (integers(tape, pairs),)
        tape.release(tape.allocate(Category.TEMPORARIES, span.shared_mask(BUCKET_BYTES)))
        (buckets,) = made_before or (integers(tape, pairs),)
        bias = embedding(tape, run.parameter(table), buckets, span.shared_mask(self.num_heads))
        tape.free(distances, buckets, *places)
        return bias

    def _attended(self, run: Recording, span: Span, parts: tuple[Value, Value, Value], bias: Value, *, masked: bool) -> Value:
        """Return what queries read, by its own products or by SDPA, which has one kernel for a bias."""
        tape = run.tape
        heads = Heads(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            rows=span.tokens(self.num_heads),
            aligned_rows=span.aligned(self.num_heads),
            scores=span.scores(self.num_heads),
            dropout=self.dropout,
        )
        if run.attention is Kernel.EAGER:
            mixed, weights = eager_biased(
                tape, parts, bias, heads, mask=run.dtype if self.causal or masked else None, copies=run.store is None
            )
            run.leave(weights)
            return mixed
        mask = self._mask(run, span, bias, masked=masked)
        query, key, value, cast_mask = (autocast_input(tape, part) for part in (*parts, mask))
        mixed = efficient_biased(tape, query, key, value, cast_mask, heads)
        tape.free(query, key, value, cast_mask, mask)
        return mixed

    def _mask(self, run: Recording, span: Span, bias: Value, *, masked: bool) -> Value:
        """Return the bias as SDPA gets it: under a mask it is chosen where the mask allows, and then it lies as it is read."""
        tape = run.tape
        if masked:
            mask = passing_of(run).masks["across" if self.across else "own"]
            chosen = where(tape, mask, bias, span.scores(self.num_heads))
        elif self.causal and span.queries != 1:
            allowed = integers(tape, span.shared_mask(1), bytes_each=1)
            chosen = where(tape, allowed, bias, bias.numel)
            tape.free(allowed)
        else:
            chosen = tape.alias(bias)
        return chosen if self.across else chain(tape, chosen, laid_out)
