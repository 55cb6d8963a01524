"""Layers of the encoder and decoder of BART and Whisper.

Self-attention, cross-attention to the encoder's positions, feed-forward (transformers 5.23,
``models/bart/modeling_bart.py``, ``models/whisper/modeling_whisper.py``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.cross_kv import get_cross_key_value
from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import get_shared_inputs
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import copy_contiguous

SubLayer = Callable[[Value], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderAttention:
    """Self-attention or cross-attention sublayer of a layer.

    With ``is_cross_attention`` it reads the encoder's output. ``head_major``: the query is scaled
    by the model, and each part copied to lie head after head (Whisper).
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    num_heads: int
    causal: bool = False
    is_cross_attention: bool = False
    head_major: bool = False
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.query, self.key, self.value, self.output)

    @property
    def attention_config(self) -> AttentionConfig:
        """Settings of this attention for the kernel dispatch."""
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            upcast=False,
            dropout=self.dropout,
            causal=self.causal,
            casts_back=False,
            head_major=self.head_major,
        )

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape = ctx.tape
        query = ctx.linear(self.query, x, scope)
        if self.head_major:
            query = self._lay_out(ctx, chain(tape, query, multiply_scalar))
        key, value = (
            get_cross_key_value(ctx, (self.key, self.value), scope, copies=self.head_major)
            if self.is_cross_attention
            else self._project_self(ctx, x, scope)
        )
        mixed = self._attend(ctx, query, key, value)
        result = chain(tape, mixed, lambda _, y: ctx.linear(self.output, y, scope))
        tape.free(query, key, value)
        return result

    def _project_self(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        key, value = (
            self._lay_out(ctx, ctx.linear(layer, x, scope)) for layer in (self.key, self.value)
        )
        return ctx.update_cache(key, value, self.key.out_features)

    def _lay_out(self, ctx: Recording, x: Value) -> Value:
        """Return ``x`` head after head, as a single query lies already."""
        return (
            chain(ctx.tape, x, copy_contiguous)
            if self.head_major and get_shared_inputs(ctx).own.queries != 1
            else x
        )

    def _attend(self, ctx: Recording, query: Value, key: Value, value: Value) -> Value:
        if not self.is_cross_attention:
            return attend(ctx, query, key, value, self.attention_config)
        shared_inputs, shape, padded = get_shared_inputs(ctx), ctx.shape, ctx.padded
        ctx.shape, ctx.padded = shared_inputs.crossing, shared_inputs.masked
        mixed = attend(ctx, query, key, value, self.attention_config)
        ctx.shape, ctx.padded = shape, padded
        return mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderLayer:
    """Encoder or decoder layer.

    ``norms`` are those of its sublayers, before each (Whisper) or after its residual (BART).
    """

    attention: EncoderDecoderAttention
    cross_attention: EncoderDecoderAttention | None
    up: Linear
    down: Linear
    norms: tuple[Norm, ...]
    norm_first: bool
    activation: str
    dropout: float
    activation_dropout: float

    @property
    def reads_memory(self) -> bool:
        """Whether the layer belongs to a decoder."""
        return self.cross_attention is not None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        cross_attention = self.cross_attention.linears() if self.cross_attention is not None else ()
        return (*self.attention.linears(), *cross_attention, self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in self.norms:
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Key and value elements that the cache keeps per decoder token."""
        return 2 * self.attention.key.out_features if self.reads_memory else 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape, cross_attention = ctx.tape, self.cross_attention
        with keep_attention_weights(ctx):
            states = self._record_sublayer(
                ctx,
                tape.alias(x),
                self.norms[0],
                scope,
                _keep_input(tape, lambda y: self.attention.record(ctx, y, scope)),
            )
            if cross_attention is not None:
                states = self._record_cross_attention(ctx, states, cross_attention, scope)
            states = self._record_sublayer(
                ctx,
                states,
                self.norms[-1],
                scope,
                lambda y: self._record_feed_forward(ctx, y, scope),
            )
            tape.free(x)
        return states

    def _record_cross_attention(
        self, ctx: Recording, x: Value, cross_attention: EncoderDecoderAttention, scope: str
    ) -> Value:
        """Record the cross-attention sublayer.

        The name of its weights was that of the self-attention's.
        """
        names = ctx.layer_locals if ctx.layer_locals is not None else []
        earlier = len(names)
        sublayer = _keep_input(ctx.tape, lambda y: cross_attention.record(ctx, y, scope))
        states = self._record_sublayer(ctx, x, self.norms[1], scope, sublayer)
        ctx.tape.release(*names[:earlier])
        del names[:earlier]
        return states

    def _record_sublayer(
        self, ctx: Recording, x: Value, norm: Norm, scope: str, sublayer: SubLayer
    ) -> Value:
        """Return ``x`` plus a sublayer's output, and drop ``x``.

        It is normalised before or after. The sublayer drops what it reads.
        """
        tape = ctx.tape
        read = ctx.norm(norm, x, scope) if self.norm_first else tape.alias(x)
        branch = chain(tape, sublayer(read), lambda t, y: dropout(t, y, self.dropout))
        summed = chain(tape, branch, lambda t, y: add(t, x, y))
        tape.free(x)
        return (
            summed
            if self.norm_first
            else chain(tape, summed, lambda _, y: ctx.norm(norm, y, scope))
        )

    def _record_feed_forward(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the feed-forward, whose activations take the name of ``x``."""
        tape = ctx.tape
        inner = chain(tape, ctx.linear(self.up, x, scope), ACTIVATIONS[self.activation])
        tape.free(x)
        inner = chain(tape, inner, lambda t, y: dropout(t, y, self.activation_dropout))
        return chain(tape, inner, lambda _, y: ctx.linear(self.down, y, scope))


def _keep_input(tape: Tape, sublayer: SubLayer) -> SubLayer:
    """Return a sublayer whose caller holds what it reads."""
    return lambda x: chain(tape, x, lambda _, y: sublayer(y))
