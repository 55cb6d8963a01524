"""CUDA's kernel choices for runs on fake CPU tensors.

They are made operator by operator.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import KernelContext, use_cuda_kernels
from worker.probes.attention.fake_attention import CUDA_KERNELS, Kernels, make_attention
from worker.probes.attention.names import Kernel


class _CudaAttention(TorchFunctionMode):
    def __init__(self, requested: Attention, kernels: Kernels) -> None:
        super().__init__()
        self._attention = make_attention(requested, kernels)

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


def make_trace_context(requested: Attention) -> KernelContext:
    """Return the factory of the contexts of traced passes.

    They make CUDA's choices, and run attention through CUDA's own operators: none is computed.
    """
    return make_kernel_context(requested, CUDA_KERNELS)


def make_kernel_context(requested: Attention, kernels: Kernels) -> KernelContext:
    """Return the factory of the contexts of passes, with ``kernels``.

    They make CUDA's choices, and run attention through ``kernels``, call by call.
    """

    @contextmanager
    def use_kernels(kernel: Kernel) -> Iterator[None]:
        with use_cuda_kernels(kernel), _CudaAttention(requested, kernels):
            yield

    return use_kernels
