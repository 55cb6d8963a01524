"""What calibration learnt, as a pure value that the estimator adds to its own answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCorrection:
    """Bytes to add to one instant's allocated bytes: ``fixed_bytes + bytes_per_token * tokens of one micro batch``."""

    fixed_bytes: int = 0
    bytes_per_token: float = 0.0

    def at(self, num_tokens: int) -> int:
        """Return the correction for one micro batch of ``num_tokens``."""
        return self.fixed_bytes + round(self.bytes_per_token * num_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Additive corrections of allocated bytes per instant, and the calibration that they come from.

    ``basis`` is ``calibrated`` when they rest on a measurement of another size and ``measured`` when this very
    configuration was measured; ``relative_error`` bounds what remains (0.95 level).
    """

    calibration: str
    basis: str = "calibrated"
    instants: Mapping[str, InstantCorrection] = field(default_factory=dict)
    relative_error: float | None = None
