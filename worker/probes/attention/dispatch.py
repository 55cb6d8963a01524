"""CUDA's kernel choices for CPU runs, where torch lets the device decide.

Three things differ: the attention kernel, the mask that dropout keeps, and the operators that
autocast runs in fp32.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import (
    cross_entropy,
    dropout,
    layer_norm,
    log_softmax,
    nll_loss,
    scaled_dot_product_attention,
    softmax,
    softplus,
)
from torch.overrides import TorchFunctionMode

from worker.probes.attention.names import Kernel

_BACKENDS = {
    Kernel.FLASH: SDPBackend.FLASH_ATTENTION,
    # CPU has no memory-efficient kernel; its flash kernel keeps the same tensors: query, key,
    # value, output, log-sum-exp.
    Kernel.EFFICIENT: SDPBackend.FLASH_ATTENTION,
    Kernel.MATH: SDPBackend.MATH,
}

_FP32_UNDER_CUDA_AUTOCAST: frozenset[Callable[..., object]] = frozenset(
    {
        layer_norm,
        log_softmax,
        softmax,
        softplus,
        torch.exp,
        torch.expm1,
        torch.log,
        torch.log1p,
        torch.log_softmax,
        torch.pow,
        torch.reciprocal,
        torch.rsqrt,
        torch.softmax,
        torch.square,
        torch.Tensor.exp,
        torch.Tensor.expm1,
        torch.Tensor.log,
        torch.Tensor.log1p,
        torch.Tensor.log_softmax,
        torch.Tensor.pow,
        torch.Tensor.reciprocal,
        torch.Tensor.rsqrt,
        torch.Tensor.softmax,
        torch.Tensor.square,
        torch.Tensor.__pow__,
        torch.Tensor.__rtruediv__,
    },
)
"""Operators of CUDA autocast's fp32 list that CPU autocast leaves in 16 bit.

(torch 2.13, aten/autocast_mode.h.) ``square`` is a power and ``__rtruediv__`` a reciprocal inside.
"""
_FP32_SUMS_UNDER_CUDA_AUTOCAST: frozenset[Callable[..., object]] = frozenset(
    {
        torch.cumsum,
        torch.prod,
        torch.sum,
        torch.Tensor.cumsum,
        torch.Tensor.prod,
        torch.Tensor.sum,
    },
)
"""Operators that autocast only asks for an fp32 result, so that none of their inputs is copied."""

_HALF = (torch.bfloat16, torch.float16)
KernelContext = Callable[[Kernel], AbstractContextManager[None]]


class _CudaKernelMode(TorchFunctionMode):
    """Function mode that rewrites calls above autograd.

    A dispatch mode would change how autograd accumulates gradients.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        del types
        named = dict(kwargs or {})
        if func is scaled_dot_product_attention:
            return func(*_adapt_attention_arguments(self._kernel, args, named), **named)
        if func is dropout:
            return _apply_kernel_dropout(*args, **named)
        if func is cross_entropy and torch.is_autocast_enabled("cpu"):
            return _compute_cross_entropy(*args, **named)
        if func in _FP32_UNDER_CUDA_AUTOCAST and torch.is_autocast_enabled("cpu"):
            return func(*(_upcast(argument) for argument in args), **named)
        if func in _FP32_SUMS_UNDER_CUDA_AUTOCAST and torch.is_autocast_enabled("cpu"):
            return func(*args, **_ask_for_fp32(args[0], named))
        return func(*args, **named)


@contextmanager
def use_cuda_kernels(kernel: Kernel) -> Iterator[None]:
    """Run a block with CUDA's kernel choices.

    The block is a forward pass, or the part of one that backward computes again.
    """
    backend = _BACKENDS.get(kernel)
    with _CudaKernelMode(kernel):
        if backend is None:
            yield
        else:
            with sdpa_kernel(backend):
                yield


@contextmanager
def use_kernel_dropout() -> Iterator[None]:
    """Make ATen's own code drop as CUDA's kernel does.

    ATen's code is the math kernel of attention. Enter it from the forward pass on.
    """
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001 - the one that unregisters at the end
        library.impl("dropout", _apply_kernel_dropout, "AutogradCPU")
        yield


def _adapt_attention_arguments(
    kernel: Kernel, args: Sequence[Any], named: dict[str, Any]
) -> tuple[Any, ...]:
    query, key, value, *options = args
    if kernel is not Kernel.MATH:
        # CUDA's fused kernels drop attention weights from a seed and keep no mask; CPU's has no
        # dropout at all.
        named["dropout_p"] = 0.0
    if kernel is Kernel.EFFICIENT and named.pop("enable_gqa", False):
        key, value = _repeat_heads(key, query.shape[1]), _repeat_heads(value, query.shape[1])
    return query, key, value, *options


def _repeat_heads(heads: torch.Tensor, num_heads: int) -> torch.Tensor:
    batch, num_groups, tokens, head_dim = heads.shape
    wide = heads[:, :, None].expand(batch, num_groups, num_heads // num_groups, tokens, head_dim)
    return wide.reshape(batch, num_heads, tokens, head_dim)


def _apply_kernel_dropout(
    tensor: torch.Tensor,
    p: float = 0.5,
    training: bool = True,  # noqa: FBT001, FBT002 - the signature is torch's
    inplace: bool = False,  # noqa: FBT001, FBT002 - the signature is torch's
) -> torch.Tensor:
    """Apply dropout as CUDA's kernel does.

    It keeps a mask of one byte per element; CPU keeps one of the input's own dtype.
    """
    if not training or p == 0:
        return tensor
    if inplace:
        return nn.functional.dropout(tensor, p, training, inplace)
    dropped: torch.Tensor = torch.native_dropout(tensor, p, training)[0]
    return dropped


def _compute_cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    *args: Any,  # noqa: ANN401 - torch's own arguments, passed on
    **named: Any,  # noqa: ANN401 - as above
) -> torch.Tensor:
    """Compute the loss as CUDA's autocast does.

    It is a log-softmax in the logits' dtype, of which the loss takes an fp32 copy. A CPU's makes
    the copy first. ``cross_entropy_loss`` asks for its input's dtype, which autocast respects
    (``LossNLL.cpp``, ``autocast_mode.h``).
    """
    if named.pop("label_smoothing", 0.0) or args:
        return cross_entropy(logits, target, *args, **named)
    with torch.autocast("cpu", enabled=False):
        likely = log_softmax(logits, dim=min(1, logits.dim() - 1), dtype=logits.dtype)
        return nll_loss(likely.float(), target, **named)


def _ask_for_fp32(summed: object, named: dict[str, Any]) -> dict[str, Any]:
    is_half = isinstance(summed, torch.Tensor) and summed.dtype in _HALF
    return {"dtype": torch.float32} | named if is_half else named


def _upcast(argument: object) -> object:
    if isinstance(argument, torch.Tensor) and argument.dtype in _HALF:
        return argument.float()
    return argument
