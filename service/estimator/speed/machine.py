"""One GPU of a layout as the clock sees it."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.speed.links import Links
from service.estimator.speed.rates import MEMORY_SHARE, Rates, rates_of
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout

KERNEL_S = 2e-6
"""Start and end of a kernel inside of a replayed graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Peak FLOP/s in the dtype that is multiplied, bytes per second that streaming reaches, shares of the peaks, links."""

    flops: float
    memory: float
    rates: Rates
    links: Links
    peak_flops: Mapping[str, int]
    kernel_s: float = KERNEL_S

    @classmethod
    def of(cls, device: Device, layout: Layout, dtype: DType) -> "Machine | None":
        """Return the machine; None when nobody told its rates. A format without hardware is emulated in fp32."""
        known = [name for name in (dtype.value, DType.FP32.value) if name in device.peak_flops]
        if not known or device.bandwidth_bytes_per_second is None:
            return None
        rates = rates_of(device.name)
        return cls(
            flops=device.peak_flops[known[0]],
            memory=device.bandwidth_bytes_per_second * MEMORY_SHARE,
            rates=rates,
            links=Links.of(device, layout, rates),
            peak_flops=device.peak_flops,
        )

    def rate_in(self, dtype: DType) -> float:
        """Return the FLOP/s that products in another dtype reach; PyTorch leaves TF32 off."""
        return self.peak_flops.get(dtype.value, self.flops) * self.rates.products
