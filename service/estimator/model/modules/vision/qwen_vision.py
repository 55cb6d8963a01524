"""The image tower of Qwen2-VL and Qwen2.5-VL: patches of any number of images in one row, attention image by image.

Operations are those of transformers 5.23 (``models/qwen2_vl/modeling_qwen2_vl.py``, ``models/qwen2_5_vl``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from service.estimator.model.block_module import BlockModule
from service.estimator.model.images import Images
from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.modules.attention.returned_weights import compute_dtype
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.vision.encoder import ImageExtent, ImageLayer, reading
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import repeated
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add, cast, chain, from_input, rotate
from service.estimator.tape.ops.images import keeping, patches, picked, pixels_of, regrouped, restacked
from service.estimator.tape.ops.products import copy_of, integers, split
from service.estimator.tape.sizes import Size, constant, scale, subtract
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention as Kernel

EAGER_BYTES = 4
"""A softmax in fp32 keeps its output; the product after it keeps a cast of that where its dtype is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneChunk(ImageExtent):
    """Chunks of images of which one at a time is scored."""

    @classmethod
    def of(cls, chunks: ImageExtent) -> "OneChunk":
        """Return the same chunks, scored one by one."""
        return cls(num_images=chunks.num_images, positions_per_image=chunks.positions_per_image)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of one chunk."""
        return constant(count * self.positions_per_image**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedAttention:
    """Attention over patches, each chunk for itself; ``chunk`` None is a whole image (``VisionAttention``)."""

    projection: Linear
    output: Linear
    num_heads: int
    chunk: int | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.projection, self.output)

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape, size = run.tape, run.extent.tokens(self.output.in_features)
        fused = chain(tape, run.linear(self.projection, x, scope), regrouped)
        query, key, value = split(tape, fused, (size, size, size))
        turned = self._turned(tape, query, key)
        tape.free(query, key)
        parts = [chain(tape, part, regrouped) for part in (*turned, value)]
        mixed = self._attended(run, parts[0], parts[1], parts[2])
        joined = chain(tape, mixed, copy_of)
        result = chain(tape, joined, lambda _, y: run.linear(self.output, y, scope))
        tape.free(*parts)
        return result

    def _turned(self, tape: Tape, query: Value, key: Value) -> tuple[Value, Value]:
        """Return query and key with positions, worked out in fp32 whatever they come in."""
        sources = [cast(tape, x, DType.FP32) for x in (query, key)]
        rotated = [rotate(tape, x, DType.FP32) for x in sources]
        turned = [chain(tape, y, lambda t, value: cast(t, value, query.dtype)) for y in rotated]
        tape.free(*sources)
        return turned[0], turned[1]

    def _attended(self, run: Recording, query: Value, key: Value, value: Value) -> Value:
        """Return what queries read: eager scores are there for one chunk at a time, but for what each keeps for backward."""
        chunks, names, source = self._chunks(run), run.names, query
        eager = run.attention is Kernel.EAGER
        if eager:
            whole, one = chunks.scores(self.num_heads), OneChunk.of(chunks).scores(self.num_heads)
            width = EAGER_BYTES + (compute_dtype(run) is not DType.FP32) * compute_dtype(run).bytes_per_element
            source = keeping(run.tape, query, scale(subtract(whole, one), width))
        run.names = None
        with reading(run, OneChunk.of(chunks) if eager else chunks):
            mixed = attend(run, source, key, value, self._scoring())
        run.names = names
        if eager:
            run.tape.free(source)
        return mixed

    def _chunks(self, run: Recording) -> ImageExtent:
        extent = run.extent
        assert isinstance(extent, ImageExtent)  # noqa: S101 - the tower's layers are recorded over images
        if self.chunk is None or self.chunk >= extent.positions_per_image:
            return extent
        chunks = -(-extent.positions_per_image // self.chunk)
        return replace(extent, num_images=extent.num_images * chunks, positions_per_image=self.chunk)

    def _scoring(self) -> Scoring:
        return Scoring(num_heads=self.num_heads, num_kv_heads=self.num_heads, causal=False, one_by_one=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLayer:
    """Attention, then feed-forward, each normalised first and added to what it read (``Qwen2VLVisionBlock``)."""

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
        """Elements of key and value that a cache keeps for one token: none."""
        return 0

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        mixed = chain(tape, run.norm(self.attention_norm, x, scope), lambda _, y: self.attention.record(run, y, scope))
        middle = add(tape, x, mixed)
        tape.free(mixed, x)
        fed = chain(tape, run.norm(self.feed_forward_norm, middle, scope), lambda _, y: self.feed_forward.record(run, y, scope))
        y = add(tape, middle, fed)
        tape.free(fed, middle)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSight:
    """Patches, layers, and a merger of ``merged`` patches into one token (``Qwen2VisionTransformerPretrainedModel``)."""

    kernel: Weight
    layers: tuple[PatchLayer, ...]
    norm: Norm
    merger: tuple[Linear, Linear]
    merged: int
    head_dim: int
    reorders: bool = False
    """Whether patches are put in the order of windows before the layers, and tokens back after them (Qwen2.5-VL)."""
    scope: str = "visual."

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors."""
        outer = [weight for part in (self.norm, *self.merger) for weight in part.weights()]
        return (self.kernel, *self.layer_weights(), *outer)

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers."""
        inner = [(self._at(index), weight) for index, layer in enumerate(self.layers) for weight in layer.weights()]
        return tuple(Weight(scope + w.name, w.kind, w.shape) for scope, w in inner)

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        inner = [(self._at(index), layer) for index, block in enumerate(self.layers) for layer in block.linears()]
        return (*(replace(layer, name=scope + layer.name) for scope, layer in inner), *self.merger)

    def unread_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors that nothing reads the result of: none."""
        return ()

    def unread_linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that nothing reads the result of: none."""
        return ()

    def _at(self, index: int) -> str:
        return f"{self.scope}{index}."

    def record(self, run: Recording, images: Images) -> tuple[Value, tuple[Value, ...]]:
        """Record the tower; return the features, and what the model's forward names until its end."""
        tape = run.tape
        tokens = ImageExtent(num_images=images.per_sequence, positions_per_image=images.tokens)
        extent = replace(tokens, positions_per_image=images.tokens * self.merged)
        width, *rest = self.kernel.shape
        pixels = pixels_of(tape, extent.tokens(prod(rest)), run.dtype)
        with reading(run, extent):
            x = patches(tape, pixels, run.parameter(self.kernel), None, extent.tokens(width))
            if run.checkpointed and run.lora is not None:
                tape.require_grad(x)  # PEFT's enable_input_require_grads, which takes patches for embeddings too
            x = self._reordered(run, x, tokens)
            last = self._stack(run, x, extent)
            normed = run.norm(self.norm, last, "")
        with reading(run, tokens):
            inner = chain(tape, normed, lambda _, y: run.linear(self.merger[0], y, ""))
            activated = chain(tape, inner, from_input)
            projected = chain(tape, activated, lambda _, y: run.linear(self.merger[1], y, ""))
            projected = self._reordered(run, projected, tokens)
        return restacked(tape, projected), (last, projected)

    def _stack(self, run: Recording, x: Value, extent: ImageExtent) -> Value:
        """Record the layers, with a cosine and a sine in fp32 for every patch, which a graph keeps until they are through."""
        tape, size = run.tape, bytes_of(extent.tokens(self.head_dim), DType.FP32)
        tables: list[Storage] = [tape.allocate(Category.ACTIVATIONS, size) for _ in range(2)]
        tape.hook(lambda: tape.release(*tables))
        for number, (layer, equal) in enumerate(groupby(self.layers)):
            over_images: BlockModule = ImageLayer(layer=layer, extent=extent)
            x = repeated(run, over_images, len(list(equal)), f"{self.scope}{number}.", x)
        if not x.requires_grad:
            tape.release(*tables)
            tables.clear()
        return x

    def _reordered(self, run: Recording, x: Value, tokens: ImageExtent) -> Value:
        """Return rows in another order, by an index per token that is kept."""
        if not self.reorders:
            return x
        index = integers(run.tape, tokens.tokens(1))
        y = chain(run.tape, x, lambda t, value: picked(t, value, index))
        run.tape.free(index)
        return y
