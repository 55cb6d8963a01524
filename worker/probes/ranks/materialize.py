"""Gives a model that was made on meta, and shared out there, its storage: no rank ever holds the whole model."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel


def materialize(subject: nn.Module, causal: PreTrainedModel, device: str) -> None:
    """Allocate this rank's part of every weight on ``device`` and compute the buffers, as transformers' own loader does.

    (``_load_and_finalize_distributed_pretrained_model`` in transformers 5.23: to_empty, tie, initialise what is not loaded.)
    The weights are left without values.
    """
    subject.to_empty(device=device)
    causal.tie_weights(recompute_mapping=False)
    for parameter in subject.parameters():
        parameter._is_hf_initialized = True  # type: ignore[attr-defined]  # noqa: SLF001 - transformers' mark of a loaded weight
    causal.initialize_weights()  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def local_weights(subject: nn.Module) -> Iterator[torch.Tensor]:
    """Yield what this rank holds of each weight."""
    for parameter in subject.parameters():
        yield parameter.to_local().detach() if isinstance(parameter, DTensor) else parameter.detach()
