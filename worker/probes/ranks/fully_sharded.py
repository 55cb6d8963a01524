"""FSDP2: parameters, gradients and states sharded tensor by tensor.

A layer is gathered when it runs.
"""

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from service.estimator.values.layout import Layout
from service.estimator.values.precision import Precision
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.models.build import TORCH_DTYPES


def shard_fully(
    model: nn.Module,
    hf_model: PreTrainedModel,
    mesh: DeviceMesh,
    *,
    layout: Layout,
    precision: Precision,
) -> None:
    """Apply ``fully_shard`` to every layer and to the model around them.

    Layers are those that transformers can checkpoint. The model around them, with embedding, final
    norm and head, is one unit. With ``shard_embeddings_separately`` the embedding is one, and norm
    and head are another that stays gathered until its backward, as in torchtitan's ``apply_fsdp``.
    """
    options: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": make_mixed_precision_policy(precision),
        "reshard_after_forward": layout.reshard_after_forward,
    }
    layers = [
        module for module in hf_model.modules() if isinstance(module, GradientCheckpointingLayer)
    ]
    for layer in layers:
        fully_shard(layer, **options)
    if layout.shard_embeddings_separately:
        embedding, tail = _split_outer_units(hf_model, layers)
        fully_shard(embedding, **options)
        fully_shard(tail, **(options | {"reshard_after_forward": False}))
    fully_shard(model, **options)


def make_mixed_precision_policy(precision: Precision) -> MixedPrecisionPolicy:
    """Return the casts of gathered parameters and of reduced gradients.

    Autocast casts by itself.
    """
    casts = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    reduce_dtype = precision.reduce_dtype or precision.grad_dtype
    gathered = precision.compute_dtype if casts else precision.param_dtype
    return MixedPrecisionPolicy(
        param_dtype=TORCH_DTYPES[gathered] if casts else None,
        reduce_dtype=TORCH_DTYPES[reduce_dtype] if reduce_dtype is not gathered else None,
    )


def _split_outer_units(
    hf_model: PreTrainedModel, layers: list[GradientCheckpointingLayer]
) -> tuple[nn.Module, list[nn.Module]]:
    embedding = hf_model.get_input_embeddings()
    layer_modules = {id(module) for layer in layers for module in layer.modules()} | {id(embedding)}
    tail = [
        module
        for module in hf_model.modules()
        if id(module) not in layer_modules
        and next(module.parameters(recurse=False), None) is not None
    ]
    if any(
        parameter is embedding.weight
        for module in tail
        for parameter in module.parameters(recurse=False)
    ):
        message = (
            "the head shares the embedding's weight, so they are one unit: ask without "
            "shard_embeddings_separately"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    return embedding, tail
