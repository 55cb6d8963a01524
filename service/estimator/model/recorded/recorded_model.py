"""A recorded model: its weights, and its passes as programs."""

from dataclasses import dataclass

from service.estimator.model.recorded.inputs import RecordedInput
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.program import Operation, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass, has_steps
from service.estimator.values.dtypes import DType

MAX_TOKENS = 2**40
"""More than any sequence has."""


def get_variant(name: str) -> str:
    """Return the variant of which a pass is a piece."""
    return name.partition("+")[0]


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
    state_dtype: DType | None = None
    """Number format of recurrent states that the config names (``mamba_ssm_dtype``)."""
    cached_state_dtype: DType | None = None
    """The same by the name that Nemotron-H has for it (``mamba_ssm_cache_dtype``)."""


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
    difference: int = 0
    """Bytes by which its peak missed that of the model itself, where it was not equal."""
    outer_plan: tuple[tuple[str, str], ...] = ()
    """The tensor-parallel plan outside of the layers."""
    reads: RecordedInput | None = None
    """Pixels or audio that it reads in place of tokens; None where it reads tokens."""
    passes: dict[str, RecordedPass]
    """By variant: ``fp32``, ``half``, ``autocast`` over weights in fp32, ``half_autocast`` over
    weights in 16 bits, ``gathered`` of such weights beside buffers in fp32, where a model has some
    in the weights' format; ``…/frozen`` where no weight is trained, ``…/prefill`` and ``…/decode``
    with a dynamic cache, ``…/forward`` without labels. Where a variant has pieces, ``+1``, ``+2``
    follow its name.
    """

    @property
    def digest(self) -> str:
        """SHA-256 of what was recorded."""
        return self.spec.recording

    def list_pieces(self, variant: str) -> list[RecordedPass]:
        """Return the passes of a variant, each with its batches and lengths."""
        return [part for name, part in self.passes.items() if get_variant(name) == variant]

    @property
    def has_one_pass(self) -> bool:
        """Whether it is served by one pass, without a cache."""
        return any(name.endswith("/forward") for name in self.variants)

    @property
    def depends_on_length(self) -> bool:
        """Whether a pass is right at some lengths alone, or has steps."""
        return any(
            not part.domain.has_any_length or has_steps(part) for part in self.passes.values()
        )

    @property
    def depends_on_batch(self) -> bool:
        """Whether one sequence alone has a pass of its own."""
        return any(
            part.domain.min_batch > 1 or part.domain.max_batch for part in self.passes.values()
        )

    @property
    def min_batch(self) -> int:
        """Fewest sequences for which each variant has a pass."""
        return max(
            min(part.domain.min_batch for part in self.list_pieces(name)) for name in self.variants
        )

    @property
    def max_length(self) -> int:
        """Most tokens of a pass with a cache, 0 for any number."""
        longest = (
            max(part.domain.max_length or MAX_TOKENS for part in self.list_pieces(name))
            for name in self.variants
            if name.endswith(("/prefill", "/decode"))
        )
        shortest = min(longest, default=MAX_TOKENS)
        return 0 if shortest == MAX_TOKENS else shortest

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants, each once."""
        return tuple(dict.fromkeys(map(get_variant, self.passes)))

    @property
    def trains(self) -> bool:
        """Whether the model computes a loss of its own."""
        return any(part.loss is not None for part in self.passes.values())

    def runs_operator(self, name: str) -> bool:
        """Return whether a pass has an operator."""
        return any(
            isinstance(part, Operation) and part.operator == name
            for recorded in self.passes.values()
            for part in flatten(
                (
                    *(*recorded.prologue, *recorded.epilogue, *recorded.tail),
                    *(step for block in recorded.blocks for step in block.instructions),
                )
            )
        )

    @property
    def has_plain_loss(self) -> bool:
        """Whether the loss is cross entropy on the head's own logits."""
        return all(part.has_plain_loss for part in self.passes.values() if part.loss is not None)
