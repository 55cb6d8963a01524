"""Facts that rules refer to, by dotted names.

They are a model's numbers, the workload and the layout.
"""

from dataclasses import dataclass
from typing import TypedDict

from service.estimator.memory.kv_cache import keeps_states
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.model.positions import count_served_positions
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.tensor_parallel.local import has_heads
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.model.weights.scheme import Packing
from service.estimator.values.heads import SEQUENCE_HEADS
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Method, Quantization, ServeWorkload, Workload

_PACKING_NAMES = {
    Packing.BLOCKS_4BIT: Quantization.NF4,
    Packing.INT8_ROWS: Quantization.INT8,
    Packing.GPTQ: Quantization.GPTQ_INT4,
    Packing.AWQ: Quantization.AWQ_INT4,
    Packing.FP8: Quantization.FP8,
    Packing.MXFP4: Quantization.MXFP4,
    Packing.NVFP4: Quantization.NVFP4,
}
"""Request names of the formats that a config's own weights may have."""


_CONVERTED = frozenset({Packing.FP8, Packing.MXFP4})
"""Formats of checkpoints that ``convert_hf_to_gguf.py`` reads.

It unpacks fp8, and copies experts in mxfp4 as they are.
"""
_TRAINED_AS = {4: Quantization.NF4, 8: Quantization.INT8, 2: "gptq_int2"}
"""By the bits of method ``qlora``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Numbers and properties of a model that frameworks check before running."""

    family: str
    num_attention_heads: int
    num_key_value_heads: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    vocab_size: int
    num_experts: int
    expert_layers: int
    """Layers that have experts."""
    num_positions: int
    """Positions that the model was made for; 0 where unknown."""
    learned_positions: int
    """Positions that the model has a table of; 0 where any number will do."""
    limited_positions: int
    """The same for ``sequence_length``: 0 where an encoder has a length of its own."""
    tied: bool
    quantized: bool
    packing: Packing | None
    """Format of the config's own weights."""
    packed_as: str
    """Name of the format of the config's own weights.

    ``none`` where they are not quantised or no name fits.
    """
    converts: bool
    """Whether llama.cpp makes a file of the weights as they are stored."""
    from_gguf: bool
    """Whether the model came as a GGUF file, with a type for each tensor."""
    recurrent: bool
    attends: bool
    """Whether any layer has attention, and heads."""
    decoder: bool
    """Whether it writes text token by token."""
    pooled: bool
    """Whether it is a decoder whose hidden states are pooled: an embedding or scores of a sequence.
    """
    head: str
    """Head of another task than the family's own; empty for none."""
    num_labels: int
    alternates: bool
    """Whether layers of several kinds follow each other in turn."""
    caps_scores: bool
    biases_scores: bool
    keeps_fp32: bool
    """Whether transformers leaves some of its layers in fp32, whatever is asked."""
    clamps_half: bool
    """Whether layers clamp their hidden states in fp16."""
    has_encoder: bool
    """Whether a decoder stands behind an encoder."""
    has_images: bool
    """Whether it takes images."""
    shares_weights: bool
    """Whether layers have weights in common."""
    recorded: bool
    """Whether its passes were recorded, and no module is written for it."""
    reads_text: bool
    """Whether its sequences are text, if with images beside it."""
    trains: bool
    """Whether it computes a loss of its own."""
    fewest_sequences: int
    """Sequences from which on its recording holds; 1 of any other model."""
    longest_sequence: int
    """Tokens up to which its recording holds; 0 where there is no such limit."""
    tree: Architecture
    """The model itself, for predicates that look at its modules."""


@dataclass(frozen=True, slots=True)
class Case:
    """Model, workload and layout of one legality check."""

    model: ModelFacts
    workload: Workload
    layout: Layout

    @property
    def tokens(self) -> int:
        """Tokens of one sequence, generated ones included."""
        workload = self.workload
        return (
            workload.prompt_tokens + workload.output_tokens
            if isinstance(workload, ServeWorkload)
            else workload.sequence_length
        )

    @property
    def stored_as(self) -> str:
        """Name of the weights' storage format.

        It is what the request says, or else the config's own.
        """
        workload = self.workload
        if not isinstance(workload, ServeWorkload):
            if workload.method is Method.QLORA:
                return _TRAINED_AS[workload.quantization_bits]
            return self.model.packed_as
        return (
            self.model.packed_as
            if workload.quantization is Quantization.NONE and not workload.unquantised
            else workload.quantization
        )

    @property
    def longest(self) -> int:
        """Length limit of an engine in tokens.

        What the request says, or as many as the model has positions.
        """
        if not isinstance(self.workload, ServeWorkload):
            return self.model.num_positions or self.tokens
        positions = count_served_positions(self.model.tree.spec, self.workload.engine)
        return self.workload.max_model_len or positions or self.tokens


def collect_facts(model: Architecture) -> ModelFacts:
    """Collect the facts of a model for the rules."""
    spec = model.spec
    return ModelFacts(
        family=spec.family,
        num_attention_heads=spec.num_attention_heads,
        num_key_value_heads=spec.num_key_value_heads,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.num_hidden_layers,
        vocab_size=spec.vocab_size,
        num_experts=spec.num_experts,
        expert_layers=_count_expert_layers(spec),
        num_positions=spec.max_position_embeddings,
        learned_positions=0 if spec.rotary else spec.max_position_embeddings,
        limited_positions=0
        if spec.rotary or (isinstance(model, EncoderDecoder) and model.encoder.length is not None)
        else spec.max_position_embeddings,
        tied=spec.tie_word_embeddings,
        quantized=model.quantization is not None,
        packing=None if model.quantization is None else model.quantization.packing,
        packed_as=Quantization.NONE
        if model.quantization is None
        else _PACKING_NAMES.get(model.quantization.packing, Quantization.NONE),
        converts=model.quantization is None or model.quantization.packing in _CONVERTED,
        from_gguf=model.gguf is not None,
        recurrent=keeps_states(model),
        attends=has_heads(model),
        decoder=model.generates,
        pooled=_pools(model),
        head="" if model.task is None else model.task.kind.value,
        num_labels=spec.num_labels,
        alternates=bool(model.order),
        caps_scores=model.only_eager,
        biases_scores=isinstance(model, EncoderDecoder) and model.biased,
        keeps_fp32=isinstance(model, EncoderDecoder) and bool(model.keeps_fp32),
        clamps_half=isinstance(model, EncoderDecoder) and model.clamps_half,
        has_encoder=isinstance(model, EncoderDecoder),
        has_images=model.images is not None,
        shares_weights=model.shares_weights,
        recorded=is_recorded(model),
        **_describe_recording(model),
        tree=model,
    )


def _pools(model: Architecture) -> bool:
    """Return whether a decoder's hidden states become one result of each sequence."""
    return model.shifts_labels and model.task is not None and model.task.kind in SEQUENCE_HEADS


class _RecordingFacts(TypedDict):
    reads_text: bool
    trains: bool
    fewest_sequences: int
    longest_sequence: int


def _describe_recording(model: Architecture) -> _RecordingFacts:
    """Return the limits of a recording, and what engines know of it."""
    if not is_recorded(model):
        return {
            "reads_text": True,
            "trains": True,
            "fewest_sequences": 1,
            "longest_sequence": 0,
        }
    recorded = model.recorded
    return {
        "reads_text": recorded.reads is None,
        "trains": recorded.reads is None or recorded.trains,
        "fewest_sequences": recorded.min_batch,
        "longest_sequence": recorded.max_length,
    }


def _count_expert_layers(spec: DecoderSpec) -> int:
    if not isinstance(spec, MoeSpec) or not spec.num_experts:
        return 0
    return max(spec.num_hidden_layers - spec.first_dense_layers, 0)
