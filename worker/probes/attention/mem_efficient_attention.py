"""CUDA's memory-efficient attention on a CPU: the same tensors are made and kept.

The kernels below stand in for CUDA's at the very bottom, under autograd, and what they need inside is scratch of one kernel.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import Choices
from worker.probes.attention.fake_attention import Call, Kernels, efficient_attention, math_attention
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import choices_with

_aten = torch.ops.aten
_ROWS = 32
"""CUDA's kernel keeps the log-sum-exp of whole blocks of rows (aten/native/transformers/cuda/attention.cu, torch 2.13)."""

Gradients = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


@contextmanager
def efficient_kernels() -> Iterator[None]:
    """Let the memory-efficient kernel run on the CPU inside."""
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001 - the one that unregisters at the end
        library.impl("_scaled_dot_product_efficient_attention", _forward, "CPU")
        library.impl("_scaled_dot_product_efficient_attention_backward", _backward, "CPU")
        yield


def cpu_choices(asked: Attention) -> Choices:
    """Return what runs a forward pass with CUDA's choices, and attention by a kernel that keeps what CUDA's keeps."""
    return choices_with(asked, _CPU_KERNELS)


def _forward(  # noqa: PLR0913 - the signature is ATen's
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
    kept = -(-rows // _ROWS) * _ROWS if compute_log_sumexp else 0
    log_sum = torch.empty((batch, heads, kept), dtype=torch.float32)
    factor = 1 / math.sqrt(width) if scale is None else scale
    for index in range(batch):
        scores = _scores(query[index], key[index], None if bias is None else bias[index], factor, is_causal=is_causal)
        if kept:
            log_sum[index, :, :rows] = scores.logsumexp(-1)
        out[index] = (scores.softmax(-1).nan_to_num() @ value[index].float()).to(out.dtype)
    return out, log_sum, torch.empty((), dtype=torch.int64), torch.empty((), dtype=torch.int64)


def _backward(  # noqa: PLR0913, PLR0917 - the signature is ATen's
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
    wanted: list[bool],
    is_causal: bool = False,  # noqa: FBT001, FBT002 - the signature is ATen's
    *,
    scale: float | None = None,
) -> Gradients:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    of_query, of_key, of_value = (_like(part) for part in (query, key, value))
    of_bias = torch.empty_like(bias) if bias is not None and wanted[3] else None
    for index in range(query.shape[0]):
        scores = _scores(query[index], key[index], None if bias is None else bias[index], factor, is_causal=is_causal)
        weights = scores.softmax(-1).nan_to_num()
        mixed = gradient[index].float()
        # The softmax's gradient (arXiv:2205.14135, appendix B.4): each row's products less what they and the output share.
        shared = (mixed * out[index].float()).sum(-1, keepdim=True)
        inner = weights * (mixed @ value[index].float().mT - shared)
        of_query[index] = (inner @ key[index].float() * factor).to(query.dtype)
        of_key[index] = _shared(inner.mT @ query[index].float() * factor, key)
        of_value[index] = _shared(weights.mT @ mixed, value)
        if of_bias is not None:
            of_bias[index] = inner.to(of_bias.dtype)
    return of_query, of_key, of_value, of_bias


def _scores(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None, factor: float, *, is_causal: bool
) -> torch.Tensor:
    """Return the scores of one sequence in fp32."""
    scores = query.float() @ key.float().mT * factor
    if bias is not None:
        scores += bias.float()
    if is_causal:
        scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return scores


def _shared(gradient: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """Return the gradient of heads that all queries read together where there is one of them (multi-query)."""
    return (gradient.sum(0, keepdim=True) if part.shape[1] == 1 else gradient).to(part.dtype)


def _like(part: torch.Tensor) -> torch.Tensor:
    """Return room for a gradient as CUDA's kernel lays it out: heads side by side in every token."""
    batch, heads, rows, width = part.shape
    return part.new_empty((batch, rows, heads, width)).transpose(1, 2)


def _flash(call: Call) -> torch.Tensor:
    """Run the CPU's flash kernel, which keeps what CUDA's keeps; CUDA drops weights from a seed and keeps no mask."""
    outputs = _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001 - an operator's name
        call.query, call.key, call.value, 0.0, call.is_causal, scale=call.scale
    )
    mixed: torch.Tensor = outputs[0]
    return mixed


def _efficient(call: Call) -> torch.Tensor:
    return efficient_attention(replace(call, dropout_p=0.0))


_CPU_KERNELS: Kernels = {Kernel.FLASH: _flash, Kernel.EFFICIENT: _efficient, Kernel.MATH: math_attention}
