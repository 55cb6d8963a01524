"""Gated delta rule mixer (arXiv:2412.06464).

As transformers 5.23 runs it without kernels (``torch_chunk_gated_delta_rule``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.causal_conv import convolve_causally, mask_padding
from service.estimator.model.modules.ssm.delta_rule import DeltaRule
from service.estimator.model.modules.ssm.recurrent_step import (
    STATE_DTYPE,
    store_state,
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
from service.estimator.tape.ops.products import copy_contiguous, split
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import exponentiate
from service.estimator.tape.ops.views import concatenate
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """Gated delta-rule mixer of a layer.

    Each value head has a state of ``key_dim`` x ``value_dim``, read and written through fewer key
    heads.
    """

    in_proj_qkvz: Linear
    in_proj_ba: Linear
    out_proj: Linear
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
    def is_grouped(self) -> bool:
        """Whether several value heads share a key head."""
        return self.num_key_heads != self.num_value_heads

    @property
    def rule(self) -> DeltaRule:
        """Delta rule of the value heads."""
        return DeltaRule(
            num_heads=self.num_value_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            grouped=self.is_grouped,
        )

    @property
    def convolved_size(self) -> int:
        """Channels that are convolved."""
        return 2 * self.key_size + self.value_size

    def splits_over(self, ranks: int) -> bool:
        """Return whether so many ranks share the heads evenly."""
        return self.num_key_heads % ranks == 0 and self.num_value_heads % ranks == 0

    def shard(self, ranks: int) -> "DeltaNet":
        """Return one rank's heads.

        (vLLM 0.33.0, ``layers/mamba/gdn/qwen_gdn_linear_attn.py``; SGLang 0.5.23,
        ``srt/models/qwen3_next.py``.)
        """
        return replace(
            self,
            in_proj_qkvz=split_columns(self.in_proj_qkvz, ranks),
            in_proj_ba=split_columns(self.in_proj_ba, ranks),
            out_proj=split_rows(self.out_proj, ranks),
            num_key_heads=self.num_key_heads // ranks,
            num_value_heads=self.num_value_heads // ranks,
        )

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.in_proj_qkvz, self.in_proj_ba, self.out_proj)

    def _mixer_weights(self) -> Iterator[Weight]:
        heads = (self.num_value_heads,)
        yield Weight("linear_attn.dt_bias", "ssm", heads)
        yield Weight("linear_attn.A_log", "ssm", heads)
        yield Weight("linear_attn.conv1d.weight", "ssm", (self.convolved_size, 1, self.kernel_size))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self._mixer_weights()
        for layer in self.linears():
            yield from layer.weights()
        yield from self.norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: none.

        The state is one per sequence.
        """
        return 0

    @property
    def sliding_window(self) -> int | None:
        """Maximum number of tokens that are read: all, through the state."""
        return None

    @property
    def states(self) -> int:
        """State elements of one sequence."""
        return self.num_value_heads * self.key_dim * self.value_dim

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes that one sequence keeps.

        These are the convolution's last positions, in ``dtype``, and the states.
        """
        return (
            self.kernel_size * self.convolved_size * dtype.bytes_per_element
            + self.states * STATE_DTYPE.bytes_per_element
        )

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the mixer; ``x`` stays with the caller."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        bias, decay_log, filters = ctx.parameters(self._mixer_weights(), scope)
        rows = mask_padding(ctx, x)
        fused, small = (
            ctx.linear(self.in_proj_qkvz, rows, scope),
            ctx.linear(self.in_proj_ba, rows, scope),
        )
        named = tape.alias(fused), tape.alias(small)
        parts, opening, strength, stepping = self._split_projections(ctx, fused, small)
        mixed = concatenate(tape, parts)
        store_state(ctx, self.kernel_size * self.convolved_size, mixed.dtype)
        activation = ACTIVATIONS[self.activation]
        if ctx.shape.decoding:
            mixed = update_convolution(ctx, mixed, self.kernel_size, activation)
        else:
            mixed = convolve_causally(ctx, mixed, [filters], self.kernel_size, activation)
        keys = tokens(self.key_size)
        query, key, value = split(tape, tape.alias(mixed), (keys, keys, tokens(self.value_size)))
        tape.free(*parts)
        beta = activate_saving_output(tape, strength)
        decay = self._compute_decay(ctx, stepping, as_value(bias), as_value(decay_log))
        attended = self.rule.record(ctx, (query, key, value), beta, decay)
        store_state(ctx, self.states, STATE_DTYPE)
        normed = self._apply_gated_norm(ctx, attended, opening, scope)
        y = ctx.linear(self.out_proj, normed, scope)
        tape.free(
            normed, query, key, value, mixed, beta, decay, opening, strength, stepping, *named, rows
        )
        return y

    def _split_projections(
        self, ctx: Recording, fused: Value, small: Value
    ) -> tuple[tuple[Value, Value, Value], Value, Value, Value]:
        """Return query, key and value, and gate, strength and step.

        They are copies out of groups by key head; the last three are views of groups of one.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        keys, values, heads = (
            tokens(self.key_size),
            tokens(self.value_size),
            tokens(self.num_value_heads),
        )
        query, key, value, opening = split(tape, fused, (keys, keys, values, values))
        strength, stepping = split(tape, small, (heads, heads))
        value = chain(tape, value, copy_contiguous)
        if self.is_grouped:
            opening, strength, stepping = (
                chain(tape, part, copy_contiguous) for part in (opening, strength, stepping)
            )
        query, key = (chain(tape, part, copy_contiguous) for part in (query, key))
        return (query, key, value), opening, strength, stepping

    def _compute_decay(
        self, ctx: Recording, stepping: Value, bias: Value, decay_log: Value
    ) -> Value:
        tape = ctx.tape
        rates = chain(
            tape, chain(tape, cast(tape, decay_log, DType.FP32), exponentiate), multiply_scalar
        )
        biased = chain(tape, cast(tape, stepping, DType.FP32), lambda t, v: add(t, v, bias))
        steps = chain(tape, chain(tape, biased, autocast_to_fp32), activate_saving_input)
        decay = multiply_broadcast(tape, rates, steps, stepping.numel)
        tape.free(rates, steps)
        return decay

    def _apply_gated_norm(self, ctx: Recording, x: Value, gate: Value, scope: str) -> Value:
        """Return each head normalised and multiplied by its gate.

        The result has the dtype of ``x`` (``Qwen3NextRMSNormGated``); ``x`` is dropped.
        """
        tape = ctx.tape
        normed = ctx.norm(self.norm, x, scope, rows=ctx.shape.tokens(self.num_value_heads))
        opened = chain(tape, cast(tape, gate, DType.FP32), silu)
        gated = multiply(tape, normed, opened)
        tape.free(opened)
        y = cast(tape, gated, x.dtype)
        tape.free(gated, normed, x)
        return y
