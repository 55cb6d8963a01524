"""Workspaces of cuBLAS and Transformer Engine.

These buffers of libraries live in the allocator from the first product on.
"""

from enum import IntEnum

from service.estimator.backends.megatron.shape import Switches
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
    layers: StageLayers, generation: Generation, switches: Switches, *, deterministic: bool
) -> int:
    """Return the workspaces of a stage.

    Transformer Engine has 32 MiB from Hopper on and 4 MiB before (module/base.py,
    get_cublas_workspace_size_bytes) where its products run: those of its layers and every router's
    (core/transformer/moe/moe_utils.py, ``RouterGatingLinearFunction``). PyTorch has ``:4096:8``
    from Hopper on and where results must be reproducible, else ``:4096:2:16:8``, per handle
    (parseChosenWorkspaceSize; on Blackwell since pull request 175344 of February 2026) where its
    own products run: the head's, those of unfused attention and of local layers.
    """
    engine_bytes = 4 * MIB if generation is Generation.AMPERE else 32 * MIB
    handle_bytes = (
        2 * 4096 * KIB + 8 * 16 * KIB
        if generation is Generation.AMPERE and not deterministic
        else 8 * 4096 * KIB
    )
    num_engines = int(not switches.local or layers.sparse > 0)
    if layers.sparse and not switches.joins_experts:
        num_engines += GROUPED_STREAMS
    num_handles = TORCH_HANDLES if layers.last or switches.unfused else 0
    return num_engines * engine_bytes + num_handles * handle_bytes
