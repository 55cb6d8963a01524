"""Mamba mixer (arXiv:2312.00752, section 3).

As transformers runs it without its kernels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolve_causally, mask_padding
from service.estimator.model.modules.ssm.recurrent_step import (
    STATE_DTYPE,
    apply_gate,
    store_state,
    update_channels,
    update_convolution,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import (
    Linear,
    Norm,
    Weight,
    split_columns,
    split_rows,
)
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    activate_saving_output,
    add,
    autocast_to_fp32,
    cast,
    chain,
    multiply,
    multiply_scalar,
    silu,
)
from service.estimator.tape.ops.norms import rms_norm_without_weight
from service.estimator.tape.ops.products import (
    autocast_input,
    autocast_weight,
    batched_product,
    copy_contiguous,
    split,
)
from service.estimator.tape.ops.scan import multiply_broadcast, scan
from service.estimator.values.dtypes import DType


def list_unread_adapters(mixer: str) -> frozenset[str]:
    """Return the names of the adapter on ``dt_proj``.

    Forward reads that layer's weight itself, past any adapter.
    """
    return frozenset({f"{mixer}.dt_proj.lora_A", f"{mixer}.dt_proj.lora_B"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaMixer:
    """Selective state space mixer.

    ``inner_size`` channels have ``state_size`` states each; steps come from ``step_rank`` numbers.
    """

    in_proj: Linear
    x_proj: Linear
    dt_proj: Linear
    out_proj: Linear
    inner_size: int
    state_size: int
    step_rank: int
    kernel_size: int
    convolution_bias: bool
    activation: str
    name: str = "mixer"
    normalised: bool = False
    """Steps, B and C of a token are divided by the root of their mean square (falcon_mamba)."""
    selected_norms: tuple[Norm, ...] = ()
    """Norms with weights of steps, B and C of a token (jamba)."""

    def splits_over(self, ranks: int) -> bool:
        """Return whether so many ranks share the channels evenly."""
        return self.inner_size % ranks == 0

    def shard(self, ranks: int) -> "MambaMixer":
        """Return one rank's channels; steps, B and C are those of all.

        (vLLM 0.33.0, ``layers/mamba/mamba_mixer.py``; SGLang 0.5.23, ``configs/mamba_utils.py``.)
        """
        return replace(
            self,
            in_proj=split_columns(self.in_proj, ranks),
            x_proj=split_rows(self.x_proj, ranks),
            dt_proj=split_columns(self.dt_proj, ranks),
            out_proj=split_rows(self.out_proj, ranks),
            inner_size=self.inner_size // ranks,
        )

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.in_proj, self.x_proj, self.dt_proj, self.out_proj)

    def _mixer_weights(self) -> Iterator[Weight]:
        yield Weight(f"{self.name}.A_log", "ssm", (self.inner_size, self.state_size))
        yield Weight(f"{self.name}.D", "ssm", (self.inner_size,))
        yield Weight(f"{self.name}.conv1d.weight", "ssm", (self.inner_size, 1, self.kernel_size))
        if self.convolution_bias:
            yield Weight(f"{self.name}.conv1d.bias", "ssm", (self.inner_size,))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._mixer_weights()
        for layer in self.linears():
            yield from layer.weights()
        for norm in self.selected_norms:
            yield from norm.weights()

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
        return self.kernel_size * self.inner_size * dtype.bytes_per_element + states

    @property
    def sliding_window(self) -> int | None:
        """Maximum number of tokens that are read: all, through the state."""
        return None

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, channels = ctx.tape, ctx.shape.tokens(self.inner_size)
        decay_log, skip, *filters = ctx.parameters(self._mixer_weights(), scope)
        rates = chain(
            tape,
            chain(tape, cast(tape, as_value(decay_log), DType.FP32), _apply_exponential),
            multiply_scalar,
        )
        rows = mask_padding(ctx, x)
        projected = ctx.linear(self.in_proj, rows, scope)
        hidden, gate = split(tape, projected, (channels, channels))
        store_state(ctx, self.kernel_size * self.inner_size, hidden.dtype)
        if ctx.shape.decoding:
            hidden = update_convolution(ctx, hidden, self.kernel_size, ACTIVATIONS[self.activation])
        else:
            hidden = convolve_causally(
                ctx, hidden, filters, self.kernel_size, ACTIVATIONS[self.activation]
            )
        hidden = chain(tape, hidden, lambda _, value: mask_padding(ctx, value))
        steps, entering, reading = self._select(ctx, hidden, scope)
        bias = cast(tape, as_value(ctx.parameters(self.dt_proj.weights(), scope)[1]), DType.FP32)
        names: list[Storage] = []
        if ctx.shape.decoding:
            opened = apply_gate(
                tape,
                self._update(ctx, hidden, (steps, rates, entering, reading), bias),
                hidden,
                gate,
            )
        else:
            selected, skipped = (
                (steps, rates, entering, reading),
                cast(tape, as_value(skip), DType.FP32),
            )
            scanned, names = self._scan(ctx, hidden, selected, skipped, bias)
            opened = self._apply_gate(ctx, scanned, gate)
        store_state(ctx, self.inner_size * self.state_size, STATE_DTYPE)
        narrowed = cast(tape, opened, x.dtype)
        y = chain(tape, narrowed, lambda _, value: ctx.linear(self.out_proj, value, scope))
        tape.release(*names)
        tape.free(opened, bias, steps, entering, reading, rates, hidden, gate, rows)
        return y

    def _select(self, ctx: Recording, hidden: Value, scope: str) -> tuple[Value, Value, Value]:
        """Return step, B and C of every token."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        states = tokens(self.state_size)
        rows = (
            copy_contiguous(tape, hidden)
            if ctx.settings.batched and not ctx.shape.decoding
            else tape.alias(hidden)
        )
        selected = chain(tape, rows, lambda _, value: ctx.linear(self.x_proj, value, scope))
        parts = split(tape, selected, (tokens(self.step_rank), states, states))
        if self.normalised:
            parts = tuple(
                chain(tape, part, lambda t, value: rms_norm_without_weight(t, value, tokens(1)))
                for part in parts
            )
        if self.selected_norms:
            parts = tuple(
                self._normalise(ctx, norm, part, scope)
                for norm, part in zip(self.selected_norms, parts, strict=True)
            )
        ranks, entering, reading = parts
        weight = autocast_weight(tape, ctx.parameters(self.dt_proj.weights(), scope)[0])
        source = autocast_input(tape, ranks)
        steps = chain(
            tape, batched_product(tape, source, weight, tokens(self.inner_size)), copy_contiguous
        )
        tape.free(ranks, source, weight)
        return steps, entering, reading

    def _normalise(self, ctx: Recording, norm: Norm, part: Value, scope: str) -> Value:
        return chain(ctx.tape, part, lambda _, value: ctx.norm(norm, value, scope))

    def _scan(
        self,
        ctx: Recording,
        hidden: Value,
        selected: tuple[Value, Value, Value, Value],
        skip: Value,
        bias: Value,
    ) -> tuple[Value, list[Storage]]:
        """Return the scan's output with the skip connection, and its last state.

        The output is fp32; a cache is still to copy the last state.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        raw, rates, entering, reading = selected
        full = tokens(self.inner_size * self.state_size)
        steps = self._compute_steps(ctx, raw, bias)
        decay = chain(tape, multiply_broadcast(tape, rates, steps, full), _apply_exponential)
        wide = cast(tape, entering, DType.FP32)
        discrete_b = chain(tape, wide, lambda t, v: multiply_broadcast(t, steps, v, full))
        source = cast(tape, hidden, DType.FP32)
        entered = chain(tape, source, lambda t, v: multiply_broadcast(t, discrete_b, v, full))
        state = sizes.per_sequence(self.inner_size * self.state_size)
        out, names = scan(tape, (decay, entered, reading), hidden.numel, state, hidden.dtype)
        skipped = multiply_broadcast(tape, hidden, skip, hidden.numel)
        summed = add(tape, skipped, out)
        tape.free(skipped, out, decay, discrete_b, entered, steps, skip)
        outputs, last = names
        tape.release(outputs)
        if ctx.cache is not None:
            return summed, [last]
        tape.release(last)
        return summed, []

    def _update(
        self,
        ctx: Recording,
        hidden: Value,
        selected: tuple[Value, Value, Value, Value],
        bias: Value,
    ) -> Value:
        """Return the state's output for the newest position."""
        raw, rates, entering, reading = selected
        steps = self._compute_steps(ctx, raw, bias)
        state = sizes.per_sequence(self.inner_size * self.state_size)
        y = update_channels(ctx, (hidden, steps, rates, entering, reading), state)
        ctx.tape.free(steps)
        return y

    def _compute_steps(self, ctx: Recording, raw: Value, bias: Value) -> Value:
        """Return ``softplus(step + bias)``; both stay with the caller."""
        tape = ctx.tape
        near = cast(tape, bias, raw.dtype)
        biased = add(tape, raw, near)
        tape.free(near)
        return chain(tape, chain(tape, biased, autocast_to_fp32), activate_saving_input)

    def _apply_gate(self, ctx: Recording, scanned: Value, gate: Value) -> Value:
        tape = ctx.tape
        opened = silu(tape, gate)
        y = multiply(tape, scanned, opened)
        tape.free(opened, scanned)
        return y


def _apply_exponential(tape: Tape, x: Value) -> Value:
    return chain(tape, autocast_to_fp32(tape, x), activate_saving_output)
