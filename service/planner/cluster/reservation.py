"""Reservations of GPUs for a limited time."""

from dataclasses import dataclass
from datetime import datetime

from service.estimator.values.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Capacity of one node that a job takes.

    Whole GPUs, or slices of ``mig_profile``, and memory of the host.

    ``gpu_indices`` is None where only their number is known.
    """

    pool: str
    node: str
    num_gpus: int
    gpu_indices: tuple[int, ...] | None = None
    mig_profile: str | None = None
    host_memory_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse an empty share and inconsistent indices.

        Indices must be one per whole GPU.
        """
        if self.num_gpus < 1:
            self._refuse("num_gpus", f"num_gpus {self.num_gpus}; it must be 1 or more")
        if self.host_memory_bytes < 0:
            self._refuse(
                "host_memory_bytes",
                f"host_memory_bytes {self.host_memory_bytes}; it must be 0 or more",
            )
        if self.gpu_indices is None:
            return
        if self.mig_profile is not None:
            self._refuse("gpu_indices", "GPU indices and a MIG profile; slices have no index")
        if len(set(self.gpu_indices)) != self.num_gpus or len(self.gpu_indices) != self.num_gpus:
            self._refuse(
                "gpu_indices", f"num_gpus {self.num_gpus}, but gpu_indices {list(self.gpu_indices)}"
            )

    def _refuse(self, field: str, reason: str) -> None:
        message = f"a share of {self.pool}/{self.node} has {reason}"
        raise InvalidInputError(message, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Shares of a cluster that ``holder`` may count on until ``expires_at``."""

    holder: str
    shares: tuple[Share, ...]
    expires_at: datetime
