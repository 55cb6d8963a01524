"""Attention and feed-forward that several layers share (Zamba2).

Each layer has adapters of its own on them, before a mixer (transformers 5.23,
``models/zamba2/modeling_zamba2.py``; arXiv:2411.15242, figure 2).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.modules.ssm.mamba_block import MambaBlock
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, multiply
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.shared_weights import SharedLayerState

AdapterLayers = tuple[Linear, Linear]
"""A layer's own low-rank adapter on a shared linear layer: down to the rank and up again."""


def _apply_adapted(
    ctx: Recording, shared: Linear, adapter: AdapterLayers | None, x: Value, scope: str
) -> Value:
    """Return a shared layer's output plus that of its adapter.

    ``x`` stays with the caller.
    """
    return _add_adapter(ctx, ctx.linear(shared, x, scope), adapter, x, scope)


def _add_adapter(
    ctx: Recording, y: Value, adapter: AdapterLayers | None, x: Value, scope: str
) -> Value:
    """Return ``y`` plus an adapter's output for ``x``.

    ``y`` is dropped.
    """
    if adapter is None:
        return y
    tape, (down, up) = ctx.tape, adapter
    added = chain(tape, ctx.linear(down, x, scope), lambda _, value: ctx.linear(up, value, scope))
    total = add(tape, y, added)
    tape.free(y, added)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedAttention(Attention):
    """Attention with shared projections.

    ``adapters`` are the layer's own adapters on them, or none.
    """

    adapters: tuple[AdapterLayers, ...] = ()

    def adapter_linears(self) -> Iterator[Linear]:
        """Yield the linear layers that are not shared."""
        for adapter in self.adapters:
            yield from adapter

    def _project(
        self, ctx: Recording, x: Value, scope: str
    ) -> tuple[Value, Value, Value, tuple[Value, ...]]:
        projected = [ctx.linear(layer, x, scope) for layer in self.projections]
        adapters = self.adapters or (None, None, None)
        query, key, value = (
            _add_adapter(ctx, y, adapter, x, scope)
            for y, adapter in zip(projected, adapters, strict=True)
        )
        return query, key, value, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedFeedForward:
    """``down(act(gate) * up)`` with a shared, adapted input layer.

    Gate and up come out of one shared layer, on which each layer has an adapter.
    """

    gate_up: Linear
    down: Linear
    adapter: AdapterLayers
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the shared linear layers in order of use."""
        return (self.gate_up, self.down)

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the feed-forward; ``x`` stays with the caller."""
        tape, half = ctx.tape, ctx.shape.tokens(self.down.in_features)
        gate, up = split(
            tape, _apply_adapted(ctx, self.gate_up, self.adapter, x, scope), (half, half)
        )
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, activated, up)
        tape.free(activated)
        y = ctx.linear(self.down, product, scope)
        tape.free(product, gate, up)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTransformer:
    """Attention and feed-forward without residuals, shared by layers.

    A norm and attention read the hidden state beside the embeddings; a norm and the feed-forward
    follow.
    """

    attention_norm: Norm
    attention: AdaptedAttention
    feed_forward_norm: Norm
    feed_forward: AdaptedFeedForward

    def shared_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that all layers with this transformer use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def adapter_linears(self) -> tuple[Linear, ...]:
        """Return the adapters of one layer."""
        return (*self.attention.adapter_linears(), *self.feed_forward.adapter)

    def shared_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that all layers with this transformer use."""
        for layer in self.shared_linears():
            yield from layer.weights()
        yield from self.attention_norm.weights()
        yield from self.feed_forward_norm.weights()

    def record(self, ctx: Recording, x: Value, embedded: Value, scope: str) -> Value:
        """Record the transformer; ``x`` and the embeddings stay with the caller."""
        tape = ctx.tape
        with keep_attention_weights(ctx):
            joined = concatenate(tape, (x, embedded))
            normed = chain(
                tape, joined, lambda _, value: ctx.norm(self.attention_norm, value, scope)
            )
            mixed = self.attention.record(ctx, normed, scope)
            tape.free(normed)
            normed = chain(
                tape, mixed, lambda _, value: ctx.norm(self.feed_forward_norm, value, scope)
            )
            return chain(tape, normed, lambda _, value: self.feed_forward.record(ctx, value, scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridLayer:
    """Layer with a shared transformer before its mixer.

    The transformer's output, through a linear layer, is added to what the mixer reads. The first
    layer that uses a transformer ``owns`` its weights. ``unread`` are adapters that stand in this
    layer's copy of the transformer for other layers: a low-rank adapter is put on each, and never
    read.
    """

    transformer: SharedTransformer
    linear: Linear
    decoder: MambaBlock
    owns: bool
    unread: tuple[Linear, ...] = ()

    @property
    def mixer(self) -> Mamba2Mixer:
        """Mixer that keeps a state for each sequence."""
        assert isinstance(self.decoder.mixer, Mamba2Mixer)  # noqa: S101 - the family builds no other
        return self.decoder.mixer

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target.

        Those of other layers' adapters come last.
        """
        transformer = self.transformer
        layer_linears = (*transformer.adapter_linears(), self.linear, *self.decoder.linears())
        return (*transformer.shared_linears(), *layer_linears, *self.unread)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that this layer is the first to use."""
        if self.owns:
            yield from self.transformer.shared_weights()
        for layer in (*self.transformer.adapter_linears(), self.linear):
            yield from layer.weights()
        yield from self.decoder.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.transformer.attention.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Maximum number of tokens in this layer's cache; None is all."""
        return None

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape, common, decoder = ctx.tape, ctx.common, self.decoder
        assert common is not None  # noqa: S101 - the embedding has said what layers have in common
        transformed = self.transformer.record(ctx, x, common.embeddings, scope)
        transformed = chain(
            tape, transformed, lambda _, value: ctx.linear(self.linear, value, scope)
        )
        name = _keep_transformer_output(ctx, common, transformed, scope)
        source = add(tape, x, transformed)
        normed = chain(tape, source, lambda _, value: ctx.norm(decoder.norm, value, scope))
        mixed = decoder.mixer.record(ctx, normed, scope)
        tape.free(normed)
        y = add(tape, x, mixed)
        tape.free(mixed, x)
        tape.release(*name)
        return y


def _keep_transformer_output(
    ctx: Recording, common: SharedLayerState, output: Value, scope: str
) -> tuple[Storage, ...]:
    """Return the name of the transformer's output, where the layer keeps one.

    Otherwise it is dropped. The mixer's half is a checkpoint inside of the layer's own, and gets
    the tensor as a keyword, which its function holds: from the first forward on until its backward.
    It reads that one when it is computed again (``modeling_layers.py``).
    """
    tape, storage = ctx.tape, output.storage
    assert storage is not None  # noqa: S101 - a product has a storage
    if tape.mode is Mode.DISCARDING:
        common.checkpoint_inputs[scope] = tape.hold(storage)
    if tape.mode is not Mode.RECOMPUTING:
        return (storage,)
    checkpointed = common.checkpoint_inputs.pop(scope)
    tape.release(storage)
    tape.hook(lambda: tape.release(checkpointed))
    return ()
