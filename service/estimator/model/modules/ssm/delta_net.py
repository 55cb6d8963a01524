"""The gated delta rule (arXiv:2412.06464) as transformers 5.23 runs it without kernels (``torch_chunk_gated_delta_rule``)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolved, masked_rows
from service.estimator.model.modules.ssm.mamba2 import Chunks
from service.estimator.model.modules.ssm.recurrent_step import STATE_DTYPE, keep_state, updated_convolution
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.delta_rule import ChunkLoop, scan_chunks, solved
from service.estimator.tape.ops.elementwise import (
    add,
    add_scalar,
    cast,
    chain,
    from_input,
    from_output,
    in_fp32,
    multiply,
    multiply_scalar,
    silu,
)
from service.estimator.tape.ops.norms import difference
from service.estimator.tape.ops.products import copy_of, split
from service.estimator.tape.ops.routing import sum_of_rows
from service.estimator.tape.ops.scan import outer
from service.estimator.tape.ops.segments import contraction, exponential, filled, running_sum, triangle, zero_padded
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

CHUNK = 64
"""Positions of a chunk: the default of ``torch_chunk_gated_delta_rule``, which no config changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """Value heads with a state of ``key_dim`` x ``value_dim`` each, read and written through fewer key heads."""

    entry: Linear
    steps: Linear
    output: Linear
    norm: Norm
    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    kernel_size: int
    activation: str

    @property
    def key_size(self) -> int:
        """Elements of all keys of a token."""
        return self.num_key_heads * self.key_dim

    @property
    def value_size(self) -> int:
        """Elements of all values of a token."""
        return self.num_value_heads * self.value_dim

    @property
    def convolved_size(self) -> int:
        """Channels that are convolved."""
        return 2 * self.key_size + self.value_size

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.entry, self.steps, self.output)

    def _own(self) -> Iterator[Weight]:
        heads = (self.num_value_heads,)
        yield Weight("linear_attn.dt_bias", "ssm", heads)
        yield Weight("linear_attn.A_log", "ssm", heads)
        yield Weight("linear_attn.conv1d.weight", "ssm", (self.convolved_size, 1, self.kernel_size))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._own()
        for layer in self.linears():
            yield from layer.weights()
        yield from self.norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token: none, the state is one per sequence."""
        return 0

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most: all of them, through the state."""
        return None

    @property
    def states(self) -> int:
        """Numbers in the states of one sequence."""
        return self.num_value_heads * self.key_dim * self.value_dim

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes of the convolution's last positions, in ``dtype``, and of the states that one sequence keeps."""
        return self.kernel_size * self.convolved_size * dtype.bytes_per_element + self.states * STATE_DTYPE.bytes_per_element

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, tokens = run.tape, run.extent.tokens
        bias, decay_log, filters = run.parameters(self._own(), scope)
        rows = masked_rows(run, x)
        fused, small = run.linear(self.entry, rows, scope), run.linear(self.steps, rows, scope)
        named = tape.alias(fused), tape.alias(small)
        parts, opening, strength, stepping = self._ordered(run, fused, small)
        mixed = concatenate(tape, parts)
        keep_state(run, self.kernel_size * self.convolved_size, mixed.dtype)
        activation = ACTIVATIONS[self.activation]
        if run.extent.decoding:
            mixed = updated_convolution(run, mixed, self.kernel_size, activation)
        else:
            mixed = convolved(run, mixed, [filters], self.kernel_size, activation)
        keys = tokens(self.key_size)
        query, key, value = split(tape, tape.alias(mixed), (keys, keys, tokens(self.value_size)))
        tape.free(*parts)
        beta = from_output(tape, strength)
        decay = self._decay(run, stepping, value_of(bias), value_of(decay_log))
        read = self._read(run, (query, key, value), beta, decay)
        keep_state(run, self.states, STATE_DTYPE)
        normed = self._normed(run, read, opening, scope)
        y = run.linear(self.output, normed, scope)
        tape.free(normed, query, key, value, mixed, beta, decay, opening, strength, stepping, *named, rows)
        return y

    def _ordered(self, run: Recording, fused: Value, small: Value) -> tuple[tuple[Value, Value, Value], Value, Value, Value]:
        """Return query, key and value as copies out of what lies together by key head, and gate, strength and step."""
        tape, tokens = run.tape, run.extent.tokens
        keys, values, heads = tokens(self.key_size), tokens(self.value_size), tokens(self.num_value_heads)
        query, key, value, opening = split(tape, fused, (keys, keys, values, values))
        value, opening = (chain(tape, part, copy_of) for part in (value, opening))
        strength, stepping = (chain(tape, part, copy_of) for part in split(tape, small, (heads, heads)))
        query, key = (chain(tape, part, copy_of) for part in (query, key))
        return (query, key, value), opening, strength, stepping

    def _decay(self, run: Recording, stepping: Value, bias: Value, decay_log: Value) -> Value:
        tape = run.tape
        rates = chain(tape, chain(tape, cast(tape, decay_log, DType.FP32), exponential), multiply_scalar)
        biased = chain(tape, cast(tape, stepping, DType.FP32), lambda t, v: add(t, v, bias))
        steps = chain(tape, chain(tape, biased, in_fp32), from_input)
        decay = outer(tape, rates, steps, stepping.numel)
        tape.free(rates, steps)
        return decay

    def _read(self, run: Recording, parts: tuple[Value, Value, Value], beta: Value, decay: Value) -> Value:
        """Return what the states give out, in the dtype of the query."""
        tape, tokens = run.tape, run.extent.tokens
        wide = tokens(self.num_value_heads * self.key_dim)
        grouped = self.num_key_heads != self.num_value_heads
        heads = [copy_of(tape, part, numel=wide) if grouped else tape.alias(part) for part in parts[:2]]
        exact = [_fp32_copy(run, part) for part in (*heads, parts[2], beta, decay)]
        tape.free(*heads)
        query, key, value, strength, fading = exact
        query, key = (_unit(run, part, tokens(self.num_value_heads)) for part in (query, key))
        query = chain(tape, query, multiply_scalar)
        if run.extent.decoding:
            return self._updated(run, parts[2], (query, key, value, strength, fading))
        return self._chunked(run, parts[2], (query, key, value, strength, fading))

    def _updated(self, run: Recording, like: Value, parts: tuple[Value, ...]) -> Value:
        """Return what one step gives out: the faded state, the update and the next state are there at once."""
        tape = run.tape
        made = [tape.scratch(sizes.per_sequence(self.states), STATE_DTYPE) for _ in range(3)]
        out = tape.scratch(like.numel, DType.FP32)
        tape.release(*made)
        y = Value(tape.scratch(like.numel, like.dtype), like.numel, like.dtype)
        tape.release(out)
        tape.free(*parts)
        return y

    def _chunked(self, run: Recording, like: Value, parts: tuple[Value, ...]) -> Value:
        tape, chunks = run.tape, self._chunks(run)
        heads, wide = self.num_value_heads, self.num_value_heads * self.key_dim
        square = chunks.per_chunk(heads * CHUNK**2)
        widths = (wide, wide, self.value_size, heads, heads)
        padded = [zero_padded(tape, part, chunks.padded(width)) for part, width in zip(parts, widths, strict=True)]
        tape.free(*parts)
        query, key, value, strength, fading = padded
        entering = outer(tape, value, strength, value.numel)
        strong = outer(tape, key, strength, key.numel)
        mask = triangle(tape, CHUNK)
        summed = running_sum(tape, fading)
        pairs = chain(tape, _differences(run, summed, square), lambda t, v: filled(t, v, mask, square))
        pairs = chain(tape, pairs, exponential)
        system = _weighed(run, strong, key, pairs)
        inner = _weighed(run, query, key, pairs)
        grown = exponential(tape, summed)
        decayed = chain(tape, grown, lambda t, v: outer(t, strong, v, strong.numel))
        fresh, known = (solved(tape, system, right) for right in (entering, decayed))
        grown = exponential(tape, summed)
        asked = chain(tape, grown, lambda t, v: outer(t, query, v, query.numel))
        tape.free(query)
        last = narrow(tape, summed, chunks.per_chunk(heads))
        rest = chain(tape, difference(tape, summed, last), exponential)
        written = chain(tape, rest, lambda t, v: outer(t, key, v, key.numel))
        tape.free(key)
        ending = chain(tape, last, exponential)
        loop = ChunkLoop(
            fresh=fresh,
            known=known,
            asked=asked,
            inner=inner,
            written=written,
            ending=ending,
            state=sizes.per_sequence(self.states),
            num_chunks=chunks.count,
            chunk_of_values=sizes.per_sequence(CHUNK * self.value_size),
            chunk_of_keys=sizes.per_sequence(CHUNK * wide),
        )
        out, names = scan_chunks(tape, loop)
        tape.free(strong, entering, decayed, system, pairs, summed, mask, *loop.values, value, strength, fading)
        cut = chain(tape, out, lambda t, v: narrow(t, v, like.numel) if chunks.padding else t.alias(v))
        y = chain(tape, cut, lambda t, v: _copied(t, v, like.dtype))
        tape.release(*names)
        return y

    def _chunks(self, run: Recording) -> Chunks:
        assert run.length is not None  # noqa: S101 - a model with chunks is recorded for one length
        count = ceil_div(run.length, CHUNK)
        return Chunks(side=CHUNK, count=count, padding=count * CHUNK - run.length, batched=run.batched)

    def _normed(self, run: Recording, x: Value, gate: Value, scope: str) -> Value:
        """Return each head normalised and times its gate, in its own dtype (``Qwen3NextRMSNormGated``); ``x`` is dropped."""
        tape = run.tape
        normed = run.norm(self.norm, x, scope, rows=run.extent.tokens(self.num_value_heads))
        opened = chain(tape, cast(tape, gate, DType.FP32), silu)
        gated = multiply(tape, normed, opened)
        tape.free(opened)
        y = cast(tape, gated, x.dtype)
        tape.free(gated, normed, x)
        return y


def _fp32_copy(run: Recording, x: Value) -> Value:
    """Return ``x`` in fp32 with heads before tokens: a copy whatever its dtype."""
    return cast(run.tape, x, DType.FP32) if x.dtype is not DType.FP32 else copy_of(run.tape, x)


def _copied(tape: Tape, x: Value, dtype: DType) -> Value:
    return cast(tape, x, dtype) if x.dtype is not dtype else copy_of(tape, x)


def _unit(run: Recording, x: Value, rows: Size) -> Value:
    """Return ``x`` times the inverse root of its sum of squares (``l2norm``); it is dropped."""
    tape = run.tape
    squared = multiply(tape, x, x)
    total = chain(tape, squared, lambda t, v: sum_of_rows(t, v, rows))
    inverse = chain(tape, chain(tape, total, add_scalar), from_output)
    y = outer(tape, x, inverse, x.numel)
    tape.free(inverse, x)
    return y


def _differences(run: Recording, x: Value, square: Size) -> Value:
    """Return every position of a chunk less every other one."""
    tape = run.tape

    def backward(_: Storage) -> None:
        negated = tape.scratch(square, x.dtype)
        tape.release(negated)
        tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(square, x.dtype, inputs=(x,), backward=backward)


def _weighed(run: Recording, left: Value, right: Value, decay: Value) -> Value:
    """Return the products of positions of a chunk, each times its decay."""
    tape = run.tape
    product = contraction(tape, left, right, decay.numel, copies=(False, False))
    return chain(tape, product, lambda t, v: multiply(t, v, decay))
