"""Images among the tokens of a language model.

A tower and a projection make features, which are put where placeholders stand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from service.estimator.model.architecture import Embed, EmbeddingOutput
from service.estimator.model.images import ImageInput, Images
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.vision.encoder import Tower
from service.estimator.model.modules.vision.image_shape import ImageShape, record_over_images
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.processors.processor import Processor
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Segment, Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.images import (
    avg_pool2d,
    restack_images,
    scatter_features,
)
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous, linear
from service.estimator.tape.ops.views import narrow


class VisionEncoder(Protocol):
    """Encoder from pixels to features as wide as the language model."""

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
        """Return the parameter tensors whose result is never read."""
        ...

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers whose result is never read."""
        ...

    def record(self, ctx: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record the encoder and return its features.

        The second value has the tensors that the model's forward names until its end.
        """
        ...


class Projector(Protocol):
    """Projection of a tower's output to the language model's width.

    It reads the tower's last hidden state.
    """

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        ...

    def record(self, ctx: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record the projection and return its features.

        The first value is the features as the outputs hold them, the second another tensor that
        stays until forward ends.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpProjector:
    """Two linear layers over the patches (``LlavaMultiModalProjector``).

    The class token is left out or not.
    """

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

    def record(self, ctx: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record both layers.

        Their output is listed image by image and joined anew.
        """
        tape = ctx.tape
        shape = ImageShape(num_images=images.per_sequence, positions_per_image=images.tokens)
        if self.drops_class_token:
            source = chain(
                tape, narrow(tape, hidden, shape.tokens(self.first.in_features)), copy_contiguous
            )
        else:
            source = tape.alias(hidden)
        with record_over_images(ctx, shape):
            inner = chain(tape, source, lambda _, x: ctx.linear(self.first, x, ""))
            activated = chain(tape, inner, ACTIVATIONS[self.activation])
            projected = chain(tape, activated, lambda _, x: ctx.linear(self.second, x, ""))
        return restack_images(tape, projected), projected


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingProjector:
    """Pooling and a matrix product (``Gemma3MultiModalProjector``).

    Squares of patches are averaged, normalised and multiplied by a matrix.
    """

    norm: Norm
    product: Weight

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield self.product
        yield from self.norm.weights()

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the matrix is a bare parameter."""
        return ()

    def record(self, ctx: Recording, hidden: Value, images: Images) -> tuple[Value, Value]:
        """Record the projection, whose output the model's outputs hold."""
        tape = ctx.tape
        shape = ImageShape(num_images=images.per_sequence, positions_per_image=images.tokens)
        width, out = self.product.shape
        pooled = chain(
            tape, copy_contiguous(tape, hidden), lambda t, x: avg_pool2d(t, x, shape.tokens(width))
        )
        with record_over_images(ctx, shape):
            normed = ctx.norm(self.norm, pooled, "")
            product = linear(tape, normed, ctx.parameter(self.product), shape.tokens(out))
            features = chain(tape, product, lambda t, x: cast(t, x, hidden.dtype))
        tape.free(pooled, normed)
        return features, tape.alias(features)


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerVisionEncoder:
    """Vision tower of equal layers with a projector.

    The projector reads the last hidden state that is used.
    """

    tower: Tower
    projector: Projector

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of tower and projection."""
        return (*self.tower.weights(), *self.projector.weights())

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers of both that adapters can target."""
        return (*self.tower.linears(), *self.projector.linears())

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of all layers, unread ones included."""
        return tuple(self.tower.layer_weights())

    def unread_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers that nothing reads."""
        return tuple(self.tower.unread_weights())

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that nothing reads."""
        return self.tower.unread_linears()

    def record(self, ctx: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record tower and projection, and the layers that nothing reads."""
        tape, shape = ctx.tape, self.tower.build_shape(images.per_sequence)
        pixels = ctx.take_input(shape.images(self.tower.patch_embeddings.elements))
        with record_over_images(ctx, shape):
            first, last = self.tower.record(ctx, pixels, shape)
            unread = self._record_unread(ctx, last, shape)
            read = self.tower.apply_last_norm(ctx, last)
        tape.free(first)
        features, projected = self.projector.record(ctx, read, images)
        return features, (last, read, projected, *unread)

    def _record_unread(self, ctx: Recording, hidden: Value, shape: ImageShape) -> tuple[Value, ...]:
        """Record the layers that nothing reads.

        What they keep lives until forward ends, since no gradient comes by.
        """
        tape, start = ctx.tape, len(ctx.tape.nodes)
        saved: list[Storage] = []
        x = tape.alias(hidden)
        for index in range(self.tower.used_layers, self.tower.num_layers):
            x = self.tower.record_layer(ctx, x, shape, f"{self.tower.scope}unread.{index}.")
        for node in tape.nodes[start:]:
            saved.extend(_iter_saved(node))
        del tape.nodes[start:]
        return (x, *(Value(storage, storage.size, ctx.settings.dtype) for storage in saved))


def _iter_saved(node: object) -> Iterator[Storage]:
    """Yield the tensors that a part of a graph keeps."""
    if isinstance(node, Segment):
        for inner in node.nodes:
            yield from _iter_saved(inner)
    elif isinstance(node, Node):
        yield from node.saved


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReader:
    """Embedding of images and text for a language model.

    Without images it does what it does with text (``inner``).
    """

    vision_encoder: VisionEncoder
    inner: Embed | None = None
    masks_images: bool = False
    """Whether the tokens of an image attend to each other both ways, under a mask for each sequence
    (gemma 3).
    """
    inputs_per_token: int = 1
    """64-bit inputs per token beside the ids: labels, and token types where the model reads them.
    """
    positions_per_token: int = 0
    """64-bit positions of each token, where images give theirs (Qwen2-VL's three axes)."""
    hands_out_features: bool = True
    """Whether the model's outputs hold the features."""

    def build_image_input(
        self, tokens: int | None, pixels: int, processor: Processor
    ) -> ImageInput:
        """Return the image input of a request, and the weights without gradients."""
        vision_encoder = self.vision_encoder
        return ImageInput(
            tokens=tokens,
            processor=processor,
            pixels=pixels,
            weights=vision_encoder.weights(),
            linears=vision_encoder.linears(),
            unread_weights=vision_encoder.unread_weights(),
            unread_linears=vision_encoder.unread_linears(),
            layer_weights=vision_encoder.layer_weights(),
        )

    def embed(self, ctx: Recording, tokens: Value) -> EmbeddingOutput:
        """Record the forward from token embeddings to the first layer."""
        return (
            self._embed_text(ctx, tokens)
            if ctx.settings.images is None
            else self._embed_images(ctx, tokens, ctx.settings.images)
        )

    def _embed_text(self, ctx: Recording, tokens: Value) -> EmbeddingOutput:
        if self.inner is not None:
            return self.inner(ctx, tokens)
        count = self._count_positions(ctx) if ctx.shape.own_positions else 1
        return EmbeddingOutput(
            x=tokens, layer_args=(allocate_integers(ctx.tape, ctx.shape.positions(count)),)
        )

    def _count_positions(self, ctx: Recording) -> int:
        """Return the positions of a token, of its text too."""
        return self.positions_per_token + ctx.shape.own_positions

    def _embed_images(self, ctx: Recording, tokens: Value, images: Images) -> EmbeddingOutput:
        tape = ctx.tape
        if tape.builds_graph:
            allocate_integers(tape, ctx.shape.tokens(self.inputs_per_token))
        features, names = self.vision_encoder.record(ctx, images)
        features = chain(tape, features, lambda t, value: cast(t, value, tokens.dtype))
        mask = allocate_integers(tape, ctx.shape.tokens(1), bytes_each=1)
        x = chain(tape, tokens, lambda t, value: scatter_features(t, value, features, mask))
        ctx.padded = ctx.padded or self.masks_images
        outputs, names = (
            ((features,), names) if self.hands_out_features else ((), (*names, features))
        )
        if self.positions_per_token:
            positions = allocate_integers(tape, ctx.shape.tokens(self._count_positions(ctx)))
            return EmbeddingOutput(x=x, names=(mask, positions, *names), outputs=outputs)
        embedded = self._embed_text(ctx, x)
        return replace(embedded, names=(*embedded.names, mask, *names), outputs=outputs)
