"""Vision encoder of Qwen2-VL and Qwen2.5-VL.

Patches of any number of images lie in one row; attention runs image by image. Operations are those
of transformers 5.23 (``models/qwen2_vl/modeling_qwen2_vl.py``, ``models/qwen2_5_vl``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from service.estimator.model.block_module import BlockModule
from service.estimator.model.images import Images
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.vision.chunked_attention import ChunkedAttention
from service.estimator.model.modules.vision.encoder import ImageLayer
from service.estimator.model.modules.vision.image_shape import (
    ImageShape,
    MixedShape,
    record_over_images,
)
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import record_blocks
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import activate_saving_input, add, chain
from service.estimator.tape.ops.images import embed_patches, restack_images, select_rows
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLayer:
    """Pre-norm attention and feed-forward layer (``Qwen2VLVisionBlock``).

    Each sublayer is normalised first and added to what it read.
    """

    attention_norm: Norm
    attention: ChunkedAttention
    feed_forward_norm: Norm
    feed_forward: FeedForward | GatedFeedForward

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for norm in (self.attention_norm, self.feed_forward_norm):
            yield from norm.weights()
        for layer in self.linears():
            yield from layer.weights()

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
        tape = ctx.tape
        mixed = chain(
            tape,
            ctx.norm(self.attention_norm, x, scope),
            lambda _, y: self.attention.record(ctx, y, scope),
        )
        middle = add(tape, x, mixed)
        tape.free(mixed, x)
        fed = chain(
            tape,
            ctx.norm(self.feed_forward_norm, middle, scope),
            lambda _, y: self.feed_forward.record(ctx, y, scope),
        )
        y = add(tape, middle, fed)
        tape.free(fed, middle)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchVisionEncoder:
    """Patches, layers and a merger (``Qwen2VisionTransformerPretrainedModel``).

    The merger makes one token of ``patches_per_token`` patches.
    """

    kernel: Weight
    layers: tuple[PatchLayer, ...]
    norm: Norm
    merger: tuple[Linear, Linear]
    patches_per_token: int
    head_dim: int
    patch_size: int = 14
    reorders: bool = False
    """Whether patches are put in the order of windows before the layers, and tokens back after them
    (Qwen2.5-VL).
    """
    scope: str = "visual."

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors."""
        outer = [weight for part in (self.norm, *self.merger) for weight in part.weights()]
        return (self.kernel, *self.layer_weights(), *outer)

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers."""
        inner = [
            (self._layer_scope(index), weight)
            for index, layer in enumerate(self.layers)
            for weight in layer.weights()
        ]
        return tuple(Weight(scope + w.name, w.kind, w.shape) for scope, w in inner)

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        inner = [
            (self._layer_scope(index), layer)
            for index, block in enumerate(self.layers)
            for layer in block.linears()
        ]
        return (*(replace(layer, name=scope + layer.name) for scope, layer in inner), *self.merger)

    def unread_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors whose result is never read: none."""
        return ()

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers whose result is never read: none."""
        return ()

    def _layer_scope(self, index: int) -> str:
        return f"{self.scope}{index}."

    def record(self, ctx: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record the encoder; return its features and what forward names."""
        tape = ctx.tape
        tokens, shape = self._build_shapes(images)
        width, *patch_shape = self.kernel.shape
        pixels = ctx.take_input(shape.tokens(prod(patch_shape)))
        with record_over_images(ctx, shape):
            x = embed_patches(tape, pixels, ctx.parameter(self.kernel), None, shape.tokens(width))
            ctx.require_input_grad(x)  # patches are taken for embeddings too
            x = self._reorder(ctx, x, tokens)
            last = self._record_layers(ctx, x, shape)
            normed = ctx.norm(self.norm, last, "")
        with record_over_images(ctx, tokens):
            inner = chain(tape, normed, lambda _, y: ctx.linear(self.merger[0], y, ""))
            activated = chain(tape, inner, activate_saving_input)
            projected = chain(tape, activated, lambda _, y: ctx.linear(self.merger[1], y, ""))
            projected = self._reorder(ctx, projected, tokens)
        return restack_images(tape, projected), (last, projected)

    def _build_shapes(self, images: Images) -> tuple[ImageShape, ImageShape]:
        """Return the shapes of all tokens and of all patches."""
        groups = [
            (grid.count, (grid.height // self.patch_size) * (grid.width // self.patch_size))
            for grid in images.grids
        ] or [(images.per_sequence, images.tokens * self.patches_per_token)]
        tokens = MixedShape.from_groups(
            (count, patches // self.patches_per_token) for count, patches in groups
        )
        return tokens, MixedShape.from_groups(groups)

    def _record_layers(self, ctx: Recording, x: Value, shape: ImageShape) -> Value:
        """Record the layers with their rotary tables.

        A graph keeps a cosine and a sine in fp32 for every patch until all layers are through, but
        where each layer reads a cast of them.
        """
        tape, size = ctx.tape, count_bytes(shape.tokens(self.head_dim), DType.FP32)
        tables: list[Storage] = [tape.allocate(Category.ACTIVATIONS, size) for _ in range(2)]
        tape.hook(lambda: tape.release(*tables))
        for number, (layer, equal) in enumerate(groupby(self.layers)):
            over_images: BlockModule = ImageLayer(layer=layer, shape=shape)
            x = record_blocks(ctx, over_images, len(list(equal)), f"{self.scope}{number}.", x)
        if not x.requires_grad or (ctx.settings.input_dtype and not ctx.settings.checkpointed):
            tape.release(*tables)
            tables.clear()
        return x

    def _reorder(self, ctx: Recording, x: Value, tokens: ImageShape) -> Value:
        """Return the rows in another order.

        An index per token is kept.
        """
        if not self.reorders:
            return x
        index = allocate_integers(ctx.tape, tokens.tokens(1))
        y = chain(ctx.tape, x, lambda t, value: select_rows(t, value, index))
        ctx.tape.free(index)
        return y
