"""Holds a run on fake CPU tensors to what CUDA would do, operator by operator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import Choices, cuda_choices
from worker.probes.attention.fake_attention import CUDA_KERNELS, Kernels, attention_with
from worker.probes.attention.names import Kernel


class _CudaAttention(TorchFunctionMode):
    def __init__(self, asked: Attention, kernels: Kernels) -> None:
        super().__init__()
        self._attention = attention_with(asked, kernels)

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        del types
        if func is scaled_dot_product_attention:
            return self._attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def traced_choices(asked: Attention) -> Choices:
    """Return what runs a forward pass with CUDA's choices, and attention through CUDA's own operators: none is computed."""
    return choices_with(asked, CUDA_KERNELS)


def choices_with(asked: Attention, kernels: Kernels) -> Choices:
    """Return what runs a forward pass with CUDA's choices, and attention through ``kernels``, call by call."""

    @contextmanager
    def choices(kernel: Kernel) -> Iterator[None]:
        with cuda_choices(kernel), _CudaAttention(asked, kernels):
            yield

    return choices
