"""CUDA's own choices: it takes the attention kernel that it likes, unless one was asked for, and is asked which it took."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import Choices
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


def own_choices(attention: Attention, chosen: list[str]) -> Choices:
    """Return what is entered around each pass; the kernel that CUDA takes for the first attention is added to ``chosen``."""

    def choose(_expected: Kernel) -> AbstractContextManager[Any]:
        if backend := _BACKENDS.get(attention):
            return sdpa_kernel(backend)
        if attention is Attention.SDPA and not chosen:
            return _Asking(chosen)
        return nullcontext()

    return choose


def describe_choice(chosen: Sequence[str], expected: Kernel) -> str | None:
    """Say which kernel ran where it is not the one that was counted on."""
    if not chosen or chosen[0] == expected.value:
        return None
    return f"CUDA chose the {chosen[0]} attention kernel, where {expected.value} was expected"


class _Asking(TorchFunctionMode):
    """Asks torch which kernel it would take; it slows every call, so it is entered until it knows."""

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
            backend = SDPBackend(torch._fused_sdp_choice(*args, **named))  # noqa: SLF001 - what torch itself asks
            self._chosen.append(_NAMES.get(backend, backend.name.lower()))
        return func(*args, **named)
