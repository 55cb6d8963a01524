"""The Mamba mixer (arXiv:2312.00752, section 3) as transformers runs it without its kernels, and its layer."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.layers.block import Mixer
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolved, masked_rows
from service.estimator.model.modules.ssm.recurrent_step import (
    STATE_DTYPE,
    gated,
    keep_state,
    updated_channels,
    updated_convolution,
)
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.elementwise import (
    add,
    cast,
    chain,
    from_input,
    from_output,
    in_fp32,
    multiply,
    multiply_scalar,
    silu,
)
from service.estimator.tape.ops.norms import weightless_norm
from service.estimator.tape.ops.products import autocast_input, autocast_weight, batched_product, copy_of, split
from service.estimator.tape.ops.scan import outer, scan
from service.estimator.values.dtypes import DType


def unread_adapters(mixer: str) -> frozenset[str]:
    """Return the names of the adapter on ``dt_proj``: forward reads that layer's weight itself, past any adapter."""
    return frozenset({f"{mixer}.dt_proj.lora_A", f"{mixer}.dt_proj.lora_B"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaMixer:
    """A selective state space: ``inner_size`` channels with ``state_size`` states each, steps from ``step_rank`` numbers."""

    entry: Linear
    selection: Linear
    step: Linear
    output: Linear
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

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.entry, self.selection, self.step, self.output)

    def _own(self) -> Iterator[Weight]:
        yield Weight(f"{self.name}.A_log", "ssm", (self.inner_size, self.state_size))
        yield Weight(f"{self.name}.D", "ssm", (self.inner_size,))
        yield Weight(f"{self.name}.conv1d.weight", "ssm", (self.inner_size, 1, self.kernel_size))
        if self.convolution_bias:
            yield Weight(f"{self.name}.conv1d.bias", "ssm", (self.inner_size,))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._own()
        for layer in self.linears():
            yield from layer.weights()
        for norm in self.selected_norms:
            yield from norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token: none, the state is one per sequence."""
        return 0

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes of the convolution's last positions, in ``dtype``, and of the states that one sequence keeps."""
        states = self.inner_size * self.state_size * STATE_DTYPE.bytes_per_element
        return self.kernel_size * self.inner_size * dtype.bytes_per_element + states

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most: all of them, through the state."""
        return None

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, channels = run.tape, run.extent.tokens(self.inner_size)
        decay_log, skip, *filters = run.parameters(self._own(), scope)
        rates = chain(tape, chain(tape, cast(tape, value_of(decay_log), DType.FP32), _exponential), multiply_scalar)
        rows = masked_rows(run, x)
        projected = run.linear(self.entry, rows, scope)
        hidden, gate = split(tape, projected, (channels, channels))
        keep_state(run, self.kernel_size * self.inner_size, hidden.dtype)
        if run.extent.decoding:
            hidden = updated_convolution(run, hidden, self.kernel_size, ACTIVATIONS[self.activation])
        else:
            hidden = convolved(run, hidden, filters, self.kernel_size, ACTIVATIONS[self.activation])
        hidden = chain(tape, hidden, lambda _, value: masked_rows(run, value))
        steps, entering, reading = self._selected(run, hidden, scope)
        names: list[Storage] = []
        if run.extent.decoding:
            opened = gated(tape, self._updated(run, hidden, (steps, rates, entering, reading), scope), hidden, gate)
        else:
            selected, skipped = (steps, rates, entering, reading), cast(tape, value_of(skip), DType.FP32)
            scanned, names = self._scanned(run, hidden, selected, skipped, scope)
            opened = self._gated(run, scanned, gate)
        keep_state(run, self.inner_size * self.state_size, STATE_DTYPE)
        narrowed = cast(tape, opened, x.dtype)
        y = chain(tape, narrowed, lambda _, value: run.linear(self.output, value, scope))
        tape.release(*names)
        tape.free(opened, steps, entering, reading, rates, hidden, gate, rows)
        return y

    def _selected(self, run: Recording, hidden: Value, scope: str) -> tuple[Value, Value, Value]:
        """Return step, B and C of every token."""
        tape, tokens = run.tape, run.extent.tokens
        states = tokens(self.state_size)
        rows = copy_of(tape, hidden) if run.batched and not run.extent.decoding else tape.alias(hidden)
        selected = chain(tape, rows, lambda _, value: run.linear(self.selection, value, scope))
        parts = split(tape, selected, (tokens(self.step_rank), states, states))
        if self.normalised:
            parts = tuple(chain(tape, part, lambda t, value: weightless_norm(t, value, tokens(1))) for part in parts)
        if self.selected_norms:
            parts = tuple(self._normed(run, norm, part, scope) for norm, part in zip(self.selected_norms, parts, strict=True))
        ranks, entering, reading = parts
        weight = autocast_weight(tape, run.parameters(self.step.weights(), scope)[0])
        source = autocast_input(tape, ranks)
        steps = chain(tape, batched_product(tape, source, weight, tokens(self.inner_size)), copy_of)
        tape.free(ranks, source, weight)
        return steps, entering, reading

    def _normed(self, run: Recording, norm: Norm, part: Value, scope: str) -> Value:
        return chain(run.tape, part, lambda _, value: run.norm(norm, value, scope))

    def _scanned(
        self, run: Recording, hidden: Value, selected: tuple[Value, Value, Value, Value], skip: Value, scope: str
    ) -> tuple[Value, list[Storage]]:
        """Return the scan's output with the skip connection, fp32, and the last state, which a cache is still to copy."""
        tape, tokens = run.tape, run.extent.tokens
        raw, rates, entering, reading = selected
        full = tokens(self.inner_size * self.state_size)
        steps = self._steps(run, raw, scope)
        decay = chain(tape, outer(tape, rates, steps, full), _exponential)
        wide = cast(tape, entering, DType.FP32)
        kept = chain(tape, wide, lambda t, v: outer(t, steps, v, full))
        source = cast(tape, hidden, DType.FP32)
        entered = chain(tape, source, lambda t, v: outer(t, kept, v, full))
        state = sizes.per_sequence(self.inner_size * self.state_size)
        out, names = scan(tape, (decay, entered, reading), hidden.numel, state, hidden.dtype)
        skipped = outer(tape, hidden, skip, hidden.numel)
        summed = add(tape, skipped, out)
        tape.free(skipped, out, decay, kept, entered, steps, skip)
        outputs, last = names
        tape.release(outputs)
        if run.store is not None:
            return summed, [last]
        tape.release(last)
        return summed, []

    def _updated(self, run: Recording, hidden: Value, selected: tuple[Value, Value, Value, Value], scope: str) -> Value:
        """Return what the kept state gives out for the newest position."""
        raw, rates, entering, reading = selected
        steps = self._steps(run, raw, scope)
        state = sizes.per_sequence(self.inner_size * self.state_size)
        y = updated_channels(run, (hidden, steps, rates, entering, reading), state)
        run.tape.free(steps)
        return y

    def _steps(self, run: Recording, raw: Value, scope: str) -> Value:
        """Return ``softplus(step + bias)``; the step stays with the caller."""
        tape = run.tape
        bias = cast(tape, value_of(run.parameters(self.step.weights(), scope)[1]), DType.FP32)
        near = cast(tape, bias, raw.dtype)
        biased = add(tape, raw, near)
        tape.free(near, bias)
        return chain(tape, chain(tape, biased, in_fp32), from_input)

    def _gated(self, run: Recording, scanned: Value, gate: Value) -> Value:
        tape = run.tape
        opened = silu(tape, gate)
        y = multiply(tape, scanned, opened)
        tape.free(opened, scanned)
        return y


def _exponential(tape: Tape, x: Value) -> Value:
    return chain(tape, in_fp32(tape, x), from_output)


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaBlock:
    """A layer of norm and mixer, with a residual that may be kept in fp32."""

    norm: Norm
    mixer: Mixer
    fp32_residual: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return self.mixer.linears()

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.norm.weights()
        yield from self.mixer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token."""
        return self.mixer.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Tokens that a cache of this layer keeps at most; None is all of them."""
        return None

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        source = cast(tape, x, run.dtype)
        normed = chain(tape, source, lambda _, value: run.norm(self.norm, value, scope))
        residual = cast(tape, x, DType.FP32) if self.fp32_residual else tape.alias(x)
        mixed = self.mixer.record(run, normed, scope)
        tape.free(normed)
        y = add(tape, residual, mixed)
        tape.free(mixed, residual, x)
        return y
