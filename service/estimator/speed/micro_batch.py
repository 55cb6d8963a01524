"""Times of one micro batch on a rank by itself.

Waiting for others is not part of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Seconds of both passes of one micro batch on one rank.

    The process that launches its operations is included, and attention's seconds are among them.
    """

    forward: float
    backward: float
    attention_forward: float = 0.0
    attention_backward: float = 0.0
    host_s: float = 0.0
    """Seconds that the host is busy with both passes."""
    gpu_s: float = 0.0
    """Seconds that the GPU is busy with both passes."""
    host_lead_s: float = 0.0
    """Seconds before the GPU's end at which the host has launched all of it."""

    @property
    def total(self) -> float:
        """Seconds of both passes."""
        return self.forward + self.backward
