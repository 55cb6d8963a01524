"""Scaled dot product attention as CUDA runs it, without a GPU.

``scaled_dot_product_attention`` (ATen ``transformers/attention.cpp``, torch 2.13) chooses a kernel
by the device and prepares its inputs; here the kernel is given, and the preparation is the same.
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
"""Elements to which flash's heads and the rows of a bias are padded.

(``pad_last_dim``, ``pad_bias``.)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One call of ``scaled_dot_product_attention``.

    Its tensors are in the dtype in which CUDA would run it.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None
    dropout_p: float
    is_causal: bool
    scale: float
    grouped: bool


Kernels = Mapping[Kernel, Callable[[AttentionCall], torch.Tensor]]
"""Functions that run a call, by the kernel that CUDA would choose for it."""


def make_attention(
    requested: Attention, kernels: Kernels | None = None
) -> Callable[..., torch.Tensor]:
    """Make a stand-in for ``scaled_dot_product_attention``.

    It runs the requested kernel through CUDA's own operators. ``kernels`` are others that make and
    keep the same tensors, on a device where CUDA's do not run.
    """
    runners = kernels or CUDA_KERNELS

    def run_attention(*args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - the signature is torch's
        call = _parse_call(*args, **kwargs)
        return runners[_select_kernel(requested, call)](call)

    return run_attention


def _select_kernel(requested: Attention, call: AttentionCall) -> Kernel:
    """Select the kernel of a call.

    It is the requested one where that takes the call, else the one that SDPA falls back to, call by
    call.
    """
    if requested is Attention.MATH:
        return Kernel.MATH
    if requested is Attention.EFFICIENT:
        return Kernel.EFFICIENT
    if _can_use_flash(call):
        return Kernel.FLASH
    if _broadcasts(call) and requested is Attention.SDPA:
        return Kernel.MATH
    # The memory-efficient kernel knows no groups; under a mask transformers has repeated keys and
    # values by now.
    return Kernel.MATH if call.grouped and requested is not Attention.FLASH else Kernel.EFFICIENT


def _can_use_flash(call: AttentionCall) -> bool:
    """Return whether flash has a kernel for this call.

    It takes 16 bit, no mask, and heads of one width up to 256 (``sdp_utils.cpp``).
    """
    query, key, value = call.query, call.key, call.value
    has_square_scores = query.shape[-2] == key.shape[-2] or not call.is_causal
    has_same_width = query.shape[-1] == key.shape[-1] == value.shape[-1] <= FLASH_MAX_HEAD_DIM
    return (
        call.bias is None
        and has_square_scores
        and has_same_width
        and query.dtype in {torch.bfloat16, torch.float16}
    )


def _broadcasts(call: AttentionCall) -> bool:
    """Return whether queries share a key head that nobody said is grouped.

    No fused kernel takes such a call (``check_batch_size_and_num_heads_dense``). Training under a
    graph is left to the kernel that recorded truth was traced with.
    """
    has_fewer_heads = call.key.shape[1] < call.query.shape[1]
    return has_fewer_heads and not call.grouped and not torch.is_grad_enabled()


def _parse_call(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,  # noqa: ANN401
    **named: Any,  # noqa: ANN401 - as above
) -> AttentionCall:
    options = dict(zip(("attn_mask", "dropout_p", "is_causal"), args, strict=False)) | named
    query, key, value, mask = (
        _cast_for_autocast(tensor) for tensor in (query, key, value, options.get("attn_mask"))
    )
    scale = options.get("scale")
    return AttentionCall(
        query=query,
        key=key,
        value=value,
        bias=_make_bias(mask, query.dtype),
        dropout_p=options.get("dropout_p", 0.0),
        is_causal=options.get("is_causal", False),
        # The scale of the width that was asked, before it is padded.
        scale=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
        grouped=options.get("enable_gqa", False),
    )


def _cast_for_autocast(tensor: torch.Tensor | None) -> Any:  # noqa: ANN401 - what came, in autocast's dtype
    """Cast a tensor as CUDA's autocast does for attention.

    Autocast runs attention in its lower precision.
    """
    if tensor is None or not tensor.is_floating_point() or not torch.is_autocast_enabled("cpu"):
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def _run_flash(call: AttentionCall) -> torch.Tensor:
    width = call.query.shape[-1]
    padding = -width % _ALIGNMENT
    parts = (call.query, call.key, call.value)
    if padding:
        parts = tuple(pad(part, (0, padding)) for part in parts)  # type: ignore[assignment]  # three, as before
    outputs = _aten._scaled_dot_product_flash_attention(  # noqa: SLF001 - an operator's name
        *parts, call.dropout_p, call.is_causal, return_debug_mask=False, scale=call.scale
    )
    output: torch.Tensor = outputs[0]
    return output[..., :width] if padding else output


def _run_broadcast_attention(call: AttentionCall) -> torch.Tensor:
    """Run the math kernel's operations as CUDA does without a graph.

    Fake tensors, which count as subclasses, would have the mask added out of place, and would show
    the softmax as one operator.
    """
    assert call.bias is not None  # noqa: S101 - the caller asked
    query, key, value = (part.float() for part in (call.query, call.key, call.value))
    scaled = query * math.sqrt(call.scale)
    weights = torch.matmul(scaled, key.transpose(-2, -1) * math.sqrt(call.scale)).add_(call.bias)
    probabilities = weights.softmax(-1)
    masked = weights == -math.inf
    rows = masked.all(-1, keepdim=True)
    del weights
    probabilities.masked_fill_(rows, 0.0)
    del masked, rows
    returned = probabilities.to(call.query.dtype)
    output = torch.matmul(probabilities, value).to(call.query.dtype)
    del returned
    return output


def run_math_attention(call: AttentionCall) -> torch.Tensor:
    """Run matrix products, which keep the scores.

    Autocast cast the inputs and is off inside (ATen ``autocast_mode.h``).
    """
    if _broadcasts(call) and call.bias is not None:
        return _run_broadcast_attention(call)
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
    output: torch.Tensor = outputs[0]
    return output


def run_efficient_attention(call: AttentionCall) -> torch.Tensor:
    """Run the memory-efficient kernel on inputs prepared as in ATen."""
    query, key, value, bias = call.query, call.key, call.value, call.bias
    if call.grouped:
        key, value = (
            heads.repeat_interleave(query.shape[1] // heads.shape[1], dim=1)
            for heads in (key, value)
        )
    if bias is not None:
        bias = _align_bias(bias).expand(
            query.shape[0], query.shape[1], query.shape[2], key.shape[2]
        )
    computes_log_sumexp = torch.is_grad_enabled() and any(
        part.requires_grad for part in (query, key, value)
    )
    outputs = _aten._scaled_dot_product_efficient_attention(  # noqa: SLF001 - an operator's name
        query,
        key,
        value,
        bias,
        computes_log_sumexp,
        call.dropout_p,
        call.is_causal,
        scale=call.scale,
    )
    output: torch.Tensor = outputs[0]
    return output


def _make_bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Convert a boolean mask to the bias that attention adds.

    It is made anew in each call.
    """
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.where(
        mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device)
    )


def _align_bias(bias: torch.Tensor) -> torch.Tensor:
    """Pad the rows of a bias to the alignment.

    Returns the view of the part without padding.
    """
    columns = bias.shape[-1]
    if columns % _ALIGNMENT == 0:
        return bias
    return pad(bias, (0, -columns % _ALIGNMENT))[..., :columns]


CUDA_KERNELS: Kernels = MappingProxyType(
    {
        Kernel.FLASH: _run_flash,
        Kernel.EFFICIENT: run_efficient_attention,
        Kernel.MATH: run_math_attention,
    },
)
