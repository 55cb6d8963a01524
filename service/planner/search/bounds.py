"""Lower bounds on a layout's memory, by arithmetic alone.

States are spread over all ranks that could share them.
"""

from dataclasses import dataclass
from math import inf

from service.estimator.memory.optimizers.table import get_optimizer
from service.estimator.memory.trained import (
    GRADIENT_STAGE,
    OPTIMIZER_STAGE,
    PARAMETER_STAGE,
    select_trained_parameters,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.split import split_model
from service.estimator.values.batches import SequencePacking, get_row_length
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import (
    Method,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.search.layout_options import LayoutOption
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE

_INPUT_BYTES = 2
_SEQUENCES_PER_PAIR = 2
"""Sequences that count as one in a micro batch of pairs."""
_QUANTIZED_PER_BYTE = 4
"""Parameters of two bits that one byte holds: no format that adapters are trained on has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes of the whole job's states at the optimizer's step.

    One copy of each part is counted.
    """

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0

    def compute_rank_bytes(self, option: LayoutOption) -> int:
        """Return a lower bound for the rank with the most states.

        It is an even share over the ranks that each part is spread over.
        """
        layout = option.layout
        split = layout.tensor_parallel * layout.pipeline_parallel * layout.expert_parallel
        return self.compute_shared_bytes(
            split, layout.shards, stage=layout.zero_stage, offload=option.offload
        )

    def compute_shared_bytes(self, split: int, shards: int, *, stage: int, offload: Offload) -> int:
        """Return the bytes of a rank that shares states.

        So many ranks split the model, and so many share its states: more ranks of either, and a
        higher stage, make no more of them.
        """
        num_bytes = 0.0
        if offload.parameters is OffloadTarget.NONE:
            num_bytes += self.weights / (shards if stage >= PARAMETER_STAGE else 1)
            num_bytes += self.gradients / (shards if stage >= GRADIENT_STAGE else 1)
        if offload.optimizer is OffloadTarget.NONE:
            num_bytes += self.optimizer / (shards if stage >= OPTIMIZER_STAGE else 1)
        return int(num_bytes / split)

    def compute_rank_states(self, option: LayoutOption) -> int:
        """Return a lower bound of the optimizer's bytes on the deciding rank.

        Which stage of a pipeline decides is known with its memory alone.
        """
        if option.layout.pipeline_parallel > 1:
            return 0
        return StateBytes(optimizer=self.optimizer).compute_rank_bytes(option)

    @property
    def total(self) -> int:
        """Return the sum of all parts."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedActivations:
    """Lower bounds on the bytes that backward needs of one sequence.

    ``inputs`` are those of layers that are computed again, ``everything`` those of layers that are
    not.
    """

    inputs: int = 0
    everything: int = 0


def compute_saved_activations(model: Architecture, workload: Workload) -> SavedActivations:
    """Return the activations that one sequence saves for backward.

    Each layer's input in 16 bits (arXiv:2205.05198, section 5: ``2sbh``), and beside it what its
    products read.

    Nothing where they leave the GPU, are not saved for weights that are frozen, or layers are no
    plain stack.
    """
    if (
        isinstance(workload, ServeWorkload)
        or type(model) is not Architecture
        or model.walker is not None
    ):
        return SavedActivations()
    has_images = workload.num_images is not None or workload.inputs is not None
    is_kept = workload.offload.activations is OffloadTarget.NONE and not workload.frozen
    if has_images or not is_kept:
        return SavedActivations()
    elements = _INPUT_BYTES * _count_sequence_tokens(workload) * model.num_hidden_layers
    inputs = elements * model.spec.hidden_size
    return SavedActivations(
        inputs=inputs, everything=inputs + elements * _count_product_inputs(model, workload)
    )


def _count_sequence_tokens(workload: TrainWorkload) -> int:
    """Return the fewest tokens of a sequence in any batch.

    Of the worst of each size. Sequences that share a row are the longest, whose mean falls with
    their number.
    """
    num_sequences = max(MAX_MICRO_BATCH_SIZE, workload.micro_batch_size) * _SEQUENCES_PER_PAIR
    kind, lengths = workload.packing, workload.sequence_lengths
    row_tokens = get_row_length(
        kind, lengths, num_sequences=num_sequences, max_length=workload.sequence_length
    )
    return row_tokens if kind is SequencePacking.NONE else row_tokens // num_sequences


def _count_product_inputs(model: Architecture, workload: TrainWorkload) -> int:
    """Count the saved product inputs per token and layer.

    These are elements that products read and backward reads again, where none is computed again.

    Query, key, value and what attention makes of them (arXiv:2205.05198, section 4.1); of a gated
    MLP both factors and their product, of others the input of the second matrix. Nothing where
    compilers choose, weights are frozen or layers differ.
    """
    spec = model.spec
    if (
        workload.method is not Method.FULL
        or workload.compile
        or workload.float8
        or not _is_plain(model)
    ):
        return 0
    heads = 2 * spec.num_attention_heads + 2 * spec.num_key_value_heads
    return heads * spec.head_dim + (3 if spec.gated else 1) * spec.intermediate_size


def _is_plain(model: Architecture) -> bool:
    return (
        not model.recurrent
        and not model.shares_weights
        and not model.spec.num_experts
        and len(model.blocks) == 1
    )


def compute_state_bytes(model: Architecture, workload: Workload) -> StateBytes:
    """Return a lower bound on the states of a workload.

    It holds for every strategy (ZeRO, arXiv:1910.02054, section 3); nothing is counted where it is
    not known.
    """
    if isinstance(workload, ServeWorkload) or workload.method is Method.PEFT:
        return StateBytes()
    trained, precision = select_trained_parameters(model, workload), workload.precision
    width = precision.param_dtype.bytes_per_element
    if workload.method is Method.QLORA or model.quantization is not None:
        return StateBytes(weights=trained.frozen // _QUANTIZED_PER_BYTE)
    if workload.method is not Method.FULL:
        return StateBytes(weights=trained.frozen * width)
    states = get_optimizer(workload.optimizer).num_states or 0
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None else 0
    stepped = 0 if workload.optimizer_in_backward else trained.grad_dtype.bytes_per_element
    return StateBytes(
        weights=(trained.trained + trained.frozen) * width,
        gradients=trained.trained * stepped,
        optimizer=trained.trained * (master + states * trained.optimizer_dtype.bytes_per_element),
    )


def count_activation_ranks(model: Architecture, layout: Layout) -> float:
    """Return the most ranks that share what a sequence saves.

    A first stage of few layers keeps the most micro-batches, so that it bounds an uneven pipeline.
    """
    split = layout.tensor_parallel * layout.context_parallel
    if layout.pipeline_split == EVEN:
        return split * layout.pipeline_parallel
    counts = [chunk.num_layers for chunk in split_model(model, layout)]
    fewest = min(counts) * layout.virtual_pipeline_stages
    return split * model.num_hidden_layers / fewest if fewest else inf
