"""A recorded model: its weights, and its passes as programs."""

from dataclasses import dataclass

from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.recorded_pass import RecordedPass


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedHeads:
    """Keys and values that one attention caches of a token.

    Latent attention (arXiv:2405.04434) has one head, whose key is the latent and whose value is the
    rotated part.
    """

    num_heads: int
    key_size: int
    value_size: int
    index_size: int = 0
    """Elements of an index over the keys, which all heads share (sparse attention)."""

    @property
    def elements(self) -> int:
        """Elements of a token's keys and values."""
        return self.num_heads * (self.key_size + self.value_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceState:
    """State of each sequence in one layer.

    ``convolution`` is channels and positions of the last inputs of a causal convolution,
    ``recurrent`` the shape of what has come of all tokens; either may be empty.
    """

    convolution: tuple[int, ...]
    recurrent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheParts:
    """Parts of the cache that one kind of layer keeps."""

    caches: tuple[CachedHeads, ...] = ()
    window: int | None = None
    """The most tokens of each sequence that it keeps; None is all."""
    states: tuple[SequenceState, ...] = ()
    other: str = ""
    """Class of a layer's cache whose parts are not known; empty where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLayer:
    """One kind of layer, its weights named as in it."""

    weights: tuple[Weight, ...]
    linears: tuple[Linear, ...]
    cache_elements: int = 0
    """Elements of key and value that a cache keeps per token."""
    cache_window: int | None = None
    """The most tokens that it keeps; None is all."""
    plan: tuple[tuple[str, str], ...] = ()
    """Styles of transformers' tensor-parallel plan (``base_model_tp_plan``) by the names of modules
    and parameters in the layer; what is not in it stays whole on every rank.
    """
    cache: CacheParts | None = None
    """What its cache keeps, part by part; None where that was not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpec(DecoderSpec):
    """Numbers of a recorded model, and which recording it is.

    Answers are cached by a model's numbers: those of two recordings may be equal.
    """

    recording: str
    """SHA-256 of what was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """A model type's implementation as it ran, without its weights."""

    spec: RecordedSpec
    model_type: str
    model_class: str
    transformers: str
    torch: str
    layers: tuple[RecordedLayer, ...]
    order: tuple[int, ...]
    outer_weights: tuple[Weight, ...]
    outer_linears: tuple[Linear, ...]
    embedding: str
    head: str
    buffer_bytes: int
    """Bytes of buffers that have the same dtype in every model."""
    buffer_elements: int = 0
    """Elements of buffers that have the weights' dtype."""
    rotary_elements: int = 0
    """Elements per position of a rotary table, of which engines keep one for all positions."""
    length_step: int = 1
    """Tokens of which a length is a multiple where the recording is exact."""
    difference: int = 0
    """Bytes by which its peak missed that of the model itself, where it was not equal."""
    outer_plan: tuple[tuple[str, str], ...] = ()
    """The tensor-parallel plan outside of the layers."""
    max_length: int = 0
    """Most tokens of a sequence for which it holds, 0 for any: a window cuts longer ones."""
    min_batch: int = 1
    """Fewest sequences for which it holds: 2 where one alone takes other tensors."""
    passes: dict[str, RecordedPass]
    """By variant: ``fp32``, ``half``, ``autocast``; ``…/frozen`` where no weight is trained,
    ``…/prefill`` and ``…/decode`` with a dynamic cache.
    """

    @property
    def digest(self) -> str:
        """SHA-256 of what was recorded."""
        return self.spec.recording

    @property
    def has_plain_loss(self) -> bool:
        """Whether the loss is cross entropy on the head's own logits."""
        return all(part.has_plain_loss for part in self.passes.values() if part.loss is not None)
