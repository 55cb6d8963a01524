"""Context and communicators of SGLang, made before weights are loaded."""

from service.estimator.backends.vllm.overheads import communicator_bytes, is_without_fabric
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.units import MIB

_HOPPER_CONTEXT, _CONTEXT, _COMMUNICATOR = 520 * MIB, 280 * MIB, 450 * MIB
_OVER_PCIE = 160 * MIB
"""What the start of communication took: 0.13 GiB of four L4 (0.4.3, NCCL 2.21.5), 0.19 of two RTX
4090 (2026, NCCL 2.27.5)."""


def get_context_bytes(device: Device) -> int:
    """Return the bytes of a CUDA context."""
    return _HOPPER_CONTEXT if get_gpu_properties(device).is_hopper_or_later else _CONTEXT


def get_communicator_bytes(layout: Layout, device: Device) -> int:
    """Return the bytes of a rank's communicators as they are made."""
    if layout.tensor_parallel * layout.pipeline_parallel == 1:
        return 0
    if is_without_fabric(device):
        return _OVER_PCIE
    return max(_COMMUNICATOR, communicator_bytes(get_gpu_properties(device), layout, device))
