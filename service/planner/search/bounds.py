"""What a layout needs at least, by arithmetic alone: its states, spread over all ranks that could share them."""

from dataclasses import dataclass

from service.estimator.memory.optimizers.table import optimizer_named
from service.estimator.memory.states import GRADIENT_STAGE, OPTIMIZER_STAGE, PARAMETER_STAGE, trained_parameters
from service.estimator.model.architecture import Architecture
from service.estimator.values.workload import Method, OffloadTarget, ServeWorkload, TrainWorkload, Workload
from service.planner.search.layout_options import Slot

_INPUT_BYTES = 2
_QUANTIZED_PER_BYTE = 4
"""Parameters of two bits that one byte holds: no format that adapters are trained on has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes of the whole job that live at the optimizer's step, one copy of each part."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0

    def of_one(self, slot: Slot) -> int:
        """Return what the rank with the most holds at least: an even share over the ranks that its part is spread over."""
        layout = slot.layout
        split = layout.tensor_parallel * layout.pipeline_parallel * layout.expert_parallel
        shards, stage = layout.shards, layout.zero_stage
        here = 0.0
        if slot.offload.parameters is OffloadTarget.NONE:
            here += self.weights / (shards if stage >= PARAMETER_STAGE else 1)
            here += self.gradients / (shards if stage >= GRADIENT_STAGE else 1)
        if slot.offload.optimizer is OffloadTarget.NONE:
            here += self.optimizer / (shards if stage >= OPTIMIZER_STAGE else 1)
        return int(here / split)

    @property
    def total(self) -> int:
        """Return all of it."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Least bytes that backward needs of one sequence: of layers that are computed again, and of those that are not."""

    inputs: int = 0
    everything: int = 0


def kept_of_sequence(model: Architecture, workload: Workload) -> Kept:
    """Return each layer's input in 16 bits (arXiv:2205.05198, section 5: ``2sbh``), and beside it what its products read.

    Nothing where they leave the GPU or layers are no plain stack.
    """
    if isinstance(workload, ServeWorkload) or type(model) is not Architecture or model.walker is not None:
        return Kept()
    if workload.offload.activations is not OffloadTarget.NONE or workload.num_images is not None:
        return Kept()
    elements = _INPUT_BYTES * workload.sequence_length * model.num_hidden_layers
    inputs = elements * model.spec.hidden_size
    return Kept(inputs=inputs, everything=inputs + elements * _read_by_products(model, workload))


def _read_by_products(model: Architecture, workload: TrainWorkload) -> int:
    """Return the elements per token and layer that products read and backward reads again, where none is computed again.

    Query, key, value and what attention makes of them (arXiv:2205.05198, section 4.1); of a gated MLP both factors and their
    product, of others the input of the second matrix. Nothing where compilers choose, weights are frozen or layers differ.
    """
    spec = model.spec
    if workload.method is not Method.FULL or workload.compile or workload.float8 or not _is_plain(model):
        return 0
    heads = 2 * spec.num_attention_heads + 2 * spec.num_key_value_heads
    return heads * spec.head_dim + (3 if spec.gated else 1) * spec.intermediate_size


def _is_plain(model: Architecture) -> bool:
    return not model.recurrent and not model.shares_weights and not model.spec.num_experts and len(model.blocks) == 1


def states_of(model: Architecture, workload: Workload) -> States:
    """Return the least states of a workload in any way (ZeRO, arXiv:1910.02054, section 3); nothing where we cannot tell."""
    if isinstance(workload, ServeWorkload) or workload.method is Method.PEFT:
        return States()
    trained, precision = trained_parameters(model, workload), workload.precision
    width = precision.param_dtype.bytes_per_element
    if workload.method is Method.QLORA or model.quantization is not None:
        return States(weights=trained.frozen // _QUANTIZED_PER_BYTE)
    if workload.method is not Method.FULL:
        return States(weights=trained.frozen * width)
    states = optimizer_named(workload.optimizer).num_states or 0
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None else 0
    stepped = 0 if workload.optimizer_in_backward else trained.grad_dtype.bytes_per_element
    return States(
        weights=(trained.trained + trained.frozen) * width,
        gradients=trained.trained * stepped,
        optimizer=trained.trained * (master + states * trained.optimizer_dtype.bytes_per_element),
    )
