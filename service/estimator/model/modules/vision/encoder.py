"""Vision towers over patches of images.

Patches become positions, which layers without a causal mask read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.block_module import BlockModule
from service.estimator.model.modules.layers.vision import KIND
from service.estimator.model.modules.vision.image_shape import ImageShape, record_over_images
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import record_blocks, record_blocks_keeping_input
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.images import (
    add_positions,
    concatenate_promoted,
    embed_patches,
    expand_parameter,
)
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.sizes import ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayer:
    """Layer over images.

    It stays so when it is computed again between layers over tokens.
    """

    layer: BlockModule
    shape: ImageShape

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return self.layer.linears()

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        return self.layer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: none."""
        return 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        with record_over_images(ctx, self.shape):
            return self.layer.record(ctx, x, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchEmbeddings:
    """Patch and position embeddings of images of one size.

    An image is cut into square patches; a class token may stand before them.
    """

    image_size: int
    patch_size: int
    num_channels: int
    width: int
    bias: bool = False
    class_token: bool = False
    position_table: bool = True
    """Whether positions are looked up in a table, rather than added as one parameter (ViT)."""

    @property
    def elements(self) -> int:
        """Elements of one image."""
        return self.num_channels * self.image_size**2

    @property
    def num_patches(self) -> int:
        """Patches of one image."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_positions(self) -> int:
        """Positions of one image: its patches, and the class token."""
        return self.num_patches + self.class_token

    @property
    def projection(self) -> tuple[Weight, ...]:
        """Weight and bias of the patch convolution."""
        kernel = (self.width, self.num_channels, self.patch_size, self.patch_size)
        bias = (
            (Weight("embeddings.patch_embedding.bias", KIND, (self.width,)),) if self.bias else ()
        )
        return (Weight("embeddings.patch_embedding.weight", KIND, kernel), *bias)

    @property
    def token(self) -> Weight:
        """Class token of the tower.

        It is a row where positions are a table, else a batch of one sequence with one position
        (ViT).
        """
        return Weight(
            "embeddings.class_embedding",
            KIND,
            (self.width,) if self.position_table else (1, 1, self.width),
        )

    @property
    def positions(self) -> Weight:
        """Position embeddings, counted as an embedding where they are a table."""
        if not self.position_table:
            return Weight(
                "embeddings.position_embedding", KIND, (1, self.num_positions, self.width)
            )
        return Weight(
            "embeddings.position_embedding", "embedding", (self.num_positions, self.width)
        )

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.projection
        if self.class_token:
            yield self.token
        yield self.positions

    def record(self, ctx: Recording, pixels: Value, shape: ImageShape, scope: str) -> Value:
        """Record the positions of the images; ``pixels`` stay with the caller."""
        tape, (weight, *bias) = ctx.tape, ctx.parameters(self.projection, scope)
        patches = embed_patches(
            tape,
            pixels,
            weight,
            bias[0] if bias else None,
            shape.images(self.num_patches * self.width),
        )
        ctx.require_input_grad(patches)  # patches are taken for embeddings too
        x = patches
        if self.class_token:
            token = expand_parameter(
                tape, ctx.parameter(self.token, scope), shape.images(self.width)
            )
            x = concatenate_promoted(tape, token, patches)
        table = ctx.parameter(self.positions, scope)
        if not self.position_table:
            if self.class_token:  # ViT's code has no name for what was joined
                tape.free(patches)
            return add_positions(tape, x, as_value(table))
        position_embeddings = embedding(
            tape, table, allocate_integers(tape, ZERO), shape.positions(self.width)
        )
        x = add_positions(tape, x, position_embeddings)
        tape.free(position_embeddings)
        if self.class_token:
            tape.free(patches)
        return x


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """Vision transformer of equal layers.

    ``used_layers`` of them are read, so that the others get no gradient.
    """

    patch_embeddings: PatchEmbeddings
    layer: BlockModule
    num_layers: int
    used_layers: int
    first_norm: Norm | None = None
    last_norm: Norm | None = None
    scope: str = "vision."
    dropout: float = 0.0
    sharded: bool = False
    """Whether each layer is a sharded unit, rather than a part of the root unit."""
    whole_last_norm: bool = True
    """Whether the last norm is over all positions, rather than over the class token's alone (CLIP).
    """

    def build_shape(self, num_images: int) -> ImageShape:
        """Return the pass shape of so many images per sequence."""
        return ImageShape(
            num_images=num_images, positions_per_image=self.patch_embeddings.num_positions
        )

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, of every layer."""
        return tuple(linear for index in range(self.num_layers) for linear in self._linears(index))

    def _linears(self, index: int) -> tuple[Linear, ...]:
        return tuple(
            replace(linear, name=f"{self.scope}{index}.{linear.name}")
            for linear in self.layer.linears()
        )

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from (_prefix_name(weight, self.scope) for weight in self.patch_embeddings.weights())
        yield from self.layer_weights()
        for norm in (self.first_norm, self.last_norm):
            if norm is not None:
                yield from (_prefix_name(weight, self.scope) for weight in norm.weights())

    def layer_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors of the layers."""
        for index in range(self.num_layers):
            yield from self._layer_weights(index)

    def unread_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors whose result is never read.

        These are the later layers and the norm of the class token, of which a language model reads
        nothing.
        """
        for index in range(self.used_layers, self.num_layers):
            yield from self._layer_weights(index)
        if self.last_norm is not None and not self.whole_last_norm:
            yield from (_prefix_name(weight, self.scope) for weight in self.last_norm.weights())

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers whose result is never read."""
        return tuple(
            linear
            for index in range(self.used_layers, self.num_layers)
            for linear in self._linears(index)
        )

    def _layer_weights(self, index: int) -> Iterator[Weight]:
        yield from (
            _prefix_name(weight, f"{self.scope}{index}.") for weight in self.layer.weights()
        )

    def record(self, ctx: Recording, pixels: Value, shape: ImageShape) -> tuple[Value, Value]:
        """Record the layers that are read.

        Returns the first hidden state, which the tower's forward names, and the last.
        """
        first = self.patch_embeddings.record(ctx, pixels, shape, self.scope)
        first = chain(ctx.tape, first, lambda t, x: dropout(t, x, self.dropout))
        if self.first_norm is not None:
            norm = self.first_norm
            first = chain(ctx.tape, first, lambda _, x: ctx.norm(norm, x, self.scope))
        layer = ImageLayer(layer=self.layer, shape=shape)
        units, ctx.units = ctx.units, ctx.units if self.sharded else None
        last = record_blocks_keeping_input(ctx, layer, self.used_layers, self.scope, first)
        ctx.units = units
        return first, last

    def record_layer(self, ctx: Recording, x: Value, shape: ImageShape, scope: str) -> Value:
        """Record one more layer after ``x``, which is dropped."""
        units, ctx.units = ctx.units, ctx.units if self.sharded else None
        y = record_blocks(ctx, ImageLayer(layer=self.layer, shape=shape), 1, scope, x)
        ctx.units = units
        return y

    def apply_last_norm(self, ctx: Recording, hidden: Value) -> Value:
        """Return the hidden state as a language model reads it.

        It is normalised where the last norm is over all positions.
        """
        if self.last_norm is None or not self.whole_last_norm:
            return ctx.tape.alias(hidden)
        return ctx.norm(self.last_norm, hidden, self.scope)

    def get_class_token(self, ctx: Recording, hidden: Value, shape: ImageShape) -> Value:
        """Return the class token's state of each image.

        It is normalised where the last norm is over the class token alone.
        """
        token = narrow(ctx.tape, hidden, shape.images(self.patch_embeddings.width))
        if self.last_norm is None or self.whole_last_norm:
            return token
        norm = self.last_norm
        return chain(
            ctx.tape, token, lambda _, x: ctx.norm(norm, x, self.scope, rows=shape.images(1))
        )


def _prefix_name(weight: Weight, scope: str) -> Weight:
    return Weight(scope + weight.name, weight.kind, weight.shape)
