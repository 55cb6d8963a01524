"""CEL over devices of NVIDIA's DRA driver.

It picks those that hold a number of bytes.

``memory`` of a whole GPU is NVML's total, and a slice's what its profile offers
(kubernetes-sigs/dra-driver-nvidia-gpu, ``cmd/gpu-kubelet-plugin/nvlib.go`` and ``mig.go``). A
process can allocate less of a whole GPU: the catalogue's ``capacity_bytes`` less its
``usable_bytes``, each with its source, are added to what is needed.
"""

import json
from collections.abc import Sequence

from service.formats.renderings.job import GpuKind, UnrenderableError

_ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'
_CAPACITY = 'device.capacity["gpu.nvidia.com"]'
_NVIDIA = "nvidia"


def select_kind(kind: GpuKind) -> str:
    """Return the selector of a named GPU or slice with enough memory.

    Cards of one product differ in their memory. Raises UnrenderableError where the driver tells no
    memory, or nobody knows what it calls the GPU.
    """
    device, names = kind.device, _list_products(kind)
    if device.has_unified_memory:
        message = (
            f"the memory of {device.name} is the host's, and NVIDIA's DRA driver tells none of "
            "it: format kubernetes"
        )
        raise UnrenderableError(message)
    if not names:
        message = f"nobody knows what NVML calls {device.name}: format kubernetes"
        raise UnrenderableError(message)
    product = f"{_ATTRIBUTES}.productName in {json.dumps(names)}"
    if device.mig_profile is not None:
        profile = f"{_ATTRIBUTES}.profile == {json.dumps(device.mig_profile)}"
        return f"{product} && {profile} && {_compare(kind.needed_bytes)}"
    return f"{product} && {_compare(_compute_threshold(kind))}"


def select_memory(gpus: Sequence[GpuKind]) -> str:
    """Return the selector of any GPU with enough memory.

    One that nobody knows must have as many more as the known GPU that withholds most.
    """
    discrete = [
        kind
        for kind in gpus
        if kind.device.vendor == _NVIDIA and not kind.device.has_unified_memory
    ]
    threshold = max(_compute_threshold(kind) for kind in discrete)
    nearly = [
        kind
        for kind in discrete
        if _compute_threshold(kind) <= kind.device.capacity_bytes < threshold
    ]
    if not nearly:
        return _compare(threshold)
    names = sorted({name for kind in nearly for name in _list_products(kind)})
    smallest = min(kind.device.capacity_bytes for kind in nearly)
    listed = f"{_ATTRIBUTES}.productName in {json.dumps(names)} && {_compare(smallest)}"
    return f"{_compare(threshold)} || ({listed})"


def _compute_threshold(kind: GpuKind) -> int:
    return kind.needed_bytes + kind.device.capacity_bytes - kind.device.usable_bytes


def _compare(num_bytes: int) -> str:
    """Return the comparison of a device's memory.

    A scheduler gives a claim up where a selector reads what a device lacks.
    """
    memory = f"{_CAPACITY}.memory"
    return f'has({memory}) && {memory}.compareTo(quantity("{num_bytes}")) >= 0'


def _list_products(kind: GpuKind) -> list[str]:
    return [] if kind.names is None else list(kind.names.aliases.get("nvml", ()))
