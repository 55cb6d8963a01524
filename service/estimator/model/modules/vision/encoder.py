"""Vision towers: patches of an image become positions, which layers without a causal mask read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from service.estimator.model.block_module import BlockModule
from service.estimator.model.modules.layers.vision import KIND
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import repeated, repeated_beside
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.images import behind, patches, placed, spread
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.pass_shape import Extent
from service.estimator.tape.sizes import ZERO, Size
from service.estimator.values.units import ceil_div

ALIGNED_ROWS = 32
"""Rows to which the memory-efficient kernel rounds its log-sum-exp (ATen's mem_eff_attention/kernel_forward.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageExtent(Extent):
    """Images of a sequence in place of its tokens: how many, and how many positions each takes."""

    num_images: int
    positions_per_image: int

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per position of all images."""
        return sizes.per_sequence(count * self.num_images * self.positions_per_image)

    def aligned(self, count: int) -> Size:
        """Return ``count`` elements per position, rounded up to the memory-efficient kernel's rows (its ``kAlignLSE``)."""
        rows = ceil_div(self.positions_per_image, ALIGNED_ROWS) * ALIGNED_ROWS
        return sizes.per_sequence(count * self.num_images * rows)

    def cached(self, count: int) -> Size:
        """Return what every position reads: there is no cache."""
        return self.tokens(count)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of each image."""
        return sizes.per_sequence(count * self.num_images * self.positions_per_image**2)

    def positions(self, count: int) -> Size:
        """Return ``count`` elements per position that all images share."""
        return sizes.constant(count * self.positions_per_image)

    def images(self, count: int) -> Size:
        """Return ``count`` elements per image."""
        return sizes.per_sequence(count * self.num_images)


@contextmanager
def reading(run: Recording, extent: Extent) -> Iterator[None]:
    """Record images rather than tokens: without the padding, the window or the cache of the text beside them."""
    before = run.extent, run.padded, run.window_reached, run.store
    run.extent, run.padded, run.window_reached, run.store = extent, False, False, None
    yield
    run.extent, run.padded, run.window_reached, run.store = before


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayer:
    """A layer over images, also when it is computed again between layers over tokens."""

    layer: BlockModule
    extent: ImageExtent

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
        """Elements of key and value that a cache keeps for one token: none."""
        return 0

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        with reading(run, self.extent):
            return self.layer.record(run, x, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """An image as it comes, and how it is cut: square patches, or a class token before them."""

    image_size: int
    patch_size: int
    num_channels: int
    width: int
    bias: bool = False
    class_token: bool = False
    position_table: bool = True
    """Whether positions are looked up in a table, rather than added as one parameter (ViT)."""

    @property
    def numel(self) -> int:
        """Numbers that make up one image."""
        return self.num_channels * self.image_size**2

    @property
    def elements(self) -> int:
        """Numbers in one image."""
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
        """The convolution that makes a patch a position: weight and bias."""
        kernel = (self.width, self.num_channels, self.patch_size, self.patch_size)
        bias = (Weight("embeddings.patch_embedding.bias", KIND, (self.width,)),) if self.bias else ()
        return (Weight("embeddings.patch_embedding.weight", KIND, kernel), *bias)

    @property
    def token(self) -> Weight:
        """The class token: a row where positions are a table, else a batch of one sequence with one position (ViT)."""
        return Weight("embeddings.class_embedding", KIND, (self.width,) if self.position_table else (1, 1, self.width))

    @property
    def positions(self) -> Weight:
        """The positions, counted as an embedding where they are a table."""
        if not self.position_table:
            return Weight("embeddings.position_embedding", KIND, (1, self.num_positions, self.width))
        return Weight("embeddings.position_embedding", "embedding", (self.num_positions, self.width))

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.projection
        if self.class_token:
            yield self.token
        yield self.positions

    def record(self, run: Recording, pixels: Value, extent: ImageExtent, scope: str) -> Value:
        """Record the positions of the images; ``pixels`` stay with the caller."""
        tape, (weight, *bias) = run.tape, run.parameters(self.projection, scope)
        x = patches(tape, pixels, weight, bias[0] if bias else None, extent.images(self.num_patches * self.width))
        if run.checkpointed and run.lora is not None:
            tape.require_grad(x)  # PEFT's enable_input_require_grads, which takes patches for embeddings too
        if self.class_token:
            token = spread(tape, run.parameter(self.token, scope), extent.images(self.width))
            x = chain(tape, x, lambda t, value: behind(t, token, value))
        table = run.parameter(self.positions, scope)
        if not self.position_table:
            return placed(tape, x, value_of(table))
        found = embedding(tape, table, integers(tape, ZERO), extent.positions(self.width))
        x = placed(tape, x, found)
        tape.free(found)
        return x


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A vision transformer of equal layers; ``used_layers`` of them are read, so that the others get no gradient."""

    pixels: Pixels
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
    """Whether the last norm is over all positions, rather than over the class token's alone (CLIP)."""

    def extent(self, num_images: int) -> ImageExtent:
        """Return the extent of so many images per sequence."""
        return ImageExtent(num_images=num_images, positions_per_image=self.pixels.num_positions)

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, of every layer."""
        return tuple(linear for index in range(self.num_layers) for linear in self._linears(index))

    def _linears(self, index: int) -> tuple[Linear, ...]:
        return tuple(replace(linear, name=f"{self.scope}{index}.{linear.name}") for linear in self.layer.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from (_renamed(weight, self.scope) for weight in self.pixels.weights())
        yield from self.layer_weights()
        for norm in (self.first_norm, self.last_norm):
            if norm is not None:
                yield from (_renamed(weight, self.scope) for weight in norm.weights())

    def layer_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors of the layers."""
        for index in range(self.num_layers):
            yield from self._layer(index)

    def unread_weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that a language model reads no result of: later layers, the norm of the class token."""
        for index in range(self.used_layers, self.num_layers):
            yield from self._layer(index)
        if self.last_norm is not None and not self.whole_last_norm:
            yield from (_renamed(weight, self.scope) for weight in self.last_norm.weights())

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that nothing reads the result of."""
        return tuple(linear for index in range(self.used_layers, self.num_layers) for linear in self._linears(index))

    def _layer(self, index: int) -> Iterator[Weight]:
        yield from (_renamed(weight, f"{self.scope}{index}.") for weight in self.layer.weights())

    def record(self, run: Recording, pixels: Value, extent: ImageExtent) -> tuple[Value, Value]:
        """Record the layers that are read; return the first hidden state, which the tower's forward names, and the last."""
        first = self.pixels.record(run, pixels, extent, self.scope)
        first = chain(run.tape, first, lambda t, x: dropout(t, x, self.dropout))
        if self.first_norm is not None:
            norm = self.first_norm
            first = chain(run.tape, first, lambda _, x: run.norm(norm, x, self.scope))
        layer = ImageLayer(layer=self.layer, extent=extent)
        units, run.units = run.units, run.units if self.sharded else None
        last = repeated_beside(run, layer, self.used_layers, self.scope, first)
        run.units = units
        return first, last

    def one_layer(self, run: Recording, x: Value, extent: ImageExtent, scope: str) -> Value:
        """Record one more layer after ``x``, which is dropped."""
        units, run.units = run.units, run.units if self.sharded else None
        y = repeated(run, ImageLayer(layer=self.layer, extent=extent), 1, scope, x)
        run.units = units
        return y

    def normed(self, run: Recording, hidden: Value) -> Value:
        """Return the hidden state as a language model reads it: normalised where the last norm is over all positions."""
        if self.last_norm is None or not self.whole_last_norm:
            return run.tape.alias(hidden)
        return run.norm(self.last_norm, hidden, self.scope)

    def class_token(self, run: Recording, hidden: Value, extent: ImageExtent) -> Value:
        """Return the class token's state of each image, normalised where that is where the last norm stands."""
        token = narrow(run.tape, hidden, extent.images(self.pixels.width))
        if self.last_norm is None or self.whole_last_norm:
            return token
        norm = self.last_norm
        return chain(run.tape, token, lambda _, x: run.norm(norm, x, self.scope, rows=extent.images(1)))


def _renamed(weight: Weight, scope: str) -> Weight:
    return Weight(scope + weight.name, weight.kind, weight.shape)
