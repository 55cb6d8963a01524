"""Gives a model that was made on meta, and shared out there, its storage: no rank ever holds the whole model."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import is_fake
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel


def materialize(subject: nn.Module, causal: PreTrainedModel, device: str) -> None:
    """Allocate this rank's part of every weight on ``device`` and compute the buffers, as transformers' own loader does.

    (``_load_and_finalize_distributed_pretrained_model`` in transformers 5.23: allocate, tie, initialise what is not loaded.)
    The weights are left without values; fake buffers have none either.
    """
    with _taking_meta(), torch.no_grad():
        _allocate(subject, device)
    if any(is_fake(weight) for weight in local_weights(subject)):
        return
    for parameter in subject.parameters():
        parameter._is_hf_initialized = True  # type: ignore[attr-defined]  # noqa: SLF001 - transformers' mark of a loaded weight
    causal.initialize_weights()  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def _allocate(subject: nn.Module, device: str) -> None:
    """Put new tensors in the place of those on meta; a weight that two modules share stays shared."""
    made: dict[int, nn.Parameter] = {}
    for module in subject.modules():
        for name, weight in module.named_parameters(recurse=False):
            if id(weight) not in made:
                made[id(weight)] = nn.Parameter(torch.empty_like(weight, device=device), requires_grad=weight.requires_grad)
            module.register_parameter(name, made[id(weight)])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, torch.empty_like(buffer, device=device))


@contextmanager
def _taking_meta() -> Iterator[None]:
    """Let a fake mode, if there is one, make fake tensors after real ones on meta."""
    mode = detect_fake_mode()
    if mode is None:
        yield
        return
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = allowed


def local_weights(subject: nn.Module) -> Iterator[torch.Tensor]:
    """Yield what this rank holds of each weight."""
    for parameter in subject.parameters():
        yield parameter.to_local().detach() if isinstance(parameter, DTensor) else parameter.detach()
