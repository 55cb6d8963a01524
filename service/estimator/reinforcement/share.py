"""Bytes of a GPU that belong to others than a policy's trainer."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.values.result import Component, Interval

OTHER = "engine_other"
"""Component of an engine's bytes without a name of their own."""
CONTEXT = "critic_context"
"""Component of a critic's bytes that PyTorch does not allocate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """Bytes that an engine and a critic hold at one time.

    ``tensors`` are PyTorch's allocated bytes, ``outside`` all others; ``interval`` is of both.
    """

    components: tuple[Component, ...]
    tensors: int
    outside: int
    interval: Interval

    @property
    def device_bytes(self) -> int:
        """All bytes."""
        return self.tensors + self.outside

    @property
    def parts(self) -> Mapping[str, int]:
        """Tensors by component."""
        parts: dict[str, int] = {}
        for part in self.components:
            if part.name not in {OTHER, CONTEXT}:
                parts[part.name] = parts.get(part.name, 0) + part.bytes
        unnamed = self.tensors - sum(parts.values())
        return parts | ({OTHER: unnamed} if unnamed else {})

    def __add__(self, other: "GpuShare") -> "GpuShare":
        """Return what both hold together."""
        low, high = (
            getattr(self.interval, end) + getattr(other.interval, end) for end in ("low", "high")
        )
        return GpuShare(
            components=(*self.components, *other.components),
            tensors=self.tensors + other.tensors,
            outside=self.outside + other.outside,
            interval=Interval(low, high),
        )


NOTHING = GpuShare(components=(), tensors=0, outside=0, interval=Interval(0, 0))
