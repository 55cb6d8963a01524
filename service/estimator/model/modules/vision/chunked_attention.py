"""Attention of Qwen2-VL's vision encoder, chunk by chunk.

Operations are those of transformers 5.23 (``models/qwen2_5_vl/modeling_qwen2_5_vl.py``,
``Qwen2_5_VLVisionAttention``).
"""

from dataclasses import dataclass, replace
from math import isqrt

from service.estimator.model.modules.attention.dispatch import AttentionConfig, attend
from service.estimator.model.modules.attention.returned_weights import compute_dtype
from service.estimator.model.modules.vision.chunks import SingleChunkShape, split_windows
from service.estimator.model.modules.vision.image_shape import ImageShape, record_over_images
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import cast, chain, rotate
from service.estimator.tape.ops.images import save_bytes
from service.estimator.tape.ops.products import copy_contiguous, split
from service.estimator.tape.ops.views import rearrange
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
        turned = self._rotate(ctx, query, key)
        tape.free(query, key)
        parts = [chain(tape, part, rearrange) for part in (*turned, value)]
        mixed = self._attend(ctx, parts[0], parts[1], parts[2])
        joined = chain(tape, mixed, copy_contiguous)
        result = chain(tape, joined, lambda _, y: ctx.linear(self.output, y, scope))
        tape.free(*parts)
        return result

    def _rotate(self, ctx: Recording, query: Value, key: Value) -> tuple[Value, Value]:
        """Return rotated query and key, computed in fp32 from any dtype."""
        tape, tables = ctx.tape, self._cast_tables(ctx)
        sources = [cast(tape, x, DType.FP32) for x in (query, key)]
        rotated = [rotate(tape, x, DType.FP32, tables) for x in sources]
        turned = [chain(tape, y, lambda t, value: cast(t, value, query.dtype)) for y in rotated]
        tape.free(*sources, *tables)
        return turned[0], turned[1]

    def _cast_tables(self, ctx: Recording) -> tuple[Value, ...]:
        """Return the layer's tables, where its inputs were cast.

        A cosine and a sine are cast back to fp32 then, which otherwise are those of all layers.
        """
        if ctx.settings.input_dtype is None:
            return ()
        numel = ctx.shape.tokens(self.output.in_features // self.num_heads)
        size = count_bytes(numel, DType.FP32)
        storages = [ctx.tape.allocate(Category.ACTIVATIONS, size) for _ in range(2)]
        return tuple(Value(storage, numel, DType.FP32) for storage in storages)

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
