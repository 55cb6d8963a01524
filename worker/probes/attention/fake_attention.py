"""Scaled dot product attention as CUDA runs it, for tensors that are not on a GPU.

``scaled_dot_product_attention`` (ATen ``transformers/attention.cpp``, torch 2.13) chooses a kernel by the device and prepares
its inputs; here the kernel is given, and the preparation is the same.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch.nn.functional import pad

from service.estimator.values.workload import Attention
from worker.probes.attention.names import FLASH_MAX_HEAD_DIM, Kernel

_aten = torch.ops.aten
_ALIGNMENT = 8
"""Elements to which flash's heads and the rows of a bias are padded (``pad_last_dim``, ``pad_bias``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of ``scaled_dot_product_attention``, its parts in the dtype in which CUDA would run it."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None
    dropout_p: float
    is_causal: bool
    scale: float
    grouped: bool


Kernels = Mapping[Kernel, Callable[[Call], torch.Tensor]]
"""What runs a call, by the kernel that CUDA would choose for it."""


def attention_with(asked: Attention, kernels: Kernels | None = None) -> Callable[..., torch.Tensor]:
    """Return a stand-in for ``scaled_dot_product_attention`` that runs the asked kernel, through CUDA's own operators.

    ``kernels`` are others that make and keep the same tensors, on a device where CUDA's do not run.
    """
    run = kernels or CUDA_KERNELS

    def attention(*args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - the signature is torch's
        call = _read(*args, **kwargs)
        return run[_kernel_for(asked, call)](call)

    return attention


def _kernel_for(asked: Attention, call: Call) -> Kernel:
    """Return the asked kernel where it takes the call, else the one that SDPA falls back to, call by call."""
    if asked is Attention.MATH:
        return Kernel.MATH
    if asked is Attention.EFFICIENT:
        return Kernel.EFFICIENT
    if _flash_takes(call):
        return Kernel.FLASH
    # The memory-efficient kernel knows no groups; under a mask transformers has repeated keys and values by now.
    return Kernel.MATH if call.grouped and asked is not Attention.FLASH else Kernel.EFFICIENT


def _flash_takes(call: Call) -> bool:
    """Return whether flash has a kernel for this (``sdp_utils.cpp``): 16 bit, no mask, heads of one width up to 256."""
    query, key, value = call.query, call.key, call.value
    square = query.shape[-2] == key.shape[-2] or not call.is_causal
    one_width = query.shape[-1] == key.shape[-1] == value.shape[-1] <= FLASH_MAX_HEAD_DIM
    return call.bias is None and square and one_width and query.dtype in {torch.bfloat16, torch.float16}


def _read(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> Call:  # noqa: ANN401 - as above
    given = dict(zip(("attn_mask", "dropout_p", "is_causal"), rest, strict=False)) | named
    query, key, value, mask = (_lower(tensor) for tensor in (query, key, value, given.get("attn_mask")))
    scale = given.get("scale")
    return Call(
        query=query,
        key=key,
        value=value,
        bias=_bias(mask, query.dtype),
        dropout_p=given.get("dropout_p", 0.0),
        is_causal=given.get("is_causal", False),
        # The scale of the width that was asked, before it is padded.
        scale=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
        grouped=given.get("enable_gqa", False),
    )


def _lower(tensor: torch.Tensor | None) -> Any:  # noqa: ANN401 - what came, in autocast's dtype
    """CUDA's autocast runs attention in its lower precision."""
    if tensor is None or not tensor.is_floating_point() or not torch.is_autocast_enabled("cpu"):
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def _flash(call: Call) -> torch.Tensor:
    width = call.query.shape[-1]
    missing = -width % _ALIGNMENT
    parts = (call.query, call.key, call.value)
    if missing:
        parts = tuple(pad(part, (0, missing)) for part in parts)  # type: ignore[assignment]  # three, as before
    outputs = _aten._scaled_dot_product_flash_attention(  # noqa: SLF001 - an operator's name
        *parts, call.dropout_p, call.is_causal, return_debug_mask=False, scale=call.scale
    )
    mixed: torch.Tensor = outputs[0]
    return mixed[..., :width] if missing else mixed


def math_attention(call: Call) -> torch.Tensor:
    """Run matrix products, which keep the scores; autocast cast what came in and is off inside (ATen ``autocast_mode.h``)."""
    with torch.autocast("cpu", enabled=False):
        outputs = _aten._scaled_dot_product_attention_math(  # noqa: SLF001 - an operator's name
            call.query,
            call.key,
            call.value,
            call.bias,
            call.dropout_p,
            call.is_causal,
            scale=call.scale,
            enable_gqa=call.grouped,
        )
    mixed: torch.Tensor = outputs[0]
    return mixed


def efficient_attention(call: Call) -> torch.Tensor:
    """Run the memory-efficient kernel, prepared as ATen prepares it."""
    query, key, value, bias = call.query, call.key, call.value, call.bias
    if call.grouped:
        key, value = (heads.repeat_interleave(query.shape[1] // heads.shape[1], dim=1) for heads in (key, value))
    if bias is not None:
        bias = _aligned(bias).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    keeps = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    outputs = _aten._scaled_dot_product_efficient_attention(  # noqa: SLF001 - an operator's name
        query, key, value, bias, keeps, call.dropout_p, call.is_causal, scale=call.scale
    )
    mixed: torch.Tensor = outputs[0]
    return mixed


def _bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a boolean mask as the bias that attention adds: anew in each call."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))


def _aligned(bias: torch.Tensor) -> torch.Tensor:
    """Pad the rows of a bias whose length is no multiple of the alignment, and look at the part that was asked."""
    columns = bias.shape[-1]
    if columns % _ALIGNMENT == 0:
        return bias
    return pad(bias, (0, -columns % _ALIGNMENT))[..., :columns]


CUDA_KERNELS: Kernels = MappingProxyType(
    {Kernel.FLASH: _flash, Kernel.EFFICIENT: efficient_attention, Kernel.MATH: math_attention},
)
