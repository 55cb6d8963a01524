"""Context and communicators of SGLang, made before weights are loaded."""

from service.estimator.backends.vllm.overheads import is_without_fabric
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.units import MIB

_HOPPER_CONTEXT, _CONTEXT = 520 * MIB, 280 * MIB
"""Beside a context on H100 78.43 to 78.81 of 79.19 GiB are free (0.4.1 to 2026), on L4 0.27 less
than all, on RTX 4090 0.25 and 0.40, on RTX 5080 0.31 (0.4.10): a context grows with its chip.
"""
_OVER_PCIE, _OVER_FABRIC, _OVER_HOPPERS_FABRIC = 195 * MIB, 250 * MIB, 1280 * MIB
"""What the start of communication takes, medians of start-up logs, GiB ("Init torch distributed
ends"). PCIe: 0.13 (four L4, 0.4.3), 0.19 and 0.23 (two cards of 24 GB, 2025 and 2026). A100: 0.22
to 0.27 of 16 ranks (pull request 3888). H100 and H200: 1.19, 1.19, 1.25, 1.34 and 1.50 less free
than beside a context, 2.01 in one (pull request 11716)."""


def get_context_bytes(device: Device) -> int:
    """Return the bytes of a CUDA context."""
    is_large = get_gpu_properties(device).is_hopper_or_later and not is_without_fabric(device)
    return _HOPPER_CONTEXT if is_large else _CONTEXT


def get_communicator_bytes(layout: Layout, device: Device) -> int:
    """Return the bytes of a rank's communicators as they are made."""
    if layout.tensor_parallel * layout.pipeline_parallel == 1:
        return 0
    if is_without_fabric(device):
        return _OVER_PCIE
    is_hopper = get_gpu_properties(device).is_hopper_or_later
    return _OVER_HOPPERS_FABRIC if is_hopper else _OVER_FABRIC
