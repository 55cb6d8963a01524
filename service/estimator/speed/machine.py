"""Rates of one GPU in a layout."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.speed.links import Links
from service.estimator.speed.rates import MEMORY_SHARE, Rates, get_rates
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout

KERNEL_S = 2e-6
"""Start and end of a kernel inside of a replayed graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU's rates and links.

    They are peak FLOP/s in the dtype that is multiplied, bytes per second that streaming reaches,
    shares of the peaks, and links.
    """

    flops: float
    memory: float
    rates: Rates
    links: Links
    peak_flops: Mapping[str, int]
    kernel_s: float = KERNEL_S

    @classmethod
    def from_device(cls, device: Device, layout: Layout, dtype: DType) -> "Machine | None":
        """Return the machine; None where the device's rates are unknown.

        A format without hardware is emulated in fp32.
        """
        dtypes = [name for name in (dtype.value, DType.FP32.value) if name in device.peak_flops]
        if not dtypes or device.bandwidth_bytes_per_second is None:
            return None
        rates = get_rates(device.name)
        return cls(
            flops=device.peak_flops[dtypes[0]],
            memory=device.bandwidth_bytes_per_second * MEMORY_SHARE,
            rates=rates,
            links=Links.from_device(device, layout, rates),
            peak_flops=device.peak_flops,
        )

    def get_rate(self, dtype: DType) -> float:
        """Return the FLOP/s that products in another dtype reach.

        PyTorch leaves TF32 off.
        """
        return self.peak_flops.get(dtype.value, self.flops) * self.rates.products
