"""Rates of one GPU in a layout."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.speed.links import Links
from service.estimator.speed.rates import Rates, get_rates
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout


@init_quickly
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
    bandwidth: float
    peak_flops: Mapping[str, int]

    @classmethod
    def from_device(
        cls, device: Device, layout: Layout, dtype: DType, rates: Rates | None = None
    ) -> "Machine | None":
        """Return the machine; None where the device's rates are unknown.

        A format without hardware is emulated in fp32.
        """
        dtypes = [name for name in (dtype.value, DType.FP32.value) if name in device.peak_flops]
        if not dtypes or device.bandwidth_bytes_per_second is None:
            return None
        rates = rates or get_rates(device.name)
        return cls(
            flops=device.peak_flops[dtypes[0]],
            memory=device.bandwidth_bytes_per_second * rates.memory,
            rates=rates,
            links=Links.from_device(device, layout, rates),
            bandwidth=device.bandwidth_bytes_per_second,
            peak_flops=device.peak_flops,
        )

    @property
    def streaming(self) -> float:
        """Bytes per second of kernels that read weights or a cache."""
        return self.bandwidth * self.rates.streaming

    def get_rate(self, dtype: DType) -> float:
        """Return the FLOP/s that products in another dtype reach.

        PyTorch leaves TF32 off.
        """
        return self.peak_flops.get(dtype.value, self.flops) * self.rates.products

    def get_head_rate(self, vocab_size: int) -> float:
        """Return the FLOP/s of the product with the vocabulary.

        Tensor cores read rows in steps of 16 bytes; a vocabulary that is no multiple of eight falls
        back to slower kernels (NVIDIA, "Matrix Multiplication Background User's Guide").
        """
        share = 1.0 if vocab_size % _ALIGNED == 0 else self.rates.unaligned
        return self.flops * self.rates.products * share

    def get_update_rate(self, width: int) -> float:
        """Return an optimizer step's bytes per second, for elements of ``width`` bytes.

        A thread loads four elements at once, so that 16 bits come in shorter loads than 32 (ATen
        ``ForeachFunctors.cuh``, ``kILP``).
        """
        share = self.rates.update if width >= _FULL_WIDTH else self.rates.update_16_bit
        return self.bandwidth * share


_FULL_WIDTH = 4
_ALIGNED = 8
