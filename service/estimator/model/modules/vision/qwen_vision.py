"""Vision encoder of Qwen2-VL and Qwen2.5-VL.

Patches of any number of images lie in one row; attention runs image by image. Operations are those
of transformers 5.23 (``models/qwen2_vl/modeling_qwen2_vl.py``, ``models/qwen2_5_vl``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import isqrt, prod

from service.estimator.model.block_module import BlockModule
from service.estimator.model.images import Images
from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.attention.returned_weights import compute_dtype
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.vision.chunks import SingleChunkShape, split_windows
from service.estimator.model.modules.vision.encoder import ImageLayer
from service.estimator.model.modules.vision.image_shape import (
    ImageShape,
    MixedShape,
    record_over_images,
)
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import record_blocks
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import activate_saving_input, add, cast, chain, rotate
from service.estimator.tape.ops.images import (
    allocate_pixels,
    embed_patches,
    rearrange,
    restack_images,
    save_bytes,
    select_rows,
)
from service.estimator.tape.ops.products import allocate_integers, copy_contiguous, split
from service.estimator.tape.sizes import scale, subtract
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention as Kernel

EAGER_BYTES = 4
"""A softmax in fp32 keeps its output; the product after it keeps a cast of that where its dtype is
another.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedAttention:
    """Attention over patches within each chunk (``VisionAttention``).

    ``chunk`` is the positions of one chunk; None is a complete image.
    """

    projection: Linear
    output: Linear
    num_heads: int
    chunk: int | None = None
    patch_size: int = 14
    """Pixels of a patch's side, by which named sizes are cut into windows."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.projection, self.output)

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape, size = ctx.tape, ctx.shape.tokens(self.output.in_features)
        fused = chain(tape, ctx.linear(self.projection, x, scope), rearrange)
        query, key, value = split(tape, fused, (size, size, size))
        turned = self._rotate(tape, query, key)
        tape.free(query, key)
        parts = [chain(tape, part, rearrange) for part in (*turned, value)]
        mixed = self._attend(ctx, parts[0], parts[1], parts[2])
        joined = chain(tape, mixed, copy_contiguous)
        result = chain(tape, joined, lambda _, y: ctx.linear(self.output, y, scope))
        tape.free(*parts)
        return result

    def _rotate(self, tape: Tape, query: Value, key: Value) -> tuple[Value, Value]:
        """Return rotated query and key, computed in fp32 from any dtype."""
        sources = [cast(tape, x, DType.FP32) for x in (query, key)]
        rotated = [rotate(tape, x, DType.FP32) for x in sources]
        turned = [chain(tape, y, lambda t, value: cast(t, value, query.dtype)) for y in rotated]
        tape.free(*sources)
        return turned[0], turned[1]

    def _attend(self, ctx: Recording, query: Value, key: Value, value: Value) -> Value:
        """Record the attention and return what queries read.

        Eager scores exist for one chunk at a time, but for what each chunk keeps for backward.
        """
        chunks, names, source = self._split_chunks(ctx), ctx.layer_locals, query
        eager = ctx.settings.attention is Kernel.EAGER
        if eager:
            all_scores, chunk_scores = (
                chunks.scores(self.num_heads),
                SingleChunkShape.from_chunks(chunks).scores(self.num_heads),
            )
            width = (
                EAGER_BYTES
                + (compute_dtype(ctx) is not DType.FP32) * compute_dtype(ctx).bytes_per_element
            )
            source = save_bytes(ctx.tape, query, scale(subtract(all_scores, chunk_scores), width))
        ctx.layer_locals = None
        with record_over_images(ctx, SingleChunkShape.from_chunks(chunks) if eager else chunks):
            mixed = attend(ctx, source, key, value, self._build_attention_config())
        ctx.layer_locals = names
        if eager:
            ctx.tape.free(source)
        return mixed

    def _split_chunks(self, ctx: Recording) -> ImageShape:
        shape, grids = ctx.shape, ctx.settings.images.grids if ctx.settings.images else ()
        assert isinstance(shape, ImageShape)  # noqa: S101 - the tower's layers are recorded over images
        if self.chunk is not None and grids:
            return split_windows(grids, self.patch_size, isqrt(self.chunk))
        if self.chunk is None or self.chunk >= shape.positions_per_image:
            return shape
        chunks = -(-shape.positions_per_image // self.chunk)
        return replace(shape, num_images=shape.num_images * chunks, positions_per_image=self.chunk)

    def _build_attention_config(self) -> AttentionConfig:
        return AttentionConfig(
            num_heads=self.num_heads, num_kv_heads=self.num_heads, causal=False, one_by_one=True
        )


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
        pixels = allocate_pixels(tape, shape.tokens(prod(patch_shape)), ctx.settings.dtype)
        with record_over_images(ctx, shape):
            x = embed_patches(tape, pixels, ctx.parameter(self.kernel), None, shape.tokens(width))
            if ctx.settings.checkpointed and ctx.settings.lora is not None:
                # PEFT's enable_input_require_grads, which takes patches for embeddings too.
                tape.require_grad(x)
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

        A graph keeps a cosine and a sine in fp32 for every patch until all layers are through.
        """
        tape, size = ctx.tape, count_bytes(shape.tokens(self.head_dim), DType.FP32)
        tables: list[Storage] = [tape.allocate(Category.ACTIVATIONS, size) for _ in range(2)]
        tape.hook(lambda: tape.release(*tables))
        for number, (layer, equal) in enumerate(groupby(self.layers)):
            over_images: BlockModule = ImageLayer(layer=layer, shape=shape)
            x = record_blocks(ctx, over_images, len(list(equal)), f"{self.scope}{number}.", x)
        if not x.requires_grad:
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
