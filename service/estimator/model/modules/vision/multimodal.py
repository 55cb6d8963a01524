"""Images among the tokens of a language model: a tower, a projection, and the features put where placeholders stand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from service.estimator.model.architecture import Embed, Embedded
from service.estimator.model.images import ImageInput, Images
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.vision.encoder import ImageExtent, Tower, reading
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Segment, Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.images import pixels_of, pooled_squares, restacked, scattered
from service.estimator.tape.ops.products import copy_of, integers, linear
from service.estimator.tape.ops.views import narrow


class Sight(Protocol):
    """From pixels to features as wide as the language model."""

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors."""
        ...

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        ...

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers."""
        ...

    def unread_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors that nothing reads the result of."""
        ...

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that nothing reads the result of."""
        ...

    def record(self, run: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record it; return the features, and what the model's forward names until its end."""
        ...


class Projector(Protocol):
    """From a tower's last hidden state to features as wide as the language model."""

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        ...

    def record(self, run: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record it; return the features as the outputs hold them, and another tensor that stays until forward ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLayers:
    """Two linear layers over the patches, class token left out or not (``LlavaMultiModalProjector``)."""

    first: Linear
    second: Linear
    activation: str
    drops_class_token: bool = True

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        return (self.first, self.second)

    def record(self, run: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record both layers; their output is listed image by image and joined anew."""
        tape, extent = run.tape, ImageExtent(num_images=images.per_sequence, positions_per_image=images.tokens)
        if self.drops_class_token:
            source = chain(tape, narrow(tape, hidden, extent.tokens(self.first.in_features)), copy_of)
        else:
            source = tape.alias(hidden)
        with reading(run, extent):
            inner = chain(tape, source, lambda _, x: run.linear(self.first, x, ""))
            activated = chain(tape, inner, ACTIVATIONS[self.activation])
            projected = chain(tape, activated, lambda _, x: run.linear(self.second, x, ""))
        return restacked(tape, projected), projected


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledProduct:
    """Squares of patches averaged, normalised and multiplied by a matrix (``Gemma3MultiModalProjector``)."""

    norm: Norm
    product: Weight

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield self.product
        yield from self.norm.weights()

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target: the matrix is none."""
        return ()

    def record(self, run: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record the projection; its output is what the model's outputs hold."""
        tape, extent = run.tape, ImageExtent(num_images=images.per_sequence, positions_per_image=images.tokens)
        width, out = self.product.shape
        pooled = chain(tape, copy_of(tape, hidden), lambda t, x: pooled_squares(t, x, extent.tokens(width)))
        with reading(run, extent):
            normed = run.norm(self.norm, pooled, "")
            product = linear(tape, normed, run.parameter(self.product), extent.tokens(out))
            features = chain(tape, product, lambda t, x: cast(t, x, hidden.dtype))
        tape.free(pooled, normed)
        return features, tape.alias(features)


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerSight:
    """A tower of equal layers, and a projection of the last hidden state that is read."""

    tower: Tower
    projector: Projector

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of tower and projection."""
        return (*self.tower.weights(), *self.projector.weights())

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers of both that adapters can target."""
        return (*self.tower.linears(), *self.projector.linears())

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers, those after the one that is read too."""
        return tuple(self.tower.layer_weights())

    def unread_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers after the one that is read."""
        return tuple(self.tower.unread_weights())

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers after the one that is read."""
        return self.tower.unread_linears()

    def record(self, run: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record tower and projection, and the layers that nothing reads."""
        tape, extent = run.tape, self.tower.extent(images.per_sequence)
        pixels = pixels_of(tape, extent.images(self.tower.pixels.elements), run.dtype)
        with reading(run, extent):
            first, last = self.tower.record(run, pixels, extent)
            unread = self._unread(run, last, extent)
            read = self.tower.normed(run, last)
        tape.free(first)
        features, projected = self.projector.record(run, read, images)
        return features, (last, read, projected, *unread)

    def _unread(self, run: Recording, hidden: Value, extent: ImageExtent) -> tuple[Value, ...]:
        """Record the layers that nothing reads; what they keep lives until forward ends, since no gradient comes by."""
        tape, start = run.tape, len(run.tape.nodes)
        kept: list[Storage] = []
        x = tape.alias(hidden)
        for index in range(self.tower.used_layers, self.tower.num_layers):
            x = self.tower.one_layer(run, x, extent, f"{self.tower.scope}unread.{index}.")
        for node in tape.nodes[start:]:
            kept.extend(_kept(node))
        del tape.nodes[start:]
        return (x, *(Value(storage, storage.size, run.dtype) for storage in kept))


def _kept(node: object) -> Iterator[Storage]:
    """Yield what a part of a graph keeps."""
    if isinstance(node, Segment):
        for inner in node.nodes:
            yield from _kept(inner)
    elif isinstance(node, Node):
        yield from node.saved


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReader:
    """How a language model reads images; without any it does what it does with text (``inner``)."""

    sight: Sight
    inner: Embed | None = None
    masks_images: bool = False
    """Whether the tokens of an image read each other both ways, under a mask for each sequence (gemma 3)."""
    inputs_per_token: int = 1
    """64-bit inputs per token beside the ids: labels, and token types where the model reads them."""
    positions_per_token: int = 0
    """64-bit positions of each token, where images give theirs (Qwen2-VL's three axes)."""
    hands_out_features: bool = True
    """Whether the model's outputs hold the features."""

    def image_input(self, tokens: int | None, pixels: int = 0) -> ImageInput:
        """Return what a request can say of images, and what stays without gradients."""
        sight = self.sight
        return ImageInput(
            tokens=tokens,
            pixels=pixels,
            weights=sight.weights(),
            linears=sight.linears(),
            unread_weights=sight.unread_weights(),
            unread_linears=sight.unread_linears(),
            layer_weights=sight.layer_weights(),
        )

    def embed(self, run: Recording, tokens: Value) -> Embedded:
        """Record what the model does from its token embeddings to its first layer."""
        return self._text(run, tokens) if run.images is None else self._with_images(run, tokens, run.images)

    def _text(self, run: Recording, tokens: Value) -> Embedded:
        if self.inner is not None:
            return self.inner(run, tokens)
        return Embedded(x=tokens, passed=(integers(run.tape, run.extent.positions(1)),))

    def _with_images(self, run: Recording, tokens: Value, images: Images) -> Embedded:
        tape = run.tape
        if tape.records:
            integers(tape, run.extent.tokens(self.inputs_per_token))
        features, names = self.sight.record(run, images)
        features = chain(tape, features, lambda t, value: cast(t, value, tokens.dtype))
        mask = integers(tape, run.extent.tokens(1), bytes_each=1)
        x = chain(tape, tokens, lambda t, value: scattered(t, value, features, mask))
        run.padded = run.padded or self.masks_images
        given, names = ((features,), names) if self.hands_out_features else ((), (*names, features))
        if self.positions_per_token:
            positions = integers(tape, run.extent.tokens(self.positions_per_token))
            return Embedded(x=x, names=(mask, positions, *names), given=given)
        rest = self._text(run, x)
        return replace(rest, names=(*rest.names, mask, *names), given=given)
