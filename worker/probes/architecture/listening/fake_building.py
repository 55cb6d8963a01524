"""Models of fake tensors."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, unset_fake_temporarily
from torch.utils._pytree import tree_map
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from worker.probes.architecture.listening.embedding_loss import add_embedding_loss
from worker.probes.models.model_class import build_any_model


def build_fake(
    config: Mapping[str, Any], hf_config: PreTrainedConfig, *, dtype: torch.dtype, attention: str
) -> PreTrainedModel:
    """Build the model among fake tensors.

    One that computes numbers of its layers with tensors (rates of stochastic depth) is built on the
    meta device first, where those are real.
    """
    try:
        model = build_any_model(config, hf_config, dtype=dtype, attention=attention)
    except DataDependentOutputException:
        with unset_fake_temporarily(), torch.device("meta"):
            model = build_any_model(config, hf_config, dtype=dtype, attention=attention)
        _fake_tensors(model)
    add_embedding_loss(model)
    return model


def cast_weights(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Cast a model's weights as FSDP2 does, and no buffers.

    Each layer is a unit, which casts what it is called with too (torch 2.13
    ``_fsdp_state.py``, ``_pre_forward``).
    """
    for weight in model.parameters():
        if weight.is_floating_point():
            weight.data = weight.data.to(dtype)

    def cast(part: object) -> object:
        if isinstance(part, torch.Tensor) and part.is_floating_point():
            return part.to(dtype)
        return part

    def cast_inputs(_module: nn.Module, args: object, named: object) -> Any:  # noqa: ANN401 - what a hook returns
        return tree_map(cast, (args, named))

    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.register_forward_pre_hook(cast_inputs, with_kwargs=True)


def forget_tensors(model: PreTrainedModel) -> None:
    """Clear the caches of functions of a model's code.

    They hold fake tensors of another pass, as DINOv3's coordinates of patches.
    """
    for value in vars(sys.modules[type(model).__module__]).values():
        cells = (cell.cell_contents for cell in getattr(value, "__closure__", None) or ())
        for cached in (value, *cells):
            clear = getattr(cached, "cache_clear", None)
            if clear is not None:
                clear()


def _fake_tensors(model: PreTrainedModel) -> None:
    """Replace the tensors of a model; tied ones stay tied."""
    fakes: dict[int, torch.Tensor] = {}

    def make(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in fakes:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype)
            fakes[id(tensor)] = (
                nn.Parameter(empty, requires_grad=tensor.requires_grad)
                if isinstance(tensor, nn.Parameter)
                else empty
            )
        return fakes[id(tensor)]

    for module in model.modules():
        parts: tuple[Any, ...] = (module._parameters, module._buffers, vars(module))  # noqa: SLF001 - torch's names
        for named in parts:
            for name, tensor in list(named.items()):
                if isinstance(tensor, torch.Tensor):
                    named[name] = make(tensor)
