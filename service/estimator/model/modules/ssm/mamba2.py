"""The Mamba-2 mixer (arXiv:2405.21060, section 6) as transformers 5.23 runs it without its kernels (``mamba2_chunk_scan``)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolved, masked_rows
from service.estimator.model.modules.ssm.recurrent_step import STATE_DTYPE, keep_state, updated_convolution, updated_heads
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.elementwise import (
    add,
    add_scalar,
    cast,
    chain,
    from_input,
    from_output,
    in_fp32,
    mean_of_last,
    multiply,
    multiply_scalar,
    power,
    silu,
)
from service.estimator.tape.ops.norms import difference
from service.estimator.tape.ops.products import copy_of, split
from service.estimator.tape.ops.routing import clamp
from service.estimator.tape.ops.scan import outer
from service.estimator.tape.ops.segments import contraction, exponential, running_sum, segment_decay, zero_padded
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """How a scan divides its sequences: ``count`` chunks of ``side`` positions, the last ``padding`` of them zeros."""

    side: int
    count: int
    padding: int
    batched: bool

    @property
    def alone(self) -> bool:
        """Whether there is one chunk of one sequence: then each head's matrix lies in order, and no product copies it."""
        return self.count == 1 and not self.batched

    @property
    def several(self) -> bool:
        """Whether there is more than one chunk: hidden states, which padding lays out channel by channel, are copied then."""
        return self.count > 1

    def padded(self, per_token: int) -> Size:
        """Return so many elements for every position, padding included."""
        return sizes.add(sizes.per_token(per_token), sizes.per_sequence(per_token * self.padding))

    def per_chunk(self, elements: int, *, more: int = 0) -> Size:
        """Return so many elements for each chunk of each sequence, and ``more`` chunks."""
        return sizes.per_sequence(elements * (self.count + more))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2Mixer:
    """Heads of a state space with one decay each; B and C are shared by groups of heads."""

    entry: Linear
    output: Linear
    name: str
    num_heads: int
    head_dim: int
    state_size: int
    num_groups: int
    kernel_size: int
    chunk_size: int
    convolution_bias: bool
    activation: str
    norm_groups: int = 1
    """Parts of the channels that the gated norm takes the root of apart."""

    @property
    def inner_size(self) -> int:
        """Channels of all heads."""
        return self.num_heads * self.head_dim

    @property
    def convolved_size(self) -> int:
        """Channels that are convolved: those of the heads, B and C."""
        return self.inner_size + 2 * self.num_groups * self.state_size

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.entry, self.output)

    def _own(self) -> Iterator[Weight]:
        heads, prefix = (self.num_heads,), self.name
        yield Weight(f"{prefix}.dt_bias", "ssm", heads)
        yield Weight(f"{prefix}.A_log", "ssm", heads)
        yield Weight(f"{prefix}.norm.weight", "norm", (self.inner_size,))
        yield Weight(f"{prefix}.D", "ssm", heads)
        yield Weight(f"{prefix}.conv1d.weight", "ssm", (self.convolved_size, 1, self.kernel_size))
        if self.convolution_bias:
            yield Weight(f"{prefix}.conv1d.bias", "ssm", (self.convolved_size,))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._own()
        for layer in self.linears():
            yield from layer.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token: none, the state is one per sequence."""
        return 0

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes of the convolution's last positions, in ``dtype``, and of the states that one sequence keeps."""
        states = self.inner_size * self.state_size * STATE_DTYPE.bytes_per_element
        return self.kernel_size * self.convolved_size * dtype.bytes_per_element + states

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most: all of them, through the state."""
        return None

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, tokens = run.tape, run.extent.tokens
        bias, decay_log, scale, skip, *filters = run.parameters(self._own(), scope)
        rows = masked_rows(run, x)
        projected = run.linear(self.entry, rows, scope)
        rates = chain(tape, chain(tape, cast(tape, value_of(decay_log), DType.FP32), exponential), multiply_scalar)
        gate, mixed, steps = split(
            tape, projected, (tokens(self.inner_size), tokens(self.convolved_size), tokens(self.num_heads))
        )
        keep_state(run, self.kernel_size * self.convolved_size, mixed.dtype)
        if run.extent.decoding:
            mixed = updated_convolution(run, mixed, self.kernel_size, ACTIVATIONS[self.activation])
        else:
            mixed = convolved(run, mixed, filters, self.kernel_size, ACTIVATIONS[self.activation])
        mixed = chain(tape, mixed, lambda _, value: masked_rows(run, value))
        states = tokens(self.num_groups * self.state_size)
        hidden, entering, reading = split(tape, mixed, (tokens(self.inner_size), states, states))
        tape.free(rows)
        parts, weights = (hidden, steps, entering, reading), (value_of(bias), rates, value_of(skip))
        names: list[Value] = []
        if run.extent.decoding:
            scanned = self._updated(run, parts, rates)
        else:
            scanned, names = self._scanned(run, parts, weights, self._chunks(run))
        keep_state(run, self.inner_size * self.state_size, STATE_DTYPE)
        normed = self._normed(run, scanned, gate, value_of(scale))
        narrowed = cast(tape, normed, x.dtype)
        y = chain(tape, narrowed, lambda _, value: run.linear(self.output, value, scope))
        tape.free(normed, rates, gate, steps, hidden, entering, reading, *names)
        return y

    def _chunks(self, run: Recording) -> Chunks:
        assert run.length is not None  # noqa: S101 - a model with chunks is recorded for one length
        count = ceil_div(run.length, self.chunk_size)
        padding = count * self.chunk_size - run.length
        return Chunks(side=self.chunk_size, count=count, padding=padding, batched=run.batched)

    def _scanned(
        self, run: Recording, inputs: tuple[Value, Value, Value, Value], weights: tuple[Value, Value, Value], chunks: Chunks
    ) -> tuple[Value, list[Value]]:
        """Return the scan of hidden states, steps, B and C with its skip connection, padding cut off, and its last state.

        The last state, a view of those that chunks start with, has a name where a cache is to copy it.
        """
        tape, tokens = run.tape, run.extent.tokens
        bias, rates, skip = weights
        steps = self._steps(run, inputs[1], bias)
        hidden = cast(tape, inputs[0], DType.FP32)
        entering, reading = (self._spread(run, part) for part in inputs[2:])
        padded = zero_padded(tape, hidden, chunks.padded(self.inner_size))
        skipped = chain(tape, padded, lambda t, value: outer(t, skip, value, value.numel))
        stretches = cast(tape, steps, DType.FP32)
        hidden = chain(tape, hidden, lambda t, value: outer(t, value, stretches, value.numel))
        tape.free(stretches)
        stretches = cast(tape, steps, DType.FP32)
        decay = outer(tape, rates, stretches, tokens(self.num_heads))
        tape.free(stretches)
        widths = (self.inner_size, self.num_heads, self.num_heads * self.state_size, self.num_heads * self.state_size)
        whole = (hidden, decay, entering, reading)
        parts = [zero_padded(tape, value, chunks.padded(width)) for value, width in zip(whole, widths, strict=True)]
        tape.free(*whole)
        summed, names = self._summed(run, (parts[0], parts[1], parts[2], parts[3]), chunks)
        y = add(tape, summed, skipped)
        tape.free(summed, skipped, *parts, steps)
        cut = chain(tape, y, lambda t, value: narrow(t, value, tokens(self.inner_size)) if chunks.padding else t.alias(value))
        return cut, names

    def _updated(self, run: Recording, parts: tuple[Value, Value, Value, Value], rates: Value) -> Value:
        """Return what the kept states give out for the newest position."""
        hidden, steps, entering, reading = parts
        states = sizes.per_sequence(self.inner_size * self.state_size)
        spread = sizes.per_sequence(self.num_heads * self.state_size)
        return updated_heads(run, (hidden, steps, rates, entering, reading), states, spread)

    def _steps(self, run: Recording, raw: Value, bias: Value) -> Value:
        """Return ``clamp(softplus(step + bias))``."""
        tape = run.tape
        near = cast(tape, bias, raw.dtype)
        biased = add(tape, raw, near)
        tape.free(near)
        return chain(tape, chain(tape, chain(tape, biased, in_fp32), from_input), clamp)

    def _spread(self, run: Recording, x: Value) -> Value:
        """Return B or C in fp32 for every head of its group."""
        numel = run.extent.tokens(self.num_heads * self.state_size)
        return chain(run.tape, cast(run.tape, x, DType.FP32), lambda t, value: copy_of(t, value, numel=numel))

    def _summed(self, run: Recording, parts: tuple[Value, Value, Value, Value], chunks: Chunks) -> tuple[Value, list[Value]]:
        """Return what chunks give out, from their own positions and the states they start with, and those for a cache."""
        tape, whole = run.tape, chunks.padded(self.inner_size)
        hidden, decay, entering, reading = parts
        copied = not chunks.alone
        square = chunks.per_chunk(self.num_heads * chunks.side**2)
        decays = running_sum(tape, decay)
        mask = segment_decay(tape, decay, chunks.side, square)
        scores = contraction(tape, reading, entering, square, copies=(copied, copied))
        weights = multiply(tape, scores, mask)
        near = contraction(tape, weights, hidden, whole, copies=(False, chunks.several))
        states, names = self._states(run, (hidden, decays, entering), chunks)
        growth = exponential(tape, decays)
        far = contraction(tape, reading, states, whole, copies=(copied, chunks.several))
        grown = outer(tape, far, growth, whole)
        summed = chain(tape, add(tape, near, grown), copy_of)
        tape.free(decays, mask, scores, weights, near, growth, far, grown, *names)
        if run.store is not None:
            return summed, [states]
        tape.free(states)
        return summed, []

    def _states(self, run: Recording, parts: tuple[Value, Value, Value], chunks: Chunks) -> tuple[Value, tuple[Value, ...]]:
        """Return the state that each chunk starts with, and what the scan has names for until its end."""
        tape, copied = run.tape, not chunks.alone
        hidden, decays, entering = parts
        per_state = self.num_heads * self.head_dim * self.state_size
        last = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        fading = chain(tape, difference(tape, decays, last), exponential)
        tape.free(last)
        faded = outer(tape, entering, fading, entering.numel)
        own = contraction(tape, faded, hidden, chunks.per_chunk(per_state), copies=(copied, chunks.several))
        first = Value(tape.scratch(sizes.per_sequence(per_state), own.dtype), sizes.per_sequence(per_state), own.dtype)
        joined = concatenate(tape, (first, own))
        tape.free(own)
        ends = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        ends = chain(tape, ends, lambda t, v: zero_padded(t, v, chunks.per_chunk(self.num_heads, more=1)))
        side = chunks.count + 1
        between = chain(tape, ends, lambda t, v: segment_decay(t, v, side, sizes.per_sequence(self.num_heads * side**2)))
        carried = contraction(tape, between, joined, joined.numel, copies=(False, chunks.batched))
        tape.free(joined)
        starts = chain(tape, carried, lambda t, v: narrow(t, v, chunks.per_chunk(per_state)))
        return starts, (fading, faded, between, first)

    def _normed(self, run: Recording, x: Value, gate: Value, scale: Value) -> Value:
        """Return the scan's output times its gate, over its root mean square (``MambaRMSNormGated``); ``x`` is dropped."""
        tape = run.tape
        opened = chain(tape, cast(tape, gate, DType.FP32), silu)
        gated = multiply(tape, x, opened)
        tape.free(opened)
        squared = power(tape, gated)
        variance = chain(tape, squared, lambda t, v: mean_of_last(t, v, run.extent.tokens(self.norm_groups)))
        inverse = chain(tape, add_scalar(tape, variance), from_output)
        normed = multiply(tape, gated, inverse)
        tape.free(gated, inverse)
        y = multiply(tape, scale, normed)
        tape.free(normed, variance, x)
        return y
