"""Attention and feed-forward that several layers share, each with adapters of its own, before a mixer (Zamba2).

(transformers 5.23, ``models/zamba2/modeling_zamba2.py``; arXiv:2411.15242, figure 2.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.mamba import MambaBlock
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, multiply
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.shared_weights import Common

Slot = tuple[Linear, Linear]
"""A layer's own low-rank adapter on a shared linear layer: down to the rank and up again."""


def _adapted(run: Recording, shared: Linear, slot: Slot | None, x: Value, scope: str) -> Value:
    """Return a shared layer's output plus that of a layer's own adapter; ``x`` stays with the caller."""
    return _plus_adapter(run, run.linear(shared, x, scope), slot, x, scope)


def _plus_adapter(run: Recording, y: Value, slot: Slot | None, x: Value, scope: str) -> Value:
    """Return ``y`` plus what an adapter makes of ``x``; ``y`` is dropped."""
    if slot is None:
        return y
    tape, (down, up) = run.tape, slot
    added = chain(tape, run.linear(down, x, scope), lambda _, value: run.linear(up, value, scope))
    total = add(tape, y, added)
    tape.free(y, added)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedAttention(Attention):
    """Attention whose projections are shared; ``slots`` are the layer's own adapters on them, or none."""

    slots: tuple[Slot, ...] = ()

    def own(self) -> Iterator[Linear]:
        """Yield the linear layers that are not shared."""
        for slot in self.slots:
            yield from slot

    def _projected(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value]:
        made = [run.linear(layer, x, scope) for layer in self.projections]
        slots = self.slots or (None, None, None)
        query, key, value = (_plus_adapter(run, y, slot, x, scope) for y, slot in zip(made, slots, strict=True))
        return query, key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedFeedForward:
    """``down(act(gate) * up)`` with gate and up out of one shared layer, on which each layer has an adapter."""

    gate_up: Linear
    down: Linear
    slot: Slot
    activation: str

    def linears(self) -> tuple[Linear, ...]:
        """Return the shared linear layers in order of use."""
        return (self.gate_up, self.down)

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the feed-forward; ``x`` stays with the caller."""
        tape, half = run.tape, run.extent.tokens(self.down.in_features)
        gate, up = split(tape, _adapted(run, self.gate_up, self.slot, x, scope), (half, half))
        activated = ACTIVATIONS[self.activation](tape, gate)
        product = multiply(tape, activated, up)
        tape.free(activated)
        y = run.linear(self.down, product, scope)
        tape.free(product, gate, up)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTransformer:
    """Norm and attention of the hidden state beside the embeddings, norm and feed-forward; no residuals."""

    attention_norm: Norm
    attention: AdaptedAttention
    feed_forward_norm: Norm
    feed_forward: AdaptedFeedForward

    def shared_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that all layers with this transformer use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def own_linears(self) -> tuple[Linear, ...]:
        """Return the adapters of one layer."""
        return (*self.attention.own(), *self.feed_forward.slot)

    def shared_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that all layers with this transformer use."""
        for layer in self.shared_linears():
            yield from layer.weights()
        yield from self.attention_norm.weights()
        yield from self.feed_forward_norm.weights()

    def record(self, run: Recording, x: Value, embedded: Value, scope: str) -> Value:
        """Record the transformer; ``x`` and the embeddings stay with the caller."""
        tape = run.tape
        with weights_named(run):
            joined = concatenate(tape, (x, embedded))
            normed = chain(tape, joined, lambda _, value: run.norm(self.attention_norm, value, scope))
            mixed = self.attention.record(run, normed, scope)
            tape.free(normed)
            normed = chain(tape, mixed, lambda _, value: run.norm(self.feed_forward_norm, value, scope))
            return chain(tape, normed, lambda _, value: self.feed_forward.record(run, value, scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridLayer:
    """A shared transformer whose output, through a linear layer, is added to what the mixer reads.

    The first layer that uses a transformer ``owns`` its weights. ``unread`` are adapters that stand in this layer's copy of the
    transformer for other layers: a low-rank adapter is put on each, and never read.
    """

    transformer: SharedTransformer
    linear: Linear
    decoder: MambaBlock
    owns: bool
    unread: tuple[Linear, ...] = ()

    @property
    def mixer(self) -> Mamba2Mixer:
        """What keeps a state for each sequence."""
        assert isinstance(self.decoder.mixer, Mamba2Mixer)  # noqa: S101 - the family builds no other
        return self.decoder.mixer

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, those of other layers' slots last."""
        transformer = self.transformer
        own = (*transformer.own_linears(), self.linear, *self.decoder.linears())
        return (*transformer.shared_linears(), *own, *self.unread)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that this layer is the first to use."""
        if self.owns:
            yield from self.transformer.shared_weights()
        for layer in (*self.transformer.own_linears(), self.linear):
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
        """Tokens that a cache of this layer keeps at most; None is all of them."""
        return None

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape, common, decoder = run.tape, run.common, self.decoder
        assert common is not None  # noqa: S101 - the embedding has said what layers have in common
        made = self.transformer.record(run, x, common.embedded, scope)
        made = chain(tape, made, lambda _, value: run.linear(self.linear, value, scope))
        name = _handed(run, common, made, scope)
        source = add(tape, x, made)
        normed = chain(tape, source, lambda _, value: run.norm(decoder.norm, value, scope))
        mixed = decoder.mixer.record(run, normed, scope)
        tape.free(normed)
        y = add(tape, x, mixed)
        tape.free(mixed, x)
        tape.release(*name)
        return y


def _handed(run: Recording, common: Common, made: Value, scope: str) -> tuple[Storage, ...]:
    """Return the name that the layer has for what its transformer gave, which is dropped otherwise.

    The mixer's half is a checkpoint inside of the layer's own, and gets the tensor as a keyword, which its function holds: from
    the first forward on until its backward. It reads that one when it is computed again (``modeling_layers.py``).
    """
    tape, storage = run.tape, made.storage
    assert storage is not None  # noqa: S101 - a product has a storage
    if tape.mode is Mode.DISCARDING:
        common.handed[scope] = tape.hold(storage)
    if tape.mode is not Mode.RECOMPUTING:
        return (storage,)
    kept = common.handed.pop(scope)
    tape.release(storage)
    tape.hook(lambda: tape.release(kept))
    return ()
