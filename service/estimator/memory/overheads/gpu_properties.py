"""GPU properties that engines need beside its memory.

They are processors, second-level cache and cuBLAS's workspace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.estimator.memory.overheads.card_processors import AMPERE_AND_ADA, BLACKWELL, TURING
from service.estimator.values.device import Device
from service.estimator.values.memo import keep_latest
from service.estimator.values.units import GIB, KIB, MIB

_HOPPER_WORKSPACE = 32 * MIB
_OLDER_WORKSPACE = (4096 * 2 + 16 * 8) * KIB
"""``:4096:2:16:8``, what cuBLAS recommends below compute capability 9.0 (PyTorch,
``getChosenWorkspaceSize``).
"""


@dataclass(frozen=True, slots=True)
class GpuProperties:
    """Properties of a GPU.

    They are its streaming multiprocessors, bytes of second-level cache, and bytes of the workspace
    that PyTorch gives cuBLAS.
    """

    num_processors: int
    cache_bytes: int
    workspace_bytes: int
    supports_flash: bool = True
    """Whether FlashAttention runs on it: compute capability 8.0 or more."""

    @property
    def is_hopper_or_later(self) -> bool:
        """Whether compute capability is 9.0 or more."""
        return self.workspace_bytes == _HOPPER_WORKSPACE


def _build_cards(
    cards: Mapping[str, tuple[int, int]], workspace_bytes: int, *, supports_flash: bool = True
) -> dict[str, GpuProperties]:
    return {
        name: GpuProperties(processors, mebibytes * MIB, workspace_bytes, supports_flash)
        for name, (processors, mebibytes) in cards.items()
    }


_PROPERTIES = {
    **_build_cards(TURING, _OLDER_WORKSPACE, supports_flash=False),
    **_build_cards(AMPERE_AND_ADA, _OLDER_WORKSPACE),
    **_build_cards(BLACKWELL, _HOPPER_WORKSPACE),
    "P4": GpuProperties(20, 2 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "P40": GpuProperties(30, 3 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "P100": GpuProperties(56, 4 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "V100S": GpuProperties(80, 6 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "V100": GpuProperties(80, 6 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "T4": GpuProperties(40, 4 * MIB, _OLDER_WORKSPACE, supports_flash=False),
    "RTX-2080-Ti": GpuProperties(68, 5632 * KIB, _OLDER_WORKSPACE, supports_flash=False),
    "A2": GpuProperties(10, 2 * MIB, _OLDER_WORKSPACE),
    "A16": GpuProperties(10, 2 * MIB, _OLDER_WORKSPACE),
    "A10": GpuProperties(72, 6 * MIB, _OLDER_WORKSPACE),
    "A10G": GpuProperties(80, 6 * MIB, _OLDER_WORKSPACE),
    "A30": GpuProperties(56, 24 * MIB, _OLDER_WORKSPACE),
    "A40": GpuProperties(84, 6 * MIB, _OLDER_WORKSPACE),
    "A100": GpuProperties(108, 40 * MIB, _OLDER_WORKSPACE),
    "A800": GpuProperties(108, 40 * MIB, _OLDER_WORKSPACE),
    "L4": GpuProperties(58, 48 * MIB, _OLDER_WORKSPACE),
    "L20": GpuProperties(92, 96 * MIB, _OLDER_WORKSPACE),
    "L40": GpuProperties(142, 96 * MIB, _OLDER_WORKSPACE),
    "L40S": GpuProperties(142, 96 * MIB, _OLDER_WORKSPACE),
    "RTX-3090": GpuProperties(82, 6 * MIB, _OLDER_WORKSPACE),
    "RTX-4080": GpuProperties(76, 64 * MIB, _OLDER_WORKSPACE),
    "RTX-4090-D": GpuProperties(114, 72 * MIB, _OLDER_WORKSPACE),
    "RTX-4090": GpuProperties(128, 72 * MIB, _OLDER_WORKSPACE),
    "RTX-5090": GpuProperties(170, 96 * MIB, _HOPPER_WORKSPACE),
    "RTX-6000-Ada": GpuProperties(142, 96 * MIB, _OLDER_WORKSPACE),
    "RTX-PRO-6000": GpuProperties(188, 128 * MIB, _HOPPER_WORKSPACE),
    "RTX-A5000": GpuProperties(64, 6 * MIB, _OLDER_WORKSPACE),
    "RTX-A6000": GpuProperties(84, 6 * MIB, _OLDER_WORKSPACE),
    "H100-PCIE": GpuProperties(114, 50 * MIB, _HOPPER_WORKSPACE),
    "H100": GpuProperties(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H800-PCIE": GpuProperties(114, 50 * MIB, _HOPPER_WORKSPACE),
    "H800": GpuProperties(132, 50 * MIB, _HOPPER_WORKSPACE),
    "GH200": GpuProperties(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H200": GpuProperties(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H20": GpuProperties(78, 60 * MIB, _HOPPER_WORKSPACE),
    "B200": GpuProperties(148, 126 * MIB, _HOPPER_WORKSPACE),
    "GB200": GpuProperties(148, 126 * MIB, _HOPPER_WORKSPACE),
    "B300": GpuProperties(148, 126 * MIB, _HOPPER_WORKSPACE),
    "GB300": GpuProperties(148, 126 * MIB, _HOPPER_WORKSPACE),
    "MI210": GpuProperties(104, 8 * MIB, _HOPPER_WORKSPACE),
    "MI250": GpuProperties(104, 8 * MIB, _HOPPER_WORKSPACE),
    "MI250X": GpuProperties(110, 8 * MIB, _HOPPER_WORKSPACE),
    "MI300X": GpuProperties(304, 4 * MIB, _HOPPER_WORKSPACE),
    "MI325X": GpuProperties(304, 4 * MIB, _HOPPER_WORKSPACE),
    "MI350X": GpuProperties(256, 4 * MIB, _HOPPER_WORKSPACE),
    "MI355X": GpuProperties(256, 4 * MIB, _HOPPER_WORKSPACE),
}
"""By the start of a catalogue name; the figures are those of the vendors' architecture papers and
``cudaDeviceProp``.
"""

_LARGE_BYTES = 70 * GIB
_MIDDLE_BYTES = 30 * GIB


def get_gpu_properties(device: Device) -> GpuProperties:
    """Return the properties of a GPU.

    One known by its memory alone stands for the data-centre GPU of its size, and a slice has the
    processors that its GPU's driver lists.
    """
    properties = _find_properties(device.name, device.usable_bytes)
    if device.num_processors is None:
        return properties
    return replace(properties, num_processors=device.num_processors)


@keep_latest(256)
def find_gpu_properties(gpu_name: str) -> GpuProperties | None:
    """Return the properties of a GPU that the table has."""
    matches = [name for name in _PROPERTIES if gpu_name == name or gpu_name.startswith(f"{name}-")]
    return _PROPERTIES[max(matches, key=len)] if matches else None


@keep_latest(256)
def _find_properties(gpu_name: str, usable_bytes: int) -> GpuProperties:
    properties = find_gpu_properties(gpu_name)
    if properties is not None:
        return properties
    if usable_bytes >= _LARGE_BYTES:
        return _PROPERTIES["H100"]
    return _PROPERTIES["A100" if usable_bytes >= _MIDDLE_BYTES else "A10G"]
