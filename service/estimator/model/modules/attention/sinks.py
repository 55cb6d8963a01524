"""Attention with a learnt sink per head, as gpt_oss writes it: no fused kernel of PyTorch's has it."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Parameter, Value, value_of
from service.estimator.tape.ops.elementwise import add_scalar, cast, chain, from_output, multiply_scalar
from service.estimator.tape.ops.latent_attention import reordered, turn_halves
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_of
from service.estimator.tape.ops.routing import top_k
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAttention:
    """Grouped attention whose softmax has one column more, the head's sink."""

    projections: tuple[Linear, Linear, Linear]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    sliding_window: int | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield self._sinks()
        for layer in self.linears():
            yield from layer.weights()

    def _sinks(self) -> Weight:
        return Weight("self_attn.sinks", "attention", (self.num_heads,))

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = run.tape
        raw_query, raw_key, value = (reordered(tape, run.linear(layer, x, scope)) for layer in self.projections)
        query, key = turn_halves(tape, raw_query, run.table_dtype), turn_halves(tape, raw_key, run.table_dtype)
        tape.free(raw_query, raw_key)
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim, self.sliding_window)
        mixed = self._mixed(run, query, key, value, run.parameter(self._sinks(), scope))
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value)
        return result

    def _mixed(self, run: Recording, query: Value, key: Value, value: Value, sinks: Parameter) -> Value:
        tape, extent = run.tape, run.reach(self.sliding_window)
        q, k, v = (autocast_input(tape, part) for part in (query, key, value))
        width = extent.cached(self.num_heads * self.head_dim)
        keys, values = copy_of(tape, k, numel=width), copy_of(tape, v, numel=width)
        scores = extent.scores(self.num_heads)
        weights = chain(tape, batched_product(tape, q, keys, scores), multiply_scalar)
        weights = chain(tape, weights, add_scalar)
        shifted = self._shifted(run, weights, sinks)
        probabilities = from_output(tape, shifted)
        view = chain(tape, probabilities, lambda t, p: narrow(t, p, scores))
        tape.free(weights)
        kept = cast(tape, view, v.dtype)  # under autocast the sinks make them fp32
        mixed = chain(tape, batched_product(tape, kept, values, query.numel), copy_of)
        tape.free(view)
        run.leave(kept)
        tape.free(shifted, keys, values, q, k, v)
        return mixed

    def _shifted(self, run: Recording, weights: Value, sinks: Parameter) -> Value:
        """Return the scores and the sinks, less the largest of each row."""
        tape, rows = run.tape, run.extent.tokens(self.num_heads)
        column = _spread(tape, value_of(sinks), rows)
        combined = concatenate(tape, (weights, column))
        largest, indices = top_k(tape, combined, rows)
        tape.free(indices)
        shifted = _less(tape, combined, largest)
        tape.free(largest, combined, column)
        return shifted


def _spread(tape: Tape, x: Value, numel: Size) -> Value:
    """Return ``x`` expanded, a view; its gradient is summed back."""
    view = Value(None, numel, x.dtype)
    if tape.records and x.requires_grad:
        if x.parameter is not None:
            x.parameter.pending += 1
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def _less(tape: Tape, x: Value, largest: Value) -> Value:
    def backward(grad: Storage) -> None:
        tape.send(x, tape.hold(grad))
        negated, reduced = tape.scratch(x.numel, x.dtype), tape.scratch(largest.numel, x.dtype)
        tape.release(negated)
        tape.send(largest, reduced)

    return tape.emit(x.numel, x.dtype, inputs=(x, largest), backward=backward)
