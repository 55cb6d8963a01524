"""Allocation of a sharded model that was made on meta.

No rank ever holds the full model.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import is_fake
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel


def materialize(model: nn.Module, hf_model: PreTrainedModel, device: str) -> None:
    """Allocate this rank's weights on ``device`` and compute the buffers.

    It does what transformers' own loader does (``_load_and_finalize_distributed_pretrained_model``
    in transformers 5.23: allocate, tie, initialise what is not loaded). The weights are left
    without values; fake buffers have none either.
    """
    with _allow_meta_inputs(), torch.no_grad():
        _allocate(model, device)
    if any(is_fake(weight) for weight in iter_local_weights(model)):
        return
    for parameter in model.parameters():
        parameter._is_hf_initialized = True  # type: ignore[attr-defined]  # noqa: SLF001 - transformers' mark of a loaded weight
    hf_model.initialize_weights()  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def _allocate(model: nn.Module, device: str) -> None:
    """Replace the tensors on meta by new ones.

    A weight that two modules share stays shared.
    """
    allocated: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if id(weight) not in allocated:
                allocated[id(weight)] = nn.Parameter(
                    torch.empty_like(weight, device=device), requires_grad=weight.requires_grad
                )
            module.register_parameter(name, allocated[id(weight)])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, torch.empty_like(buffer, device=device))


@contextmanager
def _allow_meta_inputs() -> Iterator[None]:
    """Allow a fake mode, if any, to take real tensors on meta."""
    mode = detect_fake_mode()
    if mode is None:
        yield
        return
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = allowed


def iter_local_weights(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield this rank's part of each weight."""
    for parameter in model.parameters():
        yield (
            parameter.to_local().detach() if isinstance(parameter, DTensor) else parameter.detach()
        )
