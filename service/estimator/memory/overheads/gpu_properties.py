"""What engines ask of a chip beside its memory: processors, second-level cache and cuBLAS's workspace."""

from dataclasses import dataclass
from functools import lru_cache

from service.estimator.values.device import Device
from service.estimator.values.units import GIB, KIB, MIB

_HOPPER_WORKSPACE = 32 * MIB
_OLDER_WORKSPACE = (4096 * 2 + 16 * 8) * KIB
"""``:4096:2:16:8``, what cuBLAS recommends below compute capability 9.0 (PyTorch, ``getChosenWorkspaceSize``)."""


@dataclass(frozen=True, slots=True)
class Chip:
    """Streaming multiprocessors, bytes of second-level cache, and bytes of the workspace that PyTorch gives cuBLAS."""

    num_processors: int
    cache_bytes: int
    workspace_bytes: int
    flash: bool = True
    """Whether FlashAttention runs on it: compute capability 8.0 or more."""

    @property
    def is_hopper_or_later(self) -> bool:
        """Whether compute capability is 9.0 or more."""
        return self.workspace_bytes == _HOPPER_WORKSPACE


_CHIPS = {
    "P100": Chip(56, 4 * MIB, _OLDER_WORKSPACE, flash=False),
    "V100S": Chip(80, 6 * MIB, _OLDER_WORKSPACE, flash=False),
    "V100": Chip(80, 6 * MIB, _OLDER_WORKSPACE, flash=False),
    "T4": Chip(40, 4 * MIB, _OLDER_WORKSPACE, flash=False),
    "RTX-2080-Ti": Chip(68, 5632 * KIB, _OLDER_WORKSPACE, flash=False),
    "A10": Chip(72, 6 * MIB, _OLDER_WORKSPACE),
    "A10G": Chip(80, 6 * MIB, _OLDER_WORKSPACE),
    "A30": Chip(56, 24 * MIB, _OLDER_WORKSPACE),
    "A40": Chip(84, 6 * MIB, _OLDER_WORKSPACE),
    "A100": Chip(108, 40 * MIB, _OLDER_WORKSPACE),
    "A800": Chip(108, 40 * MIB, _OLDER_WORKSPACE),
    "L4": Chip(58, 48 * MIB, _OLDER_WORKSPACE),
    "L20": Chip(92, 96 * MIB, _OLDER_WORKSPACE),
    "L40": Chip(142, 96 * MIB, _OLDER_WORKSPACE),
    "L40S": Chip(142, 96 * MIB, _OLDER_WORKSPACE),
    "RTX-3090": Chip(82, 6 * MIB, _OLDER_WORKSPACE),
    "RTX-4080": Chip(76, 64 * MIB, _OLDER_WORKSPACE),
    "RTX-4090-D": Chip(114, 72 * MIB, _OLDER_WORKSPACE),
    "RTX-4090": Chip(128, 72 * MIB, _OLDER_WORKSPACE),
    "RTX-5090": Chip(170, 96 * MIB, _HOPPER_WORKSPACE),
    "RTX-6000-Ada": Chip(142, 96 * MIB, _OLDER_WORKSPACE),
    "RTX-PRO-6000": Chip(188, 128 * MIB, _HOPPER_WORKSPACE),
    "RTX-A5000": Chip(64, 6 * MIB, _OLDER_WORKSPACE),
    "RTX-A6000": Chip(84, 6 * MIB, _OLDER_WORKSPACE),
    "H100-PCIE": Chip(114, 50 * MIB, _HOPPER_WORKSPACE),
    "H100": Chip(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H800": Chip(132, 50 * MIB, _HOPPER_WORKSPACE),
    "GH200": Chip(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H200": Chip(132, 50 * MIB, _HOPPER_WORKSPACE),
    "H20": Chip(78, 60 * MIB, _HOPPER_WORKSPACE),
    "B200": Chip(148, 126 * MIB, _HOPPER_WORKSPACE),
    "GB200": Chip(148, 126 * MIB, _HOPPER_WORKSPACE),
    "B300": Chip(148, 126 * MIB, _HOPPER_WORKSPACE),
    "GB300": Chip(148, 126 * MIB, _HOPPER_WORKSPACE),
    "MI210": Chip(104, 8 * MIB, _HOPPER_WORKSPACE),
    "MI250": Chip(104, 8 * MIB, _HOPPER_WORKSPACE),
    "MI250X": Chip(110, 8 * MIB, _HOPPER_WORKSPACE),
    "MI300X": Chip(304, 4 * MIB, _HOPPER_WORKSPACE),
    "MI325X": Chip(304, 4 * MIB, _HOPPER_WORKSPACE),
    "MI350X": Chip(256, 4 * MIB, _HOPPER_WORKSPACE),
    "MI355X": Chip(256, 4 * MIB, _HOPPER_WORKSPACE),
}
"""By the start of a catalogue name; the figures are those of the vendors' architecture papers and ``cudaDeviceProp``."""

_LARGE_BYTES = 70 * GIB
_MIDDLE_BYTES = 30 * GIB


def chip_of(device: Device) -> Chip:
    """Return the chip of a GPU; a GPU known by its memory alone stands for the data-centre chip of its size."""
    return _chip(device.name, device.usable_bytes)


@lru_cache(256)
def _chip(gpu: str, usable_bytes: int) -> Chip:
    matches = [name for name in _CHIPS if gpu == name or gpu.startswith(f"{name}-")]
    if matches:
        return _CHIPS[max(matches, key=len)]
    if usable_bytes >= _LARGE_BYTES:
        return _CHIPS["H100"]
    return _CHIPS["A100" if usable_bytes >= _MIDDLE_BYTES else "A10G"]
