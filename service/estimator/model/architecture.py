"""Model architectures as trees of typed modules.

A tree has an embedding, blocks with their repeat count, a final norm and a head.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256

from service.estimator.model.block_module import BlockModule
from service.estimator.model.counting import ParameterCounts, count_parameters
from service.estimator.model.images import ImageInput
from service.estimator.model.layer_periods import split_periods
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.task_head import TaskHead
from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.model.weights.unpacked import UnpackedWeights
from service.estimator.tape.nodes import Value
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError

Finish = Callable[[Recording, Value], Value]
Masks = tuple[tuple[int | None, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOutput:
    """First hidden state, and the values that outlive the embedding.

    ``names`` are what the model's forward has local names for until its end, ``x`` as well when
    ``x_is_local``; ``layer_args`` are every layer's arguments, which a checkpoint keeps, ``masks``
    those of layers of a window; ``saved`` each backward reads; ``outputs`` the model returns.
    """

    x: Value
    x_is_local: bool = True
    names: tuple[Value, ...] = ()
    layer_args: tuple[Value, ...] = ()
    saved: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    masks: Masks = ()


Embed = Callable[[Recording, Value], EmbeddingOutput]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Model tree; ``blocks`` pairs each kind of block with its count."""

    spec: DecoderSpec
    embedding: Weight
    position_embedding: Weight | None
    blocks: tuple[tuple[BlockModule, int], ...]
    final_norm: Norm | None
    head: Linear
    """Output layer; one of no features where the model returns its hidden states."""
    task: TaskHead | None = None
    """Head of another task than the family's own."""
    stem: tuple[Weight, ...] = ()
    """Parameter tensors outside of the blocks, but the tables, the final norm and the head."""
    rotary_tables: tuple[int, ...] = ()
    """Elements per position of each table that all layers share (cosine, sine)."""
    rotary_stretch: int = 1
    """Ratio of the positions that engines keep in the first of those tables to the context's."""
    tables_per_token: bool = False
    """Whether each sequence has tables of its own (Qwen2-VL's three axes)."""
    rotary_dtype: DType | None = None
    """Number format of those tables, where it is not that of the hidden states."""
    layers_keep_tables: bool = True
    """Whether the backward of layers reads those tables themselves, rather than tensors that each
    layer makes of them (glm).
    """
    recurrent: bool = False
    """Whether layers keep a state for each sequence, which no cache of tokens holds."""
    chunked: bool = False
    """Whether a layer divides its sequence into chunks: a recording holds for one length only."""
    batch_dependent: bool = False
    """Whether one sequence alone takes other tensors than several, whatever attention runs."""
    shares_weights: bool = False
    """Whether several layers use one block, each with more weights of its own."""
    images: ImageInput | None = None
    """Image input of the model; None where it takes none."""
    walker: tuple[str, str] | None = None
    """Module and class of the ``ModelWalk`` for a model that is no stack between a token table and
    a head.
    """
    never_trained: frozenset[str] = frozenset()
    """Names of the parameter tensors that get no gradient: those of ``fixed``, and unread ones."""
    fixed: frozenset[str] = frozenset()
    """Names of those that require none (Whisper's sinusoids), so that no optimizer gets them."""
    only_eager: bool = False
    """Whether SDPA cannot run its attention (a soft cap on scores), so that transformers falls back
    to eager.
    """
    writes_out_attention: bool = False
    """Whether the model's own code computes its scores, whatever kernel is asked for."""
    always_masked: bool = False
    """Whether attention gets a mask even where a flag would do."""
    order: tuple[int, ...] = ()
    """Each layer's index of its kind in ``blocks``; left out when equal layers stand together."""
    scales_embedding: bool = False
    """Whether the embedding module multiplies its rows by a constant (gemma)."""
    masks: tuple[int | None, ...] = (None,)
    """The sliding window, or None for none, of each mask that the model makes once for all of its
    layers.
    """
    buffer_bytes: int = 0
    """Bytes of non-trained buffers, such as rotary frequencies."""
    buffer_elements: int = 0
    """Elements of buffers in the dtype of the weights, such as the factor of scaled embeddings."""
    layer_buffer_elements: int = 0
    """Of these, the elements that belong to each layer."""
    layer_buffer_bytes: tuple[int, ...] = ()
    """Of these, the bytes that belong to one layer of each kind of block, where any do."""
    finish_embedding: Finish | None = None
    """Changes to the embeddings before the first layer; the embeddings stay with the caller."""
    embed: Embed | None = None
    """Everything from the token embeddings, which it takes over, to the first layer, tables
    included.
    """
    finish_body: Finish | None = None
    """The last operation of the body, whose output takes the last hidden state's name."""
    finish_hidden: Finish | None = None
    """Operations between the last hidden state, which stays with the caller, and the head."""
    shifts_labels: bool = True
    """Whether the loss predicts the next token, as a decoder's does, or the labels as they are, as
    an encoder's.
    """
    upcasts_logits: bool = True
    """Whether the loss is computed in fp32."""
    outer_linears: tuple[Linear, ...] = ()
    """Linear layers outside of the blocks that adapters can target."""
    finish_logits: Finish | None = None
    """Changes to the logits before the loss; it drops them."""
    quantization: Scheme | None = None
    """Storage of the checkpoint's own weights, where they are quantised; counts of parameters are
    those of the model.
    """
    unpacked: UnpackedWeights | None = None
    """Storage of the checkpoint's weights where a library unpacks them."""
    gguf: GgufBytes | None = None
    """Bytes of the tensors of the GGUF file that it came as."""
    counts: ParameterCounts = field(init=False)

    def __post_init__(self) -> None:
        """Count the parameters once."""
        object.__setattr__(
            self, "counts", count_parameters(self.weights(), self.blocks, self.embedding)
        )

    @property
    def family(self) -> str:
        """The ``model_type`` that the model was read from."""
        return self.spec.family

    @property
    def num_hidden_layers(self) -> int:
        """Blocks in all."""
        return self.spec.num_hidden_layers

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding."""
        return self.spec.vocab_size

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding's table."""
        return self.spec.tie_word_embeddings

    @property
    def head_unit_elements(self) -> int:
        """Elements of final norm and untied head, which FSDP2 can shard."""
        return sum(weight.numel for weight in self.head_unit_weights)

    @property
    def root_elements(self) -> int:
        """Elements outside of all layers: the root unit of sharded parameters."""
        return self.counts.outside_blocks - sum(weight.numel for weight in self.tower_layer_weights)

    @property
    def tower_layer_weights(self) -> tuple[Weight, ...]:
        """Tensors of the layers of a tower next to the language model."""
        return self.images.layer_weights if self.images is not None else ()

    @property
    def head_unit_weights(self) -> tuple[Weight, ...]:
        """Tensors of final norm and head, a unit of their own."""
        norm = self.final_norm.weights() if self.final_norm is not None else ()
        return () if self.tied else (*norm, *self.list_head_weights())

    @property
    def generates(self) -> bool:
        """Whether the model writes text token by token."""
        return self.shifts_labels and self.task is None

    def list_head_weights(self) -> tuple[Weight, ...]:
        """Return the tensors of the output layer, a tied table among them."""
        return tuple(self.head.weights()) if self.head.out_features else ()

    def parameter_counts(self) -> ParameterCounts:
        """Return the parameters, counted on the tree."""
        return self.counts

    def weight_bytes(self, dtype: DType) -> int:
        """Return the bytes of all parameters in ``dtype``."""
        return self.counts.total * dtype.bytes_per_element

    def buffer_bytes_in(self, dtype: DType) -> int:
        """Return the bytes of all buffers other than weights in ``dtype``."""
        return self.buffer_bytes + self.buffer_elements * dtype.bytes_per_element

    def weights(self) -> Iterator[tuple[Weight, int]]:
        """Yield every parameter tensor that has rows with its occurrences."""
        if self.embedding.numel:
            yield self.embedding, 1
        if self.position_embedding is not None:
            yield self.position_embedding, 1
        for block, count in self.blocks:
            for weight in block.weights():
                yield weight, count
        for weight in (
            *self.stem,
            *(self.final_norm.weights() if self.final_norm is not None else ()),
        ):
            yield weight, 1
        for weight in self.list_head_weights()[self.tied :]:
            yield weight, 1

    def describe(self) -> dict[str, object]:
        """Return the model's own specification as JSON values."""
        stored = {"quantization": self.quantization, "gguf": self.gguf}
        return asdict(self.spec) | {name: part.describe() for name, part in stored.items() if part}

    def with_layers(self, num_layers: int) -> "Architecture":
        """Return the model cut to its first layers."""
        if not 1 <= num_layers <= self.num_hidden_layers:
            message = f"num_layers is {num_layers}; the model has {self.num_hidden_layers}"
            raise InvalidInputError(message, field="num_layers")
        order = self.order[:num_layers]
        blocks, remaining = [], num_layers
        for kind, (block, count) in enumerate(self.blocks):
            num_taken = order.count(kind) if order else min(count, remaining)
            blocks.append((block, num_taken))
            remaining -= num_taken
        present = [kind for kind, (_, count) in enumerate(blocks) if count]
        kept_blocks = tuple((block, count) for block, count in blocks if count)
        return replace(
            self,
            spec=replace(self.spec, num_hidden_layers=num_layers),
            blocks=kept_blocks,
            order=tuple(present.index(kind) for kind in order),
            rotary_tables=self.rotary_tables[: 2 * len(present)],
            buffer_bytes=self.buffer_bytes - self._sum_dropped_buffers(blocks),
            buffer_elements=self.buffer_elements
            - self.layer_buffer_elements * (self.num_hidden_layers - num_layers),
            layer_buffer_bytes=self.layer_buffer_bytes[: len(kept_blocks)],
            gguf=self.gguf and self.gguf.with_layers(num_layers),
            unpacked=self.unpacked and self.unpacked.with_layers(num_layers),
        )

    def runs(self) -> tuple[tuple[tuple[tuple[BlockModule, int], ...], int], ...]:
        """Return the layers in order as repeated periods.

        A period is runs of equal blocks, and each comes with the number of its repeats.
        """
        if not self.order:
            return tuple(((group,), 1) for group in self.blocks)
        return tuple(
            (tuple((self.blocks[kind][0], length) for kind, length in period), times)
            for period, times in split_periods(self.order)
        )

    def _sum_dropped_buffers(self, kept_blocks: list[tuple[BlockModule, int]]) -> int:
        """Return the buffer bytes of layers and kinds that are cut off."""
        pairs = zip(self.blocks, kept_blocks, strict=True)
        dropped = [count - num_kept for (_, count), (_, num_kept) in pairs]
        tables = self.rotary_tables[2 * sum(count > 0 for _, count in kept_blocks) :]
        sizes = zip(self.layer_buffer_bytes, dropped, strict=False)
        return sum(size * count for size, count in sizes) + 4 * sum(dim // 2 for dim in tables)

    def fingerprint(self, *, depth: bool = True) -> str:
        """Return the SHA-256 of the structure, with or without its depth.

        Switches at their defaults are left out, so that a new switch does not make old measurements
        unreachable.
        """
        defaults = {item.name: item.default for item in fields(self.spec)}
        described = {
            name: value for name, value in self.describe().items() if value != defaults.get(name)
        }
        depths = () if depth else ("num_hidden_layers", "num_encoder_layers", "gguf")
        for name in ("num_predictors", *depths):
            described.pop(name, None)
        return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
