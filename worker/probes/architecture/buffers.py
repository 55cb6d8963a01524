"""Buffers of a model, by whether they have the weights' dtype."""

from copy import deepcopy
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import PreTrainedModel, initialization


def count_buffers(model: PreTrainedModel) -> tuple[int, int]:
    """Return elements in the weights' dtype, and bytes in others.

    ``model`` is in fp32.
    """
    elements = _count_cast_elements(model)
    num_bytes = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    return elements, num_bytes - torch.float32.itemsize * elements


def _count_cast_elements(model: PreTrainedModel) -> int:
    """Return the elements of buffers in the weights' dtype.

    Rotary frequencies stay in fp32.
    """
    floating = [name for name, buffer in model.named_buffers() if buffer.is_floating_point()]
    if all(name.endswith("inv_freq") for name in floating):
        return 0
    build: Any = type(model)._from_config  # noqa: SLF001 - what the auto classes call
    # Recordings are described among fake tensors, which do not mix with those that this makes.
    with unset_fake_temporarily(), torch.device("meta"), initialization.no_init_weights():
        half = build(deepcopy(model.config), dtype=torch.bfloat16)
    return sum(buffer.numel() for buffer in half.buffers() if buffer.dtype is torch.bfloat16)
