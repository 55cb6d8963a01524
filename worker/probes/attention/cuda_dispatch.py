"""The attention kernel that CUDA itself chooses.

A kernel that was requested is forced; otherwise CUDA takes the one that it prefers, and torch is
asked which.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import KernelContext
from worker.probes.attention.names import Kernel

_BACKENDS = {
    Attention.FLASH: SDPBackend.FLASH_ATTENTION,
    Attention.EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
    Attention.MATH: SDPBackend.MATH,
}
_NAMES = {
    SDPBackend.FLASH_ATTENTION: Kernel.FLASH.value,
    SDPBackend.EFFICIENT_ATTENTION: Kernel.EFFICIENT.value,
    SDPBackend.MATH: Kernel.MATH.value,
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


def make_device_context(attention: Attention, chosen: list[str]) -> KernelContext:
    """Return the factory of the contexts around each pass.

    The kernel that CUDA takes for the first attention is added to ``chosen``.
    """

    def make_context(_expected: Kernel) -> AbstractContextManager[Any]:
        if backend := _BACKENDS.get(attention):
            return sdpa_kernel(backend)
        if attention is Attention.SDPA and not chosen:
            return _KernelQuery(chosen)
        return nullcontext()

    return make_context


def describe_choice(chosen: Sequence[str], expected: Kernel) -> str | None:
    """Describe the kernel that ran where another one was expected."""
    if not chosen or chosen[0] == expected.value:
        return None
    return f"CUDA chose the {chosen[0]} attention kernel, where {expected.value} was expected"


class _KernelQuery(TorchFunctionMode):
    """Function mode that records which kernel torch would take.

    It slows every call, so it is entered only until the kernel is known.
    """

    def __init__(self, chosen: list[str]) -> None:
        super().__init__()
        self._chosen = chosen

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        named = kwargs or {}
        if func is scaled_dot_product_attention and not self._chosen:
            inputs: list[Any] = [_cast_as_autocast(value) for value in args]
            options: dict[str, Any] = {
                name: _cast_as_autocast(value) for name, value in named.items()
            }
            backend = SDPBackend(torch._fused_sdp_choice(*inputs, **options))  # noqa: SLF001 - what torch itself asks
            self._chosen.append(_NAMES.get(backend, backend.name.lower()))
        return func(*args, **named)


def _cast_as_autocast(value: object) -> object:
    """Return an argument in the dtype that autocast gives attention."""
    if (
        not isinstance(value, torch.Tensor)
        or not value.is_floating_point()
        or not torch.is_autocast_enabled(value.device.type)
    ):
        return value
    return value.to(torch.get_autocast_dtype(value.device.type))
