"""One GPU as the estimator sees it, and what lies on it outside the allocator."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.dtypes import DType
from service.estimator.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU: ``capacity_bytes`` is NVML's total, ``usable_bytes`` what a process can allocate (cudaMemGetInfo's total)."""

    name: str
    capacity_bytes: int
    usable_bytes: int
    vendor: str = "nvidia"
    bandwidth_bytes_per_second: int | None = None
    peak_flops: Mapping[str, int] = field(default_factory=dict)
    link_bytes_per_second: int | None = None

    def __post_init__(self) -> None:
        """Refuse a device that offers more than it has, or nothing."""
        if not 0 < self.usable_bytes <= self.capacity_bytes:
            message = f"usable_bytes {self.usable_bytes} must lie between 1 and capacity_bytes {self.capacity_bytes}"
            raise InvalidInputError(message, field="gpu.memory_bytes")

    def warnings_for(self, dtype: DType) -> tuple[str, ...]:
        """Return what to say of arithmetic in ``dtype``: a format without a peak rate has no hardware; without any, nothing."""
        if not self.peak_flops or dtype.value in self.peak_flops:
            return ()
        known = ", ".join(sorted(self.peak_flops))
        emulated = "the bytes hold where software emulates it, slowly, and some kernels refuse to run"
        return (f"{self.name} has no hardware for {dtype.value} arithmetic (it has {known}): {emulated}",)
