"""CUDA's memory-efficient attention on a CPU, with the same tensors.

The kernels below stand in for CUDA's at the very bottom, under autograd; what they need inside is
scratch of one kernel.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import KernelContext
from worker.probes.attention.fake_attention import (
    AttentionCall,
    Kernels,
    run_efficient_attention,
    run_math_attention,
)
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_kernel_context

_aten = torch.ops.aten
_ROWS = 32
"""Rows in a block: CUDA's kernel keeps the log-sum-exp of full blocks.

(aten/native/transformers/cuda/attention.cu, torch 2.13.)
"""

Gradients = tuple[
    torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None
]


@contextmanager
def use_mem_efficient_kernels() -> Iterator[None]:
    """Run the memory-efficient kernel on the CPU within a block."""
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001 - the one that unregisters at the end
        library.impl("_scaled_dot_product_efficient_attention", _run_forward, "CPU")
        library.impl("_scaled_dot_product_efficient_attention_backward", _run_backward, "CPU")
        yield


def make_cpu_context(requested: Attention) -> KernelContext:
    """Return the factory of the contexts of CPU passes.

    They make CUDA's kernel choices, and run attention by a kernel that keeps the tensors that
    CUDA's keeps.
    """
    return make_kernel_context(requested, _CPU_KERNELS)


def _run_forward(  # noqa: PLR0913 - the signature is ATen's
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    compute_log_sumexp: bool,  # noqa: FBT001 - the signature is ATen's
    _dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - the signature is ATen's
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, heads, rows, width = query.shape
    out = query.new_empty((batch, rows, heads, value.shape[-1])).transpose(1, 2)
    padded_rows = -(-rows // _ROWS) * _ROWS if compute_log_sumexp else 0
    log_sum = torch.empty((batch, heads, padded_rows), dtype=torch.float32)
    factor = 1 / math.sqrt(width) if scale is None else scale
    for index in range(batch):
        scores = _compute_scores(
            query[index],
            key[index],
            None if bias is None else bias[index],
            factor,
            is_causal=is_causal,
        )
        if padded_rows:
            log_sum[index, :, :rows] = scores.logsumexp(-1)
        out[index] = (scores.softmax(-1).nan_to_num() @ value[index].float()).to(out.dtype)
    return out, log_sum, torch.empty((), dtype=torch.int64), torch.empty((), dtype=torch.int64)


def _run_backward(  # noqa: PLR0913, PLR0917 - the signature is ATen's
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    _log_sum: torch.Tensor,
    _seed: torch.Tensor,
    _offset: torch.Tensor,
    _dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,  # noqa: FBT001, FBT002 - the signature is ATen's
    *,
    scale: float | None = None,
) -> Gradients:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    grad_query, grad_key, grad_value = (_allocate_gradient(part) for part in (query, key, value))
    grad_bias = torch.empty_like(bias) if bias is not None and grad_input_mask[3] else None
    for index in range(query.shape[0]):
        scores = _compute_scores(
            query[index],
            key[index],
            None if bias is None else bias[index],
            factor,
            is_causal=is_causal,
        )
        weights = scores.softmax(-1).nan_to_num()
        mixed = gradient[index].float()
        # The softmax's gradient (arXiv:2205.14135, appendix B.4): each row's products less what
        # they and the output share.
        row_sums = (mixed * out[index].float()).sum(-1, keepdim=True)
        inner = weights * (mixed @ value[index].float().mT - row_sums)
        grad_query[index] = (inner @ key[index].float() * factor).to(query.dtype)
        grad_key[index] = _reduce_heads(inner.mT @ query[index].float() * factor, key)
        grad_value[index] = _reduce_heads(weights.mT @ mixed, value)
        if grad_bias is not None:
            grad_bias[index] = inner.to(grad_bias.dtype)
    return grad_query, grad_key, grad_value, grad_bias


def _compute_scores(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    factor: float,
    *,
    is_causal: bool,
) -> torch.Tensor:
    """Return the scores of one sequence in fp32."""
    scores = query.float() @ key.float().mT * factor
    if bias is not None:
        scores += bias.float()
    if is_causal:
        scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return scores


def _reduce_heads(gradient: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """Sum the gradient over query heads that share one head.

    There is one such head in multi-query attention.
    """
    return (gradient.sum(0, keepdim=True) if part.shape[1] == 1 else gradient).to(part.dtype)


def _allocate_gradient(part: torch.Tensor) -> torch.Tensor:
    """Allocate a gradient in the layout of CUDA's kernel.

    Heads are next to each other in every token.
    """
    batch, heads, rows, width = part.shape
    return part.new_empty((batch, rows, heads, width)).transpose(1, 2)


def _run_flash(call: AttentionCall) -> torch.Tensor:
    """Run the CPU's flash kernel, which keeps the tensors that CUDA's keeps.

    CUDA drops weights from a seed and keeps no mask.
    """
    outputs = _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001 - an operator's name
        call.query, call.key, call.value, 0.0, call.is_causal, scale=call.scale
    )
    mixed: torch.Tensor = outputs[0]
    return mixed


def _run_efficient(call: AttentionCall) -> torch.Tensor:
    return run_efficient_attention(replace(call, dropout_p=0.0))


_CPU_KERNELS: Kernels = {
    Kernel.FLASH: _run_flash,
    Kernel.EFFICIENT: _run_efficient,
    Kernel.MATH: run_math_attention,
}
