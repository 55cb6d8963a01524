"""Mamba-2 mixer (arXiv:2405.21060, section 6).

As transformers 5.23 runs it without its kernels (``mamba2_chunk_scan``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolve_causally, mask_padding
from service.estimator.model.modules.ssm.chunks import Chunks, split_chunks
from service.estimator.model.modules.ssm.gated_norm import apply_gate
from service.estimator.model.modules.ssm.mamba2_scan import Mamba2Scan
from service.estimator.model.modules.ssm.recurrent_step import (
    STATE_DTYPE,
    store_state,
    update_convolution,
    update_heads,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Split, Weight, split_rows
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    add,
    autocast_to_fp32,
    cast,
    chain,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import copy_contiguous, split
from service.estimator.tape.ops.routing import clamp
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import exponentiate, pad_with_zeros
from service.estimator.tape.ops.views import narrow
from service.estimator.values.dtypes import DType


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
    """Groups of channels that the gated norm normalises separately; 0 for a gate without a norm."""
    scaled: bool = False
    """Whether constants multiply what enters, and a buffer what is projected (Falcon-H1)."""

    @property
    def inner_size(self) -> int:
        """Channels of all heads."""
        return self.num_heads * self.head_dim

    @property
    def convolved_size(self) -> int:
        """Channels that are convolved: those of heads, B and C."""
        return self.inner_size + 2 * self.num_groups * self.state_size

    def splits_over(self, ranks: int) -> bool:
        """Return whether so many ranks share heads and groups evenly.

        Each has a lone group.
        """
        return self.num_heads % ranks == 0 and (
            self.num_groups == 1 or self.num_groups % ranks == 0
        )

    def shard(self, ranks: int) -> "Mamba2Mixer":
        """Return one rank's heads, with the groups that they read.

        (vLLM 0.33.0, ``layers/mamba/mamba_mixer2.py``; SGLang 0.5.23, ``configs/mamba_utils.py``.)
        """
        heads, groups = self.num_heads // ranks, max(1, self.num_groups // ranks)
        entering = 2 * heads * self.head_dim + 2 * groups * self.state_size + heads
        return replace(
            self,
            in_proj=replace(self.in_proj, out_features=entering, split=Split.COLUMNS, ranks=ranks),
            out_proj=split_rows(self.out_proj, ranks),
            num_heads=heads,
            num_groups=groups,
        )

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.in_proj, self.out_proj)

    def _mixer_weights(self) -> Iterator[Weight]:
        heads, prefix = (self.num_heads,), self.name
        yield Weight(f"{prefix}.dt_bias", "ssm", heads)
        yield Weight(f"{prefix}.A_log", "ssm", heads)
        if self.norm_groups:
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
        bias, decay_log, *further = ctx.parameters(self._mixer_weights(), scope)
        scale = further.pop(0) if self.norm_groups else None
        skip, *filters = further
        rows = mask_padding(ctx, x)
        if self.scaled:
            rows = chain(tape, rows, multiply_scalar)
        projected = ctx.linear(self.in_proj, rows, scope)
        if self.scaled:
            width = self.in_proj.out_features
            buffer = Parameter("mup_vector", width, ctx.settings.dtype, trainable=False)
            projected = chain(tape, projected, lambda t, v: multiply(t, v, as_value(buffer)))
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
            scanned, names = self._scan(ctx, parts, weights, split_chunks(ctx, self.chunk_size))
        store_state(ctx, self.inner_size * self.state_size, STATE_DTYPE)
        normed = apply_gate(ctx, scanned, gate, scale, num_groups=self.norm_groups)
        narrowed = cast(tape, normed, x.dtype)
        y = chain(tape, narrowed, lambda _, value: ctx.linear(self.out_proj, value, scope))
        tape.free(normed, rates, gate, steps, hidden, entering, reading, *names)
        return y

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
        chunked_scan = Mamba2Scan(
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            state_size=self.state_size,
            chunks=chunks,
        )
        summed, names = chunked_scan.record(ctx, (parts[0], parts[1], parts[2], parts[3]))
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
