"""FSDP2: parameters, gradients and states sharded tensor by tensor, a layer gathered when it runs."""

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


def shard_fully(subject: nn.Module, causal: PreTrainedModel, mesh: DeviceMesh, *, layout: Layout, precision: Precision) -> None:
    """Apply ``fully_shard`` to every layer that transformers can checkpoint, and to the model around them.

    The model around them, with embedding, final norm and head, is one unit. With ``shard_embeddings_separately`` the embedding
    is one, and norm and head are another that stays gathered until its backward, as in torchtitan's ``apply_fsdp``.
    """
    how: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": mixed_precision(precision),
        "reshard_after_forward": layout.reshard_after_forward,
    }
    layers = [module for module in causal.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        fully_shard(layer, **how)
    if layout.shard_embeddings_separately:
        embedding, tail = _outer_units(causal, layers)
        fully_shard(embedding, **how)
        fully_shard(tail, **(how | {"reshard_after_forward": False}))
    fully_shard(subject, **how)


def mixed_precision(precision: Precision) -> MixedPrecisionPolicy:
    """Return the casts of gathered parameters and of gradients that are summed; autocast casts by itself."""
    casts = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    reduce_dtype = precision.reduce_dtype or precision.grad_dtype
    gathered = precision.compute_dtype if casts else precision.param_dtype
    return MixedPrecisionPolicy(
        param_dtype=TORCH_DTYPES[gathered] if casts else None,
        reduce_dtype=TORCH_DTYPES[reduce_dtype] if reduce_dtype is not gathered else None,
    )


def _outer_units(causal: PreTrainedModel, layers: list[GradientCheckpointingLayer]) -> tuple[nn.Module, list[nn.Module]]:
    embedding = causal.get_input_embeddings()
    inside = {id(module) for layer in layers for module in layer.modules()} | {id(embedding)}
    tail = [
        module
        for module in causal.modules()
        if id(module) not in inside and next(module.parameters(recurse=False), None) is not None
    ]
    if any(parameter is embedding.weight for module in tail for parameter in module.parameters(recurse=False)):
        message = "the head shares the embedding's weight, so they are one unit: ask without shard_embeddings_separately"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    return embedding, tail
