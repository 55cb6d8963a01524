"""Workspaces of cuBLAS and Transformer Engine.

These buffers of libraries live in the allocator from the first product on.
"""

from enum import IntEnum

from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.values.device import Device
from service.estimator.values.units import KIB, MIB

_BEFORE_HOPPER = ("V100", "T4", "A100", "A10", "A30", "A40", "A2-", "L4", "L40", "RTX", "A16")
"""Prefixes of the names of GPUs with a compute capability below 9."""
_BLACKWELL = ("B200", "B100", "B300", "GB200", "GB300", "RTX PRO 6000")
TORCH_HANDLES = 2
"""Forward and autograd's own thread each have a cuBLAS handle with its workspace
(aten/src/ATen/cuda/CublasHandlePool.cpp).
"""

GROUPED_STREAMS = 4
"""Streams over which grouped products are spread, each with one more workspace
(get_multi_stream_cublas_workspace).
"""


class Generation(IntEnum):
    """GPU generations that the libraries distinguish.

    By compute capability: before 9, 9 and after.
    """

    AMPERE = 8
    HOPPER = 9
    BLACKWELL = 10


def get_generation(device: Device) -> Generation:
    """Return a GPU's generation.

    A GPU that is only known by its memory is taken for a Hopper.
    """
    if device.name.startswith(_BLACKWELL):
        return Generation.BLACKWELL
    return Generation.AMPERE if device.name.startswith(_BEFORE_HOPPER) else Generation.HOPPER


def workspace_bytes(
    layers: StageLayers, generation: Generation, *, unfused: bool, deterministic: bool
) -> int:
    """Return the workspaces of a stage.

    Transformer Engine has 32 MiB from Hopper on and 4 MiB before (module/base.py,
    get_cublas_workspace_size_bytes); PyTorch has ``:4096:8`` on Hopper and where results must be
    reproducible, else ``:4096:2:16:8``, per handle (parseChosenWorkspaceSize) where its own
    products run: the head's, a router's, or those of unfused attention.
    """
    engine_bytes = 4 * MIB if generation is Generation.AMPERE else 32 * MIB
    handle_bytes = (
        8 * 4096 * KIB
        if generation is Generation.HOPPER or deterministic
        else 2 * 4096 * KIB + 8 * 16 * KIB
    )
    torch_bytes = TORCH_HANDLES * handle_bytes if layers.last or layers.sparse or unfused else 0
    grouped_bytes = GROUPED_STREAMS * engine_bytes if layers.sparse else 0
    return engine_bytes + torch_bytes + grouped_bytes
