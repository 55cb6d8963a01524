"""One phase of a policy's training."""

from dataclasses import dataclass

from service.estimator.memory.phase_peaks import Parts
from service.estimator.reinforcement.engine import EngineShare
from service.estimator.values.result import Interval

LOG_PROBS, ROLLOUT, WEIGHT_SYNC = "log_probs", "rollout", "weight_sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase with the trainer's tensors and the engine beside them.

    ``slack`` is what the trainer's allocator holds beyond its tensors, ``spread`` how far its bytes
    may be off.
    """

    name: str
    parts: Parts
    engine: EngineShare
    slack: int
    spread: Interval

    @property
    def tensors(self) -> int:
        """Allocated bytes of the trainer."""
        return sum(self.parts.values())

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the trainer's allocator, and of the engine."""
        return self.tensors + self.slack + self.engine.device_bytes
