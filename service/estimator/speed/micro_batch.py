"""How long one micro batch keeps a rank busy by itself, before it waits for others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Seconds of one micro batch on one rank, the process that launches its operations included; attention's among them."""

    forward: float
    backward: float
    attention_forward: float = 0.0
    attention_backward: float = 0.0

    @property
    def total(self) -> float:
        """Both passes."""
        return self.forward + self.backward
