"""One rank's part of a parallelized model."""

from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from service.estimator.rules.obstacles import find_rank_obstacles
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.ranks.fully_sharded import shard_fully
from worker.probes.ranks.materialize import materialize
from worker.probes.ranks.mesh import make_meshes
from worker.probes.ranks.replicated import replicate
from worker.probes.ranks.tensor_parallel import split_layers


def parallelize(model: nn.Module, layout: Layout, workload: Workload, *, device: str) -> nn.Module:
    """Split, shard or replicate a model that was made on meta.

    Returns the model that is called, with weights on ``device``. Runs inside ``fake_ranks``;
    ``device`` is ``cpu`` or ``cuda``, and under a fake mode the weights are fake. They have no
    values yet. Raises Refusal for a layout of which no rank can be run.
    """
    check_layout(layout, workload)
    hf_model = _find_hf_model(model)
    with _disable_current_modes():
        _split_and_shard(model, hf_model, layout, workload, device=device)
    materialize(model, hf_model, device)
    if layout.sharding is Sharding.DDP and layout.data_parallel > 1:
        return replicate(model)
    return model


def _split_and_shard(
    model: nn.Module, hf_model: PreTrainedModel, layout: Layout, workload: Workload, *, device: str
) -> None:
    """Split and shard a model that has no storage yet.

    It runs outside of all modes: meshes are tensors of ranks whose values are read.
    """
    meshes = make_meshes(layout, device)
    if layout.tensor_parallel > 1:
        split_layers(hf_model, meshes.tensor)
    if layout.sharding is Sharding.FSDP2 and isinstance(workload, TrainWorkload):
        shard_fully(model, hf_model, meshes.states, layout=layout, precision=workload.precision)


def check_layout(layout: Layout, workload: Workload) -> None:
    """Raise Refusal for a layout of which no rank can be run."""
    for _field, message in find_rank_obstacles(layout, workload):
        raise Refusal(FailureKind.UNSUPPORTED, message)


def describe_rank(layout: Layout, rank: int) -> tuple[str, ...]:
    """Describe a rank that was run alone, and its limits."""
    notes = [
        (
            f"ran rank {rank} of {layout.num_gpus}: the others exist by number only, their "
            "collectives return at once"
        )
    ]
    notes.append("the buffers of NCCL, outside of the allocator, are not there")
    if layout.sharding is Sharding.FSDP2:
        notes.append(
            "reserved bytes are those of one stream; on a GPU FSDP2 gathers and reduces on streams "
            "of their own, and what one stream has freed serves no other, so more is reserved "
            "there",
        )
    if layout.tensor_parallel > 1:
        notes.append(
            "the embedding is whole on every rank, as base_model_tp_plan has it; transformers' own "
            "loader (tp_plan 'auto', release 5.23) splits it too",
        )
    return tuple(notes)


def _find_hf_model(model: nn.Module) -> PreTrainedModel:
    return next(module for module in model.modules() if isinstance(module, PreTrainedModel))
