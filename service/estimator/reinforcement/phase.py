"""One phase of a policy's training."""

from dataclasses import dataclass

from service.estimator.memory.phase_peaks import Parts
from service.estimator.reinforcement.share import GpuShare
from service.estimator.values.result import Interval

LOG_PROBS, ROLLOUT, WEIGHT_SYNC = "log_probs", "rollout", "weight_sync"
VALUES, CRITIC_UPDATE = "values", "critic_update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase with the trainer's tensors, and engine and critic beside them.

    ``slack`` is what the trainer's allocator holds beyond its tensors, ``spread`` how far its bytes
    may be off.
    """

    name: str
    parts: Parts
    share: GpuShare
    slack: int
    spread: Interval

    @property
    def tensors(self) -> int:
        """Allocated bytes of the trainer."""
        return sum(self.parts.values())

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the trainer's allocator, and of what is beside it."""
        return self.tensors + self.slack + self.share.device_bytes
