"""CUDA kernels whose bytes differ from those of fake CPU tensors.

The outputs or the scratch of the operators differ.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import torch

_aten = torch.ops.aten
_FP32_BYTES = 4
_GROUPED_ALIGNMENT = 16
"""Bytes to which rows of a grouped product's output are padded."""
Scratch = Callable[..., Sequence[int]]
"""Function from a kernel's arguments to its scratch: bytes, one number for each buffer."""


def _run_layer_norm(func: Callable[..., Any], *args: object, **kwargs: object) -> object:
    """Return statistics in fp32, as CUDA's layer norm keeps them.

    A CPU keeps mean and deviation in the input's dtype (ATen ``layer_norm.cpp``).
    """
    output, *statistics = func(*args, **kwargs)
    return (
        output,
        *(
            statistic.float() if statistic.dtype is not torch.float32 else statistic
            for statistic in statistics
        ),
    )


def _compute_flash_scratch(
    _gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, *_: object, **__: object
) -> Sequence[int]:
    """Return the scratch of flash attention's backward.

    (``mha_bwd`` in torch 2.13 ``flash_attn/flash_api.cpp``.) The query's gradient is accumulated in
    fp32 with one more fp32 per row, and where heads are grouped the gradients of key and value are
    made for every query head before they are summed.
    """
    batch, heads, rows, head_dim = query.shape
    scratch = [batch * heads * rows * head_dim * _FP32_BYTES, batch * heads * rows * _FP32_BYTES]
    if key.shape[1] != heads:
        scratch += [batch * heads * key.shape[2] * head_dim * query.element_size()] * 2
    return scratch


def _compute_efficient_scratch(
    _gradient: torch.Tensor, query: torch.Tensor, *_: object, **__: object
) -> Sequence[int]:
    """Return the scratch of memory-efficient attention's backward: one fp32 per row."""
    return [prod(query.shape[:3]) * _FP32_BYTES]


def _allocate_grouped_mm(
    _func: Callable[..., Any],
    rows: torch.Tensor,
    weights: torch.Tensor,
    offsets: torch.Tensor | None = None,
    _bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Allocate the output of experts' grouped products.

    Torch's kernels take 16 and 32 bit, its stand-in for fakes bfloat16 alone. Rows are padded to 16
    bytes (``create_grouped_gemm_output_tensor``, torch 2.13 ATen/native/GroupedMMUtils.h).
    """
    dtype = out_dtype or rows.dtype
    sizes = [rows.shape[-2], weights.shape[-1]]
    if rows.dim() == weights.dim():
        sizes.insert(0, rows.shape[0] if offsets is None else offsets.shape[0])
    aligned = _GROUPED_ALIGNMENT // dtype.itemsize
    padded = -(-sizes[-1] // aligned) * aligned
    strides = [sizes[-2] * padded, padded, 1][-len(sizes) :]
    return torch.empty_strided(sizes, strides, dtype=dtype, device=rows.device)


OUTPUTS: Mapping[object, Callable[..., object]] = MappingProxyType(
    {
        _aten.native_layer_norm.default: _run_layer_norm,
        _aten._grouped_mm.default: _allocate_grouped_mm,  # noqa: SLF001 - an operator's name
    },
)
"""Operators whose outputs on CUDA are not those of their stand-ins."""
SCRATCH: Mapping[object, Scratch] = MappingProxyType(
    {
        _aten._scaled_dot_product_flash_attention_backward.default: _compute_flash_scratch,  # noqa: SLF001 - an operator's name
        _aten._scaled_dot_product_efficient_attention_backward.default: _compute_efficient_scratch,  # noqa: SLF001 - an operator's name
    },
)
"""Bytes that a kernel takes from the allocator and gives back before it returns."""
