"""Where a kernel on CUDA gives or needs other bytes than the same operator on fake CPU tensors says."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import torch

_aten = torch.ops.aten
_FP32_BYTES = 4
Scratch = Callable[..., Sequence[int]]
"""What a kernel takes beside its outputs, from its arguments: bytes, one number for each buffer."""


def _layer_norm(func: Callable[..., Any], *args: object, **kwargs: object) -> object:
    """CUDA's layer norm keeps mean and deviation in fp32; a CPU keeps them in the input's dtype (ATen ``layer_norm.cpp``)."""
    output, *statistics = func(*args, **kwargs)
    return (output, *(each.float() if each.dtype is not torch.float32 else each for each in statistics))


def _flash_backward(_gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, *_: object, **__: object) -> Sequence[int]:
    """Return the scratch of flash attention's backward (``mha_bwd`` in torch 2.13 ``flash_attn/flash_api.cpp``).

    The query's gradient is accumulated in fp32 beside one fp32 per row, and where heads are grouped the gradients of key and
    value are made for every query head before they are summed.
    """
    batch, heads, rows, head_dim = query.shape
    scratch = [batch * heads * rows * head_dim * _FP32_BYTES, batch * heads * rows * _FP32_BYTES]
    if key.shape[1] != heads:
        scratch += [batch * heads * key.shape[2] * head_dim * query.element_size()] * 2
    return scratch


def _efficient_backward(_gradient: torch.Tensor, query: torch.Tensor, *_: object, **__: object) -> Sequence[int]:
    """Return the scratch of memory-efficient attention's backward: one fp32 per row."""
    return [prod(query.shape[:3]) * _FP32_BYTES]


OUTPUTS: Mapping[object, Callable[..., object]] = MappingProxyType({_aten.native_layer_norm.default: _layer_norm})
"""Operators whose outputs have another dtype on CUDA."""
SCRATCH: Mapping[object, Scratch] = MappingProxyType(
    {
        _aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,  # noqa: SLF001 - an operator's name
        _aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,  # noqa: SLF001 - an operator's name
    }
)
"""Bytes that a kernel takes from the allocator and gives back before it returns."""
