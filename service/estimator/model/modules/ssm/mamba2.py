"""Mamba-2 mixer (arXiv:2405.21060, section 6).

As transformers 5.23 runs it without its kernels (``mamba2_chunk_scan``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolve_causally, mask_padding
from service.estimator.model.modules.ssm.recurrent_step import (
    STATE_DTYPE,
    store_state,
    update_convolution,
    update_heads,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    activate_saving_output,
    add,
    add_scalar,
    autocast_to_fp32,
    cast,
    chain,
    multiply,
    multiply_scalar,
    power,
    reduce_mean,
    silu,
)
from service.estimator.tape.ops.norms import subtract_broadcast
from service.estimator.tape.ops.products import copy_contiguous, split
from service.estimator.tape.ops.routing import clamp
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import (
    compute_segment_decay,
    contract,
    cumsum,
    exponentiate,
    pad_with_zeros,
)
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Division of sequences into the chunks of a scan.

    ``count`` chunks of ``side`` positions, the last ``padding`` of them zeros.
    """

    side: int
    count: int
    padding: int
    batched: bool

    @property
    def is_single_chunk(self) -> bool:
        """Whether there is one chunk of one sequence.

        Then each head's matrix lies in order, and no product copies it.
        """
        return self.count == 1 and not self.batched

    @property
    def has_several_chunks(self) -> bool:
        """Whether there is more than one chunk.

        Then hidden states, which padding lays out channel by channel, are copied.
        """
        return self.count > 1

    def padded(self, per_token: int) -> Size:
        """Return so many elements for every position, padding included."""
        return sizes.add(sizes.per_token(per_token), sizes.per_sequence(per_token * self.padding))

    def per_chunk(self, elements: int, *, more: int = 0) -> Size:
        """Return so many elements for each chunk of each sequence.

        ``more`` chunks are added to each sequence's own.
        """
        return sizes.per_sequence(elements * (self.count + more))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2Mixer:
    """State space mixer with one decay per head.

    B and C are shared by groups of heads.
    """

    in_proj: Linear
    out_proj: Linear
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
    """Groups of channels that the gated norm normalises separately."""

    @property
    def inner_size(self) -> int:
        """Channels of all heads."""
        return self.num_heads * self.head_dim

    @property
    def convolved_size(self) -> int:
        """Channels that are convolved: those of heads, B and C."""
        return self.inner_size + 2 * self.num_groups * self.state_size

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.in_proj, self.out_proj)

    def _mixer_weights(self) -> Iterator[Weight]:
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
        yield from self._mixer_weights()
        for layer in self.linears():
            yield from layer.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: none.

        The state is one per sequence.
        """
        return 0

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes that one sequence keeps.

        These are the convolution's last positions, in ``dtype``, and the states.
        """
        states = self.inner_size * self.state_size * STATE_DTYPE.bytes_per_element
        return self.kernel_size * self.convolved_size * dtype.bytes_per_element + states

    @property
    def sliding_window(self) -> int | None:
        """Maximum number of tokens that are read: all, through the state."""
        return None

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        bias, decay_log, scale, skip, *filters = ctx.parameters(self._mixer_weights(), scope)
        rows = mask_padding(ctx, x)
        projected = ctx.linear(self.in_proj, rows, scope)
        rates = chain(
            tape,
            chain(tape, cast(tape, as_value(decay_log), DType.FP32), exponentiate),
            multiply_scalar,
        )
        gate, mixed, steps = split(
            tape,
            projected,
            (tokens(self.inner_size), tokens(self.convolved_size), tokens(self.num_heads)),
        )
        store_state(ctx, self.kernel_size * self.convolved_size, mixed.dtype)
        if ctx.shape.decoding:
            mixed = update_convolution(ctx, mixed, self.kernel_size, ACTIVATIONS[self.activation])
        else:
            mixed = convolve_causally(
                ctx, mixed, filters, self.kernel_size, ACTIVATIONS[self.activation]
            )
        mixed = chain(tape, mixed, lambda _, value: mask_padding(ctx, value))
        states = tokens(self.num_groups * self.state_size)
        hidden, entering, reading = split(tape, mixed, (tokens(self.inner_size), states, states))
        tape.free(rows)
        parts, weights = (hidden, steps, entering, reading), (as_value(bias), rates, as_value(skip))
        names: list[Value] = []
        if ctx.shape.decoding:
            scanned = self._update(ctx, parts, rates)
        else:
            scanned, names = self._scan(ctx, parts, weights, self._split_chunks(ctx))
        store_state(ctx, self.inner_size * self.state_size, STATE_DTYPE)
        normed = self._apply_gated_norm(ctx, scanned, gate, as_value(scale))
        narrowed = cast(tape, normed, x.dtype)
        y = chain(tape, narrowed, lambda _, value: ctx.linear(self.out_proj, value, scope))
        tape.free(normed, rates, gate, steps, hidden, entering, reading, *names)
        return y

    def _split_chunks(self, ctx: Recording) -> Chunks:
        assert ctx.settings.length is not None  # noqa: S101 - a model with chunks is recorded for one length
        count = ceil_div(ctx.settings.length, self.chunk_size)
        padding = count * self.chunk_size - ctx.settings.length
        return Chunks(
            side=self.chunk_size, count=count, padding=padding, batched=ctx.settings.batched
        )

    def _scan(
        self,
        ctx: Recording,
        inputs: tuple[Value, Value, Value, Value],
        weights: tuple[Value, Value, Value],
        chunks: Chunks,
    ) -> tuple[Value, list[Value]]:
        """Return the scan's output with its skip connection, and its last state.

        Inputs are hidden states, steps, B and C; padding is cut off. The last state, a view of
        those that chunks start with, has a name where a cache is to copy it.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        bias, rates, skip = weights
        steps = self._compute_steps(ctx, inputs[1], bias)
        hidden = cast(tape, inputs[0], DType.FP32)
        entering, reading = (self._expand_groups(ctx, part) for part in inputs[2:])
        padded = pad_with_zeros(tape, hidden, chunks.padded(self.inner_size))
        skipped = chain(
            tape, padded, lambda t, value: multiply_broadcast(t, skip, value, value.numel)
        )
        stretches = cast(tape, steps, DType.FP32)
        hidden = chain(
            tape, hidden, lambda t, value: multiply_broadcast(t, value, stretches, value.numel)
        )
        tape.free(stretches)
        stretches = cast(tape, steps, DType.FP32)
        decay = multiply_broadcast(tape, rates, stretches, tokens(self.num_heads))
        tape.free(stretches)
        widths = (
            self.inner_size,
            self.num_heads,
            self.num_heads * self.state_size,
            self.num_heads * self.state_size,
        )
        unpadded = (hidden, decay, entering, reading)
        parts = [
            pad_with_zeros(tape, value, chunks.padded(width))
            for value, width in zip(unpadded, widths, strict=True)
        ]
        tape.free(*unpadded)
        summed, names = self._sum_chunks(ctx, (parts[0], parts[1], parts[2], parts[3]), chunks)
        y = add(tape, summed, skipped)
        tape.free(summed, skipped, *parts, steps)
        cut = chain(
            tape,
            y,
            lambda t, value: (
                narrow(t, value, tokens(self.inner_size)) if chunks.padding else t.alias(value)
            ),
        )
        return cut, names

    def _update(
        self, ctx: Recording, parts: tuple[Value, Value, Value, Value], rates: Value
    ) -> Value:
        """Return the states' output for the newest position."""
        hidden, steps, entering, reading = parts
        states = sizes.per_sequence(self.inner_size * self.state_size)
        spread = sizes.per_sequence(self.num_heads * self.state_size)
        return update_heads(ctx, (hidden, steps, rates, entering, reading), states, spread)

    def _compute_steps(self, ctx: Recording, raw: Value, bias: Value) -> Value:
        """Return ``clamp(softplus(step + bias))``."""
        tape = ctx.tape
        near = cast(tape, bias, raw.dtype)
        biased = add(tape, raw, near)
        tape.free(near)
        return chain(
            tape, chain(tape, chain(tape, biased, autocast_to_fp32), activate_saving_input), clamp
        )

    def _expand_groups(self, ctx: Recording, x: Value) -> Value:
        """Return B or C in fp32 for every head of its group."""
        numel = ctx.shape.tokens(self.num_heads * self.state_size)
        return chain(
            ctx.tape,
            cast(ctx.tape, x, DType.FP32),
            lambda t, value: copy_contiguous(t, value, numel=numel),
        )

    def _sum_chunks(
        self, ctx: Recording, parts: tuple[Value, Value, Value, Value], chunks: Chunks
    ) -> tuple[Value, list[Value]]:
        """Return the output of all chunks, and the states for a cache.

        The output comes from the chunks' own positions and from the states they start with.
        """
        tape, numel = ctx.tape, chunks.padded(self.inner_size)
        hidden, decay, entering, reading = parts
        copied = not chunks.is_single_chunk
        square = chunks.per_chunk(self.num_heads * chunks.side**2)
        decays = cumsum(tape, decay)
        mask = compute_segment_decay(tape, decay, chunks.side, square)
        scores = contract(tape, reading, entering, square, copies=(copied, copied))
        weights = multiply(tape, scores, mask)
        near = contract(tape, weights, hidden, numel, copies=(False, chunks.has_several_chunks))
        states, names = self._compute_states(ctx, (hidden, decays, entering), chunks)
        growth = exponentiate(tape, decays)
        far = contract(tape, reading, states, numel, copies=(copied, chunks.has_several_chunks))
        grown = multiply_broadcast(tape, far, growth, numel)
        summed = chain(tape, add(tape, near, grown), copy_contiguous)
        tape.free(decays, mask, scores, weights, near, growth, far, grown, *names)
        if ctx.cache is not None:
            return summed, [states]
        tape.free(states)
        return summed, []

    def _compute_states(
        self, ctx: Recording, parts: tuple[Value, Value, Value], chunks: Chunks
    ) -> tuple[Value, tuple[Value, ...]]:
        """Return the state that each chunk starts with.

        Also returns the tensors that the scan names until its end.
        """
        tape, copied = ctx.tape, not chunks.is_single_chunk
        hidden, decays, entering = parts
        per_state = self.num_heads * self.head_dim * self.state_size
        last = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        fading = chain(tape, subtract_broadcast(tape, decays, last), exponentiate)
        tape.free(last)
        faded = multiply_broadcast(tape, entering, fading, entering.numel)
        chunk_states = contract(
            tape,
            faded,
            hidden,
            chunks.per_chunk(per_state),
            copies=(copied, chunks.has_several_chunks),
        )
        first = Value(
            tape.scratch(sizes.per_sequence(per_state), chunk_states.dtype),
            sizes.per_sequence(per_state),
            chunk_states.dtype,
        )
        joined = concatenate(tape, (first, chunk_states))
        tape.free(chunk_states)
        ends = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        ends = chain(
            tape, ends, lambda t, v: pad_with_zeros(t, v, chunks.per_chunk(self.num_heads, more=1))
        )
        side = chunks.count + 1
        between = chain(
            tape,
            ends,
            lambda t, v: compute_segment_decay(
                t, v, side, sizes.per_sequence(self.num_heads * side**2)
            ),
        )
        carried = contract(tape, between, joined, joined.numel, copies=(False, chunks.batched))
        tape.free(joined)
        starts = chain(tape, carried, lambda t, v: narrow(t, v, chunks.per_chunk(per_state)))
        return starts, (fading, faded, between, first)

    def _apply_gated_norm(self, ctx: Recording, x: Value, gate: Value, scale: Value) -> Value:
        """Return the gated and normalised output of the scan.

        The output is multiplied by its gate and divided by its root mean square
        (``MambaRMSNormGated``); ``x`` is dropped.
        """
        tape = ctx.tape
        opened = chain(tape, cast(tape, gate, DType.FP32), silu)
        gated = multiply(tape, x, opened)
        tape.free(opened)
        squared = power(tape, gated)
        variance = chain(
            tape, squared, lambda t, v: reduce_mean(t, v, ctx.shape.tokens(self.norm_groups))
        )
        inverse = chain(tape, add_scalar(tape, variance), activate_saving_output)
        normed = multiply(tape, gated, inverse)
        tape.free(gated, inverse)
        y = multiply(tape, scale, normed)
        tape.free(normed, variance, x)
        return y
